//! The heap as an access method.

use terrace_access::{
    AccessMethod, Applied, Attempt, Capabilities, Edge, Flags, Found, InStorage, Neighbours,
    Ordered, Plan, RangeDeletes, RecordPage, Retry, Room, Runs, Sampled, StoragePlace, StoredScan,
    Sweep, Touch, Value, Window, WriteGuard,
};
use terrace_base::{PageId, Result};

use super::Heap;

/// Rows before and behind one, in the order of the index, that may well be on the same page: the sweep of
/// a hot tier puts neighbours into the cold one together, a hundred of 120 bytes to a page.
const NEAR_ROWS: usize = 64;

impl AccessMethod for Heap {
    const CAPABILITIES: Capabilities = Capabilities {
        // A leaf of the index, the page of the row, and the one that it goes to.
        dirty_each: 3,
        indexed: true,
        shares_room: true,
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
        self.space.do_without(page, self.root)
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

impl Ordered for Heap {
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        self.window(edge, window, &mut |_| Ok(()))
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.window_if(edge, select, window)
    }

    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.window_within(low, high, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.index()?.try_span(position, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.index
            .get()
            .is_some_and(|index| index.still_same(window))
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        self.reach(edge)
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        self.window(edge, window, inside)
    }
}

impl Sampled for Heap {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.index()?.try_random(random)
    }

    fn try_leaves(&self, random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        self.index()?.try_leaves(random)
    }
}

impl Runs for Heap {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.reach_rows(run, next)
    }

    fn put_run(&self, door: &WriteGuard<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_rows(door, window, which)
    }
}

impl Neighbours for Heap {
    fn try_near(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.index()?
            .descent()
            .span_around(position, NEAR_ROWS, window)
    }

    fn try_close_up(
        &self,
        door: &WriteGuard<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        self.index()?.try_close_up(door, from, to)
    }

    /// Compacts the index, and moves rows of a thin heap page to others.
    fn try_compact(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.index()?.try_compact(door, position, fill)
    }
}

impl RangeDeletes for Heap {}

impl InStorage for Heap {
    fn begin_stored(&self) -> Option<StoredScan> {
        self.begin_scan()
    }

    fn try_stored(&self, scan: &StoredScan, window: &mut Window) -> Attempt<bool> {
        self.scan_step(scan, window)
    }

    fn end_stored(&self, scan: &StoredScan) {
        self.end_scan(scan);
    }

    fn try_compact_stored(&self, door: &WriteGuard<'_>, place: &mut StoragePlace) -> Attempt<()> {
        self.pack_stored(door, place)
    }
}

impl Sweep for Heap {
    fn try_visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, position, edit)
    }

    fn try_collect_stored(
        &self,
        place: &mut StoragePlace,
        positions: &mut Vec<Vec<u8>>,
    ) -> Attempt<bool> {
        self.collect_stored(place, positions).map(|()| true)
    }

    fn try_behind(&self, position: &[u8]) -> Attempt<Option<Vec<u8>>> {
        self.index()?.try_behind(position)
    }

    /// Packs the index, and moves rows of a thin heap page to others. Pages of rows that became free
    /// are not told of.
    fn try_pack(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        let freed = self.index()?.try_pack(door, position, fill)?;
        match self.pack_rows(door) {
            Err(Retry::Fail(e)) => Err(e.into()),
            // What could not be had at once is there the next time.
            _ => Ok(freed),
        }
    }

    fn try_gather(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.gather(door)
    }
}
