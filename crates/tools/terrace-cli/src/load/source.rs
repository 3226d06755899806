//! A file that is loaded, whatever its format.

use anyhow::Result;
use terrace::StructureInfo;

use crate::engine::Entry;

/// The number of a line, with what it holds or what is wrong with it.
pub(crate) type Numbered<T> = (u64, Result<T>);

/// A file being read, record by record.
pub(crate) trait Source {
    /// The next record; `None` at the end. An error is one of reading, after which there is no next.
    fn next(&mut self) -> Result<Option<Numbered<Entry>>>;

    /// Before the first record, and where there is no next one: what the records behind are of, if the file
    /// says it.
    fn part(&mut self) -> Result<Option<StructureInfo>> {
        Ok(None)
    }
}
