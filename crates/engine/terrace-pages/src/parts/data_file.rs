//! The file that holds superblocks and pages, and what went wrong with a file.

use terrace_base::Error;

/// Its name.
pub const DATA_FILE: &str = "data";
/// Where the first slot begins in it.
pub const DATA_START: u64 = 65536;

/// What it means that this was not done with a file.
pub(crate) fn io<'a>(
    doing: &'static str,
    file: &'a str,
) -> impl FnOnce(std::io::Error) -> Error + 'a {
    move |e| Error::io(doing, file, e)
}
