//! The file that holds superblocks and pages.

/// Its name.
pub const DATA_FILE: &str = "data";
/// Where the first slot begins in it.
pub const DATA_START: u64 = 65536;
