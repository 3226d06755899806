//! Changes of one key, each of which may merge first or behind.

use super::core::Core;
use crate::dynamic::Any;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::options::Updates;
use crate::slots::Vals;
use crate::two_stage::{DynamicStage, Near, StaticStage};

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    /// Takes the value out of the static stage; merges what it left behind where that is much.
    fn take_static(&mut self, key: F::Ref<'_>) -> Option<V> {
        self.take_from(self.segments.locate(key), key, || F::hash(key))
    }

    #[inline]
    fn take_from(&mut self, i: usize, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> Option<V> {
        let val = self.segments.take(i, key, hash)?;
        let vals = &self.segments.segs()[i].vals;
        if vals.gone() > vals.live() {
            self.rebuild(i);
        }
        Some(val)
    }

    /// Makes the dynamic stage the structure of its pair once it is not small any more.
    #[inline]
    fn settle(&mut self) {
        if self.dynamic.is_small(self.options.pair) && self.dynamic.len() > self.options.floor {
            self.dynamic.move_to(Any::new(self.options.pair));
        }
    }

    /// Puts an entry into the dynamic stage that is in neither.
    fn put(&mut self, key: F::Ref<'_>, val: V, hash: u64) {
        self.dynamic.insert(key, val);
        self.settle();
        if self.options.filter {
            self.filter.add(key, hash, &self.dynamic);
        }
    }

    /// Inserts an entry that is not there.
    pub fn add(&mut self, key: F::Ref<'_>, val: V) {
        self.maintain();
        self.put(key, val, F::hash(key));
    }

    /// Inserts an entry that is not there and hands out its value.
    pub fn insert_new(&mut self, key: F::Ref<'_>, val: V) -> &mut V {
        self.add(key, val);
        self.dynamic
            .get_mut(key)
            .expect("the entry was just put there")
    }

    pub fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        let before = self.dynamic.len();
        let val = if self.may_be_dynamic(key, || F::hash(key))
            && let Some(val) = self.dynamic.remove(key)
        {
            self.shrink(before);
            val
        } else {
            self.take_static(key)?
        };
        self.maintain();
        Some(val)
    }
}

impl<F: Family, V> Core<F, V> {
    pub fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        // The lookup that says where the entry is comes first: a returned borrow of one stage
        // would hold until the end of the function.
        let dynamic = self.is_dynamic(key);
        if !dynamic {
            if self.options.updates == Updates::InPlace {
                return self.segments.get_mut(key);
            }
            // An entry that moves to the dynamic stage fills it as a new one does, so that here
            // too merging comes before.
            let stale = planted(Fault::StalePlace).then(|| self.segments.locate(key));
            self.maintain();
            let i = stale.unwrap_or_else(|| self.segments.locate(key));
            let val = self.take_from(i, key, || F::hash(key))?;
            self.put(key, val, F::hash(key));
        }
        self.dynamic.get_mut(key)
    }

    /// The value of `key`, to change where it is, whatever an update does else.
    pub fn get_in_place(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let dynamic = self.is_dynamic(key);
        match dynamic {
            true => self.dynamic.get_mut(key),
            false => self.segments.get_mut(key),
        }
    }

    pub fn insert(&mut self, key: F::Ref<'_>, val: V) -> Option<V> {
        // Merging comes before the insert, so that the new entry stays in the dynamic stage
        // until the next change: `entry` hands out a borrow of it.
        self.maintain();
        if self.options.updates == Updates::InPlace
            && let Some(slot) = self.segments.get_mut(key)
        {
            return Some(core::mem::replace(slot, val));
        }
        // The way down the dynamic stage has to be gone anyway, so the filter is not asked. What
        // the lookup in the static stage and the filter need behind it is asked for where the way
        // down would wait, so that these loads do not wait for each other.
        let hash = F::hash(key);
        if self.options.filter {
            self.filter.prefetch(hash);
        }
        let list = self.segments.list();
        let (mut i, mut seg) = (0, None);
        let old = self.dynamic.insert_and(key, val, |near| match near {
            Near::Inner => {
                let Some(list) = list else { return };
                i = list.locate(key);
                seg = list.segs().get(i);
                if let Some(seg) = seg {
                    crate::simd::prefetch_whole(seg);
                    seg.keys.prefetch(key, || hash);
                }
            }
            Near::Leaf => {
                if let Some(seg) = seg {
                    seg.keys.approach(key, || hash);
                }
            }
        });
        if old.is_some() {
            return old;
        }
        self.settle();
        if self.options.filter {
            self.filter.add(key, hash, &self.dynamic);
        }
        self.take_from(i, key, || hash)
    }
}
