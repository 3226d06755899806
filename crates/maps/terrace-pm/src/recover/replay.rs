//! The log into the buffers of nodes, in the order of nodes and not of the log.
//!
//! Two of three records are in their leaves already: they are dead, and nothing says so but the leaf. To look
//! there costs little only if all records of a node come together, and is safe, as what an earlier life has
//! left is durable by now. So a first pass counts how many records each node has, a second one puts their
//! places where the node's begin, and then the nodes are gone through once. Of each key the last record is
//! taken (rule 6: all its records are of one partition, so their numbers say which one it is).
//! Where the memory has no room for all places it is done for some partitions after the other.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use terrace_base::{Error, Result};

use crate::arena::BlobRef;
use crate::faults::{Planted, planted};
use crate::key::{Own, fingerprint};
use crate::last::{Body, Entry, Place, Ranks};
use crate::leaf::{Leaf, compare};
use crate::log::{Op, Record, Replayed};
use crate::threads::{PARALLEL, on_threads};
use crate::tree::Tree;

/// Bytes for each record: its place, and the number of its node.
const BYTES: usize = 2 * size_of::<u32>();
/// Bytes beside them where pairs have blobs.
const BLOB_BYTES: usize = size_of::<(u64, u32)>();
/// Of what the memory has left they take one part in this many; buffers are filled meanwhile.
const PART_OF_MEMORY: u64 = 2;
/// The number of no node.
const NONE: u32 = u32::MAX;

/// Places of records, node by node.
struct Run {
    /// How many records there are, those included that are not to be put anywhere.
    count: u64,
    places: Vec<u32>,
    /// Where the places of each node end.
    ends: Vec<u32>,
}

impl Run {
    /// The places of the records of a node.
    fn of(&self, node: usize) -> &[u32] {
        let begin = node.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[begin as usize..self.ends[node] as usize]
    }
}

/// A record on its way to its node.
struct Item<O> {
    own: O,
    hash: u64,
    record: Replayed,
    /// Which leaf of the node that is held has not got it.
    leaf: Option<u8>,
}

/// The last record of each key of a node, found by the hash of its key.
struct Items<O> {
    list: Vec<Item<O>>,
    /// Numbers in the list, from one on, by some bits of the hash; 0 is none.
    table: Vec<u32>,
}

impl<O: Own> Items<O> {
    fn clear(&mut self) {
        self.list.clear();
        self.table.fill(0);
    }

    fn add(&mut self, own: O, record: Replayed) {
        if 2 * self.list.len() >= self.table.len() {
            let places = (4 * self.list.len()).next_power_of_two().max(256);
            self.table = vec![0; places];
            for (i, item) in (1..).zip(&self.list) {
                let at = free(&self.table, item.hash);
                self.table[at] = i;
            }
        }
        let hash = own.hash();
        let mask = self.table.len() - 1;
        let mut at = hash as usize & mask;
        while let Some(known) = (self.table[at] as usize).checked_sub(1) {
            let known = &mut self.list[known];
            if known.own == own {
                if known.record.sequence < record.sequence {
                    known.record = record;
                }
                return;
            }
            at = (at + 1) & mask;
        }
        self.list.push(Item {
            own,
            hash,
            record,
            leaf: None,
        });
        self.table[at] = self.list.len() as u32;
    }
}

/// The first free place of a table for this hash.
fn free(table: &[u32], hash: u64) -> usize {
    let mask = table.len() - 1;
    let mut at = hash as usize & mask;
    while table[at] != 0 {
        at = (at + 1) & mask;
    }
    at
}

/// Replays all partitions; how many records they have.
pub fn all<O: Own>(tree: &Tree<O>, threads: usize, in_flight: usize) -> Result<u64> {
    let most = |p: u32| tree.log.most_records(p);
    let threads = match (0..tree.log.count()).map(most).sum::<usize>() {
        0..PARALLEL => 1,
        _ => threads.max(1),
    };
    let each = BYTES + if tree.settings.blobs { BLOB_BYTES } else { 0 };
    let (mut count, mut next) = (0, 0);
    while next < tree.log.count() {
        let room = tree.budget.left() / PART_OF_MEMORY;
        let (first, mut bytes) = (next, 0);
        while next < tree.log.count() {
            let more = (most(next) * each) as u64;
            if bytes > 0 && bytes + more > room {
                break;
            }
            bytes += more;
            next += 1;
        }
        // Buffers have the less for as long.
        tree.budget.lend(bytes);
        count += some(tree, first..next, threads, in_flight)?;
    }
    tree.budget.lend(0);
    Ok(count)
}

