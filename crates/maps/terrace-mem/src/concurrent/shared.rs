//! The map on encoded keys, which its handles share: lookups of one key, and when a part is due.

use super::Placing;
use super::cell::EpochCell;
use super::part::{Directory, Part, Weight};
use super::signal::Signal;
use crate::error::OptionsError;
use crate::family::Family;
use crate::options::Options;
use crate::plan::Plan;
use crate::sync::Mutex;
use crate::two_stage::{DynamicStage, is_due};
use crossbeam_epoch as epoch;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;

/// The map without its background thread.
pub struct Shared<F: Family, V> {
    pub directory: EpochCell<Directory<F, V>>,
    /// Changed under the latch of the part that an entry comes into or leaves.
    pub len: AtomicUsize,
    pub plan: Plan<F::Run>,
    pub options: Options,
    pub signal: Signal<F, V>,
    pub place: Placing<F, V>,
    /// Held while the directory is replaced.
    turn: Mutex<()>,
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// An empty map.
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        options.check_concurrent()?;
        Ok(Shared {
            directory: EpochCell::new(Directory::new(options.pair)),
            len: AtomicUsize::new(0),
            plan: options.plan()?,
            place: Placing::new(&options),
            options,
            signal: Signal::default(),
            turn: Mutex::new(()),
        })
    }

    /// Merges of other parts replace the directory too: one at a time.
    pub fn turn(&self) -> impl Drop {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the value of `key` to `see`.
    pub fn look<R>(&self, key: F::Ref<'_>, see: impl FnOnce(Option<&V>) -> R) -> R {
        let guard = epoch::pin();
        loop {
            let part = self.directory.load(&guard).find(key);
            let dynamic = part.read();
            if dynamic.retired {
                continue;
            }
            if let Some(slot) = dynamic.tree.get(key, false) {
                return see(slot.val.as_ref());
            }
            // The latch is given back first: a merge that publishes meanwhile is seen below.
            drop(dynamic);
            let fixed = part.segment.load(&guard);
            return self.place.look(part, fixed, key, &guard, see);
        }
    }

    /// Whether a part is to be merged.
    pub fn due(&self, part: &Part<F, V>, weight: Weight, guard: &epoch::Guard) -> MergeNeed {
        let Weight { len, gone, live } = weight;
        let fixed = part.segment.load(guard).len();
        let (trigger, least) = (self.options.trigger, self.options.segment_len / 8);
        if is_due(trigger, len, fixed, least) {
            return match is_due(trigger, len / 4, fixed, least) {
                true => MergeNeed::Long,
                false => MergeNeed::Now,
            };
        }
        // What is always fast takes no more than its part of the fast bytes.
        if len >= self.place.most() {
            return MergeNeed::Now;
        }
        // A merge copies what is not deleted: four entries or fewer for each tombstone.
        if gone >= FEW && gone * 4 > fixed + len - gone {
            return MergeNeed::Now;
        }
        // The last part stays. Without entries it would be due at each delete.
        match live == 0 && len > 0 && self.directory.load(guard).parts.len() > 1 {
            true => MergeNeed::Drained,
            false => MergeNeed::Not,
        }
    }
}

/// Fewer tombstones do not make a part due: to wake the background thread would cost more than
/// they do.
const FEW: usize = 16;

/// Whether a part is to be merged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MergeNeed {
    Not,
    Now,
    /// It has no entries and is to leave.
    Drained,
    /// So long that whoever writes to it does it.
    Long,
}
