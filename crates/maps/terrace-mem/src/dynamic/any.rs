//! One of the dynamic structures. The branch on which it is comes once for each operation.

use super::few::{Few, FewPos};
#[cfg(feature = "pairs")]
use super::pairs::{Art, ArtPos, MassPos, Masstree, SkipList, SkipPos, is_word};
use super::pos::Pos;
use super::tree::Tree;
use crate::family::Family;
use crate::pair::Pair;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::vec::Vec;

/// Makes the type of all dynamic structures and that of the places in them: of two arrays, of the B+tree, and of
/// what the pairs of these names have beside. Makes `each` and `place`, too, for which the dollar sign is given.
macro_rules! any {
    ($d:tt $($(#[$on:meta])* $Kind:ident at $Pos:ident,)*) => {
        /// The dynamic stage of a map: what its [`Pair`] says, or what any is while it is small.
        pub enum Any<F: Family, V> {
            Few(Few<F, V>),
            Tree(Tree<F, V>),
            $($(#[$on])* $Kind(alloc::boxed::Box<$Kind<F, V>>),)*
        }

        /// A place in it.
        #[allow(
            clippy::large_enum_variant,
            reason = "an allocation for each range would cost more than the room on the stack"
        )]
        pub enum AnyPos<'a, F: Family, V> {
            Few(FewPos<'a, F, V>),
            Tree(Pos<'a, F, V>),
            $($(#[$on])* $Kind($Pos<'a, F, V>),)*
        }

        /// Does the same with whichever it is.
        macro_rules! each {
            ($d of:ident, $d any:expr, $d it:ident => $d do:expr) => {
                match $d any {
                    $d of::Tree($d it) => $d do,
                    $d of::Few($d it) => $d do,
                    $($(#[$on])* $d of::$Kind($d it) => $d do,)*
                }
            };
        }

        /// Does the same with whichever it is, and makes a place of what comes.
        macro_rules! place {
            ($d any:expr, $d it:ident => $d do:expr) => {
                match $d any {
                    Any::Tree($d it) => $d do.map(AnyPos::Tree),
                    Any::Few($d it) => $d do.map(AnyPos::Few),
                    $($(#[$on])* Any::$Kind($d it) => $d do.map(AnyPos::$Kind),)*
                }
            };
        }

        impl<F: Family, V> Any<F, V> {
            /// An empty one that is the structure of a pair from the beginning.
            pub fn new(pair: Pair) -> Self {
                match Self::own(pair) {
                    Pair::Auto | Pair::BTree => Any::Tree(Tree::default()),
                    $($(#[$on])* Pair::$Kind => Any::$Kind(alloc::boxed::Box::default()),)*
                }
            }
        }

        impl<F: Family, V> AnyPos<'_, F, V> {
            #[inline]
            fn is_at(&self, other: &Self) -> bool {
                match (self, other) {
                    (AnyPos::Tree(a), AnyPos::Tree(b)) => a.same(b),
                    (AnyPos::Few(a), AnyPos::Few(b)) => a.same(b),
                    $($(#[$on])* (AnyPos::$Kind(a), AnyPos::$Kind(b)) => a.same(b),)*
                    _ => false,
                }
            }
        }
    };
}

any! {
    $
    #[cfg(feature = "pairs")]
    SkipList at SkipPos,
    #[cfg(feature = "pairs")]
    Masstree at MassPos,
    #[cfg(feature = "pairs")]
    Art at ArtPos,
}

impl<F: Family, V> Any<F, V> {
    /// The pair whose dynamic structure keys of this form get.
    #[inline]
    fn own(pair: Pair) -> Pair {
        match pair {
            // An integer is one word: there is one layer, which is a B+tree.
            #[cfg(feature = "pairs")]
            Pair::Masstree if is_word::<F>() => Pair::BTree,
            pair => pair,
        }
    }

    /// Whether it is what any is while it is small, and the pair has another structure.
    #[inline]
    pub fn is_small(&self, pair: Pair) -> bool {
        match Self::own(pair) {
            // One becomes a tree on its own.
            Pair::Auto | Pair::BTree => false,
            #[cfg(feature = "pairs")]
            _ => matches!(self, Any::Few(_) | Any::Tree(_)),
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
        self.is_at(other)
    }
    fn cool(&self) -> bool {
        each!(AnyPos, self, it => it.cool())
    }
}
