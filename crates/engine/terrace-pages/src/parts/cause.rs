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
    /// What a caller goes through in order: a range, a large value.
    Order,
}

/// The number of causes.
pub(crate) const CAUSES: usize = 5;

/// How a page came to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Came {
    /// For a record that a caller asked for.
    ForOne = 0,
    /// For who goes through pages in order, those that are read ahead included.
    InOrder = 1,
    /// For work that the engine does on its own account.
    ForEngine = 2,
    /// It was made here.
    Made = 3,
}

/// The number of ways in which a page comes to memory.
pub(crate) const WAYS: usize = 4;

impl Came {
    pub fn from_bits(bits: u8) -> Came {
        match bits {
            0 => Came::ForOne,
            1 => Came::InOrder,
            2 => Came::ForEngine,
            _ => Came::Made,
        }
    }

    /// How a page comes that this thread reads now.
    pub fn now() -> Came {
        match Cause::now() {
            Cause::Caller => Came::ForOne,
            Cause::Order => Came::InOrder,
            Cause::Demotion | Cause::Ageing | Cause::Merging => Came::ForEngine,
        }
    }
}

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

    /// As [`Cause::begin`], unless the engine reads on its own account already.
    pub(crate) fn begin_for_caller(self) -> Because {
        match Cause::now() {
            Cause::Caller => self.begin(),
            other => other.begin(),
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
        {
            let _in_order = Cause::Order.begin_for_caller();
            assert_eq!(
                (Cause::now(), Came::now()),
                (Cause::Ageing, Came::ForEngine)
            );
        }
        drop(outer);
        let in_order = Cause::Order.begin_for_caller();
        assert_eq!(Came::now(), Came::InOrder);
        drop(in_order);
        assert_eq!(Came::now(), Came::ForOne);
        assert_eq!(Cause::now(), Cause::Caller);
    }
}
