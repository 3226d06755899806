//! Who may change pages: the write guard, what may make a change start over, and what ends it.

pub(crate) mod panics;
pub(crate) mod retry;
pub(crate) mod write_guard;
