//! Sorted keys that do not change any more, in few bytes: integers as they are, byte strings end to end with
//! where each begins, in two bytes where all of them have less than 64 KiB.

use super::nums::Nums;
use super::run::ByteRun;
use crate::family::{ByteFamily, Family, FixedKeys, IntFamily, KeyRun};
use crate::prefix::common_prefix;
use crate::search::partition_point;
use crate::simd;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The keys whose rank is `live`, `n` of them, and those of `new`, which are others; adds to `before`, for each of
/// `new`, how many live ones are less. What lies between new keys is copied once. O(bytes).
pub fn merged<F: Family>(
    old: &F::Fixed,
    live: impl Fn(usize) -> bool,
    n: usize,
    new: &F::Run,
    before: &mut Vec<u32>,
) -> F::Fixed {
    let m = new.len();
    let mut run = F::Run::default();
    run.reserve(n + m, old.key_bytes() + new.key_bytes(0, m));
    let whole = n == old.len();
    let copy = |from: usize, to: usize, run: &mut F::Run| {
        if whole {
            old.append_to(from, to, run);
            return to - from;
        }
        let (mut at, mut kept) = (from, 0);
        while at < to {
            let first = at;
            while at < to && live(at) {
                at += 1;
            }
            old.append_to(first, at, run);
            kept += at - first;
            while at < to && !live(at) {
                at += 1;
            }
        }
        kept
    };
    let (mut from, mut kept) = (0, 0);
    for i in 0..m {
        let key = new.get(i);
        let to = gallop::<F>(old, from, key);
        kept += copy(from, to, &mut run);
        run.push(key);
        before.push(kept as u32);
        from = to;
    }
    copy(from, old.len(), &mut run);
    F::Fixed::whole(run)
}

/// The first index from `from` on whose key is not less than `key`. O(log distance).
fn gallop<F: Family>(keys: &F::Fixed, from: usize, key: F::Ref<'_>) -> usize {
    // Most often a new key comes behind some ten old ones.
    let (mut lo, mut step) = (from, 32);
    loop {
        let hi = (lo + step).min(keys.len());
        let found = keys.lower_bound(lo, hi, key);
        if found < hi || hi == keys.len() {
            return found;
        }
        (lo, step) = (hi, step * 2);
    }
}

impl FixedKeys<IntFamily> for Box<[u64]> {
    fn of(run: &Vec<u64>, from: usize, to: usize) -> Self {
        run[from..to].into()
    }
    fn whole(run: Vec<u64>) -> Self {
        run.into()
    }
    fn append_to(&self, from: usize, to: usize, run: &mut Vec<u64>) {
        run.extend_from_slice(&self[from..to]);
    }
    fn prefetch_middle(&self) {
        simd::prefetch(self, <[u64]>::len(self) / 2);
    }
    fn key_bytes(&self) -> usize {
        self.heap()
    }
    #[inline]
    fn len(&self) -> usize {
        <[u64]>::len(self)
    }
    #[inline]
    fn get(&self, i: usize) -> u64 {
        self[i]
    }
    fn heap(&self) -> usize {
        size_of_val(&**self)
    }
}

/// Byte strings end to end.
pub struct FixedBytes {
    bytes: Box<[u8]>,
    /// Where each begins, and where the last one ends.
    starts: Nums,
    n: u32,
    /// How much all keys share.
    shared: u16,
}

/// The first eight bytes, as a number in their order; zeros behind shorter ones.
#[inline]
fn head(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(first) => u64::from_be_bytes(*first),
        None => {
            let all = bytes
                .iter()
                .fold(0u64, |all, byte| all << 8 | u64::from(*byte));
            all.checked_shl(64 - 8 * bytes.len() as u32).unwrap_or(0)
        }
    }
}

impl FixedBytes {
    fn new(bytes: Vec<u8>, starts: &[u32]) -> Self {
        let n = starts.len() - 1;
        let key = |i: usize| &bytes[starts[i] as usize..starts[i + 1] as usize];
        FixedBytes {
            shared: match n {
                0 => 0,
                _ => common_prefix(key(0), key(n - 1)) as u16,
            },
            starts: Nums::new(starts),
            n: n as u32,
            bytes: bytes.into(),
        }
    }

    /// The first index of `from..to` whose key is not less than `key`, or, `past` it, greater. O(log n).
    #[inline]
    fn bound(&self, (from, to): (usize, usize), key: &[u8], past: bool) -> usize {
        if from >= to {
            return from;
        }
        // What all share is looked at once, and then eight bytes of most keys.
        let (first, _) = self.get(from).split_at(self.shared.into());
        let rest = match key.split_at_checked(first.len()) {
            Some((begin, rest)) if begin == first => rest,
            _ if key < first => return from,
            _ => return to,
        };
        let probe = head(rest);
        partition_point(from, to, |i| {
            let tail = &self.get(i)[first.len()..];
            match head(tail).cmp(&probe) {
                core::cmp::Ordering::Equal => match tail.cmp(rest) {
                    core::cmp::Ordering::Equal => past,
                    order => order.is_lt(),
                },
                order => order.is_lt(),
            }
        })
    }
}

