//! Cleaning the log: its tail is the clock hand of the buffers.
//!
//! While the log holds more than it should, each write looks at a few records of one tail segment first. A
//! live one is copied to the head the first time; the second time its leaf is drained, for it is cold. When
//! none is left the tail moves, and the segment is free (rule 7). Nothing is held when it begins (rule 15).

use std::cmp::Ordering;
use std::sync::atomic::Ordering::Relaxed;
use terrace_base::Result;

use super::core::Tree;
use super::hand::Hand;
use crate::faults::{Planted, planted};
use crate::key::{Own, fingerprint};
use crate::last::{Entry, Place};
use crate::leaf::compare;
use crate::log::{Op, Segment, record_at};

/// Live records that one write copies at most, so that no write pays for a whole segment.
const COPIES: usize = 2;
/// Of them drained: a drain has two fences.
const DRAINS: usize = 1;

/// Writes that a segment without live records waits at most until all that replaced them is durable.
const MOST_WAITED: u32 = 64;

impl<O: Own> Tree<O> {
    /// A few steps, if the log is over its mark and no other thread does it.
    pub(crate) fn clean(&self) -> Result<()> {
        if !self.log.is_over(self.buffered()) {
            return Ok(());
        }
        let Some(mut hand) = self.cleaner.try_lock() else {
            return Ok(());
        };
        if planted(Planted::CleanWithoutEnd) {
            for _ in 0..1000 {
                self.step(&mut hand, true)?;
            }
        }
        self.step(&mut hand, false)
    }

    /// As many steps as free a segment in every partition: the file is full, for a put with a blob of this
    /// many bytes at least.
    pub(crate) fn clean_hard(&self, blob: Option<usize>) -> Result<()> {
        let mut hand = self.cleaner.lock();
        // What tails have passed is free behind a fence.
        self.log.commit_many(0..self.log.count())?;
        let records = self.arena.layout().shape.records as usize;
        let most = self.log.count() as usize * (records + 1);
        for _ in 0..most {
            if self.arena.has_room(blob) {
                break;
            }
            self.step(&mut hand, true)?;
        }
        Ok(())
    }

    fn step(&self, hand: &mut Hand, at_once: bool) -> Result<()> {
        if planted(Planted::FreedInAnyOrder) {
            return self.log.free_dead();
        }
        let (partition, segment) = match hand.at {
            Some(at) => at,
            None => {
                let Some(at) = self.longest() else {
                    return Ok(());
                };
                hand.at = Some(at);
                hand.next = 0;
                at
            }
        };
        let (mut copies, mut drains) = (0, 0);
        while let Some(index) = self.arena.next_live(segment.number, hand.next) {
            if copies >= COPIES || drains >= DRAINS {
                return Ok(());
            }
            let place = Place {
                segment: segment.number,
                index,
            };
            if self.move_on(partition, place)? {
                drains += 1;
            } else {
                copies += 1;
                hand.next = index + 1;
            }
        }
        if self.arena.next_live(segment.number, 0).is_some() {
            // A record of another thread that was not in its buffer yet: look at it the next time.
            hand.next = 0;
            return Ok(());
        }
        let mut log = self.log.lock(partition);
        // What replaced its records is often made durable soon by the write of another thread, with no fence
        // more.
        if log.is_pending() && hand.waited < MOST_WAITED && !at_once {
            hand.waited += 1;
            return Ok(());
        }
        hand.at = None;
        hand.waited = 0;
        log.free_tail(at_once)
    }

    /// The tail segment of the partition with most segments, if it has more than its head.
    fn longest(&self) -> Option<(u32, Segment)> {
        let partition = (0..self.log.count()).max_by_key(|p| self.log.length(*p))?;
        let mut locked = self.log.lock(partition);
        let known = locked.partition();
        (known.segments.len() > 1).then(|| (partition, known.segments[0]))
    }

    /// Copies a live record to the head, or drains the leaf of its pair; whether it drained.
    fn move_on(&self, partition: u32, place: Place) -> Result<bool> {
        let at = record_at(place.segment, place.index);
        let (key, value) = (self.arena.load(at), self.arena.load(at + 1));
        let own = O::of_pair(&self.arena, key, value);
        let node = self.node(&own)?;
        let mut body = node.body.write();
        if !body.covers(&own) {
            return Ok(false);
        }
        let found = body.buffer.find(key, fingerprint(own.hash()), |entry| {
            entry.place == place
                && compare(&self.arena, (entry.key, entry.value), &own) == Ordering::Equal
        });
        let Some(i) = found else {
            return Ok(false);
        };
        let entry = body.buffer.get(i);
        if entry.is_copied {
            self.drain_around(&mut body, entry.leaf as usize)?;
            return Ok(true);
        }
        let op = if entry.is_delete { Op::Delete } else { Op::Put };
        let mut log = self.log.lock(partition);
        let copied = match log.append(op, true, entry.key, entry.value) {
            Ok(copied) => copied,
            Err(error) if error.is_disk_full() => {
                // No room to copy it to: into its leaf.
                drop(log);
                self.drain_around(&mut body, entry.leaf as usize)?;
                return Ok(true);
            }
            Err(error) => return Err(error),
        };
        if !self.settings.is_sync {
            log.commit()?;
        }
        drop(log);
        body.buffer.set(
            i,
            Entry {
                place: copied,
                is_copied: true,
                ..entry
            },
        );
        // Dead at once: the tail moves only behind a fence that covers the copy.
        self.log.bury(place);
        self.counters.copies.fetch_add(1, Relaxed);
        Ok(false)
    }
}
