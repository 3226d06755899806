//! What every dynamic structure must do: one suite against a model, for integers and for byte strings
//! of all kinds.

use crate::family::{ByteFamily, Family, IntFamily};
use crate::two_stage::{DynamicCursor, DynamicStage, Near};
use std::collections::BTreeMap;
use std::ops::Bound;

/// A structure under test, with a check of what always holds of it.
type Checked<S> = fn(&S);

struct Model<F: Family> {
    /// By the bytes of the key: its value, and whether it was used.
    map: BTreeMap<Vec<u8>, (u32, bool)>,
    key: fn(&[u8]) -> F::Buf,
}

fn owned<F: Family>(key: F::Ref<'_>) -> Vec<u8> {
    let mut room = [0; 8];
    F::as_bytes(key, &mut room).to_vec()
}

impl<F: Family> Model<F> {
    fn check<S: DynamicStage<F, u32>>(&self, stage: &S) {
        assert_eq!(stage.len(), self.map.len());
        for (key, (val, _)) in &self.map {
            let buf = (self.key)(key);
            assert_eq!(
                stage.get(F::load(&buf), false),
                Some(val),
                "an entry is not found"
            );
        }
        let mut at = stage.seek(None, || {});
        for (key, (val, _)) in &self.map {
            let pos = at.as_mut().expect("an entry is missing");
            assert_eq!((&owned::<F>(pos.key()), pos.val()), (key, val));
            if !pos.next() {
                at = None;
            }
        }
        assert!(at.is_none(), "an entry too many");
        let mut at = stage.seek_before(None);
        for (key, (val, _)) in self.map.iter().rev() {
            let pos = at.as_mut().expect("an entry is missing");
            assert_eq!((&owned::<F>(pos.key()), pos.val()), (key, val));
            if !pos.prev() {
                at = None;
            }
        }
        assert!(at.is_none(), "an entry too many");
    }

    /// Seeks in both directions, steps from there, and what lies between two places.
    fn places<S: DynamicStage<F, u32>>(&self, stage: &S, probe: &[u8]) {
        let buf = (self.key)(probe);
        let key = F::load(&buf);
        let mut calls = 0;
        let at = stage.seek(Some(key), || calls += 1);
        assert!(calls <= 1);
        let mut next = self.map.range(probe.to_vec()..).map(|e| e.0);
        let first = next.next();
        assert_eq!(at.as_ref().map(|at| owned::<F>(at.key())).as_ref(), first);
        let before = stage.seek_before(Some(key));
        let below = (Bound::Unbounded, Bound::Excluded(probe.to_vec()));
        let mut prev = self.map.range(below).map(|e| e.0);
        let last = prev.next_back();
        assert_eq!(
            before.as_ref().map(|at| owned::<F>(at.key())).as_ref(),
            last
        );
        if let (Some(mut at), Some(mut before)) = (at, before) {
            assert!(!at.same(&before));
            // One step from either leads to the other.
            assert!(before.next() && at.same(&before));
            assert!(at.prev() && !at.same(&before));
            assert_eq!(Some(&owned::<F>(at.key())), last);
            assert!(at.next() && at.same(&before));
            let second = next.next();
            assert_eq!(at.next(), second.is_some());
            if second.is_some() {
                assert_eq!(Some(&owned::<F>(at.key())), second);
            }
        }
    }

