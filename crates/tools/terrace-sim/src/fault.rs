//! What can be made to go wrong, and when.

/// The calls that a disk and its files offer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Opening a file (buffered or not).
    Open,
    /// Creating a file (buffered or not).
    Create,
    /// Deleting a file.
    Delete,
    /// Using a file again under another name.
    Reuse,
    /// Listing the directory.
    List,
    /// Syncing the directory.
    SyncDirectory,
    /// Asking for the free space.
    FreeBytes,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Syncing a file.
    Sync,
    /// Reserving space.
    Allocate,
    /// Setting the length of a file.
    SetLen,
    /// Asking for the length of a file.
    Len,
}

impl Op {
    /// Every kind of call.
    pub const ALL: [Op; 13] = [
        Op::Open,
        Op::Create,
        Op::Delete,
        Op::Reuse,
        Op::List,
        Op::SyncDirectory,
        Op::FreeBytes,
        Op::Read,
        Op::Write,
        Op::Sync,
        Op::Allocate,
        Op::SetLen,
        Op::Len,
    ];

    /// Whether the call changes what is on disk, or makes it durable.
    pub fn changes(self) -> bool {
        matches!(
            self,
            Op::Create
                | Op::Delete
                | Op::Reuse
                | Op::SyncDirectory
                | Op::Write
                | Op::Sync
                | Op::Allocate
                | Op::SetLen
        )
    }
}

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The call fails with EIO. A write may have been done in part: from the front if it was buffered,
    /// else any of its sectors; after a sync the durable
    /// state of all pending writes is arbitrary.
    Eio,
    /// The call fails with ENOSPC. A write may have been done in part.
    NoSpace,
    /// The power goes during the call (which may have had its effect, or part of it): it fails, and
    /// so does every later one.
    PowerCut,
}

/// A fault waiting for its call.
#[derive(Clone, Debug)]
pub struct Injection {
    /// Only calls of this kind count; `None` for any.
    pub op: Option<Op>,
    /// Only files whose name contains this count; `None` for any.
    pub file: Option<String>,
    /// The fault strikes at the n-th matching call from now, the next one being 1.
    pub nth: u64,
    /// What happens then.
    pub fault: Fault,
    /// Whether it strikes at every matching call after that, too.
    pub forever: bool,
}

impl Injection {
    /// `fault` at the n-th call of any kind, once.
    pub fn any(nth: u64, fault: Fault) -> Injection {
        Injection {
            op: None,
            file: None,
            nth,
            fault,
            forever: false,
        }
    }

    /// `fault` at the n-th call of this kind, once.
    pub fn at(op: Op, nth: u64, fault: Fault) -> Injection {
        Injection {
            op: Some(op),
            file: None,
            nth,
            fault,
            forever: false,
        }
    }

    /// Counts this call; the fault if it strikes now.
    pub(crate) fn strikes(&mut self, op: Op, name: &str) -> Option<Fault> {
        if self.op.is_some_and(|o| o != op)
            || self
                .file
                .as_ref()
                .is_some_and(|f| !name.contains(f.as_str()))
        {
            return None;
        }
        match self.nth {
            0 => self.forever.then_some(self.fault),
            n => {
                self.nth = n - 1;
                (n == 1).then_some(self.fault)
            }
        }
    }
}
