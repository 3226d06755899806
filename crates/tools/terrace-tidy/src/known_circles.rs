//! The circles that there are, each with its size and its reason. A new one, one of another size and one that is gone
//! are complaints: change its line here, or take it off.

/// A circle that there is.
pub struct Known {
    /// The crate that it is in.
    pub within: &'static str,
    /// One file of it, or one folder, below `src/`.
    pub member: &'static str,
    /// How many files or folders it has.
    pub count: usize,
    /// Why it is there.
    pub reason: &'static str,
}

/// Files that need one another through import paths.
pub const IMPORTS: &[Known] = &[];

/// Files that call inherent methods of one another.
pub const METHODS: &[Known] = &[];

/// Folders, and files directly in `src/`, that need one another through import paths.
pub const FOLDERS: &[Known] = &[];
