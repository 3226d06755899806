//! The static stages for byte strings, behind one type.

use super::compact::CompactTree;
#[cfg(feature = "compressed")]
use super::compressed::{Compressed, NodeCursor};
use super::fixed::merged;
use super::front_coded::{FrontCoded, FrontCursor, Training, room_for};
#[cfg(feature = "pairs")]
use super::towers::Towers;
#[cfg(feature = "pairs")]
use super::trie::{Radix, Trie, TrieCursor, Words};
use super::{ByteRun, FixedBytes, Plan, Stage, choose};
use crate::family::{ByteFamily, FixedKeys, KeyCursor, KeyRun, StaticStage};
use crate::home::Home;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};

/// One of the stages for byte strings.
#[repr(C)]
pub struct ByteStage {
    kind: Kind,
    id: u64,
}

/// Stages that there were.
static STAGES: AtomicU64 = AtomicU64::new(0);

impl From<Kind> for ByteStage {
    fn from(kind: Kind) -> Self {
        // The first is not 0. They do not run out; those past what fits into a shortcut have none.
        let id = STAGES.fetch_add(1, Ordering::Relaxed) + 1;
        ByteStage { kind, id }
    }
}

enum Kind {
    Front(FrontCoded),
    Compact(Box<CompactTree<ByteFamily>>),
    #[cfg(feature = "pairs")]
    Skip(Box<Towers<ByteFamily>>),
    #[cfg(feature = "pairs")]
    Words(Box<Trie<Words>>),
    #[cfg(feature = "pairs")]
    Art(Box<Trie<Radix>>),
    #[cfg(feature = "compressed")]
    Packed(Box<Compressed<ByteFamily>>),
}

impl StaticStage<ByteFamily> for ByteStage {
    type Cursor<'a> = ByteCursor<'a>;

    fn build(run: &ByteRun, from: usize, to: usize, plan: &Plan<ByteRun>) -> Self {
        let stage = match plan.stage {
            Stage::CompactBTree | Stage::FrontCoded => plan.stage,
            #[cfg(feature = "compressed")]
            Stage::Compressed => plan.stage,
            #[cfg(feature = "pairs")]
            Stage::CompactSkipList | Stage::CompactMasstree | Stage::CompactArt => plan.stage,
            _ => choose::for_bytes(run, from, to),
        };
        let kind = match stage {
            Stage::CompactBTree => Kind::Compact(CompactTree::build(run, from, to).into()),
            #[cfg(feature = "pairs")]
            Stage::CompactSkipList => Kind::Skip(Towers::build(run, from, to).into()),
            #[cfg(feature = "pairs")]
            Stage::CompactMasstree => Kind::Words(Trie::build::<ByteFamily>(run, from, to).into()),
            #[cfg(feature = "pairs")]
            Stage::CompactArt => Kind::Art(Trie::build::<ByteFamily>(run, from, to).into()),
            #[cfg(feature = "compressed")]
            Stage::Compressed => Kind::Packed(Compressed::build(run, from, to, plan).into()),
            _ => {
                let n = to - from;
                let room = if plan.grows { room_for(n) } else { n };
                Kind::Front(FrontCoded::build(run, from, to, room, plan.symbols.clone()))
            }
        };
        kind.into()
    }

    #[inline]
    fn len(&self) -> usize {
        match &self.kind {
            Kind::Front(s) => s.len(),
            Kind::Compact(s) => s.keys().len(),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.keys().len(),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.len(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.len(),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.len(),
        }
    }

    #[inline]
    fn find(
        &self,
        key: &[u8],
        hash: impl FnOnce() -> u64,
        likely: impl FnMut(usize),
    ) -> Option<usize> {
        match &self.kind {
            Kind::Front(s) => s.find(key, hash(), likely),
            Kind::Compact(s) => s.find(key, likely),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.find(key, likely),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.find(key, likely),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.find(key, likely),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => {
                let (rank, equal) = s.search(key);
                let mut likely = likely;
                likely(rank);
                equal.then_some(rank)
            }
        }
    }

    fn seek(&self, key: &[u8]) -> usize {
        match &self.kind {
            Kind::Front(s) => s.seek(key),
            Kind::Compact(s) => s.seek(key),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.seek(key),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.seek(key),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.seek(key),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.search(key).0,
        }
    }

    fn cursor(&self, rank: usize) -> ByteCursor<'_> {
        match &self.kind {
            Kind::Front(s) => ByteCursor::Front(s.cursor(rank)),
            Kind::Compact(s) => ByteCursor::Slice(s.keys(), rank),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => ByteCursor::Slice(s.keys(), rank),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => ByteCursor::Words(s.cursor(rank)),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => ByteCursor::Art(s.cursor(rank)),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => ByteCursor::Node(s.cursor(rank)),
        }
    }

