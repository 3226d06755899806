//! Saving what is dirty in hot tiers that lie in memory alone, before a checkpoint.
//!
//! They are gone through leaf by leaf, round by round, in *pieces*. Each begins at an instant at which no thread is inside
//! the gate, so what the log has from there on, made again over what the piece has saved, gives what there is: replay
//! begins where the oldest piece began. A *pass* goes through all in one piece.
//! What is of one instant (a snapshot, a backup) is had by saving what the log got meanwhile, too, again and again
//! until it is little, and the rest while no call runs.
//!
//! Invariants: where replay begins moves on only when a piece is complete; one half done counts for nothing.

use std::time::Duration;

use terrace_base::{Error, Result};
use terrace_pages::{SavedPart, SavingMark};
use terrace_tier::Saving;
use terrace_wal::{Follower, Place, Position};

use super::leaves::healed;
use super::unlogged::LoggedMeanwhile;
use crate::core::Core;
use crate::effects::{Effect, Effects};
use crate::operations::Pause;
use crate::planted::{Fault, Point, planted, reached};
use crate::state::checkpoints::{ROUND_TAKES, Speed};
use crate::state::pieces::Began;

/// Bytes of the log that are saved at a time, and one record.
const AT_ONCE: u64 = 256 << 10;
/// Records that the log got meanwhile are saved again and again until there are at most this many.
const FEW: u64 = 256;
/// Those that are left when no call runs any more are saved before one runs again; more are not.
const AT_MOST_IN_A_PAUSE: u64 = 1024;
/// Where they do not become fewer fast enough each write waits for so long, twice as long each time.
const SHORTEST_WAIT: Duration = Duration::from_micros(250);
const LONGEST_WAIT: Duration = Duration::from_millis(256);
/// Pieces of a round, if they are no longer than this many bytes of hot pages then.
const PIECES: u64 = 16;
const LONGEST_PIECE: u64 = 4 << 20;
/// All is saved at once when so much of the file, and so many slots, are kept free for large values that would be replayed.
const LARGE_PART: u64 = 32;
const LARGE_SLOTS: u64 = 256;

/// What a checkpoint begins with.
pub(super) struct Saved<'c> {
    /// Where replay of what is saved in pieces is to begin, unless that is the cut.
    pub from: Option<Position>,
    /// What was counted there, or before the cut.
    pub mark: SavingMark,
    /// Whether all was saved that should be.
    pub all: bool,
    pub nobody_calls: Option<Pause<'c>>,
    /// Whether any hot tier is saved in pieces.
    pub in_pieces: bool,
    /// What has no log is logged until the cut.
    pub meanwhile: Option<LoggedMeanwhile<'c>>,
}

