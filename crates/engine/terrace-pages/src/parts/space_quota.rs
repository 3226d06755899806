//! What who changes pages is entitled to: how much of the free space, and how much under one write guard.

/// How deep into the free space an operation may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Leaves the reserve untouched.
    Ordinary,
    /// May use a part of the reserve: promotion, demotion.
    Migration,
    /// May use the reserve: deletes, and what they need to get through.
    Reserve,
    /// What saves pages that lie in memory alone: the slots that are kept for it are its own.
    Saving,
}

/// How much a writer may change under one write guard without failing on the way for lack of space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpaceQuota {
    /// Pages that are there and may become dirty.
    pub dirty: u64,
    /// Pages that may be made.
    pub new: u64,
}
