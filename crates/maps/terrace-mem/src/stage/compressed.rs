//! Compressed leaves: nodes of 64 keys under lz4, decompressed through a cache (section 4.4).
//!
//! For comparison, as the paper has it: it saves bytes only where front coding or Elias-Fano
//! could not, and costs most of the speed. Values are not compressed: they are read in place.

use super::KeyRun;
use crate::family::Family;
use crate::plan::{NodeCache, Plan, Stage};
use crate::two_stage::{KeyCursor, StaticStage};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

pub const NODE: usize = 64;

pub struct Compressed<F: Family> {
    /// A separator for each node.
    seps: F::Run,
    /// Where each node ends in the blob.
    ends: Box<[u32]>,
    blob: Box<[u8]>,
    n: u32,
    key_bytes: usize,
    id: u64,
    cache: Arc<NodeCache<F::Run>>,
}

impl<F: Family> StaticStage<F> for Compressed<F> {
    type Cursor<'a>
        = NodeCursor<'a, F>
    where
        Self: 'a;

    fn build(run: &F::Run, from: usize, to: usize, plan: &Plan<F::Run>) -> Self {
        let cache = plan
            .cache
            .clone()
            .unwrap_or_else(|| Arc::new(NodeCache::new(0)));
        let (mut seps, mut sep) = (F::Run::default(), F::Buf::default());
        let (mut ends, mut blob, mut raw) = (Vec::new(), Vec::new(), Vec::new());
        for start in (from..to).step_by(NODE) {
            F::store(run.get(start), &mut sep);
            if start > from {
                F::shorten(run.get(start - 1), &mut sep);
            }
            seps.push(F::load(&sep));
            raw.clear();
            run.write(start, (start + NODE).min(to), &mut raw);
            blob.extend(lz4_flex::compress_prepend_size(&raw));
            ends.push(blob.len() as u32);
        }
        seps.shrink();
        Compressed {
            seps,
            ends: ends.into(),
            blob: blob.into(),
            n: (to - from) as u32,
            key_bytes: run.key_bytes(from, to),
            id: cache.next_id(),
            cache,
        }
    }

    fn len(&self) -> usize {
        self.n as usize
    }
    fn find(
        &self,
        key: F::Ref<'_>,
        _: impl FnOnce() -> u64,
        mut likely: impl FnMut(usize),
    ) -> Option<usize> {
        let (rank, equal) = self.search(key);
        likely(rank);
        equal.then_some(rank)
    }
    fn seek(&self, key: F::Ref<'_>) -> usize {
        self.search(key).0
    }
    fn cursor(&self, rank: usize) -> NodeCursor<'_, F> {
        NodeCursor {
            stage: self,
            node: self.node(rank / NODE),
            rank,
        }
    }
    fn decode(&self, into: &mut F::Run) {
        for i in 0..self.ends.len() {
            let node = self.load(i);
            into.append(&node, 0, node.len());
        }
    }
    fn key_bytes(&self) -> usize {
        self.key_bytes
    }
    fn bytes(&self) -> usize {
        self.seps.heap() + self.ends.len() * 4 + self.blob.len()
    }
    fn stage(&self) -> Stage {
        Stage::Compressed
    }
}

impl<F: Family> Compressed<F> {
    fn load(&self, node: usize) -> F::Run {
        let from = if node == 0 {
            0
        } else {
            self.ends[node - 1] as usize
        };
        let packed = &self.blob[from..self.ends[node] as usize];
        // The blob was made by `build` and never changed.
        let raw = lz4_flex::decompress_size_prepended(packed).expect("a node compressed here");
        F::Run::read(&raw)
    }

    pub fn node(&self, node: usize) -> Arc<F::Run> {
        self.cache.get((self.id, node as u32), || self.load(node))
    }

    /// The rank of the first key not less than `key`, and whether it is `key`.
    pub fn search(&self, key: F::Ref<'_>) -> (usize, bool) {
        let at = self.seps.upper_bound(0, self.seps.len(), key).max(1) - 1;
        let node = self.node(at);
        let i = node.gallop(0, node.len(), key);
        let equal = i < node.len() && F::cmp(node.get(i), key).is_eq();
        (at * NODE + i, equal)
    }
}

/// A place in a [`Compressed`]; keeps the node it stands in.
pub struct NodeCursor<'a, F: Family> {
    stage: &'a Compressed<F>,
    node: Arc<F::Run>,
    rank: usize,
}

impl<F: Family> Clone for NodeCursor<'_, F> {
    fn clone(&self) -> Self {
        NodeCursor {
            stage: self.stage,
            node: Arc::clone(&self.node),
            rank: self.rank,
        }
    }
}

impl<F: Family> NodeCursor<'_, F> {
    fn go(&mut self, rank: usize) {
        if rank / NODE != self.rank / NODE {
            self.node = self.stage.node(rank / NODE);
        }
        self.rank = rank;
    }
}

impl<F: Family> KeyCursor<F> for NodeCursor<'_, F> {
    fn key(&self) -> F::Ref<'_> {
        self.node.get(self.rank % NODE)
    }
    fn rank(&self) -> usize {
        self.rank
    }
    fn next(&mut self) -> bool {
        let more = self.rank + 1 < self.stage.len();
        if more {
            self.go(self.rank + 1);
        }
        more
    }
    fn prev(&mut self) -> bool {
        let more = self.rank > 0;
        if more {
            self.go(self.rank - 1);
        }
        more
    }
}
