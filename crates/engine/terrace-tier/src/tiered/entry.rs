//! How work that moves records gets through the gate.

use terrace_access::{Attempt, WriteGuard};
use terrace_base::Result;
use terrace_pages::{PageStore, Retry, Space};

/// The ways in which work that moves records gets through the gate.
#[derive(Clone, Copy)]
pub(super) enum Entry<'d> {
    /// Waiting if need be; the caller holds nothing.
    Wait(Space),
    /// Only if that takes no waiting.
    Try,
    /// The caller is inside already (a batch; waiting inside is its documented exception).
    Inside(&'d WriteGuard<'d>),
}

impl Entry<'_> {
    /// Whether the caller is inside already.
    pub fn is_inside(self) -> bool {
        matches!(self, Entry::Inside(_))
    }

    /// Runs `f` inside the gate; `None` when the gate could not be had without waiting.
    pub fn inside<T>(
        self,
        store: &PageStore,
        f: impl FnOnce(&WriteGuard<'_>) -> T,
    ) -> Result<Option<T>> {
        Ok(match self {
            Entry::Wait(space) => Some(f(&store.enter_for(space)?)),
            Entry::Try => store.try_enter().map(|door| f(&door)),
            Entry::Inside(door) => Some(f(door)),
        })
    }

    /// Makes an attempt inside the gate; `None` where it could not be made at once, for another thread is at work
    /// there.
    pub fn attempt<T>(
        self,
        store: &PageStore,
        f: impl FnOnce(&WriteGuard<'_>) -> Attempt<T>,
    ) -> Result<Option<T>> {
        match self.inside(store, f)? {
            Some(Ok(done)) => Ok(Some(done)),
            Some(Err(Retry::Fail(e))) => Err(e),
            Some(Err(_)) | None => Ok(None),
        }
    }
}

/// Makes an attempt until it works. Blocking; the caller holds nothing.
pub(super) fn until_settled<T>(
    store: &PageStore,
    attempt: impl FnMut() -> Attempt<T>,
) -> Result<T> {
    until(store, PageStore::settle, attempt)
}

/// The same, with this done about what is in the way.
pub(super) fn until<T>(
    store: &PageStore,
    settle: impl Fn(&PageStore, Retry) -> Result<()>,
    mut attempt: impl FnMut() -> Attempt<T>,
) -> Result<T> {
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Retry::Conflict) => store.back_off()?,
            Err(interrupt) => settle(store, interrupt)?,
        }
    }
}
