//! The two stages together, on encoded keys: lookups, and what changes need of them.

use super::merged::Merged;
use super::rules::Rules;
use crate::bloom::Filter;
use crate::dynamic::Any;
use crate::error::OptionsError;
use crate::family::Family;
use crate::family::Shortcuts;
use crate::options::{Options, What};
use crate::plan::Stage;
use crate::segments::Segments;
use crate::slots::{Slots, Vals};
use crate::two_stage::{DynamicStage, StaticStage};
use crate::usage::MemoryUsage;
use alloc::vec::Vec;

/// The dynamic stage is built anew when one in this many of the most entries that it had is left.
const FEW_LEFT: usize = 16;

/// A dynamic stage that never had as many entries stays as it is.
const MANY: usize = 1024;

/// A map from encoded keys to values.
pub struct Core<F: Family, V, S: Vals = Slots<V>> {
    pub(crate) dynamic: Any<F, V>,
    /// The most entries that the dynamic stage had since it was last built anew.
    most: usize,
    pub(super) filter: Filter<F>,
    pub(crate) segments: Segments<F, S>,
    pub(crate) options: Rules,
}

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    pub fn new(options: Options) -> Result<Self, OptionsError> {
        Ok(Self::of(Rules::new::<F>(&options)?, Segments::default()))
    }

    fn of(options: Rules, segments: Segments<F, S>) -> Self {
        Core {
            dynamic: Any::default(),
            most: 0,
            filter: Filter::default(),
            segments,
            options,
        }
    }

    /// An empty one with the same options.
    pub fn again(&self) -> Self {
        let plan = || self.options.plan();
        Self::of(self.options, self.segments.again(plan))
    }

    pub fn clear(&mut self) {
        let segments = self.segments.again(|| self.options.plan());
        self.dynamic = Any::default();
        self.filter = Filter::default();
        self.segments = segments;
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.dynamic.len() + self.segments.live()
    }

    #[inline]
    pub(super) fn may_be_dynamic(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> bool {
        self.dynamic.len() > 0 && (!self.options.filter || self.filter.may_have(key, hash))
    }

    /// Whether `key` is in the dynamic stage. O(log n).
    pub fn is_dynamic(&self, key: F::Ref<'_>) -> bool {
        self.may_be_dynamic(key, || F::hash(key)) && self.dynamic.get(key, false).is_some()
    }

    /// Most entries are in the static stage, so it is asked first most often.
    #[inline]
    pub fn get(&self, key: F::Ref<'_>) -> Option<S::Ref<'_>> {
        if self.options.dynamic_first {
            return self.get_hot(key);
        }
        if !F::Shortcuts::ANY {
            let found = self.segments.get(key, || F::hash(key));
            let dynamic = || self.get_dynamic(key, || F::hash(key), false);
            return found.or_else(|| dynamic().map(S::lend));
        }
        let hash = F::hash(key);
        if let Some(val) = self.segments.get_near(key, hash) {
            return Some(val);
        }
        let found = self.segments.get(key, || hash);
        found.or_else(|| self.get_dynamic(key, || hash, false).map(S::lend))
    }

    /// [`Core::get`] where the dynamic stage keeps what is hot, or the other one may lie in slow memory.
    fn get_hot(&self, key: F::Ref<'_>) -> Option<S::Ref<'_>> {
        let hash = || F::hash(key);
        let touch = self.options.what == What::Cold;
        if let Some(val) = self.get_dynamic(key, hash, touch) {
            return Some(S::lend(val));
        }
        if F::Shortcuts::ANY
            && let Some(val) = self.segments.get_near(key, hash())
        {
            return Some(val);
        }
        self.segments.get(key, hash)
    }

    #[inline]
    fn get_dynamic(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64, touch: bool) -> Option<&V> {
        if !self.may_be_dynamic(key, hash) {
            return None;
        }
        self.dynamic.get(key, touch)
    }

    /// Builds the dynamic stage anew where few of the most entries that it had are left: no structure
    /// gives the memory of entries back that lay among others. It had `before` entries just before.
    /// O(1) amortised for each that was taken out.
    #[inline]
    pub(super) fn shrink(&mut self, before: usize) {
        self.most = self.most.max(before);
        if self.dynamic.len() * FEW_LEFT < self.most && self.most >= MANY {
            self.build_anew();
        }
    }

    #[cold]
    #[inline(never)]
    fn build_anew(&mut self) {
        self.most = self.dynamic.len();
        // What is empty has given all back.
        if self.most > 0 && self.most <= self.options.floor {
            self.dynamic.move_to(Any::default());
        } else if self.most > 0 {
            self.dynamic.move_to(Any::new(self.options.pair));
        }
    }

    /// The entries from `from` up to `to`.
    pub fn range(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>) -> Merged<'_, F, V, S> {
        self.segments.touched(from);
        Merged::new(&self.dynamic, &self.segments, from, to)
    }

    pub fn usage(&self) -> MemoryUsage {
        let (static_keys, static_values) = self.segments.bytes();
        MemoryUsage {
            dynamic: self.dynamic.bytes(),
            static_keys,
            static_values,
            directory: self.segments.directory_bytes(),
            filter: self.filter.bytes(),
            shortcuts: self.segments.shortcut_bytes(),
            cache: self.segments.cache_bytes(),
            copies: self.segments.copy_bytes(),
        }
    }

    pub fn stage_lens(&self) -> (usize, usize) {
        (self.dynamic.len(), self.segments.live())
    }

    pub fn stages(&self) -> Vec<(Stage, usize)> {
        let mut found: Vec<(Stage, usize)> = Vec::new();
        for seg in self.segments.segs() {
            let stage = seg.keys.stage();
            match found.iter_mut().find(|f| f.0 == stage) {
                Some(f) => f.1 += seg.vals.live(),
                None => found.push((stage, seg.vals.live())),
            }
        }
        found
    }
}
