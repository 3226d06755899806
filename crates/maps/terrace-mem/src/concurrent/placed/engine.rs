//! The engine of the concurrent map: looks at all parts in turn, and then, when enough lookups were
//! noted or more is used than is allowed, has the bytes [divided](crate::place::divide) anew.
//!
//! Kept true: a step waits for no lock but its own, looks at as many parts as it was given nodes,
//! and moves one segment for each 256 of them; a moved segment has the entries of the old one, and
//! is published before that is given up. Of all parts it remembers some of the hottest and of the
//! coldest, so that no step is longer where there are more.

use super::pass::Engine;
use super::placing::{On, Placing, Stays};
use crate::concurrent::cell;
use crate::concurrent::part::Part;
use crate::concurrent::shared::Shared;
use crate::family::Family;
use crate::place::divide::{Seen, Use, divide};
use crossbeam_epoch as epoch;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use terrace_place::{Steps, Store};

/// Noted lookups of a period: this many for each part, and at least `LEAST`.
const EACH: u64 = 8;
const LEAST: u64 = 256;
/// Periods from one halving of all heat to the next.
const COOLING: u64 = 8;
/// Nodes that the move of a segment counts for: 60 KiB are copied.
const MOVE: usize = 256;
/// Bytes of copies that count as one node: this many are written in the time in which one is seen.
const BYTES_A_NODE: u64 = 240;
/// Passes without demotions after slow memory was refused, if none of it is given back meanwhile: some
/// seconds of a thread that has nothing to do.
const REFUSED: u32 = 64;
/// Dynamic stages take at most this part of the limit, so that others have something to give. With less
/// of it merges are more.
const WRITES: u64 = 2;
/// The part of a segment's entries that are merged at once, at least: a merge copies the segment.
const MERGED: usize = 64;
impl<F: Family, V: Clone + Send + Sync + 'static> Placing<F, V> {
    /// Starts the thread that makes steps, if there is to be one.
    pub(crate) fn start(shared: &crate::sync::Arc<Shared<F, V>>) {
        #[cfg(not(feature = "shuttle"))]
        if let Some(on) = &shared.place.0
            && !on.two.manual
        {
            let map = crate::sync::Arc::downgrade(shared);
            let worker = terrace_place::Worker::start(move |steps, _| {
                map.upgrade().is_some_and(|map| map.place_step(steps))
            });
            *on.worker
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(worker);
        }
        #[cfg(feature = "shuttle")]
        let _ = shared;
    }
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// A bounded piece of placing; whether there is more to do.
    pub(super) fn place_step(&self, steps: Steps) -> bool {
        let Some(on) = &self.place.0 else {
            return false;
        };
        let Ok(mut engine) = on.engine.try_lock() else {
            return false;
        };
        let engine = &mut *engine;
        let mut left = steps.count() as isize;
        while left > 0 {
            if let Some((part, up)) = engine.moves.pop() {
                left -= match part.upgrade() {
                    Some(part) => self.shift(on, engine, &part, up) as isize,
                    None => 1,
                };
            } else if engine.goal > 0 {
                left -= grow(on, engine) as isize;
            } else if let Some(bytes) = settle(on) {
                left -= (bytes / BYTES_A_NODE).max(1) as isize;
            } else if self.see_next(on, engine) {
                left -= 1;
            } else {
                self.judge(on, engine);
                if engine.moves.is_empty() && engine.goal == 0 {
                    return false;
                }
            }
        }
        true
    }

    /// Looks at the part behind the one that was seen last; whether there is one. The directory may
    /// be another by now: a part that was divided meanwhile is seen in part twice, or not at all.
    fn see_next(&self, on: &On<F, V>, engine: &mut Engine<F, V>) -> bool {
        let guard = epoch::pin();
        let directory = self.directory.load(&guard);
        if !engine.passes {
            engine.passes = true;
            (engine.last_low, engine.parts, engine.segments) = (None, 0, 0);
            (engine.dynamic, engine.entries) = (0, 0);
            engine.other = directory.bytes() as u64;
        }
        let last = engine.last_low.as_ref();
        let next = last.map_or(0, |low| directory.index(F::load(low)) + 1);
        let Some(part) = directory.parts.get(next) else {
            engine.passes = false;
            return false;
        };
        engine.last_low = Some(part.low.clone());
        self.see(on, engine, part, &guard);
        true
    }

    fn see(
        &self,
        on: &On<F, V>,
        engine: &mut Engine<F, V>,
        part: &Arc<Part<F, V>>,
        guard: &epoch::Guard,
    ) {
        let fixed = part.segment.load(guard);
        let header = size_of::<Part<F, V>>() + size_of_val(fixed) + F::heap(&part.low);
        let seat = &fixed.seat;
        // One that is written to at the moment has what it had when it was seen last.
        if let Some(dynamic) = part.try_read() {
            on.ledger.resized(seat, dynamic.bytes() as u64);
            engine.entries += dynamic.weight().len as u64;
        }
        engine.other += header as u64;
        engine.dynamic += seat.dynamic.load(Relaxed);
        engine.parts += 1;
        let heat = seat.heat.load(Relaxed);
        if engine.cool {
            seat.heat.store(heat / 2, Relaxed);
        }
        let (bytes, slow) = (seat.all_bytes(), seat.slow);
        engine.segments += bytes;
        if bytes > 0 {
            let best = if slow {
                &mut engine.up
            } else {
                &mut engine.down
            };
            best.push(Seen {
                part: Arc::downgrade(part),
                heat: f64::from(heat),
                bytes,
            });
        }
    }

    /// All parts have been looked at: the bytes are divided anew, if it is time.
    fn judge(&self, on: &On<F, V>, engine: &mut Engine<F, V>) {
        let guard = epoch::pin();
        let ledger = &on.ledger;
        let (up, down) = (engine.up.take(), engine.down.take());
        engine.cool = false;
        ledger.other.store(engine.other, Relaxed);
        ledger.dynamic.store(engine.dynamic, Relaxed);
        ledger.peak.fetch_max(ledger.used(), Relaxed);
        let (passes, held) = engine.refused;
        engine.refused.0 = match Store::live(&on.two.slow) < held {
            true => 0,
            false => passes.saturating_sub(1),
        };
        let noted: u64 = ledger.noted.iter().map(|n| n.load(Relaxed)).sum();
        let (limit, bound) = (on.limit(), on.bound());
        let strained = ledger.used() > on.edge();
        let share = limit / WRITES;
        let most = match engine.dynamic > share / 2 {
            true => {
                let each = (engine.dynamic / engine.entries.max(1)).max(1);
                let most = (share / engine.parts.max(1) / each) as usize;
                most.max(self.options.segment_len / MERGED).max(1)
            }
            false => 0,
        };
        ledger.most.store(most, Relaxed);
        if noted - engine.noted < LEAST.max(engine.parts * EACH) && !strained {
            return;
        }
        engine.noted = noted;
        ledger.periods.fetch_add(1, Relaxed);
        engine.periods += 1;
        engine.cool = engine.periods.is_multiple_of(COOLING);
        let counts = [&ledger.noted[2], &ledger.least, &ledger.noted[1]];
        engine.caught.note(counts.map(|count| count.load(Relaxed)));
        if let Some(copies) = &on.copies {
            // More copies than there are entries are of no use.
            copies.suit(limit.min(engine.segments), &guard);
        }
        let size = || on.copies.as_ref().map_or(0, |c| c.table(&guard).bytes()) as u64;
        let had = size();
        // With what was given up and a reader still sees.
        let always = ledger.not_segments().max(had) - had;
        let copies = on.copies.as_ref();
        let of = Use {
            caught: &engine.caught,
            copies: copies.map(|c| (c.least(&guard) as u64 + (8 << 10), c.times_last())),
            table: had,
            always,
            fast: ledger.fast(),
            segments: engine.segments,
            bound,
            limit,
            first: false,
            makes_room: false,
            refused: engine.refused.0 > 0,
        };
        let (table, moves) = divide(of, up, down);
        engine.moves = moves;
        if table > had {
            engine.goal = table;
        } else if let Some(copies) = &on.copies {
            copies.fit(table as usize, &guard);
        }
        if engine.cool {
            engine.caught.cool();
        }
        drop(guard);
        cell::free();
    }

    /// Moves the segment of a part, if no thread merges it. Returns the nodes that this counts for.
    fn shift(
        &self,
        on: &On<F, V>,
        engine: &mut Engine<F, V>,
        part: &Part<F, V>,
        up: bool,
    ) -> usize {
        let guard = epoch::pin();
        let Ok(one) = part.merging.try_lock() else {
            on.ledger.busy.fetch_add(1, Relaxed);
            return 1;
        };
        let old = part.segment.load(&guard);
        if old.seat.slow != up || old.len() == 0 {
            return 1;
        }
        let new = match on.moved(old, &self.plan) {
            Ok(new) => new,
            Err(Stays::NoRoom) => return 1,
            Err(Stays::Refused) => {
                // So would be the others: they are not copied for nothing.
                engine.moves.retain(|(_, up)| *up);
                engine.refused = (REFUSED, Store::live(&on.two.slow));
                return MOVE;
            }
        };
        let heat = engine.caught.moved(old.seat.heat.load(Relaxed), up);
        new.seat.heat.store(heat, Relaxed);
        part.segment.store(new, &guard);
        drop(one);
        let count = match up {
            true => &on.ledger.promoted,
            false => &on.ledger.demoted,
        };
        count.fetch_add(1, Relaxed);
        drop(guard);
        // The bytes of the old one are free when no reader reads it any more.
        cell::free();
        MOVE
    }
}