    fn drain<S: DynamicStage<F, u32>>(
        &mut self,
        stage: &mut S,
        (from, to): (&[u8], Option<&[u8]>),
        (limit, bytes): (usize, usize),
        keep: bool,
    ) {
        let (mut out, mut hot) = (Vec::new(), Vec::new());
        let bufs = ((self.key)(from), to.map(|to| (self.key)(to)));
        let met = stage.drain(
            (Some(F::load(&bufs.0)), bufs.1.as_ref().map(F::load)),
            (limit, bytes),
            keep,
            |key, val| out.push((owned::<F>(key), val)),
            |key| hot.push(owned::<F>(key)),
        );
        let empty = to.is_some_and(|to| from >= to);
        let (mut n, mut sum, mut taken, mut kept) = (0, 0, Vec::new(), Vec::new());
        for (key, (val, used)) in self.map.range_mut(from.to_vec()..) {
            if empty || n == limit || sum >= bytes || to.is_some_and(|to| &key[..] >= to) {
                break;
            }
            n += 1;
            sum += F::size(F::load(&(self.key)(key)));
            if keep && *used {
                *used = false;
                kept.push(key.clone());
            } else {
                taken.push((key.clone(), *val));
            }
        }
        assert_eq!((&out, &hot), (&taken, &kept));
        assert!(empty || met == (n, n == limit || sum >= bytes));
        for (key, _) in taken {
            self.map.remove(&key);
        }
    }
}

/// Random operations; `make` gives the bytes of a key.
fn drive<F: Family, S: DynamicStage<F, u32>>(
    (seed, rounds): (u64, u32),
    make: &dyn Fn(u64) -> Vec<u8>,
    key: fn(&[u8]) -> F::Buf,
    whole: Checked<S>,
) {
    let mut stage = S::default();
    let mut model = Model::<F> {
        map: BTreeMap::new(),
        key,
    };
    let mut x = seed;
    for round in 0..if cfg!(miri) { rounds / 20 } else { rounds } {
        x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let bytes = make(x >> 33);
        let buf = key(&bytes);
        let bytes_of = bytes.clone();
        let probe = F::load(&buf);
        match x >> 8 & 31 {
            0..17 => {
                let mut steps = Vec::new();
                let old = stage.insert_and(probe, round, |near| steps.push(near));
                let used = model.map.get(&bytes).is_some_and(|e| e.1);
                let before = model.map.insert(bytes, (round, used));
                assert_eq!(old, before.map(|e| e.0));
                assert_eq!(steps, [Near::Inner, Near::Leaf]);
            }
            17..22 => assert_eq!(stage.remove(probe), model.map.remove(&bytes).map(|e| e.0)),
            22..27 => {
                let touch = x >> 20 & 1 == 1;
                let theirs = model.map.get_mut(&bytes);
                assert_eq!(
                    stage.get(probe, touch).copied(),
                    theirs.as_ref().map(|e| e.0)
                );
                if let Some(entry) = theirs {
                    entry.1 |= touch;
                }
            }
            27 => {
                let ours = stage.get_mut(probe).map(|val| {
                    *val += 1;
                    *val
                });
                let theirs = model.map.get_mut(&bytes).map(|entry| {
                    *entry = (entry.0 + 1, true);
                    entry.0
                });
                assert_eq!(ours, theirs);
            }
            28 | 29 => model.places(&stage, &bytes),
            30 => {
                let other = make(x >> 11 & 0x7FFF_FFFF);
                let limit = (x >> 20) as usize % 100;
                let end = key(&other);
                let range = |to: Option<&[u8]>| {
                    let all = model.map.range(bytes.clone()..).take(limit);
                    all.filter(|e| to.is_none_or(|to| &e.0[..] < to)).count()
                };
                assert_eq!(stage.count(Some(probe), None, limit), range(None));
                let ours = stage.count(Some(probe), Some(F::load(&end)), limit);
                assert_eq!(ours, range(Some(&other)));
            }
            _ => {
                let other = make(x >> 11 & 0x7FFF_FFFF);
                let to = (x >> 41 & 1 == 1).then_some(&other[..]);
                let limits = ((x >> 20) as usize % 100, (x >> 30) as usize % 3000 + 1);
                model.drain(&mut stage, (&bytes, to), limits, x >> 40 & 1 == 1);
            }
        }
        if round.is_multiple_of(61) {
            let other = make(x >> 11 & 0x7FFF_FFFF);
            let bytes = bytes_of;
            let (from, to) = (key(&bytes), key(&other));
            let bounds = (x & 1 == 1, x & 2 == 2);
            let span = (
                bounds.0.then_some(F::load(&from)),
                bounds.1.then_some(F::load(&to)),
            );
            let mut seen = Vec::new();
            stage.visit_mut(span, |key, val| {
                *val += 5;
                seen.push((owned::<F>(key), *val));
            });
            let within =
                |key: &Vec<u8>| (!bounds.0 || *key >= bytes) && (!bounds.1 || *key < other);
            let mut theirs = Vec::new();
            for (key, entry) in model.map.iter_mut().filter(|e| within(e.0)) {
                entry.0 += 5;
                theirs.push((key.clone(), entry.0));
            }
            assert_eq!(seen, theirs);
        }
        if round.is_multiple_of(199) {
            model.check(&stage);
            whole(&stage);
        }
    }
    model.check(&stage);
    whole(&stage);
    let all = (usize::MAX, usize::MAX);
    model.drain(&mut stage, (&[], None), all, false);
    assert_eq!(stage.len(), 0);
    assert!(stage.seek(None, || {}).is_none() && stage.seek_before(None).is_none());
    whole(&stage);
}

