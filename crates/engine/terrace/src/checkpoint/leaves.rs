//! Saving what leaves of hot tiers that lie in memory alone have dirty.
//!
//! Invariant: no latch of a hot page, and no part of the gate, is held between two leaves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::Result;
use terrace_tier::Saving;
use terrace_wal::{HoldId, Place};

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::state::pieces::{Began, RoundPlace};

/// A gentle pass rests this many times as long as it works, the less the more it is pressed.
const REST: u32 = 4;
/// It rests at most so long at once.
const LONGEST_REST: Duration = Duration::from_millis(5);
/// Leaves after which it looks whether to rest.
const LEAVES: u64 = 8;
impl Core {
    /// An instant at which no thread is inside the gate, and the log kept from there.
    pub(super) fn begin_saving(&self) -> (HoldId, Place, Began) {
        self.store().instant(|| {
            let (hold, place) = self.log().hold(u64::MAX);
            let mark = self.store().saving_mark();
            let at = place.into();
            (hold, place, Began { at, mark })
        })
    }

    /// Saves all that these structures have dirty, in one go: how many slots that takes at most.
    pub(super) fn save_whole(
        &self,
        structures: &[Arc<Open>],
        pressure: Option<&dyn Fn() -> f64>,
    ) -> Result<u64> {
        self.store().pass_has_saved(0);
        let begin = (RoundPlace::BEGIN, 0);
        let (_, slots) = self.save_leaves(structures, begin, u64::MAX, pressure)?;
        Ok(slots)
    }

    /// Saves what about so many hot leaves of these structures from this place on have dirty, with rests where it is told how much it is
    /// pressed: up to where, and how many slots that takes at most, beside those that the round had `saved`.
    pub(super) fn save_leaves(
        &self,
        structures: &[Arc<Open>],
        (place, saved): (RoundPlace, u64),
        most: u64,
        pressure: Option<&dyn Fn() -> f64>,
    ) -> Result<(RoundPlace, u64)> {
        let (mut slots, mut leaves) = (0, 0);
        let mut worked = Instant::now();
        let RoundPlace::In(first, mut from) = place else {
            return Ok((place, 0));
        };
        for open in structures {
            if open.id() < first || !open.structure.is_saved() {
                continue;
            }
            if open.id() > first {
                from.clear();
            }
            if leaves >= most {
                return Ok((RoundPlace::In(open.id(), from), slots));
            }
            let before = self.tiers().saved_bytes();
            let slots_of = || {
                let bytes = self.tiers().saved_bytes() - before;
                self.tiers().saved_slots(bytes)
            };
            while let Some(next) = healed(open, open.structure.save_step(&from, Saving::All), None)?
            {
                from = next;
                leaves += 1;
                self.store().has_saved_part(saved + slots + slots_of());
                if most == u64::MAX {
                    self.store().pass_has_saved(slots + slots_of());
                }
                if leaves >= most {
                    return Ok((RoundPlace::In(open.id(), from), slots + slots_of()));
                }
                if let Some(pressure) = pressure
                    && leaves.is_multiple_of(LEAVES)
                {
                    let rest = (worked.elapsed() * REST).min(LONGEST_REST);
                    let rest = rest.mul_f64((1.0 - pressure()).clamp(0.0, 1.0));
                    if !rest.is_zero() {
                        self.checkpoints().rested();
                        std::thread::sleep(rest);
                    }
                    worked = Instant::now();
                }
            }
            leaves += 1;
            slots += slots_of();
        }
        Ok((RoundPlace::End, slots))
    }
}

/// What came of saving. Where a saved page cannot be read all of the structure is saved anew, for memory has it, and
/// nothing is left to do.
pub(super) fn healed<T>(open: &Open, saved: Result<T>, done: T) -> Result<T> {
    match saved {
        Err(e) if e.is_unreadable() && !planted(Fault::UnreadableSavedStays) => {
            open.structure.save_anew().map(|()| done)
        }
        saved => saved,
    }
}