/// Replays these partitions.
fn some<O: Own>(
    tree: &Tree<O>,
    partitions: Range<u32>,
    threads: usize,
    in_flight: usize,
) -> Result<u64> {
    let (nodes, runs) = tree.directory.with_ranks(|ranks| {
        let runs = on_threads(threads, |t| {
            let own: Vec<u32> = partitions.clone().skip(t).step_by(threads).collect();
            tree.by_nodes(&own, in_flight, ranks)
        })?;
        Ok::<_, Error>((ranks.count(), runs))
    })?;
    // Each thread has nodes with as many records: hashes spread keys over runs, so one run knows for all.
    let sample = runs.iter().max_by_key(|run| run.places.len());
    let begin = |t: usize| match (sample, t) {
        (Some(run), t) if t < threads => {
            let before = run.places.len() * t / threads;
            run.ends.partition_point(|end| (*end as usize) <= before) * usize::from(t > 0)
        }
        _ => nodes,
    };
    on_threads(threads, |t| tree.put_runs(&runs, begin(t)..begin(t + 1)))?;
    Ok(runs.iter().map(|run| run.count).sum())
}

impl<O: Own> Tree<O> {
    /// Sorts the records of these partitions by their nodes.
    fn by_nodes(&self, partitions: &[u32], in_flight: usize, ranks: &Ranks<'_, O>) -> Result<Run> {
        let most = partitions.iter().map(|p| self.log.most_records(*p)).sum();
        let mut nodes: Vec<u32> = Vec::with_capacity(most);
        let mut ends = vec![0; ranks.count()];
        let mut count = 0;
        for partition in partitions {
            let before = nodes.len();
            if self.settings.blobs {
                self.find_whole(*partition, in_flight, ranks, &mut nodes)?;
            } else {
                self.log.each_place(*partition, |record| {
                    let own = record.map(|r| O::of_pair(&self.arena, r.key, r.value));
                    nodes.push(own.map_or(NONE, |own| ranks.of(&own)));
                });
            }
            count += (nodes.len() - before) as u64;
            if planted(Planted::ReplayFrees) {
                self.log.free_dead()?;
            }
        }
        for node in nodes.iter().filter(|node| **node != NONE) {
            ends[*node as usize] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            // Where they begin, until they are put there.
            sum += std::mem::replace(end, sum);
        }
        let mut places = vec![0; sum as usize];
        let all = partitions.iter().flat_map(|p| self.log.places(*p));
        for (place, node) in all.zip(&nodes).filter(|(_, node)| **node != NONE) {
            let end = &mut ends[*node as usize];
            places[*end as usize] = place.pack();
            *end += 1;
        }
        Ok(Run {
            count,
            places,
            ends,
        })
    }

    /// The nodes of the records of a partition whose blobs are whole. Of the last ones, `in_flight` may lack
    /// their blobs.
    fn find_whole(
        &self,
        partition: u32,
        in_flight: usize,
        ranks: &Ranks<'_, O>,
        nodes: &mut Vec<u32>,
    ) -> Result<()> {
        // Of several records with one blob, the last one is the one whose blob it is.
        let mut last: Vec<(u64, u32)> = Vec::with_capacity(self.log.most_records(partition));
        let mut at = 0;
        self.log.each_place(partition, |record| {
            last.extend(record.map(|record| (record.value, at)));
            at += 1;
        });
        last.sort_unstable();
        let is_last = |value: u64, at: u32| {
            let end = last.partition_point(|known| known.0 <= value);
            end == 0 || last[end - 1] == (value, at)
        };
        let (mut at, mut has_void, mut failed) = (0, false, Ok(()));
        self.log.each_place(partition, |record| {
            at += 1;
            let Some(record) = record.filter(|r| r.value == 0 || is_last(r.value, at - 1)) else {
                return nodes.push(NONE);
            };
            if (O::BYTES || record.op != Op::Delete) && !self.fits(&record) {
                // In flight, or its key has a newer record and its blob's place another blob.
                if failed.is_ok() {
                    failed = self.check_passed_over(&record, partition, in_flight);
                }
                // What is written behind it must not make it look like one that was acknowledged.
                if failed.is_ok() {
                    self.log.make_void(record.place);
                    has_void = true;
                }
                return nodes.push(NONE);
            }
            let own = O::of_pair(&self.arena, record.key, record.value);
            nodes.push(ranks.of(&own));
        });
        failed?;
        if has_void {
            self.arena.pm().fence()?;
        }
        Ok(())
    }

