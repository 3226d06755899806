//! The table of handles: 64 bits that name a place in it, and how often that place was used before.
//!
//! Invariants: a place is filled by one who took it off the list of free ones, and emptied by one who swaps
//! what it holds for nothing; its generation rises each time. So a handle that was closed finds nothing, or
//! something of another generation, whoever uses the place now. Looking up takes no lock; closing waits until
//! those who looked something up are done with it, and only then drops it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use terrace_base::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::object::Object;
use crate::planted::{Fault, planted};
use crate::shared::{Shared, locked};

/// What a handle names.
pub struct Entry {
    generation: u32,
    /// The whole that closes it.
    pub shared: Arc<Shared>,
    pub object: Object,
}

type Slot = ArcSwapOption<Entry>;

/// Slots of the first piece of the table; each piece has twice as many as the one before.
const FIRST: u32 = 64;
/// Pieces: so many that there is a place for each number of 31 bits.
const PIECES: usize = 25;
/// How long a close sleeps between looks whether others are done: they may be waiting for a disk.
const CLOSING: Duration = Duration::from_micros(50);

struct Free {
    /// Places that were emptied, with the next generation of each.
    places: Vec<(u32, u32)>,
    /// The first place that was never used.
    fresh: u32,
}

static PIECES_OF_SLOTS: [OnceLock<Box<[Slot]>>; PIECES] = [const { OnceLock::new() }; PIECES];
static FREE: Mutex<Option<Free>> = Mutex::new(None);

/// The piece of a place, and where in it.
#[inline]
fn located(place: u32) -> Option<(usize, usize)> {
    let shifted = place.checked_add(FIRST)?;
    let piece = shifted.ilog2() - FIRST.ilog2();
    Some((piece as usize, (shifted - (FIRST << piece)) as usize))
}

#[inline]
fn slot(place: u32) -> Option<&'static Slot> {
    let (piece, at) = located(place)?;
    PIECES_OF_SLOTS.get(piece)?.get()?.get(at)
}

/// The place and the generation of a handle.
#[inline]
fn parts(handle: u64) -> (u32, u32) {
    (handle as u32, (handle >> 32) as u32)
}

/// Gives a handle to something; it is closed with `shared`.
pub fn add(shared: &Arc<Shared>, object: Object) -> Result<u64> {
    let (place, generation) = {
        let mut free = locked(&FREE)?;
        // Place 0 is not used, so that no handle is 0.
        let free = free.get_or_insert(Free {
            places: Vec::new(),
            fresh: 1,
        });
        match free.places.pop() {
            Some(place) => place,
            None => {
                let place = free.fresh;
                let (piece, _) = located(place)
                    .filter(|(piece, _)| *piece < PIECES)
                    .ok_or_else(|| Failure::invalid("too many handles are open; close some"))?;
                PIECES_OF_SLOTS[piece].get_or_init(|| {
                    let slots = (FIRST as usize) << piece;
                    std::iter::repeat_with(Slot::empty).take(slots).collect()
                });
                free.fresh = place + 1;
                (place, 1)
            }
        }
    };
    let handle = u64::from(generation) << 32 | u64::from(place);
    let entry = Entry {
        generation,
        shared: shared.clone(),
        object,
    };
    let added = shared.add(|| {
        if let Some(slot) = slot(place) {
            slot.store(Some(Arc::new(entry)));
        }
        Ok(handle)
    });
    if added.is_err() {
        give_back(place, generation);
    }
    added
}

/// The place may be used again, unless it has no generation left.
fn give_back(place: u32, generation: u32) {
    if let (Some(next), Ok(mut free)) = (generation.checked_add(1), locked(&FREE))
        && let Some(free) = &mut *free
    {
        free.places.push((place, next));
    }
}

fn found(held: &Guard<Option<Arc<Entry>>>, generation: u32) -> Option<&Arc<Entry>> {
    let entry = held.as_ref()?;
    let is_it = entry.generation == generation || planted(Fault::GenerationIgnored);
    is_it.then_some(entry)
}

/// Calls with what a handle names, which stays until that is over.
#[inline]
pub fn with<R>(handle: u64, what: &str, call: impl FnOnce(&Entry) -> Result<R>) -> Result<R> {
    let (place, generation) = parts(handle);
    let held = slot(place).map(ArcSwapOption::load);
    match held.as_ref().and_then(|held| found(held, generation)) {
        Some(entry) => call(entry),
        None => Err(Failure::closed(what)),
    }
}

/// Takes out what a handle names, once no other call uses it. None if there is nothing any more.
///
/// # Errors
/// [`crate::Kind::Closed`] when it names something else than `is` says; in a child of a fork.
pub fn remove(handle: u64, what: &str, is: impl FnOnce(&Object) -> bool) -> Result<Option<Entry>> {
    let (place, generation) = parts(handle);
    if generation == 0 {
        return Err(Failure::closed(what));
    }
    let Some(slot) = slot(place) else {
        return Err(Failure::closed(what));
    };
    let held = slot.load();
    let Some(entry) = found(&held, generation) else {
        return Ok(None);
    };
    entry.shared.home.check_fork()?;
    if !is(&entry.object) {
        return Err(Failure::closed(what));
    }
    let before = slot.compare_and_swap(&held, None);
    let is_mine = match (&*before, &*held) {
        (Some(before), Some(held)) => Arc::ptr_eq(before, held),
        _ => false,
    };
    let held = Guard::into_inner(held);
    drop(before);
    let Some(mut entry) = held.filter(|_| is_mine) else {
        return Ok(None);
    };
    entry.shared.forget(handle);
    loop {
        match Arc::try_unwrap(entry) {
            Ok(alone) => {
                give_back(place, generation);
                return Ok(Some(alone));
            }
            Err(shared) => entry = shared,
        }
        std::thread::sleep(CLOSING);
    }
}

/// Closes the parts of something that no call finds any more.
pub fn end(object: &Object) {
    if let Object::Database(_, parts) | Object::Snapshot(_, parts) = object {
        empty(parts);
    }
}

/// Closes all parts of something, and theirs.
pub fn empty(shared: &Shared) {
    for handle in shared.end() {
        if let Ok(Some(entry)) = remove(handle, "part", |_| true) {
            end(&entry.object);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_has_a_slot_of_its_own() {
        let mut last = None;
        for place in 0..5_000 {
            let at = located(place).unwrap();
            assert!(last < Some(at), "{place}");
            assert!(at.1 < (FIRST as usize) << at.0);
            last = Some(at);
        }
        assert!(located(u32::MAX).is_none());
        assert!(slot(0x7fff_ffff).is_none());
    }
}
