//! The static stages that take keys of either form, behind one type: the compact forms of the pairs, and
//! compressed leaves. [`Stage`] has a name for each.

use super::compact::Levels;
#[cfg(feature = "compressed")]
use super::compressed::Compressed;
#[cfg(feature = "pairs")]
use super::pairs::{Radix, Towers, Trie, Words};
use super::sorted::Sorted;
use crate::family::{Family, KeyCursor, StaticStage};
use crate::plan::{Plan, Stage};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Makes one type of these stages and one of the places in them. Makes `each`, too, for which the dollar sign is given.
macro_rules! general {
    ($d:tt $($(#[$on:meta])* $Kind:ident($Of:ty),)*) => {
        /// One of the stages for keys of either form.
        #[allow(clippy::enum_variant_names, reason = "these are the names of `Stage`")]
        pub enum General<F: Family> {
            $($(#[$on])* $Kind(Box<$Of>),)*
        }

        /// A place in a [`General`].
        #[allow(clippy::enum_variant_names, reason = "these are the names of `Stage`")]
        pub enum GeneralCursor<'a, F: Family> {
            $($(#[$on])* $Kind(<$Of as StaticStage<F>>::Cursor<'a>),)*
        }

        /// Does the same with whichever it is.
        macro_rules! each {
            ($d of:ident, $d any:expr, $d it:ident => $d do:expr) => {
                match $d any {
                    $($(#[$on])* $d of::$Kind($d it) => $d do,)*
                }
            };
        }

        impl<F: Family> General<F> {
            /// The stage of this name; none where it is not one of these.
            pub fn build(
                stage: Stage,
                (run, from, to): (&F::Run, usize, usize),
                plan: &Plan<F::Run>,
            ) -> Option<Self> {
                Some(match stage {
                    $($(#[$on])* Stage::$Kind => {
                        let stage: $Of = StaticStage::<F>::build(run, from, to, plan);
                        General::$Kind(Box::new(stage))
                    })*
                    _ => return None,
                })
            }
            pub fn cursor(&self, rank: usize) -> GeneralCursor<'_, F> {
                match self {
                    $($(#[$on])* General::$Kind(s) => {
                        GeneralCursor::$Kind(StaticStage::<F>::cursor(&**s, rank))
                    })*
                }
            }
            pub fn merge(
                &self,
                live: impl Fn(usize) -> bool,
                n: usize,
                new: &F::Run,
                most: usize,
                before: &mut Vec<u32>,
            ) -> Option<Self> {
                Some(match self {
                    $($(#[$on])* General::$Kind(s) => {
                        let merged = StaticStage::<F>::merge(&**s, live, n, new, most, before);
                        General::$Kind(Box::new(merged?))
                    })*
                })
            }
            pub fn cut(&self, at: usize) -> Option<(Self, Self)> {
                match self {
                    $($(#[$on])* General::$Kind(s) => {
                        let (left, right) = StaticStage::<F>::cut(&**s, at)?;
                        Some((General::$Kind(left.into()), General::$Kind(right.into())))
                    })*
                }
            }
        }
    };
}

general! {
    $
    CompactBTree(Sorted<F, Levels<F>>),
    #[cfg(feature = "pairs")]
    CompactSkipList(Sorted<F, Towers>),
    #[cfg(feature = "pairs")]
    CompactMasstree(Trie<Words>),
    #[cfg(feature = "pairs")]
    CompactArt(Trie<Radix>),
    #[cfg(feature = "compressed")]
    Compressed(Compressed<F>),
}

/// As [`StaticStage`] has them.
impl<F: Family> General<F> {
    #[inline]
    pub fn len(&self) -> usize {
        each!(General, self, s => StaticStage::<F>::len(&**s))
    }
    #[inline]
    pub fn find(&self, key: F::Ref<'_>, likely: impl FnMut(usize)) -> Option<usize> {
        each!(General, self, s => StaticStage::<F>::find(&**s, key, || F::hash(key), likely))
    }
    pub fn seek(&self, key: F::Ref<'_>) -> usize {
        each!(General, self, s => StaticStage::<F>::seek(&**s, key))
    }
    pub fn decode(&self, into: &mut F::Run) {
        each!(General, self, s => StaticStage::<F>::decode(&**s, into));
    }
    pub fn cuts(&self) -> bool {
        each!(General, self, s => StaticStage::<F>::cuts(&**s))
    }
    pub fn prefetch(&self, key: F::Ref<'_>) {
        each!(General, self, s => StaticStage::<F>::prefetch(&**s, key, || F::hash(key)));
    }
    pub fn key_bytes(&self) -> usize {
        each!(General, self, s => StaticStage::<F>::key_bytes(&**s))
    }
    pub fn bytes(&self) -> usize {
        each!(General, self, s => size_of_val(&**s) + StaticStage::<F>::bytes(&**s))
    }
    pub fn stage(&self) -> Stage {
        each!(General, self, s => StaticStage::<F>::stage(&**s))
    }
}

impl<F: Family> KeyCursor<F> for GeneralCursor<'_, F> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        each!(GeneralCursor, self, c => KeyCursor::<F>::key(c))
    }
    #[inline]
    fn rank(&self) -> usize {
        each!(GeneralCursor, self, c => KeyCursor::<F>::rank(c))
    }
    #[inline]
    fn next(&mut self) -> bool {
        each!(GeneralCursor, self, c => KeyCursor::<F>::next(c))
    }
    #[inline]
    fn prev(&mut self) -> bool {
        each!(GeneralCursor, self, c => KeyCursor::<F>::prev(c))
    }
}