    fn seek_cursor(&self, key: &[u8]) -> Option<ByteCursor<'_>> {
        if let Kind::Front(s) = &self.kind {
            return s.seek_cursor(key).map(ByteCursor::Front);
        }
        let rank = self.seek(key);
        (rank < self.len()).then(|| self.cursor(rank))
    }

    fn decode(&self, into: &mut ByteRun) {
        match &self.kind {
            Kind::Front(s) => s.decode(into),
            Kind::Compact(s) => s.keys().decode(into),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.keys().decode(into),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.decode::<ByteFamily>(into),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.decode::<ByteFamily>(into),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.decode(into),
        }
    }

    fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &ByteRun,
        most: usize,
        before: &mut Vec<u32>,
    ) -> Option<Self> {
        let bytes = new.key_bytes(0, new.len());
        if self.key_bytes() + bytes > most {
            return None;
        }
        // Whether this is still the best stage is asked when the segment is cut in two.
        Some(ByteStage::from(match &self.kind {
            Kind::Front(s) => Kind::Front(s.merge(live, n, new, before)),
            Kind::Compact(s) => {
                let keys = merged::<ByteFamily>(s.keys(), live, n, new, before);
                Kind::Compact(CompactTree::over(keys).into())
            }
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => {
                let keys = merged::<ByteFamily>(s.keys(), live, n, new, before);
                Kind::Skip(Towers::over(keys).into())
            }
            #[cfg(feature = "pairs")]
            Kind::Words(s) => {
                let new = (&new.plain(), new.len(), bytes);
                Kind::Words(s.merge(live, n, new, before)?.into())
            }
            #[cfg(feature = "pairs")]
            Kind::Art(s) => {
                let new = (&new.plain(), new.len(), bytes);
                Kind::Art(s.merge(live, n, new, before)?.into())
            }
            #[cfg(feature = "compressed")]
            Kind::Packed(_) => return None,
        }))
    }

    fn merge_run(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &ByteRun,
        before: &mut Vec<u32>,
    ) -> Option<ByteRun> {
        let Kind::Front(s) = &self.kind else {
            return None;
        };
        Some(s.merge_run(live, n, new, before))
    }

    #[cfg(feature = "pairs")]
    fn cuts(&self) -> bool {
        matches!(self.kind, Kind::Words(_) | Kind::Art(_))
    }

    #[cfg(feature = "pairs")]
    fn cut(&self, at: usize) -> Option<(Self, Self)> {
        let (left, right) = match &self.kind {
            Kind::Words(s) => {
                let (left, right) = s.cut(at)?;
                (Kind::Words(left.into()), Kind::Words(right.into()))
            }
            Kind::Art(s) => {
                let (left, right) = s.cut(at)?;
                (Kind::Art(left.into()), Kind::Art(right.into()))
            }
            _ => return None,
        };
        Some((left.into(), right.into()))
    }

    #[inline]
    fn prefetch(&self, _: &[u8], hash: impl FnOnce() -> u64) {
        match &self.kind {
            Kind::Front(s) => s.prefetch(hash()),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.prefetch(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.prefetch(),
            _ => {}
        }
    }

    #[inline]
    fn approach(&self, _: &[u8], hash: impl FnOnce() -> u64) -> Option<usize> {
        match &self.kind {
            Kind::Front(s) => s.approach(hash()),
            _ => None,
        }
    }

    fn prefetch_place(&self, _: &[u8]) {
        if let Kind::Front(s) = &self.kind {
            s.prefetch_heads();
        }
    }

    fn approach_place(&self, key: &[u8]) {
        if let Kind::Front(s) = &self.kind {
            s.approach_place(key);
        }
    }

    fn sample(&self, bytes: usize) -> Option<Training> {
        match &self.kind {
            Kind::Front(s) => Some(s.sample(bytes)),
            _ => None,
        }
    }

    fn placed(&self, home: Home<'_>) -> Option<Self> {
        // Another stage, which gets an id of its own: what is told of the old one ends.
        match &self.kind {
            Kind::Front(s) => Some(Kind::Front(s.placed(home)?).into()),
            _ => None,
        }
    }

    fn key_bytes(&self) -> usize {
        match &self.kind {
            Kind::Front(s) => s.key_bytes(),
            Kind::Compact(s) => s.keys().key_bytes(),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => s.keys().key_bytes(),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => s.key_bytes(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => s.key_bytes(),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => s.key_bytes(),
        }
    }

    fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Front(s) => s.bytes(),
            Kind::Compact(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "pairs")]
            Kind::Skip(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "pairs")]
            Kind::Words(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "pairs")]
            Kind::Art(s) => size_of_val(&**s) + s.bytes(),
            #[cfg(feature = "compressed")]
            Kind::Packed(s) => size_of_val(&**s) + s.bytes(),
        }
    }

    fn stage(&self) -> Stage {
        match &self.kind {
            Kind::Front(_) => Stage::FrontCoded,
            Kind::Compact(_) => Stage::CompactBTree,
            #[cfg(feature = "pairs")]
            Kind::Skip(_) => Stage::CompactSkipList,
            #[cfg(feature = "pairs")]
            Kind::Words(_) => Stage::CompactMasstree,
            #[cfg(feature = "pairs")]
            Kind::Art(_) => Stage::CompactArt,
            #[cfg(feature = "compressed")]
            Kind::Packed(_) => Stage::Compressed,
        }
    }

    #[inline]
    fn id(&self) -> u64 {
        self.id
    }
}

