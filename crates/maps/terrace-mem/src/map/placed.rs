//! Maps for one thread over two kinds of memory.

use super::core::Core;
use super::hybrid::HybridMap;
use crate::error::OptionsError;
use crate::family::Family;
use crate::key::IndexKey;
use crate::options::Options;
use crate::place::one::{One, STEP};
use crate::place::{MapPlacement, Steps, words};
use crate::slots::Vals;
use crate::two_stage::DynamicStage;
use core::marker::PhantomData;

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    /// A map that lies where the options say, with copies where it is known how to make them.
    pub fn over(options: Options, copy: Option<fn(&V) -> V>) -> Result<Self, OptionsError> {
        let two = options.memories.two();
        let mut core = Self::new(options)?;
        if let Some(two) = two {
            // Shortcuts lead to values that may be slow, past the copies of them.
            core.options.shortcuts = 0;
            core.options.dynamic_first = true;
            let parts = core.segments.open(|| core.options.plan());
            parts.list.one = Some(Box::new(One::new(two, copy)));
        }
        Ok(core)
    }

    /// Whether what is always fast takes more than its part.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        let one = self.segments.one();
        one.is_some_and(|one| {
            let (bytes, len) = (self.dynamic.bytes(), self.dynamic.len());
            one.is_crowded(bytes, len, self.segments.live())
        })
    }

    /// A change was made: a step of placing, if it is time for one.
    #[inline]
    pub(super) fn placed(&mut self) {
        if self.segments.one().is_some() {
            self.place_now();
        }
    }

    #[cold]
    fn place_now(&mut self) {
        let parts = self.segments.parts_mut();
        let one = parts.and_then(|parts| parts.list.one.as_mut());
        if one.is_some_and(|one| one.turn()) {
            self.place_step(STEP);
        }
    }

    /// Bytes that are always fast.
    fn always(&self) -> usize {
        self.dynamic.bytes() + self.filter.bytes() + self.segments.directory_bytes()
    }

    /// A segment is to be made of what was always fast until now.
    #[inline]
    pub(super) fn tell_always(&mut self) {
        if self.segments.one().is_some() {
            let always = self.always() as u64;
            let parts = self.segments.parts_mut();
            if let Some(one) = parts.and_then(|parts| parts.list.one.as_mut()) {
                one.set_always(always);
            }
        }
    }

    pub fn place_step(&mut self, steps: usize) -> bool {
        let (always, soon) = (self.always(), self.filter.soon(self.dynamic.len()));
        let Some(parts) = self.segments.parts_mut() else {
            return false;
        };
        if let Some(one) = &mut parts.list.one {
            one.set_soon(soon as u64);
        }
        parts.list.place_step(steps, always)
    }

    pub fn placement(&self) -> MapPlacement {
        let one = self.segments.one();
        one.map_or_else(MapPlacement::default, |one| {
            one.placement(self.always() as u64)
        })
    }
}

impl<K: IndexKey, V: Clone + 'static> HybridMap<K, V> {
    /// An empty map with other options that has, over two kinds of memory, copies of hot entries in the
    /// fast one, where keys and values are such that there can be some; see [`place`](crate::place).
    /// [`with_options`](Self::with_options) moves hot segments alone.
    ///
    /// # Errors
    /// When the options do not go together; see [`OptionsError`].
    ///
    /// ```
    /// use terrace_mem::place::{Memory, Placement, Steps};
    /// use terrace_mem::{HybridMap, Options};
    ///
    /// let placement = Placement::two(Memory::Heap, Memory::Heap).fast_bytes(1 << 20);
    /// let options = Options::default().placement(placement)?;
    /// let mut map = HybridMap::<u64, u64>::with_copies(options)?;
    /// map.extend((0..10_000).map(|i| (i, i)));
    /// assert_eq!(map.get(&7), Some(&7));
    /// map.place_step(Steps::nodes(256));
    /// println!("{}", map.placement());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_copies(options: Options) -> Result<Self, OptionsError> {
        let copy = words::width::<V>().map(|_| V::clone as fn(&V) -> V);
        Ok(HybridMap {
            core: Core::over(options, copy)?,
            key: PhantomData,
        })
    }
}

impl<K: IndexKey, V> HybridMap<K, V> {
    /// Where the map lies, what its lookups found there, and what was moved. O(segments).
    pub fn placement(&self) -> MapPlacement {
        self.core.placement()
    }

    /// Does a bounded piece of placing: looks at this many segments, or moves one for each 256 of them.
    /// Returns whether there is more to do now. Inserts, updates and removes do this by themselves, now
    /// and then, unless the placement is [`Placement::manual`](crate::place::Placement::manual); a
    /// map that is only read learns nothing without it.
    pub fn place_step(&mut self, steps: Steps) -> bool {
        self.core.place_step(steps.count())
    }
}
