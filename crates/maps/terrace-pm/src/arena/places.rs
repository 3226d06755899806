//! Places of leaves, segments and blobs: a bit for each of them, chunk by chunk.
//!
//! A list of free places would take eight bytes for each, as much as a map that was emptied holds of them;
//! a bit for each is less than a two hundredth of the file.

/// A bit for each place of a chunk.
#[derive(Clone, Debug, Default)]
pub struct Bits {
    words: Box<[u64]>,
    /// How many are set.
    count: u32,
    /// The word in which a bit was set or taken last.
    near: u32,
    /// Whether the chunk is among those with free places.
    is_listed: bool,
}

impl Bits {
    fn new(places: usize, is_set: bool) -> Bits {
        let mut words = vec![if is_set { u64::MAX } else { 0 }; places.div_ceil(64)];
        if let (true, Some(last)) = (is_set && !places.is_multiple_of(64), words.last_mut()) {
            *last = (1 << (places % 64)) - 1;
        }
        Bits {
            words: words.into(),
            count: if is_set { places as u32 } else { 0 },
            near: 0,
            is_listed: false,
        }
    }

    /// Sets a bit; whether it was not set.
    fn set(&mut self, i: usize) -> bool {
        let Some(word) = self.words.get_mut(i / 64) else {
            return false;
        };
        let was = *word >> (i % 64) & 1 == 1;
        *word |= 1 << (i % 64);
        self.count += u32::from(!was);
        self.near = (i / 64) as u32;
        !was
    }

    /// Clears a bit; whether it was set.
    fn clear(&mut self, i: usize) -> bool {
        let Some(word) = self.words.get_mut(i / 64) else {
            return false;
        };
        let was = *word >> (i % 64) & 1 == 1;
        *word &= !(1 << (i % 64));
        self.count -= u32::from(was);
        was
    }

    /// Takes a bit that is set, near the last one.
    fn take(&mut self) -> Option<usize> {
        let from = self.near as usize;
        let mut order = (from..self.words.len()).chain(0..from);
        let at = order.find(|at| self.words[*at] != 0)?;
        let bit = self.words[at].trailing_zeros() as usize;
        self.words[at] &= self.words[at] - 1;
        self.near = at as u32;
        self.count -= 1;
        Some(at * 64 + bit)
    }
}

/// Bits of chunks, by the number of the chunk.
#[derive(Default)]
pub struct Places {
    chunks: Vec<Option<Box<Bits>>>,
    bytes: usize,
}

impl Places {
    /// For this many chunks, none of which has any.
    pub fn new(chunks: usize) -> Places {
        Places {
            chunks: vec![None; chunks],
            bytes: chunks * 8,
        }
    }

    /// A chunk of this many places, all set or none.
    pub fn add(&mut self, chunk: u32, places: usize, is_set: bool) {
        if let Some(slot) = self.chunks.get_mut(chunk as usize) {
            if slot.is_none() {
                self.bytes += size_of::<Bits>() + places.div_ceil(64) * 8;
            }
            *slot = Some(Box::new(Bits::new(places, is_set)));
        }
    }