/// Keys that structures have gone wrong over: empty ones, zeros, beginnings of others, long shared
/// beginnings, all bytes behind one.
fn nasty(kind: u64) -> impl Fn(u64) -> Vec<u8> {
    move |x| match kind {
        0 => vec![0; (x % 40) as usize],
        1 => (0..x % 5).map(|i| (x >> (8 * i) & 1) as u8 * 255).collect(),
        2 => vec![b'a'; (x % 300) as usize],
        3 => {
            let mut key = vec![7; (x % 3 * 100) as usize];
            key.extend((x / 3 % 700).to_be_bytes());
            key.truncate(key.len() - (x / 7 % 8) as usize);
            key
        }
        4 => {
            let mut key = b"beginning".to_vec();
            key.push(x as u8);
            key.extend(std::iter::repeat_n(0, (x >> 8) as usize % 3));
            key
        }
        5 => (x % 90_000).to_string().into_bytes(),
        6 => {
            let name = ["ann", "bob", "cy"][(x % 3) as usize];
            format!("com.mail@{name}.{}", x / 3 % 3000).into_bytes()
        }
        7 => {
            let mut key = vec![b'x'; [0, 6, 7, 8, 13, 14, 15, 21][(x % 8) as usize]];
            key.extend(vec![0; (x / 8 % 9) as usize]);
            key
        }
        _ => {
            let mut key = vec![b'p'; 2000];
            key.extend((x % 400).to_be_bytes());
            key
        }
    }
}

pub fn bytes<S: DynamicStage<ByteFamily, u32>>(whole: Checked<S>) {
    for kind in 0..9 {
        let make = nasty(kind);
        drive::<ByteFamily, S>((kind + 1, 2000), &make, |key| key.to_vec(), whole);
    }
    longest::<S>();
}

pub fn ints<S: DynamicStage<IntFamily, u32>>(whole: Checked<S>) {
    for (seed, range) in [(1, 200), (2, 5000), (3, u64::MAX), (4, 0)] {
        let make = move |x: u64| match range {
            0 => (x % 3000)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                .to_be_bytes()
                .to_vec(),
            _ => (x % range).to_be_bytes().to_vec(),
        };
        let key = |key: &[u8]| IntFamily::of_bytes(&[key, &[0; 8]].concat());
        drive::<IntFamily, S>((seed, 4000), &make, key, whole);
    }
}

