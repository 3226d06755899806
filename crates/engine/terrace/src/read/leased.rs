//! Records as readers see them: without those that have expired, and without the lease in front of a value.
//!
//! Invariants: who says of a record that it is there has read it before its lease was over, and who says that
//! it has expired has read it when its lease was over, and no writer that had found it there was just changing it.
//! So both were so at an instant of the call.

use std::borrow::Cow;
use std::cell::Cell;

use terrace_base::lease::Lease;
use terrace_base::{Error, MAX_VALUE_BYTES, Result};
use terrace_tier::Version;

use crate::catalog::opened::Open;
use crate::clock::Clock;
use crate::core::Core;
use crate::planted::{Fault, planted};

/// Which records a reader sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sight {
    /// Those that are there now.
    Now,
    /// Those that are there at this time, in milliseconds since 1970.
    At(u64),
    /// All, those too that have expired, and the values as they are stored.
    Stored,
}

/// Longer values with their leases are put together on the heap.
const SMALL: usize = 256;

#[cold]
fn damaged(open: &Open) -> Error {
    let what = format!("a value of \"{}\" has no proper lease", open.name());
    Error::corrupt("data", None, what)
}

/// The lease of a stored value, and the value: all of it, for ever, where records do not expire.
///
/// # Errors
/// Damage: no lease.
#[inline]
pub fn parts<'v>(open: &Open, stored: &'v [u8]) -> Result<(Lease, &'v [u8])> {
    if !open.spec.expiring {
        return Ok((Lease::ENDLESS, stored));
    }
    Lease::split(stored).ok_or_else(|| damaged(open))
}

/// Takes the lease off a stored value.
///
/// # Errors
/// As [`parts`].
#[inline]
pub fn take_lease(open: &Open, stored: &mut Vec<u8>) -> Result<Lease> {
    let (lease, value) = parts(open, stored)?;
    let front = stored.len() - value.len();
    if front > 0 {
        stored.copy_within(front.., 0);
        stored.truncate(stored.len() - front);
    }
    Ok(lease)
}

/// A value as it is stored: with a lease in front where records may expire.
pub fn stored<'v>(open: &Open, lease: Lease, value: &'v [u8]) -> Cow<'v, [u8]> {
    if !open.spec.expiring {
        return Cow::Borrowed(value);
    }
    Cow::Owned([lease.encode().as_ref(), value].concat())
}

/// The same for `then`, without memory from the heap if it is short.
#[inline]
pub fn with_stored<T>(lease: Lease, value: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    let front = lease.encode();
    let (front, mut small) = (front.as_ref(), [0; SMALL]);
    let len = front.len() + value.len();
    if let Some(whole) = small.get_mut(..len) {
        whole[..front.len()].copy_from_slice(front);
        whole[front.len()..].copy_from_slice(value);
        return then(whole);
    }
    then(&[front, value].concat())
}

/// Longest value of a structure.
pub fn longest_value(open: &Open) -> usize {
    match open.spec.expiring {
        true => MAX_VALUE_BYTES - terrace_base::lease::LEASE_BYTES,
        false => MAX_VALUE_BYTES,
    }
}

/// Refuses a value that is too long with the longest lease in front.
///
/// # Errors
/// [`Error::ValueTooLong`].
pub fn check_value(open: &Open, value: &[u8]) -> Result<()> {
    let (len, limit) = (value.len(), longest_value(open));
    if len > limit {
        return Err(Error::ValueTooLong { len, limit });
    }
    Ok(())
}

/// Refuses to give a lease where records do not expire.
///
/// # Errors
/// [`Error::Invalid`].
pub fn check_expiring(open: &Open) -> Result<()> {
    if open.spec.expiring {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the records of the {} \"{}\" do not expire; make one whose records do, with MapOptions::expiring",
        open.spec.kind,
        open.name()
    )))
}

/// Until when all records that were read as being there are.
#[derive(Default)]
pub struct Deadline(Cell<Option<Lease>>);

