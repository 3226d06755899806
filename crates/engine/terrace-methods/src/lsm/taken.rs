//! What steps have of the memory.
//!
//! Invariant: what is said to be taken was taken: another thread may give it back at once.

use terrace_base::sync::Mutex;
use terrace_pages::PageStore;

use crate::fault::{self, Fault, Point};

/// What the steps have taken of the memory.
#[derive(Default)]
pub(crate) struct Taken(Mutex<Amounts>);

#[derive(Default)]
struct Amounts {
    /// Bytes for the pages of a step.
    bytes: u64,
    /// Frames for the top.
    frames: u64,
}

impl Taken {
    /// Takes this many bytes and frames, unless there is some already.
    pub fn take(&self, store: &PageStore, bytes: u64, frames: u64) {
        let take = || {
            store.take_extra_bytes(bytes);
            store.set_tops_aside(frames);
        };
        let mut taken = self.0.lock();
        if taken.bytes > 0 {
            return;
        }
        let is_late = fault::planted(Fault::TakenLate);
        if !is_late {
            take();
        }
        *taken = Amounts { bytes, frames };
        drop(taken);
        fault::reached(Point::Taking);
        if is_late {
            take();
        }
    }

    /// Gives it back.
    pub fn give(&self, store: &PageStore) {
        // Whoever takes next finds it given back.
        let mut taken = self.0.lock();
        store.give_extra_bytes(taken.bytes);
        store.give_tops_back(taken.frames);
        *taken = Amounts::default();
    }
}
