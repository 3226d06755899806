//! The log as it is appended to, made durable, and freed from its tail.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use terrace_base::Result;
use terrace_base::sync::{Mutex, MutexGuard};

use super::format::{
    Op, SEGMENT_WORDS, Segment, header, record_at, record_check, tail_word, void_check,
};
use super::partition::Partition;
use super::replay::{self, Record, Replayed};
use crate::arena::{Arena, BlobRef};
use crate::faults::{Planted, planted};
use crate::key::partition;
use crate::last::Place;

/// Writes that share a fence at most: no more records of a partition wait for one.
pub const GROUP: usize = 32;
/// The log may hold this many times the records that are live, and two segments a partition.
const SLACK: usize = 3;
/// In tests with segments of fewer records than this it may hold less, so that cleaning comes soon.
const TINY_RECORDS: usize = 8;

/// What was flushed and waits for a fence: of each partition its number, the ordinal and the records of its head,
/// and the ordinal of the last segment that its tail has passed.
pub struct Flushed(Vec<(u32, u64, u32, u64)>);

/// The log.
pub struct Log {
    arena: Arc<Arena>,
    partitions: Vec<Mutex<Partition>>,
    lengths: Vec<AtomicUsize>,
    /// Segments of all partitions.
    segments: AtomicUsize,
    /// Whether records of a partition wait for a fence.
    pending: Vec<AtomicBool>,
    /// Bytes of what each partition remembers of blobs.
    limbo: Vec<AtomicUsize>,
    /// Whether records refer to blobs.
    blobs: bool,
    /// Only for the fault of partitions by turns.
    turn: AtomicU64,
}

impl Log {
    /// Over partitions as recovery has found them.
    pub fn new(arena: Arc<Arena>, partitions: Vec<Partition>, blobs: bool) -> Log {
        Log {
            pending: partitions.iter().map(|_| AtomicBool::new(false)).collect(),
            blobs,
            limbo: partitions.iter().map(|_| AtomicUsize::new(0)).collect(),
            segments: AtomicUsize::new(partitions.iter().map(|p| p.segments.len()).sum()),
            lengths: partitions
                .iter()
                .map(|partition| AtomicUsize::new(partition.segments.len()))
                .collect(),
            partitions: partitions.into_iter().map(Mutex::new).collect(),
            arena,
            turn: AtomicU64::new(0),
        }
    }

    /// The partition of a hash.
    #[inline]
    pub fn partition_of(&self, hash: u64) -> u32 {
        let count = self.partitions.len() as u32;
        if planted(Planted::PartitionByTurns) {
            return (self.turn.fetch_add(1, Relaxed) % u64::from(count)) as u32;
        }
        partition(hash, count)
    }

    /// How many partitions there are.
    #[inline]
    pub fn count(&self) -> u32 {
        self.partitions.len() as u32
    }

    /// Segments of each partition.
    #[inline]
    pub fn length(&self, partition: u32) -> usize {
        self.lengths[partition as usize].load(Relaxed)
    }

    /// Segments of all partitions.
    #[inline]
    pub fn segments(&self) -> usize {
        self.segments.load(Relaxed)
    }

    /// Whether it holds more than it should, with this many live records.
    #[inline]
    pub fn is_over(&self, live: usize) -> bool {
        let records = self.arena.layout().shape.records as usize;
        let most = if records < TINY_RECORDS {
            live + records * self.partitions.len()
        } else {
            SLACK * live + 2 * records * self.partitions.len()
        };
        self.segments() * records > most
    }