/// Adds a chunk to the table of copies, as long as it is to grow and there is room. Returns the nodes
/// that this counts for.
fn grow<F: Family, V: Clone + Send + Sync + 'static>(
    on: &On<F, V>,
    engine: &mut Engine<F, V>,
) -> u64 {
    let guard = epoch::pin();
    let ledger = &on.ledger;
    let grown = on.copies.as_ref().and_then(|copies| {
        let chunk = copies.next(&guard) as u64;
        let room = ledger.used().saturating_add(chunk) <= on.bound();
        (room && copies.grow(engine.goal, &guard)).then_some(chunk)
    });
    ledger.peak.fetch_max(ledger.used(), Relaxed);
    match grown {
        Some(chunk) => (chunk / BYTES_A_NODE).max(1),
        None => {
            engine.goal = 0;
            1
        }
    }
}

/// Has chunks of copies get slots that they lack, or lose copies of those that they gave away. Returns the
/// bytes that were looked through.
fn settle<F: Family, V: Clone + Send + Sync + 'static>(on: &On<F, V>) -> Option<u64> {
    let settled = on.copies.as_ref()?.settle(&epoch::pin())?;
    Some(settled as u64)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::place::{Memory, Placement};
    use crate::{ConcurrentHybridMap, Merging, Options};
    use crossbeam_epoch as epoch;
    use std::sync::atomic::Ordering::Relaxed;
    use terrace_place::Steps;

    fn map(options: Options) -> ConcurrentHybridMap<u64, u64> {
        let placement = Placement::two(Memory::Heap, Memory::Heap);
        let placement = placement.fast_bytes(1 << 20).manual();
        let options = options.placement(placement).unwrap();
        ConcurrentHybridMap::with_options(options).unwrap()
    }

    #[test]
    fn a_part_that_is_written_to_counts_with_what_it_had() {
        let map = map(Options {
            merging: Merging::Manual,
            ..Options::default()
        });
        (0..20_000u64).for_each(|i| assert_eq!(map.insert(&i, i), None));
        let place = map.shared.place.0.as_ref().unwrap();
        let pass = || {
            assert!(!map.place_step(Steps::nodes(100_000)));
            place.ledger.dynamic.load(Relaxed)
        };
        let free = pass();
        assert!(free > 20_000 * 16, "{free}");
        let guard = epoch::pin();
        let part = map.shared.directory.load(&guard).parts[0].clone();
        let writes = part.write();
        assert_eq!(pass(), free);
        drop(writes);
    }

    #[test]
    fn a_step_looks_at_no_more_parts_than_it_was_told() {
        let mut map = map(Options {
            segment_len: 16,
            ..Options::default()
        });
        map.extend((0..100_000u64).map(|i| (i * 7, i)));
        let parts = map.shared.directory.load(&epoch::pin()).parts.len();
        assert!(parts > 4000, "{parts}");
        let engine = &map.shared.place.0.as_ref().unwrap().engine;
        for step in 1..=10 {
            assert!(map.place_step(Steps::nodes(100)));
            let engine = engine.lock().unwrap();
            assert_eq!(engine.parts, step * 100);
            assert!(engine.up.seen.len() <= 2 * crate::place::divide::BEST);
        }
        while map.place_step(Steps::nodes(100)) {}
        assert_eq!(engine.lock().unwrap().parts, parts as u64);
    }
}
