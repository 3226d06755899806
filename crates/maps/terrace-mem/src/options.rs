//! How a map behaves: static stage, when and what to merge, what an update does, in which memories it lies.

use crate::error::OptionsError;
use crate::family::{Family, IntFamily};
use crate::pair::Pair;
#[cfg(feature = "place")]
use crate::place::{Memories, Placement, PlacementError};
#[cfg(feature = "compressed")]
use crate::plan::NodeCache;
use crate::plan::{Plan, Stage};
#[cfg(feature = "compressed")]
use alloc::sync::Arc;
use core::any::TypeId;

/// When entries move from the dynamic to the static stage (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// When the entries of the dynamic stage times this exceed those of the static stage. With
    /// [`Merging::Incremental`] that is asked of each range on its own, at its turn: of all entries
    /// half of that share are in the dynamic stage on average, as they are when all are merged at once.
    Ratio(usize),
    /// When the dynamic stage has this many entries.
    Constant(usize),
}

/// How entries move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merging {
    /// One segment at a time: no operation waits for more than one.
    Incremental,
    /// All at once, the paper's way: fewer, long pauses.
    Blocking,
    /// Only when asked for; sorted entries come into the dynamic stage as others do. A segment that
    /// is more than half deleted is rewritten nevertheless, but takes no entries from the dynamic
    /// stage, and an empty concurrent map takes sorted entries straight into segments.
    Manual,
}

/// Which entries move (section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// All of them: the dynamic stage is a write buffer.
    All,
    /// Those not used since the last merge passed them: it is a write-back cache. `merge_all`
    /// moves all of them nevertheless.
    Cold,
}

/// Where the new value of an entry of the static stage goes (section 3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updates {
    /// Into the dynamic stage, as for primary indexes: what is hot comes to lie together.
    Promote,
    /// Where the old value was, as for secondary indexes: no entry moves.
    InPlace,
}

/// Options of a map; [`Options::default`] is what `new` takes.
///
/// ```
/// use terrace_mem::{HybridMap, Options, Stage, Trigger};
///
/// let options = Options { stage: Stage::STree, trigger: Trigger::Ratio(20), ..Options::default() };
/// let map = HybridMap::<u64, u64>::with_options(options)?;
/// # assert!(map.is_empty());
/// # Ok::<(), terrace_mem::OptionsError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Options {
    /// The dynamic stage, and what [`Stage::Auto`] means.
    pub pair: Pair,
    /// The static stage.
    pub stage: Stage,
    /// When to merge.
    pub trigger: Trigger,
    /// How to merge.
    pub merging: Merging,
    /// What to merge. Not for a concurrent map.
    pub what: What,
    /// What an update of an entry of the static stage does. Not for a concurrent map.
    pub updates: Updates,
    /// Entries of a segment, 16 to 8192: bounds the pause of a merge step. Or [`Options::WHOLE`].
    pub segment_len: usize,
    /// Entries that the dynamic stage keeps before a ratio counts; with no more than these it is two
    /// arrays or a B+tree, whatever the pair. Not for a concurrent map.
    pub floor: usize,
    /// Whether a Bloom filter stands before the dynamic stage. Not for a concurrent map.
    pub filter: bool,
    /// Entries for each of which a map of byte strings remembers where one is that is looked up often, in 64
    /// bytes; 0 for none. Not for a concurrent map, nor for integers or compact tries. Slots come 256 at a time.
    pub shortcuts: usize,
    /// Whether byte strings under [`Stage::FrontCoded`] are written in symbols: a seventh fewer bytes of
    /// addresses, and slower inserts, scans and lookups. Not for a concurrent map; no effect on integers.
    pub symbols: bool,
    /// Decompressed nodes that [`Stage::Compressed`] keeps.
    #[cfg(feature = "compressed")]
    pub cache_nodes: usize,
    /// In which memories the map lies; [`Options::placement`] sets it.
    #[cfg(feature = "place")]
    pub memories: Memories,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            pair: Pair::Auto,
            stage: Stage::Auto,
            trigger: Trigger::Ratio(10),
            merging: Merging::Incremental,
            what: What::All,
            updates: Updates::Promote,
            segment_len: 4096,
            floor: 1024,
            filter: true,
            shortcuts: 40,
            symbols: false,
            #[cfg(feature = "compressed")]
            cache_nodes: 1024,
            #[cfg(feature = "place")]
            memories: Memories::default(),
        }
    }
}

