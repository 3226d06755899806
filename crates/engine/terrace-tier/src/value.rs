//! Values on their way in and out: inline ones, and large ones with their chains of pages.
//!
//! A chain has one owner (rule 15): the cold record, unless the hot one is dirty. No cut may fall
//! between the first page of a chain and its link, nor between the end of the link and the freeing
//! of the last page: whoever does either outside a single entry of the gate holds the store's guard
//! for large values. A reader who followed a reference validates the record's lock afterwards.

use std::cell::Cell;

use terrace_access::{Found, LargeRef, Retry, Value, WriteGuard, overflow};
use terrace_base::{Error, Result};
use terrace_pages::{LargeGuard, PageStore};

use crate::expires::Expires;
use crate::structure::Change;

/// A change whose value, if it is large, has been written to a chain that nothing links to yet.
pub(crate) struct Prepared<'a> {
    /// The value to link; `None` deletes.
    pub value: Option<Value<'a>>,
    /// Keeps a cut from beginning.
    pub guard: Guard<'a>,
}

/// The store's guard for large values, taken when it turns out to be needed.
pub(crate) struct Guard<'a> {
    store: &'a PageStore,
    held: Option<LargeGuard<'a>>,
    wanted: Cell<bool>,
}

impl<'a> Guard<'a> {
    pub fn new(store: &'a PageStore) -> Self {
        Guard {
            store,
            held: None,
            wanted: Cell::new(false),
        }
    }

    /// Whether a chain may be unlinked now. If not, the attempt is to answer with a retry, and
    /// [`Guard::take_if_wanted`] makes it possible in the next one.
    pub fn allows_unlinking(&self) -> bool {
        if self.held.is_none() {
            self.wanted.set(true);
        }
        self.held.is_some()
    }

    /// Whether an attempt asked for it.
    pub fn is_wanted(&self) -> bool {
        self.wanted.get()
    }

    /// Takes the guard if an attempt asked for it. The caller is not inside the gate, or a cut that
    /// waits for the gate and this would wait for each other.
    pub fn take_if_wanted(&mut self) {
        if self.wanted.take() {
            self.take();
        }
    }

    fn take(&mut self) {
        self.held = Some(self.store.large_guard());
    }
}

impl<'a> Prepared<'a> {
    /// Writes the chain if the value is longer than `max_inline`. Blocking; the caller holds
    /// nothing.
    pub fn new(
        store: &'a PageStore,
        change: Change<'a>,
        max_inline: usize,
        expiry: &Expires,
    ) -> Result<Self> {
        let mut guard = Guard::new(store);
        let value = match change {
            Change::Delete => None,
            Change::Put(bytes) if bytes.len() <= max_inline => Some(Value::Inline(bytes)),
            Change::Put(bytes) => {
                guard.take();
                let large = overflow::write(store, bytes)?;
                Some(Value::Large(expiry.with_end(large, bytes)))
            }
        };
        Ok(Prepared { value, guard })
    }

    /// As [`Prepared::discard`], after an error, which is the one to tell.
    pub fn discard_after(self, store: &PageStore, error: Error) -> Error {
        // If this fails too, the store is poisoned.
        let _ = self.discard(store);
        error
    }

    /// Takes the chain back when the change was not made after all. Blocking.
    pub fn discard(self, store: &PageStore) -> Result<()> {
        match self.value {
            Some(Value::Large(large)) => overflow::free(store, large),
            _ => Ok(()),
        }
    }
}

/// As [`Prepared::new`], for a caller inside the gate.
pub(crate) fn prepare_inside<'a>(
    store: &PageStore,
    door: &WriteGuard<'_>,
    change: Change<'a>,
    max_inline: usize,
    expiry: &Expires,
) -> Result<Option<Value<'a>>> {
    Ok(match change {
        Change::Delete => None,
        Change::Put(bytes) if bytes.len() <= max_inline => Some(Value::Inline(bytes)),
        Change::Put(bytes) => {
            let large = overflow::write_inside(store, door, bytes)?;
            Some(Value::Large(expiry.with_end(large, bytes)))
        }
    })
}

/// Reads a large value: that of the record at the moment when its first page was looked at. `false` when
/// the chain is no longer there: the record has changed, and the reader starts over. `still` tells
/// whether the record is what it was. Blocking.
pub(crate) fn read_large(
    store: &PageStore,
    large: LargeRef,
    value: &mut Vec<u8>,
    still: impl Fn() -> bool,
) -> Result<bool> {
    loop {
        let (mut begun, mut unchanged) = (|| Ok(still()), || Ok(still()));
        match overflow::read(store, large, value, &mut begun, &mut unchanged) {
            Ok(()) => return Ok(true),
            Err(Retry::Conflict) => return Ok(false),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
}

/// Whether a page of a record's large value is not in memory. A hint, as [`overflow::lacks_a_page`].
pub(crate) fn lacks_value(store: &PageStore, found: Found) -> bool {
    let large = found.large.filter(|_| !found.flags.is_deleted());
    large.is_some_and(|large| overflow::lacks_a_page(store, large))
}

/// Frees chains that nothing links to any more. Blocking; the caller holds nothing but the guard.
pub(crate) fn free_large(
    store: &PageStore,
    chains: impl IntoIterator<Item = LargeRef>,
) -> Result<()> {
    free_each(chains, |large| overflow::free(store, large))
}

/// The same for a caller inside the gate.
pub(crate) fn free_inside(
    store: &PageStore,
    door: &WriteGuard<'_>,
    chains: impl IntoIterator<Item = LargeRef>,
) -> Result<()> {
    free_each(chains, |large| overflow::free_inside(store, door, large))
}

/// All of them, also those behind one that cannot be freed: nothing will find them again. The first error.
fn free_each(
    chains: impl IntoIterator<Item = LargeRef>,
    free: impl FnMut(LargeRef) -> Result<()>,
) -> Result<()> {
    chains.into_iter().map(free).fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::PageId;

    #[test]
    fn chains_behind_one_that_cannot_be_freed_are_freed() {
        let chain = |number| LargeRef {
            head: PageId(number),
            len: 1,
            gone: 0,
        };
        let mut freed = Vec::new();
        let done = free_each((0..5).map(chain), |large| {
            freed.push(large.head.0);
            match large.head.0 {
                1 | 3 => Err(Error::invalid(format!("{} stays", large.head))),
                _ => Ok(()),
            }
        });
        assert_eq!(freed, [0, 1, 2, 3, 4]);
        let told = done.unwrap_err().to_string();
        assert!(told.contains("page 1 stays"), "{told}");
    }
}
