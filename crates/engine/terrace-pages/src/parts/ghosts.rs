//! Which pages left memory lately: what tells a miss that more memory for pages would have spared
//! from one that nothing would have spared.
//!
//! One byte per frame: a tag of the last page that left and falls on this byte. So a page is
//! remembered for about as many departures as there are frames, and one page in 255 that is not
//! meant is taken for another.

// Hints, which no protocol leans on: real atomics under the model checker, too.
use std::sync::atomic::{AtomicU8, Ordering};

use terrace_base::PageId;

/// The tags of the pages that left memory lately.
pub struct Ghosts {
    tags: Box<[AtomicU8]>,
}

impl Ghosts {
    pub fn new(frames: usize) -> Ghosts {
        Ghosts {
            tags: (0..frames.max(1)).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    fn place(&self, pid: PageId) -> (&AtomicU8, u8) {
        // An odd number far from all small ones spreads neighbours.
        let mixed = pid.0.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let at = (mixed >> 32) as usize % self.tags.len();
        (&self.tags[at], ((mixed >> 24) as u8).max(1))
    }

    /// Notes that this page leaves. O(1).
    pub fn note(&self, pid: PageId) {
        let (place, tag) = self.place(pid);
        place.store(tag, Ordering::Relaxed);
    }

    /// Whether this page left lately. O(1).
    pub fn has(&self, pid: PageId) -> bool {
        let (place, tag) = self.place(pid);
        place.load(Ordering::Relaxed) == tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_remembered_until_as_many_others_have_left() {
        let ghosts = Ghosts::new(1000);
        (0..200).for_each(|pid| ghosts.note(PageId(pid)));
        let kept = (0..200).filter(|pid| ghosts.has(PageId(*pid))).count();
        assert!(kept > 150, "{kept} of 200");
        (1000..9000).for_each(|pid| ghosts.note(PageId(pid)));
        let kept = (0..200).filter(|pid| ghosts.has(PageId(*pid))).count();
        assert!(kept < 20, "{kept} of 200 after 8000 others");
    }
}
