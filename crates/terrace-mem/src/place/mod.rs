//! Maps over two kinds of memory: what is small or written lies in the fast one, most keys and
//! values in the slow one, and what is looked up most has copies in the fast one.
//!
//! The dynamic stage, bounds and headers of segments are always fast. A segment lies as a whole in
//! one memory: where many lookups of a slow one wait, it is moved. Of single entries that are
//! looked up again and again there are copies, where keys are integers or byte strings
//! of at most 39 bytes, and values are one or two words (numbers, `bool`, `char`, `[u8; 4]`, `8`,
//! `12` and `16`). Both share one number of fast bytes, by the accesses that a byte saves.
//!
//! ```
//! use terrace_mem::place::{Memory, Placement};
//! use terrace_mem::{ConcurrentHybridMap, Options};
//!
//! // `Placement::detect()` takes what the machine has; here both kinds are the heap.
//! let placement = Placement::two(Memory::Heap, Memory::Heap).fast_bytes(1 << 20);
//! let options = Options::default().placement(placement)?;
//! let map = ConcurrentHybridMap::<u64, u64>::with_options(options)?;
//! map.insert(&1, 10);
//! assert_eq!(map.get(&1), Some(10));
//! println!("{}", map.placement());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chunk;
pub(crate) mod copies;
mod divide;
mod engine;
mod lent;
pub(crate) mod one;
mod placing;
mod stats;
mod two;
pub(crate) mod words;

pub(crate) use placing::Placing;
pub use stats::MapPlacement;
pub use terrace_place::{Limit, Memory, Placement, PlacementError, Steps};
pub(crate) use two::Two;
pub use two::{Memories, Touch, Watch};

use crate::home::Store;
use crate::options::Options;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

impl Options {
    /// Has a map lie in these memories, within so many fast bytes: a
    /// [`ConcurrentHybridMap`](crate::ConcurrentHybridMap), or one of those for one thread. With one
    /// kind of memory it is as without. The policy of the placement is for trees; here bytes go to
    /// where they save most waiting.
    ///
    /// # Errors
    /// A memory cannot be had: the error says why, and what to do.
    pub fn placement(mut self, placement: Placement) -> Result<Self, PlacementError> {
        self.memories = Memories(match placement.memories() {
            None => None,
            Some((Memory::Node(fast), Memory::Node(slow))) if fast == slow => {
                return Err(PlacementError::SameMemory);
            }
            Some((fast, slow)) => Some(Two {
                fast: match fast {
                    Memory::Heap => None,
                    other => Some(Store::open(other)?),
                },
                slow: Store::open(slow)?,
                limit: placement.limit(),
                manual: placement.is_manual(),
                names: [fast.to_string(), slow.to_string()],
                watch: None,
                notes: placement.notes().to_vec(),
            }),
        });
        Ok(self)
    }
}

/// What the segments of a map take, and what became of them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Bytes of segments by memory, as long as somebody can see them.
    bytes: [AtomicU64; 2],
    /// Bytes of headers and bounds, as of the last look.
    other: AtomicU64,
    /// Those of dynamic stages, with what was written since.
    dynamic: AtomicU64,
    /// Entries that the dynamic stage of a part may have, where all of them take much; 0: as many as
    /// without a limit.
    most: AtomicUsize,
    /// Bytes of copies, as long as somebody can see them.
    copies: Arc<AtomicU64>,
    peak: AtomicU64,
    /// Noted lookups: of fast segments, of slow ones, by copies.
    noted: [AtomicU64; 3],
    /// Of the last, those that found the record which its set would lose first.
    least: AtomicU64,
    /// Copies that were made.
    copied: AtomicU64,
    promoted: AtomicU64,
    demoted: AtomicU64,
    refused: AtomicU64,
    busy: AtomicU64,
    periods: AtomicU64,
    ids: AtomicU64,
}

impl Ledger {
    fn fast(&self) -> u64 {
        self.bytes[0].load(Relaxed)
    }

    fn used(&self) -> u64 {
        self.fast() + self.not_segments()
    }

    fn not_segments(&self) -> u64 {
        let always = self.other.load(Relaxed) + self.dynamic.load(Relaxed);
        always + self.copies.load(Relaxed)
    }

    /// The dynamic stage of a part takes so many bytes.
    fn resized(&self, seat: &Seat, bytes: u64) {
        let before = seat.dynamic.swap(bytes, Relaxed);
        // The sum may be one that was made without the part.
        let _ = self.dynamic.fetch_update(Relaxed, Relaxed, |sum| {
            (bytes != before).then_some((sum + bytes).saturating_sub(before))
        });
    }

    /// Takes so many fast bytes for a segment, if all stay below the bound.
    fn try_take(&self, bytes: u64, bound: u64) -> bool {
        let room = bound.saturating_sub(self.not_segments());
        let took = self.bytes[0].fetch_update(Relaxed, Relaxed, |used| {
            (used.saturating_add(bytes) <= room).then_some(used + bytes)
        });
        self.peak.fetch_max(self.used(), Relaxed);
        took.is_ok()
    }

    /// A number that no other segment of the map has or had.
    fn id(&self) -> u64 {
        loop {
            let id = self.ids.fetch_add(1, Relaxed) + 1;
            if copies::is_id(id) {
                return id;
            }
        }
    }
}

/// In which memory a segment lies, and how often it is looked at.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    /// Where there is one kind of memory: none.
    ledger: Option<Arc<Ledger>>,
    id: AtomicU64,
    /// Noted lookups, halved now and then.
    heat: AtomicU32,
    /// Bytes of the dynamic stage of the part, as they were seen last.
    dynamic: AtomicU64,
    slow: bool,
    /// Bytes by memory.
    bytes: [u64; 2],
}

impl Seat {
    /// Whether a lookup waits for slow memory.
    #[inline(always)]
    pub(crate) fn is_slow(&self) -> bool {
        self.slow
    }

    fn all_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }

    /// Adds to the heat; two that add at once may count as one.
    fn warm(&self) {
        let heat = self.heat.load(Relaxed);
        self.heat.store(heat.saturating_add(1), Relaxed);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            for (sum, bytes) in ledger.bytes.iter().zip(self.bytes) {
                sum.fetch_sub(bytes, Relaxed);
            }
        }
    }
}
