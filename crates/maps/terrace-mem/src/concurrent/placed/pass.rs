//! Where the engine of the concurrent map stands: what of a pass over all parts it has, and what it is to move.

use crate::concurrent::part::Part;
use crate::family::Family;
use crate::place::divide::{Best, Caught};
use std::sync::Weak;

/// Where the engine stands.
pub(super) struct Engine<F: Family, V> {
    /// A pass over all parts goes on.
    pub(super) passes: bool,
    /// The bound of the part that was seen last.
    pub(super) last_low: Option<F::Buf>,
    /// Of the pass: parts, and bytes of segments.
    pub(super) parts: u64,
    pub(super) segments: u64,
    pub(super) up: Best<Weak<Part<F, V>>>,
    pub(super) down: Best<Weak<Part<F, V>>>,
    /// Bytes of headers, and of dynamic stages, so far.
    pub(super) other: u64,
    pub(super) dynamic: u64,
    /// Entries of dynamic stages so far, of those that no thread writes to.
    pub(super) entries: u64,
    /// Weak: a part that has left the directory is full of entries, and of no use.
    pub(super) moves: Vec<(Weak<Part<F, V>>, bool)>,
    /// What the table of copies grows to, while it does.
    pub(super) goal: u64,
    /// Passes for which nothing goes to slow memory, and what that held when it was refused.
    pub(super) refused: (u32, u64),
    pub(super) noted: u64,
    pub(super) periods: u64,
    pub(super) cool: bool,
    pub(super) caught: Caught,
}

impl<F: Family, V> Default for Engine<F, V> {
    fn default() -> Self {
        Engine {
            passes: false,
            last_low: None,
            parts: 0,
            segments: 0,
            up: Best::hottest(),
            down: Best::coldest(),
            other: 0,
            dynamic: 0,
            entries: 0,
            moves: vec![],
            goal: 0,
            refused: (0, 0),
            noted: 0,
            periods: 0,
            cool: false,
            caught: Caught::default(),
        }
    }
}
