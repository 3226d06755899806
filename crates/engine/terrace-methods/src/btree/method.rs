//! The tree as an access method.

use terrace_access::{
    AccessMethod, Applied, Attempt, Capabilities, Edge, Flags, Found, InStorage, Neighbours,
    Ordered, Plan, PreparedDelete, RangeDeletes, Room, Runs, Sampled, Sweep, Touch, Value, Window,
    WriteGuard,
};
use terrace_base::{PageId, Result};

use super::range_delete::Wanted;
use super::{BTree, scan};

impl AccessMethod for BTree {
    const CAPABILITIES: Capabilities = Capabilities {
        cuts: true,
        ..Capabilities::PLAIN
    };

    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        self.descent().get(key, touch, value)
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
        self.spares(page)
    }

    fn each_page(&self, page: &mut dyn FnMut(PageId)) {
        self.each_readable(self.root(), None, page);
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

impl Ordered for BTree {
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        let descent = self.descent();
        let leaf = descent.note_following(edge, descent.leaf_shared(edge))?;
        scan::copy(&leaf, edge, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        scan::copy_if(&self.descent().leaf_shared(edge)?, edge, select, window)
    }

    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let leaf = self.descent().leaf_shared(Edge::From(low))?;
        scan::copy_within(&leaf, low, high, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        let leaf = self.descent().leaf_shared(Edge::From(position))?;
        scan::copy_span(&leaf, position, None, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.descent().unchanged(window)
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        self.descent().reach(edge)
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let leaf = self.descent().leaf_shared(edge)?;
        scan::copy(&leaf, edge, window)?;
        inside(window)
    }
}

impl Sampled for BTree {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.descent().random_leaf(random)
    }

    fn try_leaves(&self, random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        self.descent()
            .random_way(random, 1)
            .map(|(leaves, _)| Some(leaves))
    }
}

impl Runs for BTree {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.each_leaf_of(run, next, &mut |_, records, next| {
            *next = records.end;
            Ok(())
        })
    }

    fn put_run(&self, door: &WriteGuard<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_records(door, window, which).0
    }
}

impl Neighbours for BTree {
    fn try_close_up(
        &self,
        door: &WriteGuard<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        self.nodes().close_up(door, from, to)
    }

    fn try_compact(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.nodes().compact(door, position, fill)
    }
}

impl InStorage for BTree {}

impl RangeDeletes for BTree {
    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
        part: bool,
    ) -> Attempt<Box<dyn PreparedDelete + 'd>> {
        let wanted = Wanted { part, gap: false };
        Ok(Box::new(self.cut(door, low, high, wanted)?))
    }

    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        self.close_range(door, low, high);
    }
}

impl Sweep for BTree {
    fn try_visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn terrace_access::RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.descent().visit(door, position, edit)
    }

    fn try_behind(&self, position: &[u8]) -> Attempt<Option<Vec<u8>>> {
        self.descent().behind(position)
    }

    fn try_pack(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.nodes().pack(door, position, fill)
    }
}
