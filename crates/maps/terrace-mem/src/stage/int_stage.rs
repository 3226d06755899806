//! The static stages for integers, behind one type.

use super::bitmap::{Bitmap, BitmapCursor};
use super::buckets::{BucketCursor, Buckets};
use super::choose;
use super::elias_fano::{EfCursor, EliasFano};
use super::general::{General, GeneralCursor};
use super::s_tree::STree;
use crate::family::{IntFamily, KeyCursor, StaticStage};
use crate::home::Home;
use crate::plan::{Plan, Stage};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// One of the stages for integers.
pub struct IntStage(Kind);

enum Kind {
    Bits(Bitmap),
    Buckets(Buckets),
    Fano(Box<EliasFano>),
    Tree(Box<STree>),
    General(General<IntFamily>),
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
            Kind::General(s) => s.find(key, likely),
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
            // An integer is one word: there is one layer, which is a B+tree.
            #[cfg(feature = "pairs")]
            Stage::CompactMasstree => Stage::CompactBTree,
            chosen => chosen,
        };
        if let Some(stage) = General::build(stage, (run, from, to), plan) {
            return IntStage(Kind::General(stage));
        }
        IntStage(match stage {
            Stage::STree => Kind::Tree(STree::build(keys).into()),
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
            Kind::General(s) => s.len(),
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
            Kind::General(s) => s.seek(key),
        }
    }

    fn cursor(&self, rank: usize) -> IntCursor<'_> {
        match &self.0 {
            Kind::Bits(s) => IntCursor::Bits(s.cursor(rank)),
            Kind::Buckets(s) => IntCursor::Buckets(s.cursor(rank)),
            Kind::Fano(s) => IntCursor::Fano(s.cursor(rank)),
            Kind::Tree(s) => IntCursor::Slice(s.keys(), rank),
            Kind::General(s) => IntCursor::General(s.cursor(rank)),
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
            Kind::General(s) => s.decode(into),
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
        let Kind::General(s) = &self.0 else {
            return None;
        };
        let merged = s.merge(live, n, new, most, before)?;
        Some(IntStage(Kind::General(merged)))
    }

    fn cuts(&self) -> bool {
        matches!(&self.0, Kind::General(s) if s.cuts())
    }

    fn cut(&self, at: usize) -> Option<(Self, Self)> {
        let Kind::General(s) = &self.0 else {
            return None;
        };
        let (left, right) = s.cut(at)?;
        let stage = |s| IntStage(Kind::General(s));
        Some((stage(left), stage(right)))
    }

    fn prefetch(&self, key: u64, _: impl FnOnce() -> u64) {
        match &self.0 {
            Kind::Bits(s) => s.prefetch(),
            // All it begins with is in the header.
            Kind::Buckets(_) => {}
            Kind::Fano(s) => s.prefetch(key),
            Kind::Tree(s) => s.prefetch(),
            Kind::General(s) => s.prefetch(key),
        }
    }

    fn approach(&self, key: u64, _: impl FnOnce() -> u64) -> Option<usize> {
        Some(match &self.0 {
            Kind::Bits(s) => s.approach(key),
            Kind::Buckets(s) => s.approach(key),
            Kind::Fano(s) => s.approach(key),
            Kind::Tree(s) => s.seek(key),
            Kind::General(_) => return None,
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
            Kind::General(s) => s.bytes(),
        }
    }

    fn stage(&self) -> Stage {
        match &self.0 {
            Kind::Bits(_) => Stage::Bitmap,
            Kind::Buckets(_) => Stage::Buckets,
            Kind::Fano(_) => Stage::EliasFano,
            Kind::Tree(_) => Stage::STree,
            Kind::General(s) => s.stage(),
        }
    }
}

/// A place in an [`IntStage`].
pub enum IntCursor<'a> {
    /// In bitmaps.
    Bits(BitmapCursor<'a>),
    /// In buckets.
    Buckets(BucketCursor<'a>),
    /// In Elias-Fano.
    Fano(EfCursor<'a>),
    /// In an array of keys.
    Slice(&'a [u64], usize),
    /// In one of the stages that take byte strings, too.
    General(GeneralCursor<'a, IntFamily>),
}

impl KeyCursor<IntFamily> for IntCursor<'_> {
    #[inline]
    fn key(&self) -> u64 {
        match self {
            IntCursor::Bits(c) => c.key(),
            IntCursor::Buckets(c) => c.key(),
            IntCursor::Fano(c) => c.key(),
            IntCursor::Slice(keys, i) => keys[*i],
            IntCursor::General(c) => c.key(),
        }
    }
    #[inline]
    fn rank(&self) -> usize {
        match self {
            IntCursor::Bits(c) => c.rank(),
            IntCursor::Buckets(c) => c.rank(),
            IntCursor::Fano(c) => c.rank(),
            IntCursor::Slice(_, i) => *i,
            IntCursor::General(c) => c.rank(),
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
            IntCursor::General(c) => c.next(),
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
            IntCursor::General(c) => c.prev(),
        }
    }
}
