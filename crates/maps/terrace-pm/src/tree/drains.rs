//! When buffers are full: which leaves are drained, and what becomes of the node then.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use terrace_base::Result;

use super::core::Tree;
use crate::arena::BlobRef;
use crate::faults::{Planted, planted};
use crate::key::Own;
use crate::last::{Body, Buffers, Node, PAPER_SLOTS};
use crate::leaf::{Drained, Incoming, Leaf, Ready, begin, compare, fence_phase, merge, switch};
use crate::log::Flushed;

/// A leaf may be filled this far by the paper's flush before it is flushed alone.
const PAPER_SPLIT: u32 = 26;
/// Leaves beyond the fullest ones that a drain may take along, if none of them splits.
const MORE_LEAVES: usize = 2;
/// Lines of leaves that such a drain may write, so that the longest put grows no longer.
const MOST_LINES: usize = 24;
/// Nodes with fewer leaves than this, or than a quarter of what they may have, look for a neighbour to merge with.
const FEW_LEAVES: usize = 2;

/// This many leaves, these first, and then those for which most is buffered; none for which nothing is.
fn fullest(counts: &[u16; 32], mut order: Vec<usize>, many: usize) -> Vec<usize> {
    let mut left = *counts;
    for leaf in &order {
        left[*leaf] = 0;
    }
    order.reserve_exact(many - order.len());
    while order.len() < many {
        let most = left.iter().copied().max().unwrap_or(0);
        let leaf = left.iter().position(|count| *count == most);
        let Some(leaf) = leaf.filter(|_| most > 0) else {
            break;
        };
        left[leaf] = 0;
        order.push(leaf);
    }
    order
}

/// A node that was found full, with its lowest key, which stays what it is.
pub struct Full<O> {
    low: O,
    node: Arc<Node<O>>,
}

impl<O: Own> Full<O> {
    /// This node, whose latch the caller holds.
    pub fn new(node: &Arc<Node<O>>, body: &Body<O>) -> Full<O> {
        Full {
            low: body.lows[0].clone(),
            node: node.clone(),
        }
    }
}

/// Phase 1 of a drain, and which leaves of the node it has.
struct Begun<O> {
    chosen: Vec<usize>,
    ready: Ready<O>,
}

impl<O: Own> Tree<O> {
    fn most_leaves(&self) -> usize {
        self.settings.most_leaves()
    }

    /// Drains the leaves for which most is buffered.
    pub(crate) fn drain_fullest(&self, body: &mut Body<O>) -> Result<()> {
        let chosen = self.choose(body);
        self.drain_leaves(body, chosen)
    }

    /// The leaves that a full buffer drains.
    fn choose(&self, body: &Body<O>) -> Vec<usize> {
        if self.settings.buffers == Buffers::Literal {
            self.first_in_buffer(body)
        } else {
            let counts = body.buffer.counts();
            let order = fullest(&counts, Vec::new(), self.settings.drained + MORE_LEAVES);
            let first = order.len().min(self.settings.drained);
            self.with_more_leaves(body, order, first, &counts)
        }
    }

    /// Drains this leaf, and fuller ones of its node with it.
    pub(crate) fn drain_around(&self, body: &mut Body<O>, leaf: usize) -> Result<()> {
        let counts = body.buffer.counts();
        let order = fullest(&counts, vec![leaf], 1 + MORE_LEAVES);
        let chosen = self.with_more_leaves(body, order, 1, &counts);
        self.drain_leaves(body, chosen)
    }

    /// The first of these leaves, and those of the others that share the fences of a drain with them, where
    /// none of all these will split and all together are not more than a split would be.
    fn with_more_leaves(
        &self,
        body: &Body<O>,
        mut order: Vec<usize>,
        first: usize,
        counts: &[u16; 32],
    ) -> Vec<usize> {
        let others: [Option<usize>; MORE_LEAVES] =
            std::array::from_fn(|i| order.get(first + i).copied());
        order.truncate(first);
        if self.settings.buffers != Buffers::Elastic {
            return order;
        }
        let slots = self.arena.layout().shape.slots;
        let fits = |leaf: usize| {
            Leaf::new(&self.arena, body.leaves[leaf])
                .is_some_and(|stored| stored.len() + u32::from(counts[leaf]) <= slots)
        };
        // Lines of pairs, and the header twice.
        let lines = |leaf: usize| 2 + usize::from(counts[leaf]).min(7);
        if !order.iter().all(|leaf| fits(*leaf)) {
            return order;
        }
        let mut all: usize = order.iter().map(|leaf| lines(*leaf)).sum();
        let fullest = counts.iter().copied().max().unwrap_or(0);
        for leaf in others.into_iter().flatten() {
            all += lines(leaf);
            if all > MOST_LINES || counts[leaf] < fullest.div_ceil(2) {
                break;
            }
            if fits(leaf) {
                order.push(leaf);
            } else {
                self.arena.pm().has_read(1);
            }
        }
        order
    }

