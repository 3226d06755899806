//! The first and the last entry: what several parts are asked for at once.
//!
//! Parts before the first entry have none, but may get one at any moment. So their latches are held
//! until the entry is found: at that moment it is the first of all. What always holds: who has the
//! latch of a part waits only for those of parts behind it, for the last entry too, so that no
//! threads wait in a circle.

use super::part::{Directory, Dynamic, Part};
use super::shared::Shared;
use super::walk::walk;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crossbeam_epoch as epoch;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An entry: the key, encoded, and the value.
type Entry<F, V> = (<F as Family>::Buf, V);

/// The part that has the first or the last entry of all.
struct End<'d, F: Family, V, G> {
    part: &'d Arc<Part<F, V>>,
    dynamic: G,
    /// The latches of the parts between it and the end, which have no entries.
    _empty: Vec<G>,
}

/// What was found at an end.
enum Found<'d, F: Family, V, G> {
    /// The directory is out of date, or the guess was.
    Stale,
    /// The map has no entries.
    Nothing,
    Part(End<'d, F, V, G>),
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// The first entry, or the last one. O(log n + what is deleted before it and not merged yet +
    /// parts without entries).
    pub fn peek(&self, last: bool) -> Option<Entry<F, V>> {
        let guard = epoch::pin();
        loop {
            let directory = self.directory.load(&guard);
            match find(directory, last, Part::read) {
                Found::Stale => {}
                Found::Nothing => return None,
                Found::Part(end) => return self.entry(end.part, &end.dynamic, last, &guard),
            }
        }
    }

    /// Takes out the first entry, or the last one. As [`Shared::peek`], but passes by what was
    /// deleted in this way only once.
    pub fn pop(&self, last: bool) -> Option<Entry<F, V>> {
        let guard = epoch::pin();
        loop {
            let directory = self.directory.load(&guard);
            let mut end = match find(directory, last, Part::write) {
                Found::Stale => continue,
                Found::Nothing => return None,
                Found::Part(end) => end,
            };
            let part = end.part;
            let (key, val) = self.entry(part, &end.dynamic, last, &guard)?;
            let replaced = end.dynamic.put(F::load(&key), None);
            end.dynamic.live -= 1;
            self.len.fetch_sub(1, Ordering::Relaxed);
            end.dynamic.popped(&key, last);
            let weight = end.dynamic.weight();
            self.place.wrote(part.segment.load(&guard), &end.dynamic);
            drop(end);
            // The drop of a user's value runs without the latches.
            drop(replaced);
            self.weigh(part, weight, &guard);
            return Some((key, val));
        }
    }

    /// The first entry of a part whose latch is held, or the last one.
    fn entry(
        &self,
        part: &Part<F, V>,
        dynamic: &Dynamic<F, V>,
        last: bool,
        guard: &epoch::Guard,
    ) -> Option<Entry<F, V>> {
        let mut found = None;
        let fixed = part.segment.load(guard);
        self.place.touched(fixed);
        walk(dynamic, fixed, dynamic.span(), last, |key, val| {
            found = Some((F::owned(key), val.clone()));
            false
        });
        found
    }
}

/// The part with the first entry, or the last one.
fn find<'d, F: Family, V: Send + Sync + 'static, G: Deref<Target = Dynamic<F, V>>>(
    directory: &'d Directory<F, V>,
    last: bool,
    latch: impl Fn(&'d Part<F, V>) -> G,
) -> Found<'d, F, V, G> {
    // Latches are taken in the order of the keys, so that where to begin for the last entry is
    // guessed.
    let guess = match last {
        true => directory.parts.iter().rposition(|p| p.read().live > 0),
        false => None,
    };
    let start = guess.unwrap_or(0);
    let (mut at, mut empty) = (None, Vec::new());
    for part in &directory.parts[start..] {
        let dynamic = latch(part);
        // A part in the directory that is not retired has all the keys that it had in this
        // directory, and others only where a part has left that had no entries.
        if dynamic.retired {
            return Found::Stale;
        }
        if dynamic.live == 0 {
            if !planted(Fault::LooseEnds) {
                empty.push(dynamic);
            }
            continue;
        }
        // One that is not the last one is no longer of use: what is behind it comes after it.
        at = Some((part, dynamic));
        if !last {
            break;
        }
    }
    match at {
        Some((part, dynamic)) => Found::Part(End {
            part,
            dynamic,
            _empty: empty,
        }),
        None if start > 0 => Found::Stale,
        None => Found::Nothing,
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::{ConcurrentHybridMap, Merging, Options};
    use crossbeam_epoch as epoch;

    #[test]
    fn tombstones_of_popped_entries_are_passed_by_once() {
        let options = Options {
            merging: Merging::Manual,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        (0..100).for_each(|i| assert_eq!(map.insert(&(i * 10), i), None));
        let part = map.shared.directory.load(&epoch::pin()).parts[0].clone();
        let span = || part.read().span();
        assert_eq!(span(), (None, None));
        for i in 0..40 {
            assert_eq!(map.pop_first(), Some((i * 10, i)));
            assert_eq!(map.pop_last(), Some(((99 - i) * 10, 99 - i)));
            assert_eq!(span(), (Some(i * 10), Some((99 - i) * 10)));
        }
        // What lies between changes nothing; what comes at an end is found.
        map.insert(&555, 0);
        map.remove(&400);
        assert_eq!(span(), (Some(390), Some(600)));
        map.insert(&600, 1);
        map.insert(&7, 2);
        assert_eq!(span(), (Some(7), Some(601)));
        assert_eq!((map.first(), map.last()), (Some((7, 2)), Some((600, 1))));
        map.insert(&u64::MAX, 3);
        assert_eq!(span(), (Some(7), None));
        assert_eq!(map.pop_last(), Some((u64::MAX, 3)));
        assert_eq!(map.pop_last(), Some((600, 1)));
        map.merge_all();
        assert_eq!((map.first(), map.last()), (Some((7, 2)), Some((590, 59))));
        assert_eq!(map.len(), 21);
        while map.pop_first().is_some() {}
        assert_eq!((map.len(), map.first(), map.pop_last()), (0, None, None));
    }
}