impl Options {
    /// One segment for all entries, as long as they have half a GiB of keys at most: each merge takes as long as
    /// the map is large. For the compact B+tree (compressed or not), skip list, Masstree and ART, in one kind of
    /// memory, and not for a concurrent map.
    pub const WHOLE: usize = u32::MAX as usize;

    /// The dynamic stage alone, as the original of a pair: nothing is merged unless it is asked for, and
    /// neither filter nor shortcuts are there. After `merge_all` it is the compact form alone.
    pub fn dynamic_only() -> Self {
        Options {
            merging: Merging::Manual,
            filter: false,
            shortcuts: 0,
            ..Options::default()
        }
    }

    /// A pair as the paper has it: one compact structure for all entries of the static stage, merged at once
    /// at a ratio of ten, with a filter and without shortcuts. (`Auto`, which the paper has not, is cut into
    /// segments.)
    pub fn paper(pair: Pair) -> Self {
        let usual = Options::default();
        Options {
            pair,
            merging: Merging::Blocking,
            shortcuts: 0,
            segment_len: match pair {
                Pair::Auto => usual.segment_len,
                _ => Options::WHOLE,
            },
            ..usual
        }
    }

    /// Has a map lie in these memories, within this many fast bytes: a
    /// [`ConcurrentHybridMap`](crate::ConcurrentHybridMap), or one of those for one thread. With one
    /// kind of memory it is as without. The policy of the placement is for trees; here bytes go to
    /// where they save most waiting.
    ///
    /// # Errors
    /// A memory cannot be had: the error says why, and what to do.
    #[cfg(feature = "place")]
    pub fn placement(mut self, placement: Placement) -> Result<Self, PlacementError> {
        self.memories = Memories::open(&placement)?;
        Ok(self)
    }

    /// Fails where a field is set that the concurrent map has no use for.
    #[cfg(feature = "concurrent")]
    pub(crate) fn check_concurrent(&self) -> Result<(), OptionsError> {
        let usual = Options::default();
        let set = [
            ("what", self.what != usual.what),
            ("updates", self.updates != usual.updates),
            ("floor", self.floor != usual.floor),
            ("filter", self.filter != usual.filter),
            ("shortcuts", self.shortcuts != usual.shortcuts),
            ("symbols", self.symbols),
        ];
        if self.segment_len == Options::WHOLE {
            return Err(OptionsError::SegmentLen(self.segment_len));
        }
        match set.into_iter().find(|field| field.1) {
            Some((field, _)) => Err(OptionsError::NoEffect(field)),
            None => Ok(()),
        }
    }

    /// How segments are built from runs of this type.
    pub(crate) fn plan<R: 'static>(&self) -> Result<Plan<R>, OptionsError> {
        let ints = TypeId::of::<R>() == TypeId::of::<<IntFamily as Family>::Run>();
        let stage = self.pair.stage(self.stage);
        let wrong = match stage {
            Stage::FrontCoded => ints,
            Stage::EliasFano | Stage::STree | Stage::Bitmap | Stage::Buckets => !ints,
            _ => false,
        };
        if wrong {
            return Err(OptionsError::StageForKeys(self.stage));
        }
        let whole = self.segment_len == Options::WHOLE && stage.may_be_whole();
        #[cfg(feature = "place")]
        let whole = whole && self.memories.two().is_none();
        if !whole && !(16..=8192).contains(&self.segment_len) {
            return Err(OptionsError::SegmentLen(self.segment_len));
        }
        if matches!(self.trigger, Trigger::Ratio(0) | Trigger::Constant(0)) {
            return Err(OptionsError::ZeroTrigger);
        }
        #[cfg(feature = "compressed")]
        if stage == Stage::Compressed {
            let mut plan = Plan::new(stage);
            plan.cache = Some(Arc::new(NodeCache::new(self.cache_nodes)));
            return Ok(plan);
        }
        Ok(Plan::new(stage))
    }
}
