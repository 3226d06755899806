//! What an entry says of the page that it names.

use terrace_base::PageId;

/// What a page of a level is said to be, by the entry that names it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Name {
    pub page: PageId,
    pub stamp: u64,
    pub level: u8,
}