impl Core {
    /// Where replay is to begin, if the next checkpoint is cut now: pieces that are too old are saved, or all that is
    /// dirty above if that is due. With [`Speed::Exact`] no call runs from then on until the answer is dropped. Nothing
    /// where no hot tier lies in memory alone: then it begins at the cut.
    pub(super) fn save(
        &self,
        speed: Speed,
        clean: bool,
        pressure: &dyn Fn() -> f64,
    ) -> Result<Saved<'_>> {
        let is_gentle = !clean && matches!(speed, Speed::Gentle | Speed::Sparing);
        let may_wait = is_gentle || !clean && speed == Speed::Fast;
        let saved = match self.has_hot_in_memory() {
            true => self
                .load_before(clean)
                .and_then(|()| self.make_room())
                .and_then(|()| match is_gentle && !self.whole_pass_is_due(speed) {
                    true => self
                        .save_old_pieces()
                        .and_then(|()| self.save_unlogged())
                        .map(|meanwhile| self.saved_so_far(Some(meanwhile))),
                    false => self.save_all(speed, clean, pressure),
                }),
            false => {
                // One may be made by now, or before the cut; nobody does while it is closed.
                reached(Point::NoneInMemory);
                let meanwhile = (!clean).then(|| self.save_unlogged()).transpose();
                meanwhile.map(|meanwhile| self.saved_so_far(meanwhile))
            }
        };
        if saved.as_ref().is_err_and(Error::is_no_room) {
            self.checkpoints().found_no_room(true);
        }
        match saved {
            // A checkpoint without gives slots back; what is half saved does no harm.
            Err(e) if may_wait && (e.is_no_room() || e.is_unreadable()) => Ok(Saved {
                all: !e.is_no_room(),
                ..self.save_nothing_more()?
            }),
            saved => saved,
        }
    }

    /// What was saved before the opening comes back first: what is counted is what hot tiers have. A close need not wait
    /// for it, as it is saved as it is.
    fn load_before(&self, clean: bool) -> Result<()> {
        match clean {
            true => Ok(()),
            false => self.load_all_saved(),
        }
    }

    /// Where there was no room for what is to be saved, all that is saved and not dirty any more is given up first.
    fn make_room(&self) -> Result<()> {
        let found_no_room = self.checkpoints().seen(|state| state.found_no_room);
        if !found_no_room || planted(Fault::NewBeforeOld) {
            return Ok(());
        }
        for open in self.registry().all() {
            let mut from = Vec::new();
            while let Some(next) = healed(
                &open,
                open.structure.save_step(&from, Saving::WhatGoes),
                None,
            )? {
                from = next;
            }
        }
        self.checkpoints().found_no_room(false);
        Ok(())
    }

    /// Whether a gentle checkpoint saves all at once.
    fn whole_pass_is_due(&self, speed: Speed) -> bool {
        let (is_short, writes) =
            (self.checkpoints()).seen(|state| (state.is_short, state.writes_by_pass));
        let most = self.store().live_pages() / LARGE_PART + LARGE_SLOTS;
        // What was saved and has gone down since takes pages until the next pass: while little is written, there is
        // time for one.
        let is_stale =
            speed == Speed::Sparing && self.store().space_seen().page_writes - writes > most;
        is_short || is_stale || self.store().large_since() > most
    }

    /// What a checkpoint without anything more saved begins with.
    /// What has no log cannot be left out.
    pub(super) fn save_nothing_more(&self) -> Result<Saved<'_>> {
        let meanwhile = self.save_unlogged()?;
        Ok(self.saved_so_far(Some(meanwhile)))
    }

    fn saved_so_far<'c>(&'c self, meanwhile: Option<LoggedMeanwhile<'c>>) -> Saved<'c> {
        let in_pieces = self.registry().has_saved_in_pieces();
        let oldest = self.checkpoints().seen(|state| state.pieces.oldest());
        let oldest = oldest.filter(|_| in_pieces);
        let began = meanwhile.as_ref().and_then(|meanwhile| meanwhile.began);
        let marks = oldest.into_iter().chain(began).map(|began| began.mark);
        Saved {
            from: oldest.map(|began| began.at),
            mark: marks
                .reduce(SavingMark::min)
                .unwrap_or_else(|| self.store().saving_mark()),
            all: true,
            nobody_calls: None,
            in_pieces,
            meanwhile,
        }
    }

    /// Whether the next piece is due.
    pub(super) fn piece_is_due(&self) -> bool {
        let newest = self.checkpoints().seen(|state| state.pieces.newest());
        self.registry().has_saved_in_pieces()
            && newest.is_some_and(|newest| self.log().bytes_since(newest.at) > self.piece_of_log())
    }

    /// Bytes of the log between two pieces.
    fn piece_of_log(&self) -> u64 {
        let limit = self.options().effective_log_limit();
        ROUND_TAKES.of(limit) / self.pieces_of_round()
    }

    fn pieces_of_round(&self) -> u64 {
        let bytes = self.store().hot_frames() * self.store().page_bytes() as u64;
        PIECES.max(bytes / LONGEST_PIECE)
    }

    /// Saves pieces until what is replayed is so short that the next ones have time.
    fn save_old_pieces(&self) -> Result<()> {
        let limit = self.options().effective_log_limit();
        let is_old = || {
            let oldest = self.checkpoints().seen(|state| state.pieces.oldest());
            let since = |oldest: Began| self.log().bytes_since(oldest.at);
            oldest.map_or(0, since) > ROUND_TAKES.of(limit) + self.piece_of_log()
        };
        // Bounded, for writers may be faster.
        for _ in 0..2 * self.pieces_of_round() {
            if !is_old() {
                break;
            }
            self.save_piece()?;
        }
        Ok(())
    }

    /// Saves the next piece, gently: before the log has grown by what is between two. No checkpoint is made meanwhile.
    pub(super) fn save_piece(&self) -> Result<()> {
        self.load_all_saved()?;
        let place = self.checkpoints().seen(|state| state.pieces.place());
        let (hold, _, mut began) = self.begin_saving();
        // There may be thousands of structures with a leaf each, or with none.
        let leaves = self.store().hot_frames() + self.registry().len();
        let most = (leaves / self.pieces_of_round()).max(1);
        let (before, end) = (self.log().bytes_since(began.at), self.piece_of_log());
        let pressure = || {
            let now = self.log().bytes_since(began.at);
            match self.store().is_checkpoint_asked_for() {
                true => 1.0,
                false => self.checkpoints().pressure_within(now, before, end),
            }
        };
        let had = self.checkpoints().seen(|state| state.pieces.slots());
        let mut structures = self.registry().all();
        structures.retain(|open| open.spec.logged);
        let saved = self.save_leaves(&structures, (place, had), most, Some(&pressure));
        self.log().let_go(hold);
        let (end, slots) = saved?;
        if planted(Fault::PieceCountsFromItsEnd) {
            began.at = self.store().instant(|| self.log().position());
        }
        if let Some(round) = self.checkpoints().saved_up_to(end, began, slots) {
            let what = match self.registry().all().len() == structures.len() {
                true => SavedPart::All,
                false => SavedPart::Logged,
            };
            self.store().has_saved(what, round.mark, round.slots);
        }
        Ok(())
    }

    /// Goes through all of it in one piece.
    fn save_all(&self, speed: Speed, clean: bool, pressure: &dyn Fn() -> f64) -> Result<Saved<'_>> {
        // Nobody writes while it is closed.
        let meanwhile = match clean {
            true => None,
            false => Some(self.log_meanwhile(true)?),
        };
        let (hold, place, began) = self.begin_saving();
        let saved = self.save_all_since(meanwhile, (place, began), speed, clean, pressure);
        self.log().let_go(hold);
        saved
    }

    fn save_all_since<'c>(
        &'c self,
        mut meanwhile: Option<LoggedMeanwhile<'c>>,
        (place, mut began): (Place, Began),
        speed: Speed,
        clean: bool,
        pressure: &dyn Fn() -> f64,
    ) -> Result<Saved<'c>> {
        let rests = matches!(speed, Speed::Gentle | Speed::Sparing).then_some(pressure);
        let slots = self.save_whole(&self.registry().all(), rests)?;
        self.store().has_saved(SavedPart::All, began.mark, slots);
        if planted(Fault::PieceCountsFromItsEnd) {
            began.at = self.store().instant(|| self.log().position());
        }
        let writes = self.store().space_seen().page_writes;
        self.checkpoints().saved(began, writes);
        let mut nobody_calls = None;
        if speed == Speed::Exact && !clean {
            nobody_calls = Some(self.catch_up(place)?);
            began.at = self.store().instant(|| self.log().position());
            self.checkpoints().saved(began, writes);
        }
        if let (Some(meanwhile), Some(_)) = (&mut meanwhile, &nobody_calls) {
            meanwhile.began = Some(began);
        }
        Ok(Saved {
            nobody_calls,
            ..self.saved_so_far(meanwhile)
        })
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
                while let Some(next) =
                    healed(&open, open.structure.save_step(&from, Saving::All), None)?
                {
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
