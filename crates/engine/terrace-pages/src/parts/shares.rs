//! What those above have said of the division of the frames.

use terrace_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::parts::options::WHOLE_SHARE;

/// How the frames are to be divided, as the parts above have said.
pub(crate) struct Shares {
    /// Share of the hot cap that is in force, in per mille.
    hot: AtomicU32,
    /// Whether the last one who asked for a hot page got none.
    hot_wanted: AtomicBool,
    /// Inner pages that have frames set aside, or 0 as long as no caller has said how many.
    inner: AtomicU64,
}

impl Shares {
    pub fn new() -> Shares {
        Shares {
            hot: AtomicU32::new(WHOLE_SHARE),
            hot_wanted: AtomicBool::new(false),
            inner: AtomicU64::new(0),
        }
    }

    /// The share of their highest cap that hot pages may have, in per mille.
    pub fn hot_share(&self) -> u32 {
        self.hot.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub fn set_hot_share(&self, per_mille: u32) {
        self.hot
            .store(per_mille.min(WHOLE_SHARE), Ordering::Relaxed);
    }

    /// Whether the last one who asked for a hot page got none.
    pub fn wants_hot_page(&self) -> bool {
        self.hot_wanted.load(Ordering::Relaxed)
    }

    /// A thread asks for a hot page, and gets none if it is refused.
    pub fn note_hot_wanted(&self, refused: bool) {
        if self.wants_hot_page() != refused {
            self.hot_wanted.store(refused, Ordering::Relaxed);
        }
    }

    /// Frames that are set aside for inner pages, if a caller has said how many.
    pub fn inner_kept(&self) -> Option<u64> {
        Some(self.inner.load(Ordering::Relaxed)).filter(|kept| *kept > 0)
    }

    /// Sets that number; 0 for as many as there happen to be.
    pub fn set_inner_kept(&self, pages: u64) {
        if self.inner.load(Ordering::Relaxed) != pages {
            self.inner.store(pages, Ordering::Relaxed);
        }
    }
}
