//! The static stages for byte strings, behind one type.

use super::front_coded::{FrontCoded, FrontCursor, room_for};
use super::general::{General, GeneralCursor};
use super::{ByteRun, choose};
use crate::family::{ByteFamily, KeyCursor, KeyRun, StaticStage};
use crate::home::Home;
use crate::plan::{Plan, Stage, Training};
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
    General(General<ByteFamily>),
}

impl StaticStage<ByteFamily> for ByteStage {
    type Cursor<'a> = ByteCursor<'a>;

    fn build(run: &ByteRun, from: usize, to: usize, plan: &Plan<ByteRun>) -> Self {
        let general = |stage| General::build(stage, (run, from, to), plan);
        let chosen = || match plan.stage {
            Stage::FrontCoded => None,
            _ => general(choose::for_bytes(run, from, to)),
        };
        let kind = match general(plan.stage).or_else(chosen) {
            Some(stage) => Kind::General(stage),
            None => {
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
            Kind::General(s) => s.len(),
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
            Kind::General(s) => s.find(key, likely),
        }
    }

    fn seek(&self, key: &[u8]) -> usize {
        match &self.kind {
            Kind::Front(s) => s.seek(key),
            Kind::General(s) => s.seek(key),
        }
    }

    fn cursor(&self, rank: usize) -> ByteCursor<'_> {
        match &self.kind {
            Kind::Front(s) => ByteCursor::Front(s.cursor(rank)),
            Kind::General(s) => ByteCursor::General(s.cursor(rank)),
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
            Kind::General(s) => s.decode(into),
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
            Kind::General(s) => Kind::General(s.merge(live, n, new, most, before)?),
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

    fn cuts(&self) -> bool {
        matches!(&self.kind, Kind::General(s) if s.cuts())
    }

    fn cut(&self, at: usize) -> Option<(Self, Self)> {
        let Kind::General(s) = &self.kind else {
            return None;
        };
        let (left, right) = s.cut(at)?;
        Some((Kind::General(left).into(), Kind::General(right).into()))
    }

    #[inline]
    fn prefetch(&self, key: &[u8], hash: impl FnOnce() -> u64) {
        match &self.kind {
            Kind::Front(s) => s.prefetch(hash()),
            Kind::General(s) => s.prefetch(key),
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
            Kind::General(s) => s.key_bytes(),
        }
    }

    fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Front(s) => s.bytes(),
            Kind::General(s) => s.bytes(),
        }
    }

    fn stage(&self) -> Stage {
        match &self.kind {
            Kind::Front(_) => Stage::FrontCoded,
            Kind::General(s) => s.stage(),
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
    /// In one of the others.
    General(GeneralCursor<'a, ByteFamily>),
}

impl KeyCursor<ByteFamily> for ByteCursor<'_> {
    #[inline]
    fn key(&self) -> &[u8] {
        match self {
            ByteCursor::Front(c) => c.key(),
            ByteCursor::General(c) => c.key(),
        }
    }
    #[inline]
    fn rank(&self) -> usize {
        match self {
            ByteCursor::Front(c) => c.rank(),
            ByteCursor::General(c) => c.rank(),
        }
    }
    #[inline]
    fn next(&mut self) -> bool {
        match self {
            ByteCursor::Front(c) => c.next(),
            ByteCursor::General(c) => c.next(),
        }
    }
    fn prev(&mut self) -> bool {
        match self {
            ByteCursor::Front(c) => c.prev(),
            ByteCursor::General(c) => c.prev(),
        }
    }
}