impl Deadline {
    /// One with this lease was read.
    pub fn note(&self, lease: Lease) {
        if lease != Lease::ENDLESS {
            self.0
                .set(Some(self.0.get().map_or(lease, |other| other.min(lease))));
        }
    }

    /// Whether one of them expires at all.
    pub fn is_any(&self) -> bool {
        self.0.get().is_some()
    }

    /// Whether all of them are still there.
    pub fn is_kept(&self, clock: &Clock) -> bool {
        self.0.get().is_none_or(|lease| !lease.is_over(clock.now()))
    }
}

/// A record as it was found.
pub struct Looked {
    /// Whether there is one, expired or not.
    pub found: bool,
    /// Its lease, if it is there for readers.
    pub lease: Option<Lease>,
    /// The version of its lock.
    pub version: Version,
}

/// The same with what was read beside it.
pub struct Seen<T> {
    found: bool,
    pub lease: Option<Lease>,
    beside: T,
}

impl Core {
    /// Reads by `read` until it is known what a reader sees: nothing, or a record with a lease, whose value as it
    /// is stored is in `value`. `read` tells whether there is a record, and something beside it. `key` is the
    /// record's, unless the caller holds its lock.
    #[inline]
    pub fn seen<T>(
        &self,
        (open, key): (&Open, Option<&[u8]>),
        sight: Sight,
        value: &mut Vec<u8>,
        mut read: impl FnMut(&mut Vec<u8>) -> Result<(bool, T)>,
    ) -> Result<Seen<T>> {
        let seen = |lease, found, beside| Seen {
            lease,
            found,
            beside,
        };
        let mut before = match sight {
            Sight::At(time) => time,
            Sight::Now | Sight::Stored => 0,
        };
        loop {
            let (found, beside) = read(value)?;
            if !found {
                return Ok(seen(None, false, beside));
            }
            let (lease, _) = parts(open, value)?;
            if lease == Lease::ENDLESS || sight == Sight::Stored {
                return Ok(seen(Some(lease), true, beside));
            }
            if lease.is_over(before) {
                self.expired().note_hidden();
                return Ok(seen(None, true, beside));
            }
            if sight != Sight::Now {
                return Ok(seen(Some(lease), true, beside));
            }
            let now = self.clock().now();
            if !lease.is_over(now) {
                return Ok(seen(Some(lease), true, beside));
            }
            // Another may have taken its place before the time was known, or may be about to: who lengthens a
            // lease looks at the time under the record's lock, and changes the record later.
            if let Some(key) = key.filter(|_| !planted(Fault::LengtheningUnseen)) {
                let locks = &self.tiers().locks;
                locks.read_waiting(locks.slot(open.id(), key));
            }
            before = now;
        }
    }

    /// Looks a record up for who may write it then; `value` is as it is stored. The caller holds an operation.
    pub fn look(&self, open: &Open, key: &[u8], value: &mut Vec<u8>) -> Result<Looked> {
        self.look_at(open, Sight::Now, key, value)
    }

    /// The same with another sight.
    pub fn look_at(
        &self,
        open: &Open,
        sight: Sight,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Looked> {
        let read = |value: &mut Vec<u8>| open.structure.get_versioned(key, value);
        let seen = self.heard(self.seen((open, Some(key)), sight, value, read))?;
        Ok(Looked {
            found: seen.found,
            lease: seen.lease,
            version: seen.beside,
        })
    }

    /// The value of a record without its lease, which is returned. The caller holds an operation.
    pub fn get_at(
        &self,
        open: &Open,
        sight: Sight,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<Lease>> {
        let read = |value: &mut Vec<u8>| Ok((open.structure.get(key, value)?, ()));
        let seen = self.seen((open, Some(key)), sight, value, read);
        let lease = self.heard(seen)?.lease;
        if lease.is_some() && sight != Sight::Stored {
            take_lease(open, value)?;
        }
        Ok(lease)
    }
}