/// A place in a [`ByteStage`].
pub enum ByteCursor<'a> {
    /// In front-coded blocks.
    Front(FrontCursor<'a>),
    /// In an array of keys.
    Slice(&'a FixedBytes, usize),
    /// In a trie of words.
    #[cfg(feature = "pairs")]
    Words(TrieCursor<'a, Words>),
    /// In a trie of bytes.
    #[cfg(feature = "pairs")]
    Art(TrieCursor<'a, Radix>),
    /// In a decompressed node.
    #[cfg(feature = "compressed")]
    Node(NodeCursor<'a, ByteFamily>),
}

impl KeyCursor<ByteFamily> for ByteCursor<'_> {
    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            ByteCursor::Front(c) => c.key(),
            ByteCursor::Slice(keys, i) => keys.get(*i),
            #[cfg(feature = "pairs")]
            ByteCursor::Words(c) => KeyCursor::<ByteFamily>::key(c),
            #[cfg(feature = "pairs")]
            ByteCursor::Art(c) => KeyCursor::<ByteFamily>::key(c),
            #[cfg(feature = "compressed")]
            ByteCursor::Node(c) => c.key(),
        }
    }
    #[inline]
    fn rank(&self) -> usize {
        match self {
            ByteCursor::Front(c) => c.rank(),
            ByteCursor::Slice(_, i) => *i,
            #[cfg(feature = "pairs")]
            ByteCursor::Words(c) => KeyCursor::<ByteFamily>::rank(c),
            #[cfg(feature = "pairs")]
            ByteCursor::Art(c) => KeyCursor::<ByteFamily>::rank(c),
            #[cfg(feature = "compressed")]
            ByteCursor::Node(c) => c.rank(),
        }
    }
    #[inline]
    fn next(&mut self) -> bool {
        match self {
            ByteCursor::Front(c) => c.next(),
            ByteCursor::Slice(keys, i) => {
                let more = *i + 1 < keys.len();
                *i += usize::from(more);
                more
            }
            #[cfg(feature = "compressed")]
            ByteCursor::Node(c) => c.next(),
            #[cfg(feature = "pairs")]
            ByteCursor::Words(c) => KeyCursor::<ByteFamily>::next(c),
            #[cfg(feature = "pairs")]
            ByteCursor::Art(c) => KeyCursor::<ByteFamily>::next(c),
        }
    }
    fn prev(&mut self) -> bool {
        match self {
            ByteCursor::Front(c) => c.prev(),
            ByteCursor::Slice(_, i) => {
                let more = *i > 0;
                *i -= usize::from(more);
                more
            }
            #[cfg(feature = "compressed")]
            ByteCursor::Node(c) => c.prev(),
            #[cfg(feature = "pairs")]
            ByteCursor::Words(c) => KeyCursor::<ByteFamily>::prev(c),
            #[cfg(feature = "pairs")]
            ByteCursor::Art(c) => KeyCursor::<ByteFamily>::prev(c),
        }
    }
}
