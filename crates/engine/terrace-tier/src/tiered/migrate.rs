//! Downward migration: dirty hot records written to the cold tier, in the order of their positions,
//! one cold leaf at a time.
//!
//! Rule 3. The records of a run are locked by trying, never by waiting; they are copied under their
//! locks; the cold leaf is upserted (rule 4: never inserted, the key may be there), its latch let
//! go of; only then is the hot record dropped or marked clean (rule 5: copy before erase). Whatever
//! has to be read from disk is read while nothing is held.

use std::ops::Range;

use terrace_access::{
    AccessMethod, Attempt, Flags, LargeRef, Neighbours, Ordered, Plan, Rising, Room, Scattered,
    Sweep, Value, Window, WriteGuard,
};
use terrace_base::Result;
use terrace_pages::{Cause, Retry};

use super::entry::Entry;
use super::faults;
use super::save::SLOT_BYTES;
use super::tiers::{Pair, Tiers};
use crate::context::TierContext;
use crate::fault::{Point, reached};
use crate::locks::RecordLock;
use crate::runs::read_ahead;
use crate::value::{Guard, free_inside, free_large};

/// Records that are locked at once.
const RUN: usize = 64;
/// The same where free slots on the disk are few: of a table each may make a page dirty in either tier, and
/// who comes in to write tombstones finds 32 slots at least.
const SCARCE_RUN: usize = 12;
/// Records that are copied at once: a run, and what may have come in between.
const COPIED: usize = 2 * RUN;
/// Records after which a step goes no further. The cold tier may be a single leaf still, whose range
/// is the whole hot tier: a step that wrote all of it would keep a writer waiting for seconds.
const STEP_RECORDS: usize = 256;
/// The same for writing along, for which a reader waits: a leaf of a heap's index leads to hundreds.
const ALONG_RECORDS: usize = 64;

/// Which hot records are written to the cold tier.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Selected {
    /// All that it does not have.
    Dirty,
    /// Tombstones alone.
    Deleted,
    /// All but clean ones that were used: a memtable that is written down.
    Flushed,
    /// All.
    All,
}

impl Selected {
    /// Whether one with these flags is.
    pub fn wants(self, flags: Flags) -> bool {
        match self {
            Selected::Dirty => flags.is_dirty(),
            Selected::Deleted => flags.is_dirty() && flags.is_deleted(),
            Selected::Flushed => flags.is_dirty() || flags.use_count() == 0,
            Selected::All => true,
        }
    }
}

/// Which of the records that were written leave the hot tier; the others stay, and are clean.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Drops {
    /// Only what is deleted.
    Tombstones,
    /// That, and what was not used.
    Unused,
    /// All of them.
    All,
}

/// What is written, and what becomes of it above.
#[derive(Clone, Copy)]
pub(super) struct Down {
    pub selected: Selected,
    pub drops: Drops,
    /// Whether a hand makes room, leaf after leaf, so that much comes to each cold page; or else a little to
    /// pages here and there.
    pub rises: bool,
}

/// Large values that the cold tier gives up.
struct Chains<'a> {
    /// To be freed once the run has let go of everything.
    freed: &'a mut Vec<LargeRef>,
    /// Whether there may be any now.
    may_unlink: &'a dyn Fn() -> bool,
}

/// What a run came to.
struct RunDone {
    /// Records of the run that were dealt with, skipped ones included.
    records: usize,
    /// What stopped it before its end.
    interrupt: Option<Retry>,
}

