//! A full bucket gives partitions to a neighbour with room before it is split.
//!
//! Neighbours are only tried: where they cannot be had at once the bucket is split alone.

use terrace_access::{Attempt, Retry, Value, WriteGuard};

use super::HashTable;
use super::directory::HashPartitions;
use super::layout::{capacity, record_bytes};
use super::split::{Pair, copies};
use super::split_point::{add_size, full, last_fitting, middle, sizes_of};

/// Part of a page that must be free in a neighbour, beyond the new record, for spilling to be worth
/// rewriting two pages.
const WORTH_SPILLING: usize = 10;
/// The same for a cold bucket, where a split is a page more for good.
const WORTH_SHARING: usize = 20;

impl HashTable {
    /// Moves the lowest partitions of the full bucket that holds `hash`, to which nothing comes while
    /// records come in order, down to its neighbour as far as that has room. Returns whether it did.
    /// Best effort: it needs no page that is not in memory. O(records).
    pub(crate) fn hand_down(&self, door: &WriteGuard<'_>, hash: u64) -> Attempt<bool> {
        let held = match self.latch(door, hash, false) {
            Ok(Some(held)) => held,
            Ok(None) | Err(Retry::Conflict) => return Ok(false),
            Err(other) => return Err(other),
        };
        let page_bytes = self.store.page_bytes();
        let least = page_bytes / WORTH_SPILLING;
        let most = full(page_bytes);
        let Ok(pair) = self.neighbour(door, held, true)? else {
            return Ok(false);
        };
        if pair.left.load() * capacity(page_bytes) as f64 > (most - least) as f64 {
            return Ok(false);
        }
        let (grains, _) = self.size()?;
        let copies = copies(&[&pair.left, &pair.right]);
        let items = self.records(&[&pair.left, &pair.right], &copies)?;
        let below = items.partition_point(|item| item.hash < grains.span(hash).low);
        let sizes = sizes_of(&items);
        match last_fitting(&grains, &sizes, pair.left.count()..below + 1, most) {
            Some((boundary, moved)) if moved >= least => {
                Ok(self.divide(door, pair, &items, Some(boundary))?.is_none())
            }
            _ => Ok(false),
        }
    }

    /// Moves partitions from the full bucket that holds `hash` to a neighbour with room, or to a new one
    /// together with a neighbour, so that a record with this value fits. Returns whether it did. Best
    /// effort. O(records).
    pub(crate) fn spill(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        key: &[u8],
        value: Value<'_>,
    ) -> Attempt<bool> {
        let mut held = match self.latch(door, hash, false) {
            Ok(Some(held)) => held,
            Ok(None) | Err(Retry::Conflict) => return Ok(false),
            Err(other) => return Err(other),
        };
        let (grains, buckets) = self.size()?;
        let bytes = record_bytes(key, value);
        for on_the_left in [false, true] {
            held = match self.neighbour(door, held, on_the_left)? {
                Err(held) => held,
                Ok(pair) => {
                    match self.level_out(door, pair, &grains, (hash, bytes), WORTH_SPILLING)? {
                        None => return Ok(true),
                        Some(pair) => pair.one(hash),
                    }
                }
            };
        }
        if grains.count() < self.grains_for(buckets + 1) {
            return Ok(false);
        }
        for on_the_left in [false, true] {
            held = match self.neighbour(door, held, on_the_left)? {
                Err(held) => held,
                Ok(pair) => match self.split_pair(door, pair, &grains, hash, bytes)? {
                    None => return Ok(true),
                    Some(pair) => pair.one(hash),
                },
            };
        }
        Ok(false)
    }

    /// The same for a full bucket of a cold tier. With `more`, neighbours that are not in memory are asked for,
    /// and two that are full become three; without, as where records come in order, a split leaves less
    /// room unused than that would.
    pub(crate) fn share(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        key: &[u8],
        value: Value<'_>,
        more: bool,
    ) -> Attempt<bool> {
        let mut held = match self.latch(door, hash, false) {
            Ok(Some(held)) => held,
            Ok(None) | Err(Retry::Conflict) => return Ok(false),
            Err(other) => return Err(other),
        };
        let (grains, buckets) = self.size()?;
        let bytes = record_bytes(key, value);
        let mut missing = None;
        for on_the_left in [true, false] {
            held = match self.neighbour_or_miss(door, held, on_the_left, &mut missing)? {
                Err(held) => held,
                Ok(pair) => {
                    match self.level_out(door, pair, &grains, (hash, bytes), WORTH_SHARING)? {
                        None => return Ok(true),
                        Some(pair) => pair.one(hash),
                    }
                }
            };
        }
        if !more {
            return Ok(false);
        }
        if let Some(pid) = missing
            && self.spared.lock().ask(pid)
        {
            return Err(Retry::Miss(pid));
        }
        if grains.count() < self.grains_for(buckets + 1) {
            return Ok(false);
        }
        for on_the_left in [true, false] {
            held = match self.neighbour(door, held, on_the_left)? {
                Err(held) => held,
                Ok(pair) => match self.split_pair(door, pair, &grains, hash, bytes)? {
                    None => return Ok(true),
                    Some(pair) => pair.one(hash),
                },
            };
        }
        Ok(false)
    }

    /// Spreads the records of two buckets, and the new one, evenly. Gives them back if there is not
    /// enough room for that.
    fn level_out<'d>(
        &self,
        door: &'d WriteGuard<'_>,
        pair: Pair<'d>,
        grains: &HashPartitions,
        (hash, bytes): (u64, usize),
        worth: usize,
    ) -> Attempt<Option<Pair<'d>>> {
        let page_bytes = self.store.page_bytes();
        let room = capacity(page_bytes);
        let both = pair.left.load() + pair.right.load();
        let wanted = (bytes + page_bytes / worth) as f64 / room as f64;
        if both + wanted > 2.0 {
            return Ok(Some(pair));
        }
        let copies = copies(&[&pair.left, &pair.right]);
        let items = self.records(&[&pair.left, &pair.right], &copies)?;
        let mut sizes = sizes_of(&items);
        add_size(&mut sizes, hash, bytes);
        let total: usize = sizes.iter().map(|size| size.1).sum();
        let fits = |left: usize| left <= room && total - left <= room;
        match middle(grains, &sizes, fits) {
            Some(boundary) if boundary != pair.right.span.low => {
                self.divide(door, pair, &items, Some(boundary))
            }
            _ => Ok(Some(pair)),
        }
    }
}