impl FixedKeys<ByteFamily> for FixedBytes {
    fn of(run: &ByteRun, from: usize, to: usize) -> Self {
        let (bytes, ends) = run.part(from, to);
        let mut starts = Vec::with_capacity(to - from + 1);
        starts.push(0);
        starts.extend(ends);
        FixedBytes::new(bytes.to_vec(), &starts)
    }
    fn whole(run: ByteRun) -> Self {
        let (bytes, mut starts) = run.into_parts();
        starts.insert(0, 0);
        FixedBytes::new(bytes, &starts)
    }
    fn append_to(&self, from: usize, to: usize, run: &mut ByteRun) {
        let (a, b) = (self.starts.get(from), self.starts.get(to));
        run.append_whole(&self.bytes[a..b], |base, ends| {
            let shift = base.wrapping_sub(a as u32);
            self.starts.shifted(from + 1..to + 1, shift, ends);
        });
    }
    fn decode(&self, run: &mut ByteRun) {
        run.reserve(self.len(), self.bytes.len());
        self.append_to(0, self.len(), run);
    }
    fn key_bytes(&self) -> usize {
        self.bytes.len()
    }
    #[inline]
    fn lower_bound(&self, from: usize, to: usize, key: &[u8]) -> usize {
        self.bound((from, to), key, false)
    }
    #[inline]
    fn upper_bound(&self, from: usize, to: usize, key: &[u8]) -> usize {
        self.bound((from, to), key, true)
    }
    #[inline]
    fn len(&self) -> usize {
        self.n as usize
    }
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.starts.get(i)..self.starts.get(i + 1)]
    }
    fn heap(&self) -> usize {
        self.bytes.len() + self.starts.heap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_strings_are_found_whatever_they_share() {
        let sets: [&[&[u8]]; 5] = [
            &[b""],
            &[b"", b"\0", b"\0\0", b"a", b"a\0", b"a\0\0", b"ab"],
            &[
                b"same",
                b"same\0",
                b"same\0\0\0\0\0\0\0\0\0",
                b"same eight bytes, and one",
                b"same eight bytes, and two",
            ],
            &[
                b"host@ann",
                b"host@bob",
                b"host@bob1",
                b"host@bob11111111",
                b"host@bob11111112",
            ],
            &[b"zz"],
        ];
        for set in sets {
            let mut run = ByteRun::default();
            set.iter().for_each(|key| run.push(key));
            let keys = FixedBytes::of(&run, 0, set.len());
            for probe in sets.concat() {
                for cut in 0..=probe.len() {
                    for more in [&b""[..], b"\0", b"x"] {
                        let probe = [&probe[..cut], more].concat();
                        for (from, to) in
                            [(0, set.len()), (1, set.len()), (0, set.len() / 2), (1, 1)]
                        {
                            let part = &set[from..to.max(from)];
                            let lower = from + part.partition_point(|key| *key < &probe[..]);
                            let upper = from + part.partition_point(|key| *key <= &probe[..]);
                            let found = (
                                keys.lower_bound(from, to, &probe),
                                keys.upper_bound(from, to, &probe),
                            );
                            assert_eq!(found, (lower, upper), "{probe:?} {from}..{to} of {set:?}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn keys_come_back_from_any_part_of_a_run_and_take_two_bytes_more() {
        let mut run = ByteRun::default();
        for i in 0..900u32 {
            run.push(&i.to_be_bytes()[..(i % 5) as usize]);
        }
        for (from, to) in [(0, 0), (0, 1), (3, 800), (0, 900), (899, 900)] {
            let keys = FixedBytes::of(&run, from, to);
            assert_eq!(keys.len(), to - from);
            assert!((from..to).all(|i| keys.get(i - from) == run.get(i)));
            let mut back = ByteRun::default();
            keys.decode(&mut back);
            assert!(
                back.len() == to - from && (from..to).all(|i| back.get(i - from) == run.get(i))
            );
            assert!(keys.heap() <= run.key_bytes(from, to) + 2 * (to - from + 1));
        }
        // Beyond 64 KiB they take four.
        let mut run = ByteRun::default();
        (0..3).for_each(|i| run.push(&[i; 40_000]));
        let keys = FixedBytes::of(&run, 0, 3);
        assert!((0..3).all(|i| keys.get(i) == run.get(i)));
        assert_eq!((keys.heap(), keys.key_bytes()), (120_000 + 4 * 4, 120_000));
    }
}
