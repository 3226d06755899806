//! For whom a page is read: for the caller, or for work that the engine does on its own account.
//!
//! Who does such work says so, and what its thread reads meanwhile counts for that. A figure only: nothing
//! is decided by it.

use std::cell::Cell;

thread_local! {
    static CAUSE: Cell<Cause> = const { Cell::new(Cause::Caller) };
}

/// For what pages are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cause {
    /// What a caller asked for.
    #[default]
    Caller,
    /// To let go of records that make room for others above.
    Demotion,
    /// To look what is used, and to close pages up.
    Ageing,
    /// To merge levels of an LSM-tree.
    Merging,
}

/// So many there are.
pub(crate) const CAUSES: usize = 4;

/// What this thread reads counts for a cause while this is held.
#[must_use]
pub struct Because {
    before: Cause,
}

impl Cause {
    /// What this thread reads from now on is for this.
    pub fn begin(self) -> Because {
        Because {
            before: CAUSE.replace(self),
        }
    }

    /// For what this thread reads now.
    pub(crate) fn now() -> Cause {
        CAUSE.get()
    }
}

impl Drop for Because {
    fn drop(&mut self) {
        CAUSE.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_begun_within_another_ends_before_it() {
        let outer = Cause::Ageing.begin();
        {
            let _inner = Cause::Demotion.begin();
            assert_eq!(Cause::now(), Cause::Demotion);
        }
        assert_eq!(Cause::now(), Cause::Ageing);
        drop(outer);
        assert_eq!(Cause::now(), Cause::Caller);
    }
}
