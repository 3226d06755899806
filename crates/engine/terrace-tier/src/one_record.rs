//! What surrounds an attempt on one record, whatever the number of tiers: reading it as of a version
//! of its lock, and changing it under its lock.

use terrace_access::{Attempt, Found, LargeRef, Value, WriteGuard};
use terrace_base::Result;
use terrace_pages::{Retry, Space};

use crate::Version;
use crate::context::TierContext;
use crate::expires::Expires;
use crate::fault::{Fault, planted};
use crate::structure::{Change, Expect, Written};
use crate::value::{Guard, Prepared, free_large, read_large};
use crate::watch::Watches;

/// Failed validations after which a reader takes the record's lock.
const PATIENCE: u32 = 3;

/// What an attempt at a change came to.
pub(crate) struct Changed {
    /// Whether the record is another now.
    pub changed: bool,
    /// Chains that nothing links to any more.
    pub chains: [Option<LargeRef>; 2],
}

/// A record, if there is one, with what was said beside it, and the version of its lock.
pub(crate) type Answer<T> = (Option<(Found, T)>, Version);

/// The record as of the version of its lock that is returned, and what `look` says beside it; nothing when
/// `holds` does not hold. The value is read whole, unless it is a deleted record's. Blocking; the caller
/// holds nothing.
#[inline]
pub(crate) fn read<T>(
    context: &TierContext,
    slot: usize,
    value: &mut Vec<u8>,
    holds: &dyn Fn() -> bool,
    mut look: impl FnMut(&mut Vec<u8>) -> Attempt<Option<(Found, T)>>,
    mut settle: impl FnMut(Retry) -> Result<()>,
) -> Result<Option<Answer<T>>> {
    let locks = &context.locks;
    let patience = if context.locks_for_reads() {
        0
    } else {
        PATIENCE
    };
    let mut failed = 0;
    loop {
        let lock = (failed >= patience).then(|| locks.lock(slot));
        let version = match &lock {
            Some(lock) => lock.version_after_unchanged(),
            None => locks.read_waiting(slot),
        };
        let looked = look(value);
        let held = lock.is_some();
        if let Some(lock) = lock {
            lock.release_unchanged();
        }
        let still = || locks.validate(slot, version);
        match looked {
            Ok(Some((found, beside))) if !found.flags.is_deleted() && found.large.is_some() => {
                // The chain is read without any lock, and validated when its first page was seen.
                if let Some(large) = found.large
                    && read_large(&context.store, large, value, || still() && holds())?
                {
                    return Ok(Some((Some((found, beside)), version)));
                }
                if !holds() {
                    return Ok(None);
                }
                failed += 1;
            }
            // What holds now did so when the record was looked at.
            Ok(found) if held || still() => return Ok(holds().then_some((found, version))),
            Ok(_) => failed += 1,
            Err(interrupt) => settle(interrupt)?,
        }
    }
}

/// Whether there is a record, of a look at it that was made under its lock; nothing where more would have
/// to be waited for.
pub(crate) fn without_waiting(looked: Attempt<Option<Found>>) -> Result<Option<bool>> {
    match looked {
        Ok(Some(found)) if found.flags.is_deleted() => Ok(Some(false)),
        Ok(Some(found)) => Ok(found.large.is_none().then_some(true)),
        Ok(None) => Ok(Some(false)),
        Err(Retry::Fail(e)) => Err(e),
        Err(_) => Ok(None),
    }
}

