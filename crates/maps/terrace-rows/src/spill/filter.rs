//! What may be cold: Bloom filters whose bits of a key lie in one cache line, ten bits for each key. Each is of a range
//! of keys ([`Ranges`]), so that it is made anew by itself, and none takes long.

/// Bits for each key: one of a hundred keys that are not there is looked for in vain.
const BITS: u64 = 10;
/// Bits that are set for a key.
const SET: u32 = 6;
/// Keys for which there is room at least.
const LEAST: u64 = 512;
/// Keys of a range that is made anew, at most.
const MOST: usize = 2048;

/// The filter.
pub struct Filter {
    lines: Vec<[u64; 8]>,
    keys: u64,
}

/// The hash of a key of some kind.
pub fn hash(kind: u64, key: &[u8]) -> u64 {
    let mut hash = mix(kind ^ (key.len() as u64) << 32);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

impl Filter {
    /// One with room for this many keys.
    pub fn new(keys: u64) -> Filter {
        let lines = (keys.max(LEAST) * BITS).div_ceil(512) as usize;
        Filter {
            lines: vec![[0; 8]; lines],
            keys: 0,
        }
    }

    /// One for this many keys that are there, with room for an eighth more: so it has 10 to 11 bits for a key.
    pub fn to_grow(keys: usize) -> Filter {
        Filter::new((keys + keys / 8) as u64)
    }

    fn line(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    /// Adds a key; whether it was not known.
    pub fn add(&mut self, hash: u64) -> bool {
        let at = self.line(hash);
        let line = &mut self.lines[at];
        let mut new = false;
        for n in 0..SET {
            let bit = (mix(hash) >> (n * 9)) & 511;
            let mask = 1 << (bit & 63);
            new |= line[(bit >> 6) as usize] & mask == 0;
            line[(bit >> 6) as usize] |= mask;
        }
        self.keys += u64::from(new);
        new
    }

    /// Whether a key may be in it.
    pub fn may(&self, hash: u64) -> bool {
        let line = &self.lines[self.line(hash)];
        (0..SET).all(|n| {
            let bit = (mix(hash) >> (n * 9)) & 511;
            line[(bit >> 6) as usize] & 1 << (bit & 63) != 0
        })
    }

    /// Keys that it has room for.
    fn room(&self) -> u64 {
        self.lines.len() as u64 * 512 / BITS
    }

    /// Whether it holds as many keys as it has room for.
    pub fn is_full(&self) -> bool {
        self.keys >= self.room()
    }

    /// The keys that it has seen.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Its bytes.
    pub fn memory(&self) -> usize {
        self.lines.capacity() * 64
    }
}

/// Keys of a range, in as many parts as it is to have filters.
pub fn split<T>(keys: &[T]) -> impl Iterator<Item = &[T]> {
    let parts = keys.len().div_ceil(MOST).max(1);
    keys.chunks(keys.len().div_ceil(parts).max(1))
}

/// A filter of the keys from one on.
struct Part {
    low: Box<[u8]>,
    filter: Filter,
    /// Keys that are not there any more, perhaps.
    gone: u64,
}

/// Filters of ranges of keys, one behind the other.
pub struct Ranges {
    /// By their lowest keys; the first one begins with the least key there is.
    parts: Vec<Part>,
    greatest: Option<Box<[u8]>>,
    /// Bytes of lowest keys and filters.
    bytes: usize,
}

/// A range whose filter is to be made anew.
#[derive(Clone, Debug)]
pub struct StaleFilter {
    /// From this key on.
    pub low: Vec<u8>,
    /// To before this one.
    pub high: Option<Vec<u8>>,
}

impl Part {
    fn new(low: &[u8], filter: Filter) -> Part {
        Part {
            low: low.into(),
            filter,
            gone: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.low.len() + self.filter.memory()
    }
}

impl Ranges {
    /// Nothing is known.
    pub fn new() -> Ranges {
        let first = Part::new(&[], Filter::new(0));
        Ranges {
            bytes: first.bytes(),
            parts: vec![first],
            greatest: None,
        }
    }

    fn at(&self, key: &[u8]) -> usize {
        self.parts.partition_point(|part| &*part.low <= key) - 1
    }

    /// Whether a key may be there. Keys that only grow are never asked for.
    pub fn may(&self, key: &[u8], hash: u64) -> bool {
        self.reaches(key) && self.parts[self.at(key)].filter.may(hash)
    }

    /// Whether the greatest key is not before this one.
    pub fn reaches(&self, key: &[u8]) -> bool {
        self.greatest
            .as_ref()
            .is_some_and(|greatest| key <= &greatest[..])
    }

    /// Whether something with this hash may be in a range of keys. O(filters of it).
    pub fn may_in(&self, low: &[u8], high: Option<&[u8]>, hash: u64) -> bool {
        self.parts[self.at(low)..]
            .iter()
            .take_while(|part| high.is_none_or(|high| &*part.low < high))
            .any(|part| part.filter.may(hash))
    }

    /// Adds a key with all its hashes.
    pub fn add(&mut self, key: &[u8], hashes: impl IntoIterator<Item = u64>) {
        if !self.reaches(key) {
            self.greatest = Some(key.into());
            // Keys that only grow leave full filters behind, which never have to be made anew.
            if self.parts.last().is_some_and(|last| last.filter.is_full()) {
                let next = Part::new(key, Filter::new(MOST as u64));
                self.bytes += next.bytes();
                self.reserve(1);
                self.parts.push(next);
            }
        }
        let at = self.at(key);
        for hash in hashes {
            self.parts[at].filter.add(hash);
        }
    }

    /// Notes that a key has gone.
    pub fn remove(&mut self, key: &[u8]) {
        let at = self.at(key);
        self.parts[at].gone += 1;
    }

    /// A range whose filter has too many keys, or too many that have gone. O(ranges).
    pub fn due(&self) -> Option<StaleFilter> {
        let last = self.parts.len() - 1;
        let is_due = |(at, part): (usize, &Part)| {
            let (keys, room) = (part.filter.keys(), part.filter.room());
            // One that was left behind full stays; the last one may be followed by another one instead.
            let full = room + room / if at == last { 4 } else { 16 };
            keys > full || part.gone * 2 > keys
        };
        let at = self.parts.iter().enumerate().position(is_due)?;
        Some(StaleFilter {
            low: self.parts[at].low.to_vec(),
            high: self.parts.get(at + 1).map(|next| next.low.to_vec()),
        })
    }

    /// Room for this many ranges more, without many unused ones.
    fn reserve(&mut self, more: usize) {
        if self.parts.capacity() < self.parts.len() + more {
            self.parts.reserve_exact(more + self.parts.len() / 8);
        }
    }

    /// Takes the filters that were made of a range, each with its lowest key; none where nothing is there.
    pub fn take(&mut self, due: &StaleFilter, filters: Vec<(Vec<u8>, Filter)>) {
        let at = self.at(&due.low);
        let mut parts: Vec<Part> = filters
            .into_iter()
            .map(|(low, filter)| Part::new(&low, filter))
            .collect();
        if parts.is_empty() && self.parts.len() == 1 {
            parts.push(Part::new(&[], Filter::new(0)));
        }
        if let Some(first) = parts.first_mut() {
            first.low = due.low.as_slice().into();
        }
        self.bytes += parts.iter().map(Part::bytes).sum::<usize>();
        let old: usize = self
            .parts
            .splice(at..=at, parts)
            .map(|old| old.bytes())
            .sum();
        self.bytes -= old;
        // What is before a range that is left has nothing, or belongs to the one before it.
        if at == 0 && !self.parts[0].low.is_empty() {
            self.bytes -= self.parts[0].low.len();
            self.parts[0].low = Box::default();
        }
    }

    /// Its bytes. O(1).
    pub fn memory(&self) -> usize {
        let greatest = self.greatest.as_ref().map_or(0, |greatest| greatest.len());
        self.bytes + self.parts.capacity() * size_of::<Part>() + greatest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut filter = Filter::new(20_000);
        (0..20_000u64).for_each(|n| {
            filter.add(hash(0, &n.to_be_bytes()));
        });
        assert!((0..20_000u64).all(|n| filter.may(hash(0, &n.to_be_bytes()))));
        let wrong = (0..20_000u64)
            .filter(|n| filter.may(hash(1, &n.to_be_bytes())))
            .count();
        assert!(wrong < 600, "{wrong}");
    }

    #[test]
    fn ranges_split_and_are_dropped_and_nothing_is_forgotten() {
        let mut ranges = Ranges::new();
        let mut there = std::collections::BTreeSet::new();
        let key = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        // As who keeps the keys makes filters anew.
        let settle = |ranges: &mut Ranges, there: &std::collections::BTreeSet<[u8; 8]>| {
            while let Some(due) = ranges.due() {
                let mut low = [0; 8];
                low[..due.low.len()].copy_from_slice(&due.low);
                let keys: Vec<_> = there
                    .range(low..)
                    .take_while(|key| due.high.as_ref().is_none_or(|high| &key[..] < high))
                    .collect();
                let filters = split(&keys).map(|keys| {
                    let mut filter = Filter::to_grow(keys.len());
                    for key in keys {
                        filter.add(hash(0, &key[..]));
                    }
                    (keys[0].to_vec(), filter)
                });
                let filters = filters.collect();
                ranges.take(&due, filters);
            }
        };
        for n in 0..20_000 {
            ranges.add(&key(n), [hash(0, &key(n))]);
            there.insert(key(n));
            settle(&mut ranges, &there);
        }
        assert!((0..20_000).all(|n| ranges.may(&key(n), hash(0, &key(n)))));
        let full = ranges.memory();
        assert!(ranges.parts.len() > 8 && full * 20 <= 20_000 * 31, "{full}");
        assert!(ranges.may_in(&[], None, hash(0, &key(7))));
        for n in 0..19_990 {
            ranges.remove(&key(n));
            there.remove(&key(n));
            settle(&mut ranges, &there);
        }
        assert!((19_990..20_000).all(|n| ranges.may(&key(n), hash(0, &key(n)))));
        assert!(ranges.memory() * 3 < full, "{} of {full}", ranges.memory());
        // Keys that grow are never made anew.
        let mut ranges = Ranges::new();
        for n in 0..20_000u64 {
            ranges.add(&n.to_be_bytes(), [hash(0, &n.to_be_bytes())]);
            assert!(ranges.due().is_none());
        }
        assert!((0..20_000u64).all(|n| ranges.may(&n.to_be_bytes(), hash(0, &n.to_be_bytes()))));
        assert!(ranges.memory() * 2 <= 20_000 * 3, "{}", ranges.memory());
    }
}
