//! The static stages for integers, behind one type.

#[cfg(feature = "pairs")]
use super::KeyRun;
use super::bitmap::{Bitmap, BitmapCursor};
use super::buckets::{BucketCursor, Buckets};
use super::compact::CompactTree;
#[cfg(feature = "compressed")]
use super::compressed::{Compressed, NodeCursor};
use super::elias_fano::{EfCursor, EliasFano};
use super::fixed::merged;
use super::s_tree::STree;
#[cfg(feature = "pairs")]
use super::towers::Towers;
#[cfg(feature = "pairs")]
use super::trie::{Radix, Trie, TrieCursor};
use super::{Plan, Stage, choose};
use crate::family::{IntFamily, KeyCursor, StaticStage};
use crate::home::Home;
use crate::simd;
use alloc::boxed::Box;
use alloc::vec::Vec;

/// One of the stages for integers.
pub struct IntStage(Kind);

enum Kind {
    Bits(Bitmap),
    Buckets(Buckets),
    Fano(Box<EliasFano>),
    Tree(Box<STree>),
    Compact(Box<CompactTree<IntFamily>>),
    #[cfg(feature = "pairs")]
    Skip(Box<Towers<IntFamily>>),
    #[cfg(feature = "pairs")]
    Art(Box<Trie<Radix>>),
    #[cfg(feature = "compressed")]
    Packed(Box<Compressed<IntFamily>>),
}

impl IntStage {
    /// `find` of the stages that few segments have, kept out of the way of the others: what a
    /// processor can do of the next lookup while it waits for this one is counted in instructions.
    #[inline(never)]
    fn find_other(&self, key: u64, likely: impl FnMut(usize)) -> Option<usize> {
        match &self.0 {
            Kind::Bits(s) => s.find(key, likely),
            Kind::Buckets(s) => s.find(key, likely),
            Kind::Fano(s) => s.find(key, likely),
            Kind::Tree(s) => s.find(key, likely),
            Kind::Compact(s) => s.find(key, likely),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.find(key, likely),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.find_int(key, likely),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => {
                let (rank, equal) = s.search(key);
                let mut likely = likely;
                likely(rank);
                equal.then_some(rank)
            }
        }
    }
}

impl StaticStage<IntFamily> for IntStage {
    type Cursor<'a> = IntCursor<'a>;

    fn build(run: &Vec<u64>, from: usize, to: usize, plan: &Plan<Vec<u64>>) -> Self {
        let keys = &run[from..to];
        let stage = match plan.stage {
            Stage::Auto | Stage::FrontCoded => choose::for_ints(keys),
            Stage::Buckets => choose::for_buckets(keys),
            chosen => chosen,
        };
        IntStage(match stage {
            Stage::STree => Kind::Tree(STree::build(keys).into()),
            Stage::CompactBTree => Kind::Compact(CompactTree::build(run, from, to).into()),
            #[cfg(feature = "pairs")]
            Stage::CompactSkipList => Kind::Skip(Towers::build(run, from, to).into()),
            #[cfg(feature = "pairs")]
            Stage::CompactArt => Kind::Art(Trie::build::<IntFamily>(run, from, to).into()),
            // An integer is one word: there is one layer, which is a B+tree.
            #[cfg(feature = "pairs")]
            Stage::CompactMasstree => Kind::Compact(CompactTree::build(run, from, to).into()),
            #[cfg(feature = "compressed")]
            Stage::Compressed => Kind::Packed(Compressed::build(run, from, to, plan).into()),
            Stage::Bitmap => Kind::Bits(Bitmap::build(keys)),
            Stage::Buckets => Kind::Buckets(Buckets::build(keys)),
            _ => Kind::Fano(EliasFano::build(keys).into()),
        })
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.0 {
            Kind::Bits(s) => s.len(),
            Kind::Buckets(s) => s.len(),
            Kind::Fano(s) => s.len(),
            Kind::Tree(s) => s.keys().len(),
            Kind::Compact(s) => s.keys().len(),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.keys().len(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.len(),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.len(),
        }
    }

    #[inline]
    fn find(&self, key: u64, _: impl FnOnce() -> u64, likely: impl FnMut(usize)) -> Option<usize> {
        match &self.0 {
            Kind::Buckets(s) => s.find(key, likely),
            Kind::Bits(s) => s.find(key, likely),
            _ => self.find_other(key, likely),
        }
    }

    fn seek(&self, key: u64) -> usize {
        match &self.0 {
            Kind::Bits(s) => s.seek(key),
            Kind::Buckets(s) => s.seek(key),
            Kind::Fano(s) => s.seek(key),
            Kind::Tree(s) => s.seek(key),
            Kind::Compact(s) => s.seek(key),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.seek(key),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.seek(&key.to_be_bytes()),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.search(key).0,
        }
    }

    fn cursor(&self, rank: usize) -> IntCursor<'_> {
        match &self.0 {
            Kind::Bits(s) => IntCursor::Bits(s.cursor(rank)),
            Kind::Buckets(s) => IntCursor::Buckets(s.cursor(rank)),
            Kind::Fano(s) => IntCursor::Fano(s.cursor(rank)),
            Kind::Tree(s) => IntCursor::Slice(s.keys(), rank),
            Kind::Compact(s) => IntCursor::Slice(s.keys(), rank),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => IntCursor::Slice(s.keys(), rank),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => IntCursor::Art(s.cursor(rank)),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => IntCursor::Node(s.cursor(rank)),
        }
    }

