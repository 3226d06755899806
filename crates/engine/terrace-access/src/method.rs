//! What every access method can do.
//!
//! All functions here are *attempts* (see [`Retry`](crate::Retry)): they hold nothing when
//! they return, wait for nothing but a latch while they run, and may have to be started over. An
//! attempt that answers with a retry has not changed any record (it may have split a page).

use terrace_base::{PageId, Result};

use crate::{Attempt, Capabilities, Flags, Found, Merging, RecordPage, Value, WriteGuard};

/// What a lookup does to the use count of the record it finds: a hint, never a change of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Leaves it.
    No,
    /// Raises it by one, up to [`Flags::MAX_USE`].
    Raise,
}

/// What to do with a key once its place is found and latched.
#[derive(Clone, Copy, Debug)]
pub enum Plan<'v> {
    /// Leave everything as it is.
    Keep,
    /// Store this value (insert or replace) with these flags.
    Put(Value<'v>, Flags),
    /// Remove the record.
    Erase,
    /// Keep the value, set the flags.
    Flags(Flags),
}

/// What an edit found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The record that was there before, if any. Its large value, if it had one and was replaced or
    /// erased, now belongs to the caller.
    pub before: Option<(Flags, Option<crate::LargeRef>)>,
    /// Whether anything was changed.
    pub changed: bool,
}

/// Makes room in a full page of records before it is split: the hot tier drops a victim here.
pub trait Room {
    /// Tries to shrink `page`, so that `needed` more bytes fit; the key `keep` must stay. Returns
    /// whether it removed anything. Takes locks only by trying.
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool>;

    /// Whether records are being put in the order of their positions, so that few will soon come
    /// below this one: pages down there may be filled to the end. A hint.
    fn rises(&self) -> bool {
        false
    }

    /// Whether records come to pages here and there, few to each: a full page then shares with those beside
    /// it, one of which may be asked for. A hint.
    fn scatters(&self) -> bool {
        false
    }
}

/// Never makes room: the page is split.
pub struct NoRoom;

impl Room for NoRoom {
    fn make(&mut self, _: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        Ok(false)
    }
}

/// Never makes room, as [`NoRoom`], where few records come to each page.
pub struct Scattered;

impl Room for Scattered {
    fn make(&mut self, _: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        Ok(false)
    }

    fn scatters(&self) -> bool {
        true
    }
}

/// Never makes room, as [`NoRoom`], where records come in the order of their positions.
pub struct Rising;

impl Room for Rising {
    fn make(&mut self, _: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        Ok(false)
    }

    fn rises(&self) -> bool {
        true
    }
}

/// One tier: records found by key.
pub trait AccessMethod: Send + Sync {
    /// What callers have to know of it.
    const CAPABILITIES: Capabilities = Capabilities::PLAIN;

    /// Looks `key` up; on a hit `value` is replaced by the inline value.
    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>>;

    /// Finds the place of `key` and latches it exclusively, asks `plan` what to do with the record
    /// found there (or none), assures room (asking `room`, then splitting), calls `commit` once,
    /// and makes the change, which then cannot fail.
    ///
    /// `plan` may be asked more than once; it gets flags, inline value and large reference of the
    /// record. `commit` is called exactly when something is about to change.
    fn try_edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied>;

    /// Removes every record and every page but those that it was made of, in bounded steps: returns
    /// whether more is left to do.
    fn try_clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool>;

    /// The method as one whose changes leave work behind, if it is one.
    #[inline]
    fn merging(&self) -> Option<&dyn Merging> {
        None
    }

    /// A page that an attempt missed cannot be read. Whether the next one will do without: it was wanted
    /// only for the room that there might be, or made. By default every page is needed.
    fn do_without(&self, page: PageId) -> bool {
        let _ = page;
        false
    }

    /// Calls `page` with the number of every page that belongs to it, as far as that can be told without pages that
    /// cannot be read; by default those that are met before the first of these. It has no large values, and no other
    /// thread is at work on it. Blocking.
    fn each_page(&self, page: &mut dyn FnMut(terrace_base::PageId)) {
        let mut page = |pid| {
            page(pid);
            Ok(())
        };
        let _ = self.verify(&mut |_, _, _| Ok(()), &mut page);
    }

    /// Walks everything and checks every invariant of the structure; calls `each` with every record
    /// and `page` with the number of every page that belongs to it (overflow chains included).
    /// The caller lets no other thread change the structure meanwhile. Blocking.
    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(terrace_base::PageId) -> Result<()>,
    ) -> Result<()>;
}
