//! One of the dynamic structures. The branch on which it is comes once for each operation.

#[cfg(feature = "pairs")]
use super::art::{Art, ArtPos};
use super::few::{Few, FewPos};
#[cfg(feature = "pairs")]
use super::masstree::{MassPos, Masstree};
use super::pos::Pos;
#[cfg(feature = "pairs")]
use super::skip_list::{SkipList, SkipPos};
use super::tree::Tree;
use crate::family::Family;
#[cfg(feature = "pairs")]
use crate::family::IntFamily;
use crate::pair::Pair;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
#[cfg(feature = "pairs")]
use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(feature = "pairs")]
use core::any::TypeId;

/// The dynamic stage of a map: what its [`Pair`] says, or what any is while it is small.
pub enum Any<F: Family, V> {
    Few(Few<F, V>),
    Tree(Tree<F, V>),
    #[cfg(feature = "pairs")]
    Skip(Box<SkipList<F, V>>),
    #[cfg(feature = "pairs")]
    Mass(Box<Masstree<F, V>>),
    #[cfg(feature = "pairs")]
    Art(Box<Art<F, V>>),
}

/// A place in it.
#[allow(
    clippy::large_enum_variant,
    reason = "an allocation for each range would cost more than the room on the stack"
)]
pub enum AnyPos<'a, F: Family, V> {
    Few(FewPos<'a, F, V>),
    Tree(Pos<'a, F, V>),
    #[cfg(feature = "pairs")]
    Skip(SkipPos<'a, F, V>),
    #[cfg(feature = "pairs")]
    Mass(MassPos<'a, F, V>),
    #[cfg(feature = "pairs")]
    Art(ArtPos<'a, F, V>),
}

/// Does the same with whichever it is.
macro_rules! each {
    ($of:ident, $any:expr, $it:ident => $do:expr) => {
        match $any {
            $of::Tree($it) => $do,
            $of::Few($it) => $do,
            #[cfg(feature = "pairs")]
            $of::Skip($it) => $do,
            #[cfg(feature = "pairs")]
            $of::Mass($it) => $do,
            #[cfg(feature = "pairs")]
            $of::Art($it) => $do,
        }
    };
}

/// Does the same with whichever it is, and makes a place of what comes.
macro_rules! place {
    ($any:expr, $it:ident => $do:expr) => {
        match $any {
            Any::Tree($it) => $do.map(AnyPos::Tree),
            Any::Few($it) => $do.map(AnyPos::Few),
            #[cfg(feature = "pairs")]
            Any::Skip($it) => $do.map(AnyPos::Skip),
            #[cfg(feature = "pairs")]
            Any::Mass($it) => $do.map(AnyPos::Mass),
            #[cfg(feature = "pairs")]
            Any::Art($it) => $do.map(AnyPos::Art),
        }
    };
}

impl<F: Family, V> Any<F, V> {
    /// An empty one that is the structure of a pair from the beginning.
    pub fn new(pair: Pair) -> Self {
        match pair {
            Pair::Auto | Pair::BTree => Any::Tree(Tree::default()),
            #[cfg(feature = "pairs")]
            Pair::Art => Any::Art(Box::default()),
            #[cfg(feature = "pairs")]
            Pair::SkipList => Any::Skip(Box::default()),
            // An integer is one word: there is one layer, which is a B+tree.
            #[cfg(feature = "pairs")]
            Pair::Masstree if TypeId::of::<F>() == TypeId::of::<IntFamily>() => {
                Any::Tree(Tree::default())
            }
            #[cfg(feature = "pairs")]
            Pair::Masstree => Any::Mass(Box::default()),
        }
    }
}

impl<F: Family, V> Any<F, V> {
    /// Whether it is what any is while it is small, and the pair has another structure.
    #[inline]
    #[cfg_attr(
        not(feature = "pairs"),
        allow(unused_variables, reason = "all are trees")
    )]
    pub fn is_small(&self, pair: Pair) -> bool {
        match pair {
            // One becomes a tree on its own.
            Pair::Auto | Pair::BTree => false,
            #[cfg(feature = "pairs")]
            Pair::Masstree if TypeId::of::<F>() == TypeId::of::<IntFamily>() => false,
            #[cfg(feature = "pairs")]
            Pair::SkipList | Pair::Masstree | Pair::Art => {
                matches!(self, Any::Few(_) | Any::Tree(_))
            }
        }
    }

    /// Moves the few entries into a tree.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        let Any::Few(few) = self else { return };
        let mut tree = Tree::default();
        few.take_all(|key, val, hot| {
            tree.insert(key, val);
            if hot {
                tree.get(key, true);
            }
        });
        *self = Any::Tree(tree);
    }

    /// Moves all entries, with their marks, into an empty one that takes its place. O(n log n).
    #[cold]
    #[inline(never)]
    pub fn move_to(&mut self, mut own: Self) {
        let mut hot = Vec::with_capacity(self.len());
        let mut at = self.seek(None, || {});
        while let Some(pos) = &mut at {
            hot.push(pos.cool());
            if !pos.next() {
                at = None;
            }
        }
        drop(at);
        let (mut hot, all) = (hot.into_iter(), usize::MAX);
        self.drain(
            (None, None),
            (all, all),
            false,
            |key, val| {
                own.insert(key, val);
                if hot.next() == Some(true) {
                    own.get(key, true);
                }
            },
            |_| {},
        );
        *self = own;
    }
}

impl<F: Family, V> Default for Any<F, V> {
    /// An empty one, which allocates nothing.
    fn default() -> Self {
        Any::Few(Few::default())
    }
}

impl<F: Family, V> DynamicStage<F, V> for Any<F, V> {
    type Cursor<'a>
        = AnyPos<'a, F, V>
    where
        V: 'a;

    #[inline]
    fn len(&self) -> usize {
        each!(Any, self, it => it.len())
    }
    fn bytes(&self) -> usize {
        each!(Any, self, it => it.bytes())
    }
    #[inline]
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        each!(Any, self, it => it.get(key, touch))
    }
    #[inline]
    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        each!(Any, self, it => it.get_mut(key))
    }
    #[inline]
    fn insert_and(&mut self, key: F::Ref<'_>, val: V, meanwhile: impl FnMut(Near)) -> Option<V> {
        if let Any::Few(few) = self
            && few.is_full()
        {
            self.grow();
        }
        each!(Any, self, it => it.insert_and(key, val, meanwhile))
    }
    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        each!(Any, self, it => it.remove(key))
    }
    #[inline]
    fn seek(&self, from: Option<F::Ref<'_>>, meanwhile: impl FnOnce()) -> Option<AnyPos<'_, F, V>> {
        place!(self, it => it.seek(from, meanwhile))
    }
    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<AnyPos<'_, F, V>> {
        place!(self, it => it.seek_before(to))
    }
    fn visit_mut<'a>(&'a mut self, span: Span<'_, F>, see: impl FnMut(F::Ref<'_>, &'a mut V))
    where
        V: 'a,
    {
        each!(Any, self, it => it.visit_mut(span, see));
    }
    fn room(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        each!(Any, self, it => it.room(from, to, limit))
    }

    fn count(&self, from: Option<F::Ref<'_>>, to: Option<F::Ref<'_>>, limit: usize) -> usize {
        each!(Any, self, it => it.count(from, to, limit))
    }
    fn drain(
        &mut self,
        span: Span<'_, F>,
        limits: (usize, usize),
        keep_hot: bool,
        sink: impl FnMut(F::Ref<'_>, V),
        kept: impl FnMut(F::Ref<'_>),
    ) -> (usize, bool) {
        each!(Any, self, it => it.drain(span, limits, keep_hot, sink, kept))
    }
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for AnyPos<'a, F, V> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        each!(AnyPos, self, it => it.key())
    }
    #[inline]
    fn val(&self) -> &'a V {
        each!(AnyPos, self, it => it.val())
    }
    #[inline]
    fn next(&mut self) -> bool {
        each!(AnyPos, self, it => it.next())
    }
    #[inline]
    fn prev(&mut self) -> bool {
        each!(AnyPos, self, it => it.prev())
    }
    #[inline]
    fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (AnyPos::Tree(a), AnyPos::Tree(b)) => a.same(b),
            (AnyPos::Few(a), AnyPos::Few(b)) => a.same(b),
            #[cfg(feature = "pairs")]
            (AnyPos::Skip(a), AnyPos::Skip(b)) => a.same(b),
            #[cfg(feature = "pairs")]
            (AnyPos::Mass(a), AnyPos::Mass(b)) => a.same(b),
            #[cfg(feature = "pairs")]
            (AnyPos::Art(a), AnyPos::Art(b)) => a.same(b),
            _ => false,
        }
    }
    fn cool(&self) -> bool {
        each!(AnyPos, self, it => it.cool())
    }
}
