//! Saving what is dirty in hot tiers that lie in memory alone, before a checkpoint.
//!
//! A *pass* goes through all of them leaf by leaf. It begins at an instant at which no thread is inside the gate, so
//! what the log has from there on, made again over what the pass has saved, gives what there is: replay begins there.
//! What is of one instant (a snapshot, a backup) is had by saving what the log got meanwhile, too, again and again
//! until it is little, and the rest while no call runs.
//!
//! Invariants: where replay begins moves on only when a pass is complete; one half done counts for nothing.

use std::time::{Duration, Instant};

use terrace_base::{Error, Result};
use terrace_pages::SavingMark;
use terrace_wal::{Follower, Position};

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::effects::{Effect, Effects};
use crate::operations::Pause;
use crate::planted::{Fault, planted};
use crate::state::checkpoints::Speed;

/// A gentle pass rests this many times as long as it works, the less the more it is pressed.
const REST: u32 = 4;
/// It rests at most so long at once.
const LONGEST_REST: Duration = Duration::from_millis(5);
/// Leaves after which it looks whether to rest.
const LEAVES: u32 = 8;
/// Bytes of the log that are saved at a time, and one record.
const AT_ONCE: u64 = 256 << 10;
/// Records that the log got meanwhile are saved again and again until there are at most this many.
const FEW: u64 = 256;
/// Those that are left when no call runs any more are saved before one runs again; more are not.
const AT_MOST_IN_A_PAUSE: u64 = 1024;
/// Where they do not become fewer fast enough each write waits for so long, twice as long each time.
const SHORTEST_WAIT: Duration = Duration::from_micros(250);
const LONGEST_WAIT: Duration = Duration::from_millis(256);
/// Of the log's limit: a pass is worth its while when it has grown by one part in this many.
const GROWN_PART: u64 = 2;
/// Or when so much of the file, and so many slots, are kept free for large values that would be replayed.
const LARGE_PART: u64 = 32;
const LARGE_SLOTS: u64 = 256;

/// What a checkpoint begins with.
pub(super) struct Saved<'c> {
    /// Where replay is to begin, unless that is the cut.
    pub from: Option<Position>,
    /// What was counted there, where a pass was made.
    pub mark: Option<SavingMark>,
    pub nobody_calls: Option<Pause<'c>>,
}

impl Saved<'_> {
    /// Replay is to begin here, unless at the cut; calls go on.
    pub fn replaying_from(from: Option<Position>) -> Self {
        Saved {
            from,
            mark: None,
            nobody_calls: None,
        }
    }
}

