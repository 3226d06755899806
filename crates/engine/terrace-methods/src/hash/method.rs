//! The hash table as an access method.

use terrace_access::{
    AccessMethod, Applied, Attempt, Capabilities, Edge, Flags, Found, InStorage, Neighbours,
    Ordered, Plan, RangeDeletes, RecordPage, Room, Runs, Sampled, Sweep, Touch, Value, Window,
    WriteGuard,
};
use terrace_base::{PageId, Result};

use super::HashTable;
use super::find::page_of;
use super::position::{HASH_BYTES, hash_at, hash_of_edge};

impl AccessMethod for HashTable {
    const CAPABILITIES: Capabilities = Capabilities {
        position_prefix: HASH_BYTES,
        ..Capabilities::PLAIN
    };

    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        self.get(key, touch, value)
    }

    fn try_edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        self.edit(door, key, plan, room, commit)
    }

    fn do_without(&self, page: PageId) -> bool {
        self.spared.lock().note(page, false)
    }

    fn each_page(&self, page: &mut dyn FnMut(PageId)) {
        self.each_readable(page);
    }

    fn try_clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        self.clear_step(door)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        self.check(each, page)
    }
}

impl Ordered for HashTable {
    fn try_position<'a>(&self, key: &'a [u8], place: &'a mut Vec<u8>) -> Attempt<&'a [u8]> {
        let hash = self.try_secret()?.hash(key);
        place.clear();
        place.reserve(HASH_BYTES + key.len());
        place.extend_from_slice(&hash.to_be_bytes());
        place.extend_from_slice(key);
        Ok(place)
    }

    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy_some(&page, is_bucket, edge, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy(&page, is_bucket, select, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.unchanged(window)
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        if is_bucket {
            self.overflow_shared(&page, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy_some(&page, is_bucket, edge, window)?;
        inside(window)
    }
}

impl Sampled for HashTable {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        let hash = u64::from(random()) << 32 | u64::from(random());
        let (page, is_bucket) = self.bucket_shared(hash)?;
        if !is_bucket {
            return Ok((1.0, Vec::new()));
        }
        let span = page_of!(page)?.span;
        let share = ((span.last - span.low) as f64 + 1.0) / (u64::MAX as f64 + 1.0);
        Ok((1.0 / share, hash.to_be_bytes().to_vec()))
    }
}

impl Runs for HashTable {
    fn put_run(&self, door: &WriteGuard<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_records(door, window, which)
    }
}

impl Neighbours for HashTable {
    fn try_compact(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.compact(door, hash_at(position), fill)
    }

    fn try_close_up(
        &self,
        door: &WriteGuard<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        let next = self.close_up(door, hash_at(from))?;
        let next = next.map(|hash| hash.to_be_bytes().to_vec());
        Ok(next.filter(|next| to.is_none_or(|to| next.as_slice() < to)))
    }
}

impl RangeDeletes for HashTable {}

impl InStorage for HashTable {}

impl Sweep for HashTable {
    fn try_visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, hash_at(position), edit)
    }

    fn try_pack(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.pack(door, hash_at(position), fill)
    }
}
