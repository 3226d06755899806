//! What collectors of metrics need so that no count of theirs goes back: each structure keeps a place as long as
//! it is there, and what dropped ones came to is kept as one sum.

use std::collections::{BTreeMap, BTreeSet};

/// Counts of a structure.
pub const COUNTS: usize = 17;
/// What a structure has come to.
pub type Counts = [u64; COUNTS];

/// See the module's text.
#[derive(Default)]
pub struct Series {
    /// Of each structure and index by its number: its place, and what it had come to when it was seen last.
    seen: BTreeMap<u32, (u32, Counts)>,
    taken: BTreeSet<u32>,
    dropped: Option<Counts>,
}

impl Series {
    /// Looks at all that there are now, by their numbers, and gives each a place. What those have come to, all
    /// together, that are not there any more, if there were any. O(n log n).
    pub fn see(&mut self, now: &BTreeMap<u32, Counts>) -> (BTreeMap<u32, u32>, Option<Counts>) {
        let mut before = std::mem::take(&mut self.seen);
        let mut new = Vec::new();
        for (id, counts) in now {
            match before.remove(id) {
                Some((place, _)) => drop(self.seen.insert(*id, (place, *counts))),
                None => new.push((*id, *counts)),
            }
        }
        for (place, counts) in before.into_values() {
            self.taken.remove(&place);
            let sum = self.dropped.get_or_insert([0; COUNTS]);
            sum.iter_mut()
                .zip(counts)
                .for_each(|(sum, count)| *sum += count);
        }
        // In places that have become free, first.
        for (id, counts) in new {
            let place = self.take_place();
            self.seen.insert(id, (place, counts));
        }
        let places = self.seen.iter().map(|(id, (place, _))| (*id, *place));
        (places.collect(), self.dropped)
    }

    /// The lowest place that nobody has.
    fn take_place(&mut self) -> u32 {
        let mut places = (0..).zip(&self.taken);
        let free = places.find(|(place, taken)| place != *taken);
        let place = free.map_or(self.taken.len() as u32, |(place, _)| place);
        self.taken.insert(place);
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_kept_and_what_is_gone_is_added_up() {
        let mut series = Series::default();
        let all = |ids: &[(u32, u64)]| -> BTreeMap<u32, Counts> {
            ids.iter().map(|(id, n)| (*id, [*n; COUNTS])).collect()
        };
        let (places, dropped) = series.see(&all(&[(5, 1), (7, 2), (9, 3)]));
        assert_eq!(
            (places[&5], places[&7], places[&9], dropped),
            (0, 1, 2, None)
        );
        // One goes, and one comes and takes its place.
        let (places, dropped) = series.see(&all(&[(7, 2), (9, 4), (10, 0)]));
        assert_eq!((places[&7], places[&9], places[&10]), (1, 2, 0));
        assert_eq!(dropped, Some([1; COUNTS]));
        let (places, dropped) = series.see(&all(&[(7, 2), (11, 0)]));
        assert_eq!((places[&7], places[&11]), (1, 0));
        assert_eq!(dropped, Some([5; COUNTS]));
    }
}
