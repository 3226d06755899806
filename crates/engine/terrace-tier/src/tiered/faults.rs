//! The steps that tests break, each in a wrapper of its own: who calls one reads, and is compiled, as it is meant.
//!
//! Without the feature `planted-faults` each of them is what it wraps, or nothing.

use terrace_access::{
    Attempt, Entry, Flags, Found, LargeRef, NoRoom, Plan, Retry, Sweep, Tier, Touch, Value, Window,
    WriteGuard,
};
use terrace_base::Result;
use terrace_pages::PageStore;

use crate::fault::{Fault, Point, planted, reached};
use crate::locks::{LockTable, RecordLock};

/// Faults in how a single record is written.
const ALONE: [Fault; 5] = [
    Fault::ExpiredDirtyDropped,
    Fault::DirtyForgotten,
    Fault::TombstoneForgotten,
    Fault::DemotionInserts,
    Fault::ChainKept,
];

/// Whether a record with these flags may be dropped, for the cold tier has it.
#[inline(always)]
pub(super) fn may_go(flags: Flags, broken: Fault) -> bool {
    !flags.is_dirty() || planted(broken)
}

/// The lock, if there is one; no lock, but going on, where it is done without.
#[inline(always)]
pub(super) fn lock_unless(
    broken: Fault,
    lock: Option<RecordLock<'_>>,
) -> Option<Option<RecordLock<'_>>> {
    match lock {
        None if !planted(broken) => None,
        lock => Some(lock),
    }
}

/// The lock of a record of a run, if it is free.
#[inline(always)]
pub(super) fn lock_of_run(locks: &LockTable, slot: usize) -> Option<RecordLock<'_>> {
    match planted(Fault::WaitForLock) {
        true => Some(locks.lock(slot)),
        false => locks.try_lock(slot),
    }
}

/// Whether a run was copied by `copy` before it is locked.
#[inline(always)]
pub(super) fn copies_early(copy: impl FnOnce() -> bool) -> bool {
    let early = planted(Fault::CopyBeforeLock) && copy();
    if early {
        reached(Point::Demoting);
    }
    early
}

/// Drops a run from the hot tier by `drop_all` before it is written.
#[inline(always)]
pub(super) fn drop_first(drop_all: impl FnOnce() -> Result<u64>) -> Result<()> {
    if planted(Fault::DropBeforeWrite) {
        drop_all()?;
        reached(Point::BetweenTiers);
    }
    Ok(())
}

/// Waits for what the retry of a run asks for, while its locks are held.
#[inline(always)]
pub(super) fn wait_under_lock(
    interrupt: &Option<Retry>,
    wait: impl FnOnce(Retry) -> Result<()>,
) -> Result<()> {
    match interrupt {
        Some(interrupt) if planted(Fault::WaitUnderLock) => wait(interrupt.clone()),
        _ => Ok(()),
    }
}

/// Has the cold tier put the first of these records, if it can; how many.
#[inline(always)]
pub(super) fn put_run<C: Tier>(
    cold: &C,
    door: &WriteGuard<'_>,
    copy: &Window,
    which: &[usize],
) -> usize {
    if ALONE.iter().any(|fault| planted(*fault)) {
        return 0;
    }
    let put = cold.put_run(door, copy, which);
    let more = usize::from(planted(Fault::RunMiscounted) && put > 0);
    (put + more).min(which.len())
}

/// Whether a record of a run has to be written: else the cold record says just this, and the chain is its own.
#[inline(always)]
pub(super) fn is_written(entry: &Entry, value: &[u8]) -> bool {
    let is_copy = entry.large.is_some() && !entry.flags.is_dirty();
    let is_deleted = entry.flags.is_deleted();
    let is_forgotten = planted(Fault::DirtyForgotten)
        || (planted(Fault::ExpiredDirtyDropped) && is_deleted && !value.is_empty())
        || (planted(Fault::TombstoneForgotten) && is_deleted);
    (!is_copy || planted(Fault::ChainTwice)) && !is_forgotten
}

/// What a demotion plans for a record; `is_there`: the cold tier has one.
#[inline(always)]
pub(super) fn demoted(is_there: bool, plan: Plan<'_>) -> Plan<'_> {
    match is_there && planted(Fault::DemotionInserts) {
        true => Plan::Keep,
        false => plan,
    }
}

/// The chain of a cold record that was written over goes.
#[inline(always)]
pub(super) fn free_chain(freed: &mut Vec<LargeRef>, old: LargeRef) {
    if !planted(Fault::ChainKept) {
        freed.push(old);
    }
}

/// What a read finds that asks the cold tier first.
#[inline(always)]
pub(super) fn asked_last<C: Tier>(
    cold: &C,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Attempt<Option<Found>> {
    match planted(Fault::HotAskedLast) {
        true => cold.try_get(key, Touch::No, value),
        false => Ok(None),
    }
}

/// Whether a read may ask the hot tier alone.
#[inline(always)]
pub(super) fn asks_hot_first() -> bool {
    !planted(Fault::HotAskedLast)
}

/// Raises a use count as a change of the page.
#[inline(always)]
pub(super) fn dirty_hint<H: Sweep>(
    hot: &H,
    store: &PageStore,
    key: &[u8],
    (value, flags): (&[u8], Flags),
) {
    if planted(Fault::HintDirties)
        && let Ok(door) = store.enter()
    {
        let mut plan = |_: Option<(Flags, Value<'_>)>| Ok(Plan::Put(Value::Inline(value), flags));
        let _ = hot.try_edit(&door, key, &mut plan, &mut NoRoom, &mut || Ok(()));
    }
}