/// Drops a record if it is one that has expired, as `drop_it` finds out under its lock inside the gate: nothing if
/// it is not. Readers see no change, so it is a move. False also if another thread is at work on it. Blocking; the
/// caller holds nothing.
pub(crate) fn drop_expired(
    context: &TierContext,
    slot: usize,
    mut drop_it: impl FnMut(
        &WriteGuard<'_>,
        &dyn Fn() -> bool,
    ) -> Attempt<Option<[Option<LargeRef>; 2]>>,
    mut settle: impl FnMut(Retry) -> Result<()>,
) -> Result<bool> {
    let (store, locks) = (&context.store, &context.locks);
    let mut guard = Guard::new(store);
    loop {
        let door = store.enter_for(Space::Reserve)?;
        let Some(lock) = locks.try_lock(slot) else {
            return Ok(false);
        };
        let dropped = drop_it(&door, &|| guard.allows_unlinking());
        match dropped {
            Ok(Some(chains)) => {
                lock.release_moved();
                drop(door);
                free_large(store, chains.into_iter().flatten())?;
                return Ok(true);
            }
            Ok(None) => {
                lock.release_unchanged();
                return Ok(false);
            }
            Err(interrupt) => {
                lock.release_unchanged();
                drop(door);
                settle(interrupt)?;
                guard.take_if_wanted();
            }
        }
    }
}

/// The lock, as an error if what has to hold under it does not.
fn unless<L>(holds: Option<&dyn Fn() -> bool>, lock: L) -> std::result::Result<L, L> {
    match holds.is_none_or(|holds| holds()) {
        true => Ok(lock),
        false => Err(lock),
    }
}

/// Changes the record by `attempt`, again and again until nothing is in its way, inside the gate and
/// under the record's lock.
/// Blocking; the caller holds nothing.
#[inline]
pub(crate) fn write(
    context: &TierContext,
    (slot, watches, key): (usize, &Watches, &[u8]),
    (change, max_inline, expiry): (Change<'_>, usize, &Expires),
    mut expect: Option<Expect<'_>>,
    mut attempt: impl FnMut(&WriteGuard<'_>, Option<Value<'_>>, &dyn Fn() -> bool) -> Attempt<Changed>,
    mut settle: impl FnMut(Retry) -> Result<()>,
) -> Result<Written> {
    let (store, locks) = (&context.store, &context.locks);
    locks.prefetch(slot);
    let mut prepared = Prepared::new(store, change, max_inline, expiry)?;
    loop {
        let early = planted(Fault::LockBeforeGate) && expect.is_none();
        let early = early.then(|| locks.lock(slot));
        let door = match store.enter_for(change.space()) {
            Ok(door) => door,
            Err(e) => return Err(prepared.discard_after(store, e)),
        };
        let lock = match expect {
            None => early.unwrap_or_else(|| locks.lock(slot)),
            Some(Expect {
                version,
                again,
                holds,
            }) => match locks.upgrade(slot, version).map(|lock| unless(holds, lock)) {
                Some(Ok(lock)) => lock,
                locked => {
                    if let Some(Err(lock)) = locked {
                        lock.release_unchanged();
                    }
                    drop(door);
                    // What took long to prepare stays, or it would never be in time.
                    match again() {
                        Ok(Some(version)) => {
                            expect = Some(Expect {
                                version,
                                again,
                                holds,
                            });
                            continue;
                        }
                        Ok(None) => {
                            prepared.discard(store)?;
                            return Ok(Written::NotAsExpected);
                        }
                        Err(e) => return Err(prepared.discard_after(store, e)),
                    }
                }
            },
        };
        let may_unlink = || prepared.guard.allows_unlinking();
        if let Some(claim) = watches.before(key) {
            lock.release_unchanged();
            drop(door);
            prepared.discard(store)?;
            return Ok(Written::Claimed(claim));
        }
        // Who has begun to watch since then, and was not told, reads as of a later instant.
        let holds = expect.as_ref().and_then(|expect| expect.holds);
        let lock = match unless(holds, lock) {
            Ok(lock) => lock,
            Err(lock) => {
                lock.release_unchanged();
                drop(door);
                continue;
            }
        };
        match attempt(&door, prepared.value, &may_unlink) {
            Ok(Changed { changed, chains }) => {
                if changed {
                    drop(lock)
                } else {
                    lock.release_unchanged()
                }
                drop(door);
                free_large(store, chains.into_iter().flatten())?;
                return Ok(Written::Done);
            }
            Err(interrupt) => {
                lock.release_unchanged();
                drop(door);
                if let Err(e) = settle(interrupt) {
                    return Err(prepared.discard_after(store, e));
                }
                prepared.guard.take_if_wanted();
            }
        }
    }
}