/// The longest keys: all but the last byte shared, and each the beginning of the next.
fn longest<S: DynamicStage<ByteFamily, u32>>() {
    let long = |n: usize, last: u8| {
        let mut key = vec![b'k'; n];
        key.push(last);
        key
    };
    let mut stage = S::default();
    for i in 0..20u8 {
        assert_eq!(stage.insert(&long(65_534, i), u32::from(i)), None);
    }
    assert!((0..20).all(|i| stage.get(&long(65_534, i), true) == Some(&u32::from(i))));
    assert_eq!(stage.count(None, None, 100), 20);
    assert!((0..20).all(|i| stage.remove(&long(65_534, i)) == Some(u32::from(i))));
    if cfg!(miri) {
        return;
    }
    let step = 7;
    let n = 65_535 / step;
    let whole = vec![b'k'; 65_535];
    for i in 0..n {
        assert_eq!(stage.insert(&whole[..i * step], i as u32), None);
    }
    let mut at = stage.seek(None, || {}).expect("it is not empty");
    for i in 0..n {
        assert_eq!((at.key().len(), *at.val()), (i * step, i as u32));
        assert_eq!(at.next(), i + 1 < n);
    }
    drop(at);
    for i in (0..n).step_by(2) {
        assert_eq!(stage.remove(&whole[..i * step]), Some(i as u32));
    }
    assert!((0..n).all(|i| stage.get(&whole[..i * step], false).is_some() == (i % 2 == 1)));
    drop(stage);
}

/// Ranges that empty whole nodes, of several levels and at their left edges too, are filled again from either
/// side: whoever has the range of a node that went must be able to take its keys.
pub fn refilled<S: DynamicStage<IntFamily, u64>>(check: Checked<S>) {
    let (keys, longest, rounds) = match cfg!(miri) {
        true => (300, 50, 3),
        false => (12_000, 1_500, 100),
    };
    let mut stage = S::default();
    for key in 0..keys {
        assert_eq!(stage.insert(key, key), None);
    }
    let mut random = 1u64;
    let mut below = |n: u64| {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        (random >> 33) % n
    };
    for round in 0..rounds {
        let from = below(keys);
        let to = (from + below(longest)).min(keys);
        (from..to).for_each(|key| assert_eq!(stage.remove(key), Some(key)));
        check(&stage);
        let back = |i: u64| match round % 2 {
            0 => to - 1 - i,
            _ => from + i,
        };
        for key in (0..to - from).map(back) {
            assert_eq!(stage.insert(key, key), None);
        }
        check(&stage);
        (from..to).for_each(|key| assert_eq!(stage.get(key, false), Some(&key)));
    }
    assert_eq!(stage.count(None, None, usize::MAX), keys as usize);
}

/// Arrays that become trees as they grow.
#[test]
fn small_ones_that_grow() {
    ints::<super::Any<_, _>>(|_| {});
    bytes::<super::Any<_, _>>(|_| {});
}

/// The arrays become trees, and the trees the structure of a pair, and no mark is lost.
#[test]
fn marks_are_kept_as_a_stage_grows() {
    for &pair in crate::Pair::ALL {
        let mut stage = super::Any::<ByteFamily, u32>::default();
        for i in 0..300u32 {
            let key = i.to_be_bytes();
            assert_eq!(stage.insert(&key, i), None);
            if i % 3 == 0 {
                assert_eq!(stage.get(&key, true), Some(&i));
            }
            if i == 200 {
                stage.move_to(super::Any::new(pair));
            }
        }
        let mut kept = Vec::new();
        let all = (usize::MAX, usize::MAX);
        let mut gone = 0;
        stage.drain(
            (None, None),
            all,
            true,
            |_, _| gone += 1,
            |key| kept.push(key.to_vec()),
        );
        let marked = (0..300u32).step_by(3).map(|i| i.to_be_bytes().to_vec());
        assert!(kept.into_iter().eq(marked), "{pair:?}");
        assert_eq!((gone, stage.len()), (200, 100));
    }
}

#[test]
fn b_trees() {
    ints::<super::tree::Tree<_, _>>(|_| {});
    bytes::<super::tree::Tree<_, _>>(|_| {});
    refilled::<super::tree::Tree<_, _>>(|_| {});
}