impl<P: Pair> Tiers<P> {
    /// Settles a retry between two attempts of a migration; inside a sweep `HotFull` cannot
    /// come up, because only the cold tier is inserted into.
    fn pause(&self, interrupt: Retry) -> Result<()> {
        self.context().share.note_for_records(&interrupt);
        let settle = |interrupt| self.store().settle(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
    }

    /// The range of positions that the cold leaf at `position` covers goes into `span`.
    pub fn cold_span(&self, position: &[u8], span: &mut Window) -> Result<()> {
        while let Err(i) = self.cold().try_span(position, span) {
            self.pause(i)?;
        }
        Ok(())
    }

    /// Writes hot records of one cold leaf's range to it, and closes that up; but not the leaves of
    /// an index, which lead to several hundred records each, so that several hot leaves come to each of them
    /// in turn: what is closed up would be split at once, and the hand closes them up when it looks, if it
    /// does. Returns how many were written.
    pub fn write_back(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        down: Down,
        entry: Entry<'_>,
    ) -> Result<usize> {
        let written = self.write_range((low, high), down, entry, usize::MAX)?;
        let looks = self.policy().accesses_per_look().is_finite();
        if written > 0 && !(P::Cold::CAPABILITIES.indexed && looks) {
            self.close_up(low, high, entry)?;
        }
        Ok(written)
    }

    /// Writes the tombstones of one cold leaf's range, which leave the hot tier. Returns how many there
    /// were.
    pub fn write_tombstones(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        entry: Entry<'_>,
    ) -> Result<usize> {
        let down = Down {
            selected: Selected::Deleted,
            drops: Drops::Tombstones,
            rises: true,
        };
        self.write_range((low, high), down, entry, usize::MAX)
    }

    /// Closes up what the cold tier has in this range. Whatever is in the way stays as it is.
    pub fn close_up(&self, low: &[u8], high: Option<&[u8]>, entry: Entry<'_>) -> Result<()> {
        let mut next = Some(low.to_vec());
        while let Some(from) = next {
            let closed = entry.attempt(self.store(), |door| {
                self.cold().try_close_up(door, &from, high)
            })?;
            next = closed.flatten();
        }
        Ok(())
    }

    /// As [`Tiers::write_back`], without closing up; of about `most` records only.
    pub fn write_range(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        down: Down,
        entry: Entry<'_>,
        most: usize,
    ) -> Result<usize> {
        let Some(hot) = self.hot() else { return Ok(0) };
        if let Some(merging) = self.cold().merging()
            && matches!(entry, Entry::Try)
            && merging.is_behind()
        {
            // Whoever may wait for it has done so, or knows that it must not: see `HotTier::catch_up`.
            return Ok(0);
        }
        let mut written = 0;
        let mut cursor = low.to_vec();
        let mut guard = Guard::new(self.store());
        self.context().with_windows(|found, copy| {
            found.set_keys_only(true);
            copy.set_limit(match down.selected {
                // What may stay was perhaps used no more when it was copied.
                Selected::Flushed => 4 * COPIED,
                _ => COPIED,
            });
            loop {
                let mut select = |flags: Flags| down.selected.wants(flags);
                if let Err(i) = hot.try_window_within(&cursor, high, &mut select, found) {
                    self.pause(i)?;
                    continue;
                }
                let mut from = 0;
                while from < found.len() && written < most {
                    let run = match self.store().has_slack_for(2 * RUN as u64) {
                        true => RUN,
                        false => SCARCE_RUN,
                    };
                    let to = (from + run).min(found.len());
                    if let Err(i) = self.cold().try_reach_to_put(found.key(from)) {
                        if most == usize::MAX && !entry.is_inside() {
                            read_ahead(self.context(), self.cold(), found, from, &i);
                        }
                        self.pause(i)?;
                        continue;
                    }
                    let mut chains = Vec::new();
                    let run = entry.inside(self.store(), |door| {
                        let may_unlink = || entry.is_inside() || guard.allows_unlinking();
                        let mut chains = Chains {
                            freed: &mut chains,
                            may_unlink: &may_unlink,
                        };
                        let run = self.run(hot, door, found, from..to, copy, &mut chains, down);
                        let chains = chains.freed;
                        if let Entry::Inside(door) = entry {
                            free_inside(self.store(), door, chains.drain(..))?;
                        }
                        run
                    })?;
                    free_large(self.store(), chains)?;
                    let Some(run) = run.transpose()? else {
                        return Ok(written);
                    };
                    from += run.records;
                    written += run.records;
                    if let Some(interrupt) = run.interrupt {
                        if matches!(entry, Entry::Try) && guard.is_wanted() {
                            // It would be waited for as long as a checkpoint waits for others. The
                            // sweep has the time.
                            return Ok(written);
                        }
                        self.pause(interrupt)?;
                        guard.take_if_wanted();
                    }
                }
                match &found.high {
                    Some(next)
                        if high.is_none_or(|high| next.as_slice() < high)
                            && written < most.min(STEP_RECORDS) =>
                    {
                        cursor.clone_from(next);
                    }
                    _ => return Ok(written),
                }
            }
        })
    }

    /// One run of records, all of one hot leaf and one cold leaf.
    #[allow(clippy::too_many_arguments)]
    fn run(
        &self,
        hot: &P::Hot,
        door: &WriteGuard<'_>,
        found: &Window,
        range: Range<usize>,
        copy: &mut Window,
        chains: &mut Chains<'_>,
        down: Down,
    ) -> Result<RunDone> {
        let (from, to) = (range.start, range.end);
        let first = found.key(from);
        let behind = [found.key(to - 1), &[0]].concat();
        let mut select = |flags: Flags| down.selected.wants(flags);
        let mut copy_run =
            |copy: &mut Window| hot.try_window_within(first, Some(&behind), &mut select, copy);
        let copied_early = faults::copies_early(|| copy_run(copy).is_ok());
        let slot_of = |i| {
            self.context()
                .locks
                .slot(self.id(), P::Hot::key_at(found.key(i)))
        };
        let slots: Vec<usize> = (from..to).map(slot_of).collect();
        // Each lies on a cache line of its own, and no two are waited for together once they are taken. That
        // is all that this look at them is for.
        let _ = std::hint::black_box(self.context().locks.count_free(&slots));
        let locks: Vec<Option<RecordLock<'_>>> = slots
            .iter()
            .map(|&slot| faults::lock_of_run(&self.context().locks, slot))
            .collect();
        // Under the locks the copy is what it will stay.
        if !copied_early && let Err(interrupt) = copy_run(copy) {
            release(locks, |_| false);
            return Ok(RunDone {
                records: 0,
                interrupt: Some(interrupt),
            });
        }
        faults::drop_first(|| self.settle_hot(hot, door, copy, 0..copy.len(), Drops::Unused))?;
        if !copied_early {
            reached(Point::Demoting);
        }
        // Where in `copy` each record of the run is that may be written, and which of the run that is.
        let mut which = Vec::with_capacity(to - from);
        let mut of = Vec::with_capacity(to - from);
        let mut at = 0;
        for i in (from..to).filter(|i| locks[i - from].is_some()) {
            let key = found.key(i);
            while at < copy.len() && copy.key(at) < key {
                at += 1;
            }
            // Or it was written or moved before the lock was had; the next sweep finds it.
            if at < copy.len() && copy.key(at) == key {
                which.push(at);
                of.push(i - from);
                at += 1;
            }
        }
        self.expires().bury(copy, &which);
        let (written, interrupt) = self.write_run(door, copy, &which, chains, down.rises);
        faults::wait_under_lock(&interrupt, |interrupt| self.pause(interrupt))?;
        let records = match written < which.len() {
            true => of[written],
            false => to - from,
        };
        which.truncate(written);
        let mut done = vec![false; to - from];
        of[..written].iter().for_each(|&i| done[i] = true);
        reached(Point::BetweenTiers);
        let settled = self.settle_hot(hot, door, copy, which.iter().copied(), down.drops);
        let dropped = settled.map_err(|e| {
            // A chain that both records would free, one after the other, must never come to that.
            if which.iter().any(|&at| copy.entry(at).large.is_some()) {
                return self.store().poison(&e);
            }
            e
        })?;
        self.events().demotions.add(dropped);
        self.events().cleaned.add(written as u64);
        release(locks, |i| done[i]);
        Ok(RunDone { records, interrupt })
    }

    /// Makes the cold tier say what these hot records say: leaf by leaf where it can, else one by one.
    /// Returns how many were written, and what stopped it before the last.
    fn write_run(
        &self,
        door: &WriteGuard<'_>,
        copy: &Window,
        which: &[usize],
        chains: &mut Chains<'_>,
        rises: bool,
    ) -> (usize, Option<Retry>) {
        let mut written = 0;
        while written < which.len() {
            written += faults::put_run(self.cold(), door, copy, &which[written..]);
            let Some(&at) = which.get(written) else {
                break;
            };
            if let Err(interrupt) = self.write_cold(door, copy, at, chains, rises) {
                return (written, Some(interrupt));
            }
            written += 1;
        }
        (written, None)
    }

    /// Makes the cold tier say what the hot record says.
    fn write_cold(
        &self,
        door: &WriteGuard<'_>,
        copy: &Window,
        at: usize,
        chains: &mut Chains<'_>,
        rises: bool,
    ) -> Attempt<()> {
        let entry = copy.entry(at);
        if !faults::is_written(&entry, copy.value(at)) {
            return Ok(());
        }
        let value = match entry.large {
            Some(large) => Value::Large(large),
            None => Value::Inline(copy.value(at)),
        };
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if let Some((_, Value::Large(old))) = before
                && Some(old) != entry.large
                && !(chains.may_unlink)()
            {
                return Err(Retry::Conflict);
            }
            let plan = match entry.flags.is_deleted() {
                true => Plan::Erase,
                false => Plan::Put(value, Flags::NONE),
            };
            Ok(faults::demoted(before.is_some(), plan))
        };
        let key = P::Hot::key_at(copy.key(at));
        let room: &mut dyn Room = if rises { &mut Rising } else { &mut Scattered };
        let done = self
            .cold()
            .try_edit(door, key, &mut plan, room, &mut || Ok(()))?;
        if let Some((_, Some(old))) = done.before
            && Some(old) != entry.large
        {
            faults::free_chain(chains.freed, old);
        }
        Ok(())
    }

