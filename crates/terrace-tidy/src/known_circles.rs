//! The circles of files that there are.

/// A circle that there is.
pub struct Known {
    /// A file of it, without `crates/` and `.rs`.
    pub file: &'static str,
    /// How many files it has.
    pub files: usize,
    /// Why it is there.
    pub reason: &'static str,
}

/// All of them. Most are one type, or one suite, whose parts lie in a folder of their own.
pub const KNOWN: &[Known] = &[];