    /// Takes a partition.
    #[inline]
    pub fn lock(&self, partition: u32) -> Locked<'_> {
        Locked {
            log: self,
            number: partition,
            guard: self.partitions[partition as usize].lock(),
        }
    }

    /// Makes everything of a partition durable, without holding it while waiting.
    pub fn commit_apart(&self, partition: u32) -> Result<()> {
        self.commit_many(std::iter::once(partition))
    }

    /// Makes everything of these partitions durable with one fence.
    pub fn commit_many(&self, partitions: impl Iterator<Item = u32>) -> Result<()> {
        let flushed = self.flush_many(partitions);
        if flushed.0.is_empty() {
            return Ok(());
        }
        if !planted(Planted::AcknowledgedWithoutFence) {
            self.arena.pm().fence()?;
        }
        self.note_fenced(flushed);
        Ok(())
    }

    /// Begins to write everything of these partitions; a fence of this thread makes it durable.
    pub fn flush_many(&self, partitions: impl Iterator<Item = u32>) -> Flushed {
        let flushed = partitions.map(|number| {
            let locked = self.lock(number);
            locked.flush_pending();
            let passed = locked.guard.passed.back().map_or(0, |gone| gone.ordinal);
            (number, locked.guard.last, locked.guard.fill, passed)
        });
        Flushed(flushed.collect())
    }

    /// What was flushed is durable now.
    pub fn note_fenced(&self, flushed: Flushed) {
        for (number, segment, fill, passed) in flushed.0 {
            let mut locked = self.lock(number);
            locked.release_passed(passed);
            if locked.guard.last == segment && locked.guard.durable < fill {
                locked.guard.durable = fill;
                locked.note_pending();
            }
        }
    }

    /// Whether records of this partition wait for a fence. False is true of everything that the caller has
    /// seen, in a buffer for example.
    pub fn has_pending(&self, partition: u32) -> bool {
        self.pending[partition as usize].load(Acquire)
    }

    /// The record is dead: what replaced it is on its way, or in its leaf.
    #[inline]
    pub fn bury(&self, place: Place) {
        self.arena.set_live(place.segment, place.index, false);
    }

    /// For planted faults: frees what is dead by the wrong rule.
    pub fn free_dead(&self) -> Result<()> {
        for partition in 0..self.count() {
            let mut locked = self.lock(partition);
            if planted(Planted::FreedInAnyOrder) {
                locked.free_anywhere();
                continue;
            }
            loop {
                let known = locked.partition();
                let is_dead = known.segments.len() > 1
                    && (self.arena.next_live(known.segments[0].number, 0)).is_none();
                if !is_dead {
                    break;
                }
                locked.free_tail(true)?;
            }
        }
        Ok(())
    }

    /// Bytes of memory for blobs that are free when the tail has passed their records.
    pub fn limbo(&self) -> usize {
        self.limbo.iter().map(|bytes| bytes.load(Relaxed)).sum()
    }

    /// Bytes of memory for the rest.
    pub fn memory(&self) -> usize {
        // Queues grow by doubling.
        2 * self.segments() * size_of::<Segment>() + self.partitions.len() * 256
    }
}

/// A partition that is held.
pub struct Locked<'a> {
    log: &'a Log,
    number: u32,
    guard: MutexGuard<'a, Partition>,
}