    /// The paper's leaf-count flush: pairs from the left, until one goes to another leaf than the first
    /// few, or would make a leaf too full; that leaf alone is taken then.
    fn first_in_buffer(&self, body: &Body<O>) -> Vec<usize> {
        let counts = body.buffer.counts();
        let mut chosen: Vec<usize> = Vec::new();
        for (_, entry) in body.buffer.iter() {
            let leaf = entry.leaf as usize;
            if chosen.contains(&leaf) {
                continue;
            }
            if chosen.len() == self.settings.drained {
                break;
            }
            let has = Leaf::new(&self.arena, body.leaves[leaf]).map_or(0, |leaf| leaf.len());
            if has + u32::from(counts[leaf]) > PAPER_SPLIT {
                if chosen.is_empty() {
                    chosen.push(leaf);
                }
                break;
            }
            chosen.push(leaf);
        }
        chosen
    }

    /// Drains these leaves of a node, and splits or merges what asks for it.
    fn drain_leaves(&self, body: &mut Body<O>, chosen: Vec<usize>) -> Result<()> {
        let begun = self.begin_drain(body, chosen)?;
        fence_phase(&self.arena)?;
        for drained in switch(&self.arena, std::iter::once(begun.ready))? {
            self.end_drain(body, &begun.chosen, drained, true)?;
        }
        Ok(())
    }

    /// Drains the fullest leaves of a node behind a record in this partition, and makes that durable with the same
    /// fences. Where the file is full the record waits in the buffer with the others.
    pub(crate) fn drain_behind(&self, body: &mut Body<O>, partition: u32) -> Result<()> {
        let number = std::iter::once(partition);
        if self.needs_records_first() {
            self.log.commit_many(number.clone())?;
        }
        let begun = match self.begin_drain(body, self.choose(body)) {
            Err(error) if error.is_disk_full() => return self.log.commit_many(number),
            begun => begun?,
        };
        let flushed = self.flush_records(number);
        fence_phase(&self.arena)?;
        self.log.note_fenced(flushed);
        for drained in switch(&self.arena, std::iter::once(begun.ready))? {
            self.end_drain(body, &begun.chosen, drained, true)?;
        }
        Ok(())
    }

    /// Begins to write the records that share a fence with a drain.
    fn flush_records(&self, partitions: impl Iterator<Item = u32>) -> Flushed {
        let partitions = partitions.filter(|_| !planted(Planted::RecordLeftOut));
        self.log.flush_many(partitions)
    }

    /// Whether leaves refer to blobs of records from phase 1 on. (The fault is about leaves alone.)
    fn needs_records_first(&self) -> bool {
        self.settings.blobs && self.settings.is_sync || planted(Planted::NoPhase)
    }

