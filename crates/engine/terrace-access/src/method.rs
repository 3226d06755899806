//! What every access method can do.
//!
//! All functions here are *attempts* (see [`Interrupt`](crate::Interrupt)): they hold nothing when
//! they return, wait for nothing but a latch while they run, and may have to be started over. An
//! attempt that was interrupted has not changed any record (it may have split a page).

use std::sync::Arc;

use terrace_base::{PageId, Result};
use terrace_pages::Space;

use crate::{Attempt, Door, Expiry, Flags, Found, MergeFigures, RecordPage, Value, Waits};

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
    /// Whether a change is made without looking for what was there before: then an edit knows of a record
    /// only if it is where changes are gathered, and erases by a mark, whether there is anything to erase or
    /// not. A large value that is replaced further below is freed by the method itself.
    const BLIND: bool = false;

    /// Pages that a change makes dirty where the records lie: a leaf. Others that may come to it now and then,
    /// above it or beside it, are not counted.
    const DIRTY_EACH: u64 = 1;

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
        door: &Door<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied>;

    /// Removes every record and every page but those that it was made of, in bounded steps: returns
    /// whether more is left to do.
    fn try_clear_step(&self, door: &Door<'_>) -> Attempt<bool>;

    /// Does a bounded part of the work that earlier changes have left behind, if it has come to too much.
    /// To be called before changes are made; `space` is that of the change, and `waits` says how often it may
    /// still wait. Returns whether [`AccessMethod::tend`] has something to do. By default there is nothing.
    /// Blocking; the caller holds nothing.
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<bool> {
        let _ = (space, waits);
        Ok(false)
    }

    /// Waits a little where that work is nearly too much: before a change of so many bytes, or of as many as
    /// those before it where they are 0. By default not at all. The caller holds nothing.
    fn slow_down(&self, bytes: usize) {
        let _ = bytes;
    }

    /// So many bytes of keys and values were changed by users, here or in a tier above. For figures alone.
    fn note_written(&self, bytes: usize) {
        let _ = bytes;
    }

    /// Whether [`AccessMethod::catch_up`] has something to do.
    fn is_behind(&self) -> bool {
        false
    }

    /// Does some of that work ahead of need. For threads in the background; bounded; blocking.
    fn tend(&self) -> Result<()> {
        Ok(())
    }

    /// Marks of deletions that a tier above may have before changes take some of them down. O(1).
    fn most_marks_above(&self) -> u64 {
        u64::MAX
    }

    /// Goes on to take marks of deletions to where they have done their work, or begins to, if they are many
    /// or, with `waited`, if there are any; whether more is to do. Bounded; blocking.
    fn purge(&self, waited: bool) -> Result<bool> {
        let _ = waited;
        Ok(false)
    }

    /// Has a method that merges drop what has expired from now on. By default nothing is merged.
    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        let _ = expiry;
    }

    /// Compresses pages of the last so many levels from now on, as they are made; of a method that has levels.
    fn compress(&self, levels: u8) {
        let _ = levels;
    }

    /// What merging has come to, of a method that does. By default nothing.
    fn merge_figures(&self) -> Option<MergeFigures> {
        None
    }

    /// Takes what lies above other records from this key on to where it rests, in one step, for who wants as
    /// few pages as possible; returns where to go on. By default there is nothing above. Blocking.
    fn settle_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = from;
        Ok(None)
    }

    /// A page that an attempt missed cannot be read. Whether the next one will do without: it was wanted
    /// only for the room that there might be, or made. By default every page is needed.
    fn do_without(&self, page: PageId) -> bool {
        let _ = page;
        false
    }

    /// Walks everything and checks every invariant of the structure; calls `each` with every record
    /// and `page` with the number of every page that belongs to it (overflow chains included).
    /// The caller lets nobody else change the structure meanwhile. Blocking.
    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(terrace_base::PageId) -> Result<()>,
    ) -> Result<()>;
}
