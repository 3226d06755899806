//! Pages that cannot be read and that changes do without.

use std::collections::VecDeque;

use terrace_base::PageId;

/// Pages of each kind that are remembered, at most. One more displaces the first: it is met once again.
const MOST: usize = 16;
/// Calls that may have asked for such a page before it was known that it cannot be read: more than there
/// are threads at one page. Who needs what is on it tries so often in vain, once.
const EXCUSED: u8 = 32;

/// The pages that cannot be read, and those that were missed lately.
#[derive(Default)]
pub(crate) struct Unreadable {
    /// With the calls that may still come back from asking for them.
    pages: VecDeque<(PageId, u8)>,
    /// Missed lately by a change that could do without, several threads perhaps.
    missed: VecDeque<PageId>,
}

impl Unreadable {
    /// Whether it is known that this page cannot be read.
    pub fn has(&self, pid: PageId) -> bool {
        self.pages.iter().any(|page| page.0 == pid)
    }

    /// A change misses this page that can do without it, should it turn out that it cannot be read.
    pub fn miss(&mut self, pid: PageId) {
        if !self.missed.contains(&pid) {
            if self.missed.len() >= MOST {
                self.missed.pop_front();
            }
            self.missed.push_back(pid);
        }
    }

    /// Whether a change that can do without a page that is not in memory should ask for it: not for one that
    /// cannot be read, nor for one that was asked for just now and that has left memory again.
    pub fn ask(&mut self, pid: PageId) -> bool {
        let missed = self.missed.len();
        self.missed.retain(|page| *page != pid);
        let ask = missed == self.missed.len() && !self.has(pid);
        if ask {
            self.miss(pid);
        }
        ask
    }

    /// A change has missed this page, and it cannot be read. `hint`: no change will ask for it any more that
    /// can do without, as if it had been missed so. Whether to try again.
    pub fn note(&mut self, pid: PageId, hint: bool) -> bool {
        let missed = self.missed.len();
        self.missed.retain(|page| *page != pid);
        let spared = hint || self.missed.len() < missed;
        match self.pages.iter_mut().find(|page| page.0 == pid) {
            Some((_, excused)) => {
                *excused = excused.saturating_sub(u8::from(!spared));
                *excused > 0
            }
            None if spared => {
                if self.pages.len() >= MOST {
                    self.pages.pop_front();
                }
                self.pages.push_back((pid, EXCUSED));
                true
            }
            None => false,
        }
    }
}
