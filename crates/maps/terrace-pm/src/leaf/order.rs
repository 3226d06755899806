//! Few pairs put in the order of their keys, as those of a leaf lie there in none.
//!
//! Each one's place is the number of those that are less. What is compared is a mark of 16 bits: 11 of the key, and
//! the number of the pair. A compiler compares eight of them at a time, and nothing hangs on a branch that no
//! processor can foresee. What these bits do not tell apart is put in order one by one.

/// This many pairs are few: those of a leaf, and some that are buffered for it.
pub const FEW: usize = 32;

/// Bits of a mark that are the number of its pair; the others are its key's.
const NUMBER_BITS: u32 = FEW.ilog2();
const KEY_BITS: u32 = 16 - NUMBER_BITS;

/// The mark behind the last one. One that is the same is greater than all others, and counts for none of them.
const NO_MORE: i16 = i16::MAX;

/// Pairs whose keys lie between two keys; used again and again.
pub struct Few {
    low: u64,
    /// The greatest key, from `low` on.
    span: u64,
    /// Bits of a key that its mark has not.
    shift: u32,
    marks: [i16; FEW],
    pairs: [(u64, u64); FEW],
    len: usize,
    /// All of them, where there are more.
    many: Vec<(u64, u64)>,
}

impl Default for Few {
    fn default() -> Self {
        Few {
            low: 0,
            span: 0,
            shift: 0,
            marks: [NO_MORE; FEW],
            pairs: [(0, 0); FEW],
            len: 0,
            many: Vec::new(),
        }
    }
}

impl Few {
    /// None, from now on with keys between these two, both included; the first is not above the second.
    #[inline]
    pub fn begin(&mut self, low: u64, high: u64) {
        self.low = low;
        self.span = high - low;
        self.shift = (64 - KEY_BITS).saturating_sub(self.span.leading_zeros());
        self.len = 0;
        self.many.clear();
    }

    /// Adds pairs, of which there are no more than [`FEW`] with those before.
    #[inline(always)]
    pub fn fill(&mut self, mut next: impl FnMut() -> Option<(u64, u64)>) {
        let (low, span, shift) = (self.low, self.span, self.shift);
        let mut len = self.len;
        while let Some(pair) = next() {
            let at = len % FEW;
            let key = pair.0.wrapping_sub(low);
            // What does not count is written over.
            self.pairs[at] = pair;
            self.marks[at] = mark(key >> shift, at);
            len += usize::from(key <= span);
        }
        self.len = len;
    }

    /// Adds one more.
    #[inline]
    pub fn add(&mut self, pair: (u64, u64)) {
        let key = pair.0.wrapping_sub(self.low);
        if key > self.span {
            return;
        }
        let at = self.len;
        if at < FEW {
            self.pairs[at] = pair;
            self.marks[at] = mark(key >> self.shift, at);
            self.len += 1;
            return;
        }
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.pairs);
        }
        self.many.push(pair);
    }

    /// Puts them here, by their keys, those of one key as they came; how many, and whether no two have one key. What
    /// lies behind them is of no meaning.
    #[inline]
    pub fn sort(&mut self, to: &mut Vec<(u64, u64)>) -> (usize, bool) {
        if to.len() < FEW {
            to.resize(FEW, (0, 0));
        }
        if !self.many.is_empty() {
            to.clear();
            to.append(&mut self.many);
            return (to.len(), sorted(to));
        }
        let len = self.len.min(FEW);
        if len < FEW {
            self.marks[len] = NO_MORE;
        }
        let ranks = ranks(&self.marks);
        let Some(places) = to.first_chunk_mut::<FEW>() else {
            return (0, true);
        };
        for (pair, rank) in self.pairs[..len].iter().zip(&ranks) {
            places[*rank as usize % FEW] = *pair;
        }
        let pairs = &mut places[..len];
        let sides = pairs.iter().zip(pairs.iter().skip(1));
        let is_in_order = sides.fold(true, |all, (a, b)| all & (a.0 < b.0));
        (len, is_in_order || settle(pairs))
    }
}

/// Sorts pairs as any others; whether no two have one key.
fn sorted(pairs: &mut [(u64, u64)]) -> bool {
    pairs.sort_by_key(|pair| pair.0);
    pairs.is_sorted_by(|a, b| a.0 < b.0)
}

/// The mark of a key with this number.
#[inline]
fn mark(key: u64, number: usize) -> i16 {
    // Where the highest bit is turned, numbers with a sign compare as those without one do.
    ((key << NUMBER_BITS) as u16 | number as u16) as i16 ^ i16::MIN
}

/// Puts pairs in order most of which are; whether no two have one key.
#[cold]
fn settle(pairs: &mut [(u64, u64)]) -> bool {
    let (mut are_different, mut steps) = (true, 0);
    for i in 1..pairs.len() {
        let pair = pairs[i];
        let mut to = i;
        while to > 0 && pairs[to - 1].0 > pair.0 {
            pairs[to] = pairs[to - 1];
            to -= 1;
        }
        pairs[to] = pair;
        are_different &= to == 0 || pairs[to - 1].0 != pair.0;
        steps += i - to;
        if steps > FEW {
            return sorted(pairs);
        }
    }
    are_different
}

/// How many marks are less than each one, up to the first that says that there are no more.
#[inline]
fn ranks(marks: &[i16; FEW]) -> [i16; FEW] {
    let mut ranks = [0; FEW];
    for own in marks {
        // A copy: a compiler sees that the ranks are not written to it, and compares eight with it at a time.
        // Where it knew how often that is done it would take eight in the place of this one, which is slower.
        let own = *own;
        if own == NO_MORE {
            break;
        }
        for i in 0..FEW {
            ranks[i] += i16::from(marks[i] > own);
        }
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::checksum::mix;

    /// Of keys that are spread, near each other, at both ends, equal, out of bounds: as a stable sort has them.
    #[test]
    fn the_order_is_that_of_a_stable_sort() {
        let (mut few, mut found) = (Few::default(), Vec::new());
        let mut all_different = 0;
        for seed in 0..6000u64 {
            let count = seed % 71;
            let bits = mix(seed, 1) % 65;
            let low = mix(seed, 2) >> (seed % 60);
            let pairs: Vec<(u64, u64)> = (0..count)
                .map(|i| {
                    let draw = mix(seed, i + 3).checked_shr(64 - bits as u32).unwrap_or(0);
                    (low.saturating_add(draw), i)
                })
                .collect();
            let high = match seed % 3 {
                0 => u64::MAX,
                1 => pairs.iter().map(|pair| pair.0).max().unwrap_or(low),
                _ => low + (u64::MAX - low) / 2,
            };
            few.begin(low, high);
            let mut leaf = pairs.iter().take(28).copied();
            few.fill(|| leaf.next());
            pairs.iter().skip(28).for_each(|pair| few.add(*pair));
            let (count, are_different) = few.sort(&mut found);
            let found = &found[..count];
            let mut sorted = pairs.clone();
            sorted.retain(|pair| pair.0 <= high);
            sorted.sort_by_key(|pair| pair.0);
            assert_eq!(found, sorted, "{seed}");
            let equal = sorted.windows(2).any(|two| two[0].0 == two[1].0);
            assert_eq!(are_different, !equal, "{seed}");
            all_different += u32::from(are_different && count > 5);
        }
        assert!(all_different > 1000, "{all_different}");
    }
}
