//! What collectors of metrics need so that no count of theirs goes back: each structure keeps a place as long as
//! it is there, and what dropped ones came to is kept as one sum.

use std::collections::{BTreeMap, BTreeSet};

use terrace_base::sync::Mutex;

/// Counts of a structure.
pub const COUNTS: usize = 17;
/// What a structure has come to.
pub type Counts = [u64; COUNTS];

/// The places of structures in metrics, and the sum of what dropped ones came to.
#[derive(Default)]
pub struct Series(Mutex<Seen>);

/// Where each structure and index has its place, by their numbers, and what those came to that are gone.
pub struct Places {
    pub of: BTreeMap<u32, u32>,
    pub dropped: Option<Counts>,
}

#[derive(Default)]
struct Seen {
    /// Of each structure and index by its number: its place, and what it had come to when it was seen last.
    seen: BTreeMap<u32, (u32, Counts)>,
    taken: BTreeSet<u32>,
    dropped: Option<Counts>,
}

impl Series {
    /// Looks at what all that there are now have come to, by their numbers, and gives each a place. One after the
    /// other, so that who comes later sees later counts. O(n log n).
    pub fn see<T>(&self, look: impl FnOnce() -> (T, BTreeMap<u32, Counts>)) -> (T, Places) {
        let mut seen = self.0.lock();
        let (looked, now) = look();
        (looked, seen.see(&now))
    }
}

impl Seen {
    fn see(&mut self, now: &BTreeMap<u32, Counts>) -> Places {
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
        Places {
            of: places.collect(),
            dropped: self.dropped,
        }
    }

    /// The lowest place that is free.
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
        let mut series = Seen::default();
        let all = |ids: &[(u32, u64)]| -> BTreeMap<u32, Counts> {
            ids.iter().map(|(id, n)| (*id, [*n; COUNTS])).collect()
        };
        let Places { of, dropped } = series.see(&all(&[(5, 1), (7, 2), (9, 3)]));
        assert_eq!((of[&5], of[&7], of[&9], dropped), (0, 1, 2, None));
        // One goes, and one comes and takes its place.
        let Places { of, dropped } = series.see(&all(&[(7, 2), (9, 4), (10, 0)]));
        assert_eq!((of[&7], of[&9], of[&10]), (1, 2, 0));
        assert_eq!(dropped, Some([1; COUNTS]));
        let Places { of, dropped } = series.see(&all(&[(7, 2), (11, 0)]));
        assert_eq!((of[&7], of[&11]), (1, 0));
        assert_eq!(dropped, Some([5; COUNTS]));
    }
}