    /// Drains nodes that have become too full while writes were put together, and makes the records of these
    /// partitions durable, with two fences for all of it. Nodes are taken from left to right.
    pub(crate) fn drain_together(&self, mut full: Vec<Full<O>>, partitions: u64) -> Result<()> {
        full.sort_by(|a, b| a.low.cmp(&b.low));
        full.dedup_by(|a, b| a.low == b.low);
        let numbers = (0..self.log.count()).filter(|p| partitions >> p & 1 == 1);
        if self.needs_records_first() {
            self.log.commit_many(numbers.clone())?;
        }
        let (mut bodies, mut chosen, mut ready) = (Vec::new(), Vec::new(), Vec::new());
        let mut failed = Ok(());
        for node in &full {
            let body = node.node.body.write();
            // Another thread may have drained it, or merged it away.
            if body.is_dead || !self.is_full(&body) {
                continue;
            }
            match self.begin_drain(&body, self.choose(&body)) {
                Ok(begun) => {
                    bodies.push(body);
                    chosen.push(begun.chosen);
                    ready.push(begun.ready);
                }
                // What was begun is brought to its end.
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        let flushed = self.flush_records(numbers);
        fence_phase(&self.arena)?;
        self.log.note_fenced(flushed);
        let drained = switch(&self.arena, ready.into_iter())?;
        for ((body, chosen), drained) in bodies.iter_mut().zip(&chosen).zip(drained) {
            self.end_drain(body, chosen, drained, false)?;
        }
        failed
    }

    /// Phase 1 of a drain of these leaves of a node.
    fn begin_drain(&self, body: &Body<O>, mut chosen: Vec<usize>) -> Result<Begun<O>> {
        chosen.sort_unstable();
        let counts = body.buffer.counts();
        let mut leaves: Vec<(u32, Vec<Incoming>)> = chosen
            .iter()
            .map(|i| (body.leaves[*i], Vec::with_capacity(counts[*i].into())))
            .collect();
        let wanted = chosen.iter().fold(0u32, |bits, leaf| bits | 1 << leaf);
        for (number, entry) in body.buffer.of_leaves(wanted) {
            // Of the leaves that are drained, which one it is.
            let which = (wanted & ((1 << entry.leaf) - 1)).count_ones() as usize;
            leaves[which].1.push(Incoming {
                key: entry.key,
                value: entry.value,
                print: entry.print,
                is_delete: entry.is_delete,
                entry: number,
            });
        }
        if planted(Planted::DeadBeforeDrain) {
            for (_, incoming) in &leaves {
                for pair in incoming {
                    self.log.bury(body.buffer.place(pair.entry));
                }
            }
            self.log.free_dead()?;
        }
        self.fence_blobs(&leaves)?;
        let ready = begin::<O>(&self.arena, self.settings.blobs, &leaves)?;
        Ok(Begun { chosen, ready })
    }

    /// What a drain leaves to be done in memory, and merges and splits that follow from it. The next node is
    /// taken over only by who holds no other one (`may_absorb`).
    fn end_drain(
        &self,
        body: &mut Body<O>,
        chosen: &[usize],
        drained: Drained<O>,
        may_absorb: bool,
    ) -> Result<()> {
        for entry in &drained.done {
            self.log.bury(body.buffer.place(*entry));
        }
        self.counters.drains.fetch_add(1, Relaxed);
        self.counters
            .leaf_writes
            .fetch_add(chosen.len() as u64, Relaxed);
        self.counters
            .drained
            .fetch_add(drained.done.len() as u64, Relaxed);
        self.buffered.fetch_sub(drained.done.len(), Relaxed);
        let before = body.buffer.bytes();
        let index = body.bytes() - before;
        body.buffer.remove_all(&drained.done);
        if self.is_open.load(Relaxed) {
            // While records are replayed nothing is freed: what nothing points to is found afterwards.
            for blob in drained.dropped.into_iter().filter(|blob| *blob != 0) {
                let partition = self.log.partition_of(BlobRef(blob).hash());
                self.log.lock(partition).drop_blob(blob);
            }
        }
        let splits = drained.splits.len();
        for split in drained.splits.into_iter().rev() {
            let at = chosen[split.of];
            if body.leaves.len() == body.leaves.capacity() {
                // A little more than needed: what a node takes is counted.
                body.lows.reserve_exact(2);
                body.leaves.reserve_exact(2);
            }
            body.lows.insert(at + 1, split.low.clone());
            body.leaves.insert(at + 1, split.leaf);
            body.buffer.split_leaf(at as u8, |entry| {
                compare(&self.arena, (entry.key, entry.value), &split.low) != Ordering::Less
            });
        }
        self.counters.splits.fetch_add(splits as u64, Relaxed);
        let mut merged = 0;
        if drained.has_deleted {
            merged = self.merge_leaves(body, chosen)?;
        }
        if merged > 0 && body.leaves.capacity() > 2 * body.leaves.len() {
            body.lows.shrink_to_fit();
            body.leaves.shrink_to_fit();
        }
        let after = body.buffer.bytes();
        self.count_buffer(before, after);
        let grown = (body.bytes() - after) as i64 - index as i64;
        self.budget.change(0, splits as i64 - merged, grown, 0);
        if splits > 0 {
            self.budget.share_out();
        }
        if body.leaves.len() > self.most_leaves() {
            self.split_node(body);
        } else if may_absorb
            && drained.has_deleted
            && body.leaves.len() < FEW_LEAVES.max(self.most_leaves() / 4)
        {
            self.absorb_next(body)?;
        }
        Ok(())
    }

    /// A drain may put a reference to a blob in the place of another one at once, so what it refers to must be
    /// durable by then (rule 1). Only writes that share a fence leave any that is not.
    fn fence_blobs(&self, leaves: &[(u32, Vec<Incoming>)]) -> Result<()> {
        if !self.settings.blobs || planted(Planted::BlobNotFenced) {
            return Ok(());
        }
        let mut waiting = 0u64;
        for pair in leaves.iter().flat_map(|(_, pairs)| pairs) {
            let partition = self.log.partition_of(BlobRef(pair.value).hash());
            if self.log.has_pending(partition) {
                waiting |= 1 << partition;
            }
        }
        let numbers = (0..self.log.count()).filter(|p| waiting >> p & 1 == 1);
        self.log.commit_many(numbers)
    }

    /// Merges what a delete has left nearly empty with a neighbour under the same node.
    fn merge_leaves(&self, body: &mut Body<O>, touched: &[usize]) -> Result<i64> {
        let mut merged = 0;
        let from = touched.first().map_or(0, |i| i.saturating_sub(1));
        let mut at = from;
        while at + 1 < body.leaves.len() && at <= touched.last().map_or(0, |i| i + 1) {
            if merge(&self.arena, body.leaves[at], body.leaves[at + 1], O::BYTES)? {
                body.leaves.remove(at + 1);
                body.lows.remove(at + 1);
                body.buffer.merge_leaf(at as u8 + 1);
                merged += 1;
                // One pair of leaves a drain: its work is bounded.
                break;
            }
            at += 1;
        }
        self.counters.merges.fetch_add(merged as u64, Relaxed);
        Ok(merged)
    }

    /// Divides a node that has too many leaves.
    fn split_node(&self, body: &mut Body<O>) {
        let mut parts = 2;
        if self.settings.buffers != Buffers::Elastic && self.settings.hotness {
            let now = self.counters.writes.load(Relaxed) as u32;
            // The two levels above take any number of nodes; formula (1) is given what a parent of the
            // paper's size would have free on the average.
            let (wanted, heat) = body.heat.split(now, PAPER_SLOTS / 3);
            parts = wanted;
            body.heat = heat;
        }
        let count = body.leaves.len();
        parts = parts.min(count / 2).max(2);
        let mut nodes = Vec::new();
        let before = (body.bytes() - body.buffer.bytes()) as i64;
        let buffers = body.buffer.bytes() as i64;
        for part in (1..parts).rev() {
            let at = count * part / parts;
            let lows = body.lows.split_off(at);
            let leaves = body.leaves.split_off(at);
            let low = lows[0].clone();
            let high = body.high.replace(low.clone());
            let node = Node::new(lows, leaves, high);
            {
                let mut right = node.body.write();
                right.heat = body.heat;
                let mut moved = Vec::new();
                moved.extend(body.buffer.of_leaves(u32::MAX << at).map(|(i, _)| i));
                right.buffer.reserve(moved.len());
                for i in &moved {
                    let mut entry = body.buffer.get(*i);
                    entry.leaf -= at as u8;
                    right.buffer.push(entry, 0);
                }
                body.buffer.remove_all(&moved);
                let buffer = right.buffer.bytes() as i64;
                self.budget
                    .change(1, 0, right.bytes() as i64 - buffer, buffer);
            }
            nodes.push((low, node));
        }
        body.lows.shrink_to_fit();
        body.leaves.shrink_to_fit();
        let index = (body.bytes() - body.buffer.bytes()) as i64;
        let left = body.buffer.bytes() as i64;
        self.budget.change(0, 0, index - before, left - buffers);
        self.counters.node_splits.fetch_add(1, Relaxed);
        self.counters.node_parts.fetch_add(parts as u64, Relaxed);
        nodes.reverse();
        self.directory.insert(nodes);
        self.share_out();
    }

    /// Takes the leaves of the next node over, where a node has shrunk to one: a queue would leave a
    /// trail of empty ones.
    fn absorb_next(&self, body: &mut Body<O>) -> Result<()> {
        let Some(high) = body.high.clone() else {
            return Ok(());
        };
        let Some(next) = self.directory.find(&high) else {
            return Ok(());
        };
        // Left to right: this node is held, the next one is to its right.
        let mut right = next.body.write();
        let fits = right.leaves.len() + body.leaves.len() <= self.most_leaves() / 2 + 1
            && right.buffer.len() + body.buffer.len() <= self.cap(body) * 2;
        if !right.covers(&high) || right.lows.first() != Some(&high) || !fits {
            return Ok(());
        }
        let first = body.leaves.len();
        let own = (body.bytes() - body.buffer.bytes()) as i64;
        let buffers = (body.buffer.bytes() + right.buffer.bytes()) as i64;
        let gone = (right.bytes() - right.buffer.bytes()) as i64;
        body.lows.append(&mut right.lows);
        body.leaves.append(&mut right.leaves);
        body.buffer.reserve(body.buffer.len() + right.buffer.len());
        for (_, mut entry) in right.buffer.iter() {
            entry.leaf += first as u8;
            body.buffer.push(entry, 0);
        }
        right.buffer = crate::last::Buffer::default();
        right.is_dead = true;
        body.high = right.high.take();
        self.directory.remove(&high);
        let index = (body.bytes() - body.buffer.bytes()) as i64;
        let after = body.buffer.bytes() as i64;
        self.budget
            .change(-1, 0, index - own - gone, after - buffers);
        drop(right);
        let merged = self.merge_leaves(body, &[first])?;
        self.budget.change(0, -merged, 0, 0);
        Ok(())
    }
}
