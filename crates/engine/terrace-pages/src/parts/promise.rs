//! What who changes pages is entitled to: how much of the free space, and how much behind one door.

/// How deep into the free space an operation may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Leaves the reserve untouched.
    Ordinary,
    /// May use a part of the reserve: promotion, demotion.
    Migration,
    /// May use the reserve: deletes, and what they need to get through.
    Reserve,
}

/// How much somebody may change behind one door without failing on the way for lack of space.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Promise {
    /// Pages that are there and may become dirty.
    pub dirty: u64,
    /// Pages that may be made.
    pub new: u64,
}
