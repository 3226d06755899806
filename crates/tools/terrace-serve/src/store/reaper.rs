//! What goes behind the clients' backs: keys that are due, elements whose key is gone.
//!
//! Invariants: what the queue says is a hint; a key goes only if its head says so, under its lock. Elements go only
//! when no head names their number any more, and numbers are not given out again.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::codec;
use super::work::Work;
use crate::planted::{Fault, planted};
use crate::stop::{Run, Stop};

/// Keys and elements that are looked at in one step.
const STEP: usize = 1024;
/// Keys that go in one batch.
const TOGETHER: usize = 64;

/// What a step came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Keys that have expired and are removed.
    pub expired: u64,
    /// Elements that are removed.
    pub elements: u64,
    /// Whether there may be more to do now.
    pub more: bool,
}

/// Removes some keys that are due.
///
/// # Errors
/// Those of reading and writing.
pub fn expire(work: &mut Work) -> Run<Reaped> {
    let mut reaped = Reaped::default();
    work.enter();
    let answer = expire_inside(work, &mut reaped);
    work.leave();
    answer.map(|()| reaped)
}

fn expire_inside(work: &mut Work, reaped: &mut Reaped) -> Run {
    let (low, high) = codec::due_until(work.now);
    let due = work.range(&low, &high, false, STEP)?;
    reaped.more = due.len() == STEP;
    for some in due.chunks(TOGETHER) {
        let mut keys = Vec::new();
        for (due, owner) in some {
            let Some((id, key)) = codec::owner_of(owner) else {
                work.delete_element(due.clone());
                continue;
            };
            match work.database_of(id) {
                Some(db) => keys.push((due, db, key)),
                // Its database was emptied.
                None => work.delete_element(due.clone()),
            }
        }
        work.lock_places(keys.iter().map(|(_, db, key)| (*db, *key)));
        for (due, db, key) in keys {
            work.db = db;
            let now = work.now;
            let time = codec::due_in(due);
            let expired = work.expires(key)?;
            let is_due = expired.is_some_and(|at| at == time && at <= now);
            if is_due || (planted(Fault::QueueBelieved) && work.head(key)?.is_some()) {
                if planted(Fault::QueueBelieved) {
                    work.now = 0;
                }
                work.remove_expired(key)?;
                work.now = now;
                work.event(b'x', "expired", key);
                reaped.expired += 1;
            } else if expired.is_none_or(|at| at > now) {
                work.reap_leases(key)?;
            }
            work.delete_element(due.clone());
        }
        work.settle();
        work.commit().map_err(Stop::from)?;
    }
    Ok(())
}

/// Removes some elements whose key is gone.
///
/// # Errors
/// Those of reading and writing.
pub fn sweep(work: &mut Work) -> Run<Reaped> {
    work.enter();
    let swept = sweep_inside(work);
    work.leave();
    swept
}

fn sweep_inside(work: &mut Work) -> Run<Reaped> {
    let mut reaped = Reaped::default();
    let garbage = work.range(b"g", b"h", false, 64)?;
    for (record, _) in &garbage {
        if let Some(number) = codec::garbage_in(record) {
            let (low, high) = codec::all_of(number);
            let (some, more) = work.step(&low, &high, STEP)?;
            reaped.elements += some.len() as u64;
            for key in some {
                work.delete_element(key);
            }
            if more {
                work.commit().map_err(Stop::from)?;
                reaped.more = true;
                return Ok(reaped);
            }
        }
        work.delete_element(record.clone());
        work.commit().map_err(Stop::from)?;
        if reaped.elements > STEP as u64 {
            break;
        }
    }
    reaped.more = !garbage.is_empty();
    Ok(reaped)
}

/// Where a round through all numbers is.
#[derive(Debug, Default)]
pub struct Round {
    /// The number to go on with; none if no round is under way.
    pub next: Option<u64>,
    /// Strings that were written blindly before it began.
    seen: u64,
}

impl Round {
    /// Looks at some numbers, if strings were written over keys that no command looked at, and notes those that no
    /// head names. Whether there is more to do now.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn step(&mut self, work: &mut Work) -> Run<bool> {
        let blind = work.store.blind.load(Ordering::SeqCst);
        if self.next.is_none() {
            if blind == 0 || planted(Fault::LeftElements) {
                return Ok(false);
            }
            (self.next, self.seen) = (Some(1), blind);
        }
        work.enter();
        let looked = self.look(work);
        work.leave();
        looked?;
        if self.next.is_none() {
            work.store.blind.fetch_sub(self.seen, Ordering::SeqCst);
        }
        Ok(self.next.is_some())
    }

    fn look(&mut self, work: &mut Work) -> Run {
        for _ in 0..TOGETHER {
            let Some(next) = self.next else {
                return Ok(());
            };
            let mut first = None;
            let low = next.to_be_bytes();
            work.each(&low, codec::NUMBERS_END, false, &mut |key, value| {
                first = Some((key.to_vec(), value.to_vec()));
                ControlFlow::Break(())
            })?;
            let Some((key, value)) = first else {
                self.next = None;
                return Ok(());
            };
            let Some(number) = key.get(..8).and_then(terrace::encode::to_u64) else {
                self.next = None;
                return Ok(());
            };
            self.next = Some(number.saturating_add(1));
            let owner = match key == codec::owner_key(number) {
                true => codec::owner_of(&value),
                // Elements that came behind a removal.
                false => None,
            };
            let mut lives = false;
            if let Some((id, owner)) = owner
                && let Some(db) = work.database_of(id)
            {
                work.lock_places([(db, owner)].into_iter());
                work.db = db;
                lives = work.names(owner, number)?;
            }
            if !lives {
                work.abandon(number);
            }
            work.settle();
            work.commit().map_err(Stop::from)?;
        }
        Ok(())
    }
}

/// Whether the data file is longer than `limit` bytes, if there is a limit.
pub fn look_at_size(work: &Work, limit: u64) {
    if limit > 0 {
        let bytes = work.store.db.stats().pages.data_file_bytes;
        work.store.full.store(bytes >= limit, Ordering::Relaxed);
    }
}