impl Locked<'_> {
    /// The partition.
    #[inline]
    pub fn partition(&mut self) -> &mut Partition {
        &mut self.guard
    }

    /// The sequence number of the next record, for which there is room.
    #[inline]
    pub fn next_sequence(&mut self) -> Result<u64> {
        let records = self.log.arena.layout().shape.records;
        if self.guard.segments.is_empty() || self.guard.fill >= records {
            self.new_segment()?;
        }
        Ok(self.guard.last * u64::from(records) + u64::from(self.guard.fill))
    }

    /// Writes a record to the head; durable after [`Locked::commit`]. A copy of an older record is marked as
    /// one: its blob came by another record.
    ///
    /// No more than a group of records waits for a fence: recovery knows by that which ones may lack a blob.
    #[inline]
    pub fn append(&mut self, op: Op, is_copy: bool, key: u64, value: u64) -> Result<Place> {
        if (self.guard.fill - self.guard.durable) as usize >= GROUP {
            self.commit()?;
        }
        let sequence = self.next_sequence()?;
        let arena = &*self.log.arena;
        let layout = arena.layout();
        let head = self.guard.segments[self.guard.segments.len() - 1];
        let index = self.guard.fill;
        let op = op as u64 | u64::from(is_copy) << 1;
        let words = [key, value, sequence << 2 | op];
        let check = record_check(layout.map_id, self.number, words);
        let at = record_at(head.number, index);
        let [key, value, sequence] = words;
        arena.pm().store_all(at, &[key, value, sequence, check]);
        self.guard.fill += 1;
        self.note_pending();
        arena.set_live(head.number, index, true);
        Ok(Place {
            segment: head.number,
            index,
        })
    }

    fn flush_pending(&self) {
        if !self.guard.passed.is_empty() && !planted(Planted::TailNotFenced) {
            let arena = &*self.log.arena;
            arena.pm().flush(arena.layout().tail(self.number), 1);
        }
        let Some(head) = self.guard.segments.back() else {
            return;
        };
        let from = if planted(Planted::OwnRecordOnly) {
            self.guard.fill.saturating_sub(1).max(self.guard.durable)
        } else {
            self.guard.durable
        };
        if from < self.guard.fill {
            let arena = &*self.log.arena;
            let count = (self.guard.fill - from) as usize * 4;
            arena.pm().flush(record_at(head.number, from), count);
            // Their blobs, too: who wrote them may not have fenced. Those of copies are durable.
            for at in (from..self.guard.fill).map(|index| record_at(head.number, index)) {
                if self.log.blobs && arena.load(at + 2) & 2 == 0 && arena.load(at + 1) != 0 {
                    arena.flush_blob(BlobRef(arena.load(at + 1)));
                }
            }
        }
    }

    #[inline]
    fn note_pending(&self) {
        let is_pending = self.is_pending();
        self.log.pending[self.number as usize].store(is_pending, Release);
    }

    /// Whether records wait for a fence.
    #[inline]
    pub fn is_pending(&self) -> bool {
        self.guard.durable < self.guard.fill
    }

    /// Makes everything so far durable.
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        if self.is_pending() || !self.guard.passed.is_empty() {
            let passed = self.guard.passed.back().map_or(0, |gone| gone.ordinal);
            self.flush_pending();
            if !planted(Planted::AcknowledgedWithoutFence) {
                self.log.arena.pm().fence()?;
            }
            self.guard.durable = self.guard.fill;
            self.note_pending();
            self.release_passed(passed);
        }
        Ok(())
    }

    /// A blob that is free once no record of the log can refer to it.
    pub fn drop_blob(&mut self, blob: u64) {
        if planted(Planted::BlobFreedEarly) {
            self.log.arena.release_blob(BlobRef(blob));
        } else {
            let newest = self.guard.last;
            self.guard.in_limbo += 1;
            match self.guard.limbo.back_mut() {
                Some((ordinal, blobs)) if *ordinal == newest => blobs.push(blob),
                before => {
                    if let Some((_, blobs)) = before {
                        blobs.shrink_to_fit();
                    }
                    self.guard.limbo.push_back((newest, vec![blob]));
                }
            }
            self.count_limbo();
        }
    }

    fn count_limbo(&mut self) {
        let list = size_of::<(u64, Vec<u64>)>() + 16;
        let bytes = self.guard.in_limbo * size_of::<u64>() + self.guard.limbo.len() * list;
        self.log.limbo[self.number as usize].store(bytes, Relaxed);
    }

    /// A header is durable before the first record behind it, and after every record before it.
    fn new_segment(&mut self) -> Result<()> {
        self.commit()?;
        let arena = &*self.log.arena;
        let number = arena.take_segment()?;
        let ordinal = self.guard.last + 1;
        let at = number as usize * SEGMENT_WORDS;
        for (i, word) in header(arena.layout().map_id, self.number, ordinal)
            .into_iter()
            .enumerate()
        {
            arena.pm().store(at + i, word);
        }
        arena.pm().flush(at, 4);
        if !planted(Planted::HeaderNotFenced) {
            arena.pm().fence()?;
        }
        self.guard.last = ordinal;
        self.guard.fill = 0;
        self.guard.durable = 0;
        self.guard.segments.push_back(Segment { number, ordinal });
        self.count();
        Ok(())
    }

    #[inline]
    fn count(&self) {
        let length = self.guard.segments.len();
        let before = self.log.lengths[self.number as usize].swap(length, Relaxed);
        // By a difference that may be negative.
        let change = length.wrapping_sub(before);
        self.log.segments.fetch_add(change, Relaxed);
    }

    /// Moves the tail behind its segment, whose records are all dead. The segment is free with the next
    /// fence of the partition, or at once.
    pub fn free_tail(&mut self, at_once: bool) -> Result<()> {
        // What replaced its records may wait for a fence yet (rule 4).
        if !planted(Planted::CopyNotFenced) {
            self.commit()?;
        }
        let arena = &*self.log.arena;
        let Some(gone) = self.guard.segments.pop_front() else {
            return Ok(());
        };
        let layout = arena.layout();
        let word = layout.tail(self.number);
        arena.pm().store(
            word,
            tail_word(layout.map_id, self.number, gone.ordinal + 1),
        );
        self.guard.passed.push_back(gone);
        self.count();
        if planted(Planted::TailNotFenced) {
            self.release_passed(gone.ordinal);
        }
        if at_once { self.commit() } else { Ok(()) }
    }

    /// Segments up to this one are free: the tail behind them is durable (rule 11).
    fn release_passed(&mut self, last: u64) {
        if self.guard.passed.is_empty() {
            return;
        }
        let arena = &*self.log.arena;
        while let Some(gone) = self.guard.passed.front().copied() {
            if gone.ordinal > last {
                break;
            }
            self.guard.passed.pop_front();
            arena.release_segment(gone.number);
            while let Some((ordinal, _)) = self.guard.limbo.front()
                && *ordinal <= gone.ordinal
            {
                let (_, blobs) = self.guard.limbo.pop_front().unwrap_or_default();
                self.guard.in_limbo -= blobs.len();
                for blob in blobs {
                    arena.release_blob(BlobRef(blob));
                }
            }
        }
        self.count_limbo();
    }

    /// The fault of freeing in any order: every segment without a live record but the head.
    pub fn free_anywhere(&mut self) {
        let arena = &*self.log.arena;
        let head = self.guard.last;
        self.guard.segments.retain(|segment| {
            let [a, b] = arena.live_bits(segment.number);
            let dead = a.load(Relaxed) == 0 && b.load(Relaxed) == 0;
            if dead && segment.ordinal != head {
                arena.release_segment(segment.number);
                return false;
            }
            true
        });
        self.count();
    }
}

