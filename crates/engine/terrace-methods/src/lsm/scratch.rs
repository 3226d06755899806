//! Windows to work with, kept for the next reader.

use terrace_access::Window;

use crate::btree::Predecessor;

/// Windows to work with, kept for the next one.
#[derive(Default)]
pub(crate) struct Scratch {
    pub sources: Vec<Window>,
    pub floor: Predecessor,
}