    fn seek_cursor(&self, key: u64) -> Option<IntCursor<'_>> {
        match &self.0 {
            Kind::Bits(s) => s.seek_cursor(key).map(IntCursor::Bits),
            Kind::Buckets(s) => s.seek_cursor(key).map(IntCursor::Buckets),
            Kind::Fano(s) => s.seek_cursor(key).map(IntCursor::Fano),
            _ => {
                let rank = self.seek(key);
                (rank < self.len()).then(|| self.cursor(rank))
            }
        }
    }

    fn decode(&self, into: &mut Vec<u64>) {
        match &self.0 {
            Kind::Bits(s) => s.decode(into),
            Kind::Buckets(s) => s.decode(into),
            Kind::Fano(s) => s.decode(into),
            Kind::Tree(s) => into.extend_from_slice(s.keys()),
            Kind::Compact(s) => into.extend_from_slice(s.keys()),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => into.extend_from_slice(s.keys()),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.decode::<IntFamily>(into),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.decode(into),
        }
    }

    fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &Vec<u64>,
        most: usize,
        before: &mut Vec<u32>,
    ) -> Option<Self> {
        if (n + new.len()).saturating_mul(8) > most {
            return None;
        }
        Some(IntStage(match &self.0 {
            Kind::Compact(s) => {
                let keys = merged::<IntFamily>(s.keys(), live, n, new, before);
                Kind::Compact(CompactTree::over(keys).into())
            }
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => {
                let keys = merged::<IntFamily>(s.keys(), live, n, new, before);
                Kind::Skip(Towers::over(keys).into())
            }
            #[cfg(feature = "pairs")]
            Kind::Art(s) => {
                let new = (&KeyRun::plain(new), new.len(), new.len() * 8);
                Kind::Art(s.merge(live, n, new, before)?.into())
            }
            _ => return None,
        }))
    }

    #[cfg(feature = "pairs")]
    fn cuts(&self) -> bool {
        matches!(self.0, Kind::Art(_))
    }

    #[cfg(feature = "pairs")]
    fn cut(&self, at: usize) -> Option<(Self, Self)> {
        let Kind::Art(s) = &self.0 else {
            return None;
        };
        let (left, right) = s.cut(at)?;
        let stage = |s: Trie<Radix>| IntStage(Kind::Art(s.into()));
        Some((stage(left), stage(right)))
    }

    fn prefetch(&self, key: u64, _: impl FnOnce() -> u64) {
        match &self.0 {
            Kind::Bits(s) => s.prefetch(),
            // All it begins with is in the header.
            Kind::Buckets(_) => {}
            Kind::Fano(s) => s.prefetch(key),
            Kind::Tree(s) => s.prefetch(),
            Kind::Compact(s) => simd::prefetch(s.keys(), s.keys().len() / 2),
            #[cfg(feature = "compressed")]
            Kind::Packed(_) => {}
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => simd::prefetch(s.keys(), s.keys().len() / 2),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.prefetch(),
        }
    }

    fn approach(&self, key: u64, _: impl FnOnce() -> u64) -> Option<usize> {
        Some(match &self.0 {
            Kind::Bits(s) => s.approach(key),
            Kind::Buckets(s) => s.approach(key),
            Kind::Fano(s) => s.approach(key),
            Kind::Tree(s) => s.seek(key),
            Kind::Compact(_) => return None,
            #[cfg(feature = "compressed")]
            Kind::Packed(_) => return None,
            #[cfg(feature = "pairs")]
            Kind::Skip(_) | Kind::Art(_) => return None,
        })
    }

    fn key_bytes(&self) -> usize {
        self.len() * size_of::<u64>()
    }

    fn placed(&self, home: Home<'_>) -> Option<Self> {
        Some(IntStage(match &self.0 {
            Kind::Bits(s) => Kind::Bits(s.placed(home)?),
            Kind::Buckets(s) => Kind::Buckets(s.placed(home)?),
            Kind::Fano(s) => Kind::Fano(s.placed(home)?.into()),
            Kind::Tree(s) => Kind::Tree(s.placed(home)?.into()),
            _ => return None,
        }))
    }

    fn bytes(&self) -> usize {
        match &self.0 {
            Kind::Bits(s) => s.bytes(),
            Kind::Buckets(s) => s.bytes(),
            Kind::Fano(s) => size_of_val(&**s) + s.bytes(),
            Kind::Tree(s) => size_of_val(&**s) + s.bytes(),
            Kind::Compact(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => size_of_val(&**s) + s.bytes(),
        }
    }

    fn stage(&self) -> Stage {
        match &self.0 {
            Kind::Bits(_) => Stage::Bitmap,
            Kind::Buckets(_) => Stage::Buckets,
            Kind::Fano(_) => Stage::EliasFano,
            Kind::Tree(_) => Stage::STree,
            Kind::Compact(_) => Stage::CompactBTree,
            #[cfg(feature = "pairs")]
            Kind::Skip(_) => Stage::CompactSkipList,
            #[cfg(feature = "pairs")]
            Kind::Art(_) => Stage::CompactArt,
            #[cfg(feature = "compressed")]
            Kind::Packed(_) => Stage::Compressed,
        }
    }
}

