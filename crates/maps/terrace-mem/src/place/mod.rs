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

// What threads share of it is in `concurrent/placed/`.
pub(crate) mod divide;
mod hot_copies;
pub(crate) mod one;
mod stats;
pub(crate) mod two;
pub(crate) mod words;

pub use stats::MapPlacement;
pub use terrace_place::{Limit, Memory, Placement, PlacementError, Steps};
pub use two::{Memories, Touch, Watch};
