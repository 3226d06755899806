//! The circles of files that there are.

/// A circle that there is.
pub struct Known {
    /// A file of it, without `.rs`.
    pub file: &'static str,
    /// How many files it has.
    pub files: usize,
    /// Why it is there.
    pub reason: &'static str,
}

/// There is none. One that cannot be avoided is listed here, with its reason.
pub const KNOWN: &[Known] = &[];