/// A place in an [`IntStage`].
#[derive(Clone)]
pub enum IntCursor<'a> {
    /// In bitmaps.
    Bits(BitmapCursor<'a>),
    /// In buckets.
    Buckets(BucketCursor<'a>),
    /// In Elias-Fano.
    Fano(EfCursor<'a>),
    /// In an array of keys.
    Slice(&'a [u64], usize),
    /// In a trie.
    #[cfg(feature = "pairs")]
    Art(TrieCursor<'a, Radix>),
    /// In a decompressed node.
    #[cfg(feature = "compressed")]
    Node(NodeCursor<'a, IntFamily>),
}

impl KeyCursor<IntFamily> for IntCursor<'_> {
    #[inline]
    fn key(&self) -> u64 {
        match self {
            IntCursor::Bits(c) => c.key(),
            IntCursor::Buckets(c) => c.key(),
            IntCursor::Fano(c) => c.key(),
            IntCursor::Slice(keys, i) => keys[*i],
            #[cfg(feature = "pairs")]
            IntCursor::Art(c) => KeyCursor::<IntFamily>::key(c),
            #[cfg(feature = "compressed")]
            IntCursor::Node(c) => c.key(),
        }
    }
    #[inline]
    fn rank(&self) -> usize {
        match self {
            IntCursor::Bits(c) => c.rank(),
            IntCursor::Buckets(c) => c.rank(),
            IntCursor::Fano(c) => c.rank(),
            IntCursor::Slice(_, i) => *i,
            #[cfg(feature = "pairs")]
            IntCursor::Art(c) => KeyCursor::<IntFamily>::rank(c),
            #[cfg(feature = "compressed")]
            IntCursor::Node(c) => c.rank(),
        }
    }
    #[inline]
    fn next(&mut self) -> bool {
        match self {
            IntCursor::Bits(c) => c.next(),
            IntCursor::Buckets(c) => c.next(),
            IntCursor::Fano(c) => c.next(),
            IntCursor::Slice(keys, i) => {
                let more = *i + 1 < keys.len();
                *i += usize::from(more);
                more
            }
            #[cfg(feature = "compressed")]
            IntCursor::Node(c) => c.next(),
            #[cfg(feature = "pairs")]
            IntCursor::Art(c) => KeyCursor::<IntFamily>::next(c),
        }
    }
    #[inline]
    fn prev(&mut self) -> bool {
        match self {
            IntCursor::Bits(c) => c.prev(),
            IntCursor::Buckets(c) => c.prev(),
            IntCursor::Fano(c) => c.prev(),
            IntCursor::Slice(_, i) => {
                let more = *i > 0;
                *i -= usize::from(more);
                more
            }
            #[cfg(feature = "compressed")]
            IntCursor::Node(c) => c.prev(),
            #[cfg(feature = "pairs")]
            IntCursor::Art(c) => KeyCursor::<IntFamily>::prev(c),
        }
    }
}