    /// The cold tier has these records now: drops them from the hot tier, or marks them clean.
    /// Returns how many were dropped. They are locked, so they are there, in whatever leaf; those whose leaf
    /// is not in memory may stay dirty.
    fn settle_hot(
        &self,
        hot: &P::Hot,
        door: &WriteGuard<'_>,
        copy: &Window,
        done: impl Iterator<Item = usize>,
        drops: Drops,
    ) -> Result<u64> {
        let mut left: Vec<usize> = done.collect();
        let mut dropped = 0;
        let bytes_of = |at: usize| match copy.entry(at).flags.is_dirty() {
            true => P::Hot::key_at(copy.key(at)).len() + copy.value(at).len() + SLOT_BYTES,
            false => 0,
        };
        // Of those that go: the number on the page, where in `copy`, and the uses.
        let (mut which, mut gone) = (Vec::with_capacity(left.len()), Vec::new());
        while let Some(&first) = left.first() {
            let mut settled = 0;
            let visited = hot.try_visit(door, copy.key(first), &mut |page| {
                let mut elsewhere = Vec::new();
                let mut near = 0;
                which.clear();
                gone.clear();
                settled = 0;
                for &at in &left {
                    let key = P::Hot::key_at(copy.key(at));
                    let Some(i) = page.find_behind(key, near)? else {
                        elsewhere.push(at);
                        continue;
                    };
                    near = i;
                    let flags = page.flags(i)?;
                    let uses = flags.use_count();
                    // One that has expired is deleted in the copy alone.
                    let is_deleted = flags.is_deleted() || copy.entry(at).flags.is_deleted();
                    let goes = match drops {
                        Drops::Tombstones => false,
                        Drops::Unused => self.levels().is_idle(uses),
                        Drops::All => true,
                    };
                    if is_deleted || goes {
                        which.push(i);
                        gone.push((i, at, uses));
                    } else {
                        page.set_flags(i, flags.without(Flags::DIRTY))?;
                        settled += bytes_of(at);
                    }
                }
                let erased = page.erase_all(&mut which);
                for &(i, at, uses) in &gone {
                    if which.binary_search(&i).is_err() {
                        elsewhere.push(at);
                        continue;
                    }
                    let hash = self.hash(P::Hot::key_at(copy.key(at)));
                    self.context().sketch.keep(hash, uses);
                    dropped += 1;
                    settled += bytes_of(at);
                }
                // The first one is in this leaf if it is anywhere.
                let is_here = gone.iter().any(|gone| gone.1 == first);
                elsewhere.retain(|&at| at != first || is_here);
                elsewhere.sort_unstable();
                left = elsewhere;
                erased
            });
            match visited {
                Ok(()) if self.is_in_memory() => self.context().count_settled(settled),
                Ok(()) => {}
                // Latches are held for short, by no thread that waits for these locks.
                Err(Retry::Conflict) => self.store().back_off()?,
                Err(Retry::Fail(e)) => return Err(e),
                // The page has left memory, as hot ones do where there are more than may be. A chain must
                // not have two owners, so for that it is waited for.
                Err(other) if left.iter().any(|&at| copy.entry(at).large.is_some()) => {
                    self.pause(other)?;
                }
                // Others stay dirty, and are written once more: no thread waits for a disk in here.
                Err(_) => break,
            }
        }
        Ok(dropped)
    }