    /// Sets the bit of a place; whether it was not set.
    pub fn set(&mut self, chunk: u32, i: usize) -> bool {
        let bits = self.chunks.get_mut(chunk as usize).and_then(Option::as_mut);
        bits.is_some_and(|bits| bits.set(i))
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Free places of each class.
#[derive(Default)]
pub struct FreePlaces {
    places: Places,
    /// Of each class, the chunks that have some.
    listed: Vec<Vec<u32>>,
    /// How many each class has.
    counts: Vec<usize>,
    /// The place of each class that became free last: it is warm, and comes first.
    recent: Vec<(u32, usize)>,
}

impl FreePlaces {
    /// None are free.
    pub fn new(chunks: usize, classes: usize) -> FreePlaces {
        FreePlaces {
            places: Places::new(chunks),
            listed: vec![Vec::new(); classes],
            counts: vec![0; classes],
            recent: vec![(u32::MAX, 0); classes],
        }
    }

    /// A chunk of this class, with all of its places free or none.
    pub fn add(&mut self, class: u8, chunk: u32, places: usize, are_free: bool) {
        self.places.add(chunk, places, are_free);
        if are_free {
            self.counts[class as usize] += places;
            self.list(class, chunk);
        }
    }

    /// How many places of a class are free.
    pub fn count(&self, class: u8) -> usize {
        self.counts[class as usize]
    }

    fn list(&mut self, class: u8, chunk: u32) {
        if let Some(Some(bits)) = self.places.chunks.get_mut(chunk as usize)
            && !bits.is_listed
            && bits.count > 0
        {
            bits.is_listed = true;
            self.listed[class as usize].push(chunk);
        }
    }

    /// A free place of this class: its chunk and its number in it.
    pub fn take(&mut self, class: u8) -> Option<(u32, usize)> {
        let (chunk, i) = self.recent[class as usize];
        if let Some(Some(bits)) = self.places.chunks.get_mut(chunk as usize)
            && bits.clear(i)
        {
            self.counts[class as usize] -= 1;
            return Some((chunk, i));
        }
        let listed = &mut self.listed[class as usize];
        while let Some(chunk) = listed.last().copied() {
            if let Some(Some(bits)) = self.places.chunks.get_mut(chunk as usize) {
                if let Some(i) = bits.take() {
                    self.counts[class as usize] -= 1;
                    return Some((chunk, i));
                }
                bits.is_listed = false;
            }
            listed.pop();
        }
        None
    }

    /// A place is free again.
    pub fn release(&mut self, class: u8, chunk: u32, i: usize) {
        if self.places.set(chunk, i) {
            self.counts[class as usize] += 1;
            self.recent[class as usize] = (chunk, i);
            self.list(class, chunk);
        }
    }

    /// Free is what is not among `used`, a chunk of this class.
    pub fn release_but(&mut self, class: u8, chunk: u32, places: usize, used: &Places) {
        let mut bits = Bits::new(places, true);
        if let Some(Some(used)) = used.chunks.get(chunk as usize) {
            for (free, used) in bits.words.iter_mut().zip(&used.words) {
                *free &= !used;
            }
        }
        bits.count = bits.words.iter().map(|word| word.count_ones()).sum();
        if let Some(Some(known)) = self.places.chunks.get_mut(chunk as usize) {
            bits.is_listed = known.is_listed;
            self.counts[class as usize] += bits.count as usize;
            self.counts[class as usize] -= known.count as usize;
            **known = bits;
        }
        self.list(class, chunk);
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let listed: usize = self.listed.iter().map(|list| list.capacity() * 4).sum();
        self.places.bytes() + listed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_place_is_taken_once_and_comes_back() {
        let mut free = FreePlaces::new(4, 2);
        free.add(0, 1, 100, true);
        free.add(1, 2, 64, false);
        let mut taken: BTreeSet<_> = std::iter::from_fn(|| free.take(0)).collect();
        assert_eq!(taken.len(), 100);
        assert!(free.take(0).is_none() && free.take(1).is_none());
        for place in [(1, 99), (1, 3), (1, 3)] {
            free.release(0, place.0, place.1);
            taken.remove(&place);
        }
        assert_eq!(free.count(0), 2);
        assert_eq!(free.take(0), Some((1, 3)), "the last one comes first");
        assert_eq!(free.take(0), Some((1, 99)));
        assert_eq!((free.take(0), free.count(0)), (None, 0));
        let mut used = Places::new(4);
        used.add(2, 64, false);
        assert!(used.set(2, 5) && !used.set(2, 5));
        free.release_but(1, 2, 64, &used);
        let again: BTreeSet<_> = std::iter::from_fn(|| free.take(1)).collect();
        assert_eq!((again.len(), free.count(1)), (63, 0));
        assert!(!again.contains(&(2, 5)));
    }
}
