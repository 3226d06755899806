//! The options of one map, in few bytes.

use crate::error::OptionsError;
use crate::family::Family;
use crate::options::{Merging, Options, Trigger, Updates, What};
use crate::pair::Pair;
use crate::plan::{Plan, Stage};

/// [`Options`] that go together, as a map keeps them.
#[derive(Clone, Copy)]
pub struct Rules {
    pub trigger: Trigger,
    pub floor: usize,
    pub shortcuts: usize,
    #[cfg(feature = "compressed")]
    cache_nodes: u32,
    segment_len: u32,
    pub pair: Pair,
    stage: Stage,
    pub merging: Merging,
    pub what: What,
    pub updates: Updates,
    pub filter: bool,
    pub symbols: bool,
    /// Lookups ask the dynamic stage first: it keeps what is hot, or the static one may lie in slow memory.
    pub dynamic_first: bool,
}

impl Rules {
    /// Fails where the options do not go together.
    pub fn new<F: Family>(options: &Options) -> Result<Self, OptionsError> {
        options.plan::<F::Run>()?;
        let segment_len = u32::try_from(options.segment_len);
        let stage = options.pair.stage(options.stage);
        Ok(Rules {
            trigger: options.trigger,
            floor: options.floor,
            shortcuts: match stage.is_trie() {
                true => 0,
                false => options.shortcuts,
            },
            #[cfg(feature = "compressed")]
            // More than these are as good as all.
            cache_nodes: u32::try_from(options.cache_nodes).unwrap_or(u32::MAX),
            segment_len: segment_len.map_err(|_| OptionsError::SegmentLen(options.segment_len))?,
            pair: options.pair,
            stage: options.stage,
            merging: options.merging,
            what: options.what,
            updates: options.updates,
            filter: options.filter,
            symbols: options.symbols,
            dynamic_first: options.what == What::Cold,
        })
    }

    /// The options as they were given.
    pub fn options(&self) -> Options {
        Options {
            pair: self.pair,
            stage: self.stage,
            trigger: self.trigger,
            merging: self.merging,
            what: self.what,
            updates: self.updates,
            segment_len: self.segment_len(),
            floor: self.floor,
            filter: self.filter,
            symbols: self.symbols,
            shortcuts: self.shortcuts,
            #[cfg(feature = "compressed")]
            cache_nodes: self.cache_nodes as usize,
            #[cfg(feature = "place")]
            memories: crate::place::Memories::default(),
        }
    }

    /// Entries of a segment.
    #[inline]
    pub fn segment_len(&self) -> usize {
        self.segment_len as usize
    }

    /// Whether all entries are to be one segment.
    pub fn is_whole(&self) -> bool {
        self.segment_len() == Options::WHOLE
    }

    /// The form of segments.
    pub fn stage(&self) -> Stage {
        self.pair.stage(self.stage)
    }

    /// How segments are built.
    pub fn plan<R: 'static>(&self) -> Plan<R> {
        let plan = self.options().plan();
        plan.expect("they went together when the map was made")
    }
}