impl Log {
    /// The records of a partition as recovery has found them, from the tail on, without the partition held.
    pub fn records(&self, number: u32) -> impl Iterator<Item = Record> + '_ {
        self.filled(number).flat_map(move |(segment, fill)| {
            (0..fill).filter_map(move |index| {
                let found = replay::record(&self.arena, number, segment, index);
                found.filter(|record| !record.is_void)
            })
        })
    }

    /// The places of a partition that have records, void ones too, from the tail on.
    pub fn places(&self, number: u32) -> impl Iterator<Item = Place> + '_ {
        self.filled(number).flat_map(|(segment, fill)| {
            let segment = segment.number;
            (0..fill).map(move |index| Place { segment, index })
        })
    }

    /// Shows what lies in these places; `None` for a void record.
    #[inline]
    pub fn each_place(&self, number: u32, mut show: impl FnMut(Option<Record>)) {
        for (segment, fill) in self.filled(number) {
            for index in 0..fill {
                let found = replay::record(&self.arena, number, segment, index);
                show(found.filter(|record| !record.is_void));
            }
        }
    }

    /// Segments of a partition as recovery has found them, and how many records each has.
    fn filled(&self, number: u32) -> impl Iterator<Item = (Segment, u32)> + use<> {
        let records = self.arena.layout().shape.records;
        let (segments, last, fill) = {
            let mut locked = self.lock(number);
            let known = locked.partition();
            let segments: Vec<Segment> = known.segments.iter().copied().collect();
            (segments, known.last, known.fill)
        };
        segments.into_iter().map(move |segment| {
            let is_head = segment.ordinal == last;
            (segment, if is_head { fill } else { records })
        })
    }

    /// What the record of a place says, which was found to be one before.
    #[inline]
    pub fn replayed(&self, place: Place) -> Replayed {
        replay::read(&self.arena, place)
    }

    /// How many records a partition has at most.
    pub fn most_records(&self, number: u32) -> usize {
        self.length(number) * self.arena.layout().shape.records as usize
    }

    /// Makes a record void; a fence makes that durable.
    pub fn make_void(&self, place: Place) {
        let at = record_at(place.segment, place.index) + 3;
        let pm = self.arena.pm();
        pm.store(at, void_check(self.arena.load(at)));
        pm.flush(at, 1);
    }
}
