//! What the map is compared with: one file a rival, on the same memory, with inner nodes in DRAM for all.
//!
//! Their leaves lie in persistent memory and are written, flushed and fenced as their papers say. They are
//! here to be counted and timed. Of them the unsorted leaves claim to recover ([`Name::recover`]), and are held
//! to it. FAST+FAIR's argument needs the stores to a line to become durable in their order, which not all memory
//! promises; the buffers of DPTree and of the B-epsilon tree are made durable by a log that is written here and
//! not read. These three do not recover, and the last two do not delete.

mod betree;
mod dptree;
mod fast_fair;
mod ours;
mod plain;
mod pool;
mod rival;

use std::sync::Arc;

use terrace_pm::pm::Pm;
use terrace_pm::{Buffers, Result};

pub use betree::BeTree;
pub use dptree::DpTree;
pub use fast_fair::FastFair;
pub use plain::Plain;
pub use rival::Rival;

use ours::Ours;

/// Which one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Name {
    /// The map with elastic buffers.
    Elastic,
    /// The map in the paper's mode.
    Paper,
    /// The same with nodes that always split in two, hot or not.
    PaperTwo,
    /// The paper to the letter, on our log.
    Literal,
    /// Unsorted leaves without a buffer.
    Plain,
    /// Sorted leaves, shifted line by line.
    FastFair,
    /// One buffer tree, merged as a whole.
    DpTree,
    /// Buffers at each level.
    BeTree,
}

impl Name {
    /// All of them; the paper's mode once.
    pub const ALL: [Name; 7] = [
        Name::Elastic,
        Name::Paper,
        Name::Literal,
        Name::Plain,
        Name::FastFair,
        Name::DpTree,
        Name::BeTree,
    ];

    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Name::Elastic => "elastic",
            Name::Paper => "paper",
            Name::PaperTwo => "paper-two",
            Name::Literal => "literal",
            Name::Plain => "plain",
            Name::FastFair => "fast-fair",
            Name::DpTree => "dptree",
            Name::BeTree => "betree",
        }
    }

    /// Makes an empty one; `memory` rules the elastic map alone.
    /// `hotness` says whether nodes of the paper's modes split in more than two when they are hot.
    pub fn make(self, pm: Arc<dyn Pm>, memory: u64, hotness: bool) -> Result<Box<dyn Rival>> {
        let hotness = hotness && self != Name::PaperTwo;
        let ours = |buffers| Ours::new(pm.clone(), buffers, memory, hotness);
        Ok(match self {
            Name::Elastic => Box::new(ours(Buffers::Elastic)?),
            Name::Paper | Name::PaperTwo => Box::new(ours(Buffers::Paper)?),
            Name::Literal => Box::new(ours(Buffers::Literal)?),
            Name::Plain => Box::new(Plain::new(pm)),
            Name::FastFair => Box::new(FastFair::new(pm)),
            Name::DpTree => Box::new(DpTree::new(pm)),
            Name::BeTree => Box::new(BeTree::new(pm)),
        })
    }
}

impl Name {
    /// Opens what a crash has left; `None` for those that do not claim to recover.
    pub fn recover(self, pm: Arc<dyn Pm>, memory: u64) -> Option<Result<Box<dyn Rival>>> {
        fn boxed<R: Rival + 'static>(rival: Result<R>) -> Option<Result<Box<dyn Rival>>> {
            Some(rival.map(|rival| -> Box<dyn Rival> { Box::new(rival) }))
        }
        match self {
            Name::Plain => boxed(Plain::recover(pm)),
            Name::FastFair | Name::DpTree | Name::BeTree => None,
            ours => Some(ours.make(pm, memory, true)),
        }
    }
}
