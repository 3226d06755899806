//! Which pages leave memory, and who cleans them before.

pub(crate) mod cleaner;
pub(crate) mod replace;
pub(crate) mod stay;