    /// Whether the blob of a record is whole, and its own.
    fn fits(&self, record: &Record) -> bool {
        let found = self.arena.blob(BlobRef(record.value));
        found.is_some_and(|blob| {
            let own_is_it = !O::BYTES || {
                let own = O::of_pair(&self.arena, record.key, record.value);
                own.word() == record.key && own.hash() >> 40 << 40 == BlobRef(record.value).hash()
            };
            let is_its_own = record.is_copy
                || blob.birth == record.sequence as u32
                || planted(Planted::BlobOfBefore);
            (blob.is_whole && is_its_own || planted(Planted::BlobWithoutCheck)) && own_is_it
        })
    }

    /// A record whose blob is not whole must have a newer one of its key, or be among the last.
    fn check_passed_over(&self, record: &Record, partition: u32, in_flight: usize) -> Result<()> {
        let (mut later, mut is_superseded) = (0, false);
        let newer = |next: &Record| next.sequence > record.sequence;
        for next in self.log.records(partition).filter(newer) {
            later += 1;
            is_superseded |= next.key == record.key
                && (!O::BYTES || BlobRef(next.value).hash() == BlobRef(record.value).hash());
            if is_superseded {
                break;
            }
        }
        // What one fence may cover: nothing before it was acknowledged without its blob.
        if is_superseded || later < in_flight || planted(Planted::PassedOverAnyhow) {
            return Ok(());
        }
        Err(Error::corrupt(
            self.arena.pm().name(),
            BlobRef(record.value).byte(),
            "a record of the log refers to a blob that is not what was written",
        ))
    }

    /// Puts the records of these nodes into their buffers.
    fn put_runs(&self, runs: &[Run], nodes: Range<usize>) -> Result<()> {
        let mut items = Items {
            list: Vec::new(),
            table: Vec::new(),
        };
        for node in nodes {
            for place in runs.iter().flat_map(|run| run.of(node)) {
                let record = self.log.replayed(Place::unpack(*place));
                items.add(O::of_pair(&self.arena, record.key, record.value), record);
            }
            self.put_items(&mut items.list)?;
            items.clear();
        }
        Ok(())
    }

    /// Puts these into the buffers of their nodes: of one node, as long as it is not split.
    fn put_items(&self, items: &mut Vec<Item<O>>) -> Result<()> {
        while let Some(first) = items.first() {
            let node = self.node(&first.own)?;
            let mut body = node.body.write();
            if !body.covers(&first.own) {
                continue;
            }
            items.retain_mut(|item| {
                item.leaf = None;
                if !body.covers(&item.own) {
                    return true;
                }
                let leaf = body.leaf_of(&item.own);
                let is_fresh = !self.has(body.leaves[leaf], item);
                item.leaf = is_fresh.then_some(leaf as u8);
                is_fresh
            });
            let fresh = items.iter().filter(|item| item.leaf.is_some()).count();
            let mut most = self.cap_when_opened(&body);
            if fresh > 0 && body.buffer.len() >= most {
                match self.drain_fullest(&mut body) {
                    Ok(()) => continue,
                    // In a full file they stay buffered: what is free is not known yet, and they are in the log.
                    Err(error) if error.is_disk_full() => most = usize::MAX,
                    Err(error) => return Err(error),
                }
            }
            let mut room = fresh.min(most.saturating_sub(body.buffer.len()));
            let before = body.buffer.bytes();
            let all = body.buffer.len() + room;
            body.buffer.reserve(all);
            self.buffered.fetch_add(room, Relaxed);
            items.retain(|item| match item.leaf {
                Some(leaf) if room > 0 => {
                    room -= 1;
                    self.put_fresh(&mut body, item, leaf);
                    false
                }
                _ => true,
            });
            self.count_buffer(before, body.buffer.bytes());
        }
        Ok(())
    }

    /// Whether this leaf has what the record says.
    #[inline]
    fn has(&self, leaf: u32, item: &Item<O>) -> bool {
        let Item {
            own, hash, record, ..
        } = item;
        let Some(leaf) = Leaf::new(&self.arena, leaf) else {
            return false;
        };
        let slot = leaf.find(fingerprint(*hash), |key, value| {
            compare(&self.arena, (key, value), own) == Ordering::Equal
        });
        match slot {
            None => record.op == Op::Delete,
            Some(slot) => record.op == Op::Put && leaf.pair(slot).1 == record.value,
        }
    }

    /// Puts a record that its leaf has not got into the buffer of its node.
    fn put_fresh(&self, body: &mut Body<O>, Item { hash, record, .. }: &Item<O>, leaf: u8) {
        let Place { segment, index } = record.place;
        self.arena.set_live(segment, index, true);
        let entry = Entry {
            key: record.key,
            value: record.value,
            print: fingerprint(*hash),
            place: record.place,
            leaf,
            is_delete: record.op == Op::Delete,
            is_copied: false,
            is_replayed: true,
        };
        body.buffer.push(entry, 0);
    }
}
