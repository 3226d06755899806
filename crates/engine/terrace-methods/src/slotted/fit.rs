//! Where in a slotted page a record finds room.

use super::layout::Counts;

/// Bytes of a page that a record has, or held until just now.
#[derive(Clone, Copy)]
pub(crate) struct Hole {
    pub at: usize,
    pub len: usize,
}

/// Where the bytes of a record come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stretch {
    /// The space between slots and heap.
    Free,
    /// The first bytes, from here on, of what was a record, or is the one that is replaced.
    Within(usize),
}

/// How a record fits into a page; what is better comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Fit {
    /// Into the free space.
    Free,
    /// Into the first bytes of a hole.
    Hole(usize),
    /// Once the page is laid out anew.
    Rewrite,
    /// Not at all: this many bytes more would have to be free.
    Missing(usize),
}

impl<const SLOTS: usize> Counts<SLOTS> {
    /// How a record of `len` bytes that needs `slot` more for a slot fits into a page of `page_bytes` bytes, if the
    /// one that it replaces, which is shorter, holds `held` of them, and there is this hole.
    #[inline]
    pub fn fit(
        &self,
        page_bytes: usize,
        (len, slot): (usize, usize),
        held: usize,
        hole: Option<Hole>,
    ) -> Fit {
        let free = self.free(page_bytes);
        if len + slot <= free {
            return Fit::Free;
        }
        if let Some(hole) = hole
            && len <= hole.len
            && slot <= free
        {
            return Fit::Hole(hole.at);
        }
        match (len + slot).checked_sub(free + self.garbage + held) {
            None | Some(0) => Fit::Rewrite,
            Some(missing) => Fit::Missing(missing),
        }
    }
}