impl Core {
    /// Where replay is to begin, if the next checkpoint is cut now: all that is dirty above is saved if that is due. With
    /// [`Speed::Exact`] no call runs from then on until the answer is dropped. Nothing where no hot tier lies in
    /// memory alone: then it begins at the cut.
    pub(super) fn save(
        &self,
        speed: Speed,
        clean: bool,
        pressure: &dyn Fn() -> f64,
    ) -> Result<Saved<'_>> {
        if !self.store().has_newest_format() {
            return Ok(Saved::replaying_from(None));
        }
        let (before, is_short, writes) =
            (self.checkpoints()).seen(|state| (state.cut, state.is_short, state.writes_by_pass));
        let is_due = match speed {
            _ if clean || is_short => true,
            Speed::Exact | Speed::Fast => true,
            Speed::Gentle | Speed::Sparing => {
                let most = self.store().live_pages() / LARGE_PART + LARGE_SLOTS;
                // What was saved and has gone down since takes pages until the next pass: while little is written, there
                // is time for one.
                let is_stale = speed == Speed::Sparing
                    && self.store().space_seen().page_writes - writes > most;
                is_stale
                    || self.log().bytes_since(before)
                        > self.options().effective_log_limit() / GROWN_PART
                    || self.store().large_since() > most
            }
        };
        if !is_due {
            return Ok(Saved::replaying_from(Some(before)));
        }
        let (hold, place, mark) = self.store().instant(|| {
            let (hold, place) = self.log().hold(u64::MAX);
            (hold, place, self.store().saving_mark())
        });
        let saved = self.save_from((place, mark), speed, clean, pressure);
        self.log().let_go(hold);
        let may_wait = !clean && speed != Speed::Exact;
        if let Err(e) = &saved
            && may_wait
            && (e.is_no_room() || e.is_unreadable())
        {
            // A checkpoint without a pass gives slots back; what is half saved does no harm.
            return Ok(Saved::replaying_from(Some(before)));
        }
        saved
    }

    fn save_from(
        &self,
        (place, mark): (terrace_wal::Place, SavingMark),
        speed: Speed,
        clean: bool,
        pressure: &dyn Fn() -> f64,
    ) -> Result<Saved<'_>> {
        let mut began = place.into();
        let slots = self.save_pass(speed, pressure)?;
        self.store().has_saved(mark, slots);
        self.checkpoints()
            .saved(self.store().space_seen().page_writes);
        if planted(Fault::PieceCountsFromItsEnd) {
            began = self.store().instant(|| self.log().position());
        }
        if speed != Speed::Exact || clean {
            return Ok(Saved {
                mark: Some(mark),
                ..Saved::replaying_from(Some(began))
            });
        }
        let nobody_calls = self.catch_up(place)?;
        Ok(Saved {
            from: Some(self.store().instant(|| self.log().position())),
            mark: Some(mark),
            nobody_calls: Some(nobody_calls),
        })
    }

    /// Goes through all hot tiers; how many slots what is saved takes at most.
    fn save_pass(&self, speed: Speed, pressure: &dyn Fn() -> f64) -> Result<u64> {
        let mut slots = 0;
        let mut leaves = 0u32;
        let mut worked = Instant::now();
        for open in self.registry().all() {
            if !open.structure.is_saved() {
                continue;
            }
            let before = self.tiers().saved_bytes();
            let mut from = Vec::new();
            while let Some(next) = healed(&open, open.structure.save_step(&from), None)? {
                from = next;
                leaves += 1;
                let rests = matches!(speed, Speed::Gentle | Speed::Sparing);
                if rests && leaves.is_multiple_of(LEAVES) {
                    let rest = (worked.elapsed() * REST).min(LONGEST_REST);
                    let rest = rest.mul_f64((1.0 - pressure()).clamp(0.0, 1.0));
                    if !rest.is_zero() {
                        self.checkpoints().rested();
                        std::thread::sleep(rest);
                    }
                    worked = Instant::now();
                }
            }
            slots += self
                .tiers()
                .saved_slots(self.tiers().saved_bytes() - before);
        }
        Ok(slots)
    }

    /// Saves what the log got since the pass began, until nothing is left and no call runs. Writers are slowed down as far
    /// as needed, so that only little is left to be saved while none runs.
    fn catch_up(&self, place: terrace_wal::Place) -> Result<Pause<'_>> {
        let mut left = LogLeft::from(place);
        let mut slowed = SlowedWriters::of(self);
        let mut before = u64::MAX;
        loop {
            let end = self.log().next_sequence();
            let behind = end.saturating_sub(left.next());
            if behind <= FEW || planted(Fault::EndlessPause) {
                let nobody_calls = self.passes().pause()?;
                if planted(Fault::SnapshotWithoutLog) {
                    return Ok(nobody_calls);
                }
                let rest = self.log().next_sequence().saturating_sub(left.next());
                if rest <= AT_MOST_IN_A_PAUSE || planted(Fault::EndlessPause) {
                    while self.save_some(&mut left)? {}
                    self.checkpoints().saved_in_a_pause(rest);
                    return Ok(nobody_calls);
                }
            }
            if behind >= before / 2 {
                slowed.more();
            }
            before = behind;
            while left.next() < end && self.save_some(&mut left)? {}
        }
    }

    /// Saves some of what is left of the log; whether there was anything.
    fn save_some(&self, left: &mut LogLeft) -> Result<bool> {
        self.log().sync()?;
        let mut some = Vec::new();
        self.log()
            .follow_some(&mut left.0, AT_ONCE, &mut |sequence, payload| {
                some.push((sequence, payload.to_vec()));
                Ok(())
            })?;
        // What is in the log is not yet in the structures while its writer is inside.
        if !some.is_empty() && !planted(Fault::PieceWithoutGrace) {
            self.store().grace();
        }
        for (sequence, payload) in &some {
            for effect in Effects::new(payload) {
                let effect = effect.map_err(|_| {
                    let what = format!("record {sequence} holds something else than effects");
                    Error::corrupt("log", None, what)
                })?;
                self.save_effect(&effect)?;
            }
        }
        Ok(!some.is_empty())
    }

    fn save_effect(&self, effect: &Effect<'_>) -> Result<()> {
        match *effect {
            Effect::Put { structure, key, .. } | Effect::Delete { structure, key } => {
                match self.registry().numbered(structure) {
                    Some(open) => healed(&open, open.structure.save_record(key), ()),
                    None => Ok(()),
                }
            }
            Effect::DeleteRange {
                structure,
                low,
                high,
                ..
            } => {
                let Some(open) = self.registry().numbered(structure) else {
                    return Ok(());
                };
                let mut from = low.to_vec();
                while let Some(next) = healed(&open, open.structure.save_step(&from), None)? {
                    if high.is_some_and(|high| next.as_slice() >= high) {
                        break;
                    }
                    from = next;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// What came of saving. Where a saved page cannot be read all of the structure is saved anew, for memory has it, and
/// nothing is left to do.
fn healed<T>(open: &Open, saved: Result<T>, done: T) -> Result<T> {
    match saved {
        Err(e) if e.is_unreadable() && !planted(Fault::UnreadableSavedStays) => {
            open.structure.save_anew().map(|()| done)
        }
        saved => saved,
    }
}

/// What of the log is not saved yet.
struct LogLeft(Follower);

impl LogLeft {
    /// All of it from this place on.
    fn from(place: terrace_wal::Place) -> LogLeft {
        LogLeft(Follower::new(place, place.sequence))
    }

    /// Number of the record that is saved next.
    fn next(&self) -> u64 {
        self.0.next()
    }
}

/// Each write waits for a while behind its commit, as long as this is there.
struct SlowedWriters<'c> {
    core: &'c Core,
    by: Duration,
}

impl SlowedWriters<'_> {
    /// Not at all, at first.
    fn of(core: &Core) -> SlowedWriters<'_> {
        SlowedWriters {
            core,
            by: Duration::ZERO,
        }
    }

    /// Twice as long.
    fn more(&mut self) {
        self.by = (2 * self.by).clamp(SHORTEST_WAIT, LONGEST_WAIT);
        self.core.checkpoints().slow_writers(self.by);
    }
}

impl Drop for SlowedWriters<'_> {
    fn drop(&mut self) {
        self.core.checkpoints().slow_writers(Duration::ZERO);
    }
}