    /// A miss has just read the cold page of `key`. If enough unused dirty hot records belong to it,
    /// its dirty ones are written now: a write without a read. Never waits for the gate.
    pub fn write_along(&self, key: &[u8], least: usize) -> Result<()> {
        let Some(hot) = self.hot() else { return Ok(()) };
        let _because = Cause::Demotion.begin();
        let (mut span, mut place) = (Window::new(), Vec::new());
        let looked = self
            .cold()
            .try_position(key, &mut place)
            .and_then(|position| self.cold().try_near(position, &mut span));
        if looked.is_err() {
            return Ok(());
        }
        let mut unused = 0;
        let counted = self.context().with_windows(|found, _| {
            found.set_keys_only(true);
            let mut dirty =
                |flags: Flags| flags.is_dirty() && self.levels().is_idle(flags.use_count());
            let mut cursor = span.low.clone();
            loop {
                hot.try_window_within(&cursor, span.high.as_deref(), &mut dirty, found)?;
                unused += found.len();
                match &found.high {
                    Some(next) if span.high.as_ref().is_none_or(|high| next < high) => {
                        cursor.clone_from(next);
                    }
                    _ => return Attempt::Ok(()),
                }
            }
        });
        if counted.is_err() || unused < least {
            return Ok(());
        }
        let (low, high) = (&span.low, span.high.as_deref());
        let down = Down {
            selected: Selected::Dirty,
            drops: Drops::Tombstones,
            rises: false,
        };
        let written = self.write_range((low, high), down, Entry::Try, ALONG_RECORDS)?;
        // As behind the sweep.
        if written > 0 && !P::Cold::CAPABILITIES.indexed {
            self.close_up(low, high, Entry::Try)?;
        }
        Ok(())
    }
}

/// Lets go of the locks; `changed` tells by index in the run whose records moved.
fn release(locks: Vec<Option<RecordLock<'_>>>, changed: impl Fn(usize) -> bool) {
    for (i, lock) in locks.into_iter().enumerate() {
        match lock {
            Some(lock) if changed(i) => drop(lock.release_moved()),
            Some(lock) => lock.release_unchanged(),
            None => {}
        }
    }
}
