//! A few entries in arrays that grow by four: what every dynamic stage is while it is small.

use crate::family::Family;
use crate::stage::KeyRun;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicU64, Ordering};

/// The most entries, one for each reference bit: with more of them a tree takes few bytes as well.
pub const MOST: usize = 96;

/// Room for this many entries is made at once.
const GRAIN: usize = 4;

/// Room for this many bytes of keys is made at once.
const BYTES: usize = 32;

/// Sorted entries. Every operation is O([`MOST`]).
pub struct Few<F: Family, V>(Option<Box<Arrays<F, V>>>);

struct Arrays<F: Family, V> {
    keys: F::Run,
    vals: Vec<V>,
    /// Bit `i` is set when entry `i` was used since the last merge passed it.
    hot: [AtomicU64; 2],
}

impl<F: Family, V> Default for Few<F, V> {
    fn default() -> Self {
        Few(None)
    }
}

fn low_bits(n: usize) -> u128 {
    (1 << n) - 1
}

impl<F: Family, V> Arrays<F, V> {
    fn lower_bound(&self, key: F::Ref<'_>) -> usize {
        self.keys.gallop(0, self.vals.len(), key)
    }

    fn find(&self, key: F::Ref<'_>) -> Result<usize, usize> {
        let i = self.lower_bound(key);
        match i < self.vals.len() && F::cmp(self.keys.get(i), key).is_eq() {
            true => Ok(i),
            false => Err(i),
        }
    }

    fn touch(&self, i: usize) {
        self.hot[i / 64].fetch_or(1 << (i % 64), Ordering::Relaxed);
    }

    /// Changes all reference bits.
    fn set_hot(&mut self, change: impl FnOnce(u128) -> u128) {
        let [low, high] = &mut self.hot;
        let (low, high) = (low.get_mut(), high.get_mut());
        let hot = change(u128::from(*low) | u128::from(*high) << 64);
        (*low, *high) = (hot as u64, (hot >> 64) as u64);
    }
}

impl<F: Family, V> Few<F, V> {
    /// Whether there is no room for one more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.as_ref().is_some_and(|all| all.vals.len() == MOST)
    }

    /// Takes all entries out, in order, and says which were used.
    pub fn take_all(&mut self, mut sink: impl FnMut(F::Ref<'_>, V, bool)) {
        let Some(mut all) = mem::take(&mut self.0) else {
            return;
        };
        let mut hot = 0;
        all.set_hot(|bits| {
            hot = bits;
            bits
        });
        for (i, val) in all.vals.into_iter().enumerate() {
            sink(all.keys.get(i), val, hot >> i & 1 == 1);
        }
    }

    fn at(&self, i: usize) -> Option<FewPos<'_, F, V>> {
        let all = self.0.as_deref()?;
        (i < all.vals.len()).then_some(FewPos { all, i })
    }
}

impl<F: Family, V> DynamicStage<F, V> for Few<F, V> {
    type Cursor<'a>
        = FewPos<'a, F, V>
    where
        V: 'a;

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |all| all.vals.len())
    }

    fn bytes(&self) -> usize {
        let of = |all: &Arrays<F, V>| {
            size_of_val(all) + all.keys.heap() + all.vals.capacity() * size_of::<V>()
        };
        self.0.as_deref().map_or(0, of)
    }

    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        let all = self.0.as_deref()?;
        let i = all.find(key).ok()?;
        if touch {
            all.touch(i);
        }
        Some(&all.vals[i])
    }

    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let all = self.0.as_deref_mut()?;
        let i = all.find(key).ok()?;
        all.touch(i);
        Some(&mut all.vals[i])
    }

    /// There must be room; see [`Few::is_full`].
    fn insert_and(
        &mut self,
        key: F::Ref<'_>,
        val: V,
        mut meanwhile: impl FnMut(Near),
    ) -> Option<V> {
        let all = self.0.get_or_insert_with(|| {
            Box::new(Arrays {
                keys: F::Run::default(),
                vals: Vec::new(),
                hot: Default::default(),
            })
        });
        meanwhile(Near::Inner);
        meanwhile(Near::Leaf);
        let i = match all.find(key) {
            Ok(i) => return Some(mem::replace(&mut all.vals[i], val)),
            Err(i) => i,
        };
        if all.vals.len() == all.vals.capacity() {
            all.vals.reserve_exact(GRAIN);
        }
        all.keys.insert_at(i, key, (GRAIN, BYTES));
        all.vals.insert(i, val);
        all.set_hot(|hot| hot & low_bits(i) | (hot & !low_bits(i)) << 1);
        None
    }

    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        let all = self.0.as_deref_mut()?;
        let i = all.find(key).ok()?;
        all.keys.remove_at(i);
        let val = all.vals.remove(i);
        all.set_hot(|hot| hot & low_bits(i) | hot >> 1 & !low_bits(i));
        if all.vals.is_empty() {
            self.0 = None;
        }
        Some(val)
    }

    fn seek(&self, from: Option<F::Ref<'_>>, meanwhile: impl FnOnce()) -> Option<FewPos<'_, F, V>> {
        meanwhile();
        let all = self.0.as_deref()?;
        self.at(from.map_or(0, |from| all.lower_bound(from)))
    }

    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<FewPos<'_, F, V>> {
        let all = self.0.as_deref()?;
        let past = to.map_or(all.vals.len(), |to| all.lower_bound(to));
        self.at(past.checked_sub(1)?)
    }

    fn visit_mut<'a>(
        &'a mut self,
        (from, to): Span<'_, F>,
        mut see: impl FnMut(F::Ref<'_>, &'a mut V),
    ) where
        V: 'a,
    {
        let Some(all) = self.0.as_deref_mut() else {
            return;
        };
        let a = from.map_or(0, |from| all.lower_bound(from));
        let b = to.map_or(all.vals.len(), |to| all.lower_bound(to));
        for (i, val) in all.vals.iter_mut().enumerate().take(b).skip(a) {
            see(all.keys.get(i), val);
        }
    }
}

/// An entry of [`Few`].
pub struct FewPos<'a, F: Family, V> {
    all: &'a Arrays<F, V>,
    i: usize,
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for FewPos<'a, F, V> {
    fn key(&self) -> F::Ref<'_> {
        self.all.keys.get(self.i)
    }
    fn val(&self) -> &'a V {
        &self.all.vals[self.i]
    }
    fn next(&mut self) -> bool {
        self.i += 1;
        self.i < self.all.vals.len()
    }
    fn prev(&mut self) -> bool {
        self.i = self.i.wrapping_sub(1);
        self.i < self.all.vals.len()
    }
    fn same(&self, other: &Self) -> bool {
        self.i == other.i
    }
    fn cool(&self) -> bool {
        let bit = 1 << (self.i % 64);
        self.all.hot[self.i / 64].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }
}
