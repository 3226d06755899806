//! Pages, as this crate reckons with them.

/// The size of a page that this crate reckons with.
pub(crate) const PAGE: usize = 4096;
