//! The tree as an access method.

use terrace_access::{
    AccessMethod, Applied, Attempt, Cut, Cuts, Door, Edge, Flags, Found, InStorage, Interrupt,
    Neighbours, Ordered, Plan, Room, Runs, Sampled, Sweep, Touch, Value, Window,
};
use terrace_base::sync::spin_loop;
use terrace_base::{PageId, Result};

use super::cut::Wanted;
use super::descend::PATIENCE;
use super::{BTree, scan};

impl AccessMethod for BTree {
    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        self.get(key, touch, value)
    }

    fn try_edit<'v>(
        &self,
        door: &Door<'_>,
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

    fn try_clear_step(&self, door: &Door<'_>) -> Attempt<bool> {
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
        scan::copy(&self.leaf_shared(edge)?, edge, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        scan::copy_if(&self.leaf_shared(edge)?, edge, select, window)
    }

    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(low))?;
        scan::copy_within(&leaf, low, high, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(position))?;
        scan::copy_span(&leaf, position, None, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.unchanged(window)
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        for _ in 0..PATIENCE {
            match self.descend(edge, 0) {
                Err(Interrupt::Conflict) => spin_loop(),
                other => return other.map(|_| ()),
            }
        }
        self.descend_shared(edge).map(|_| ())
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(edge)?;
        scan::copy(&leaf, edge, window)?;
        inside(window)
    }
}

impl Sampled for BTree {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.random_leaf(random)
    }

    fn try_leaves(&self, random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        self.random_way(random, 1).map(|(leaves, _)| Some(leaves))
    }
}

impl Runs for BTree {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.each_leaf_of(run, next, &mut |_, records, next| {
            *next = records.end;
            Ok(())
        })
    }

    fn put_run(&self, door: &Door<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_records(door, window, which).0
    }
}

impl Neighbours for BTree {
    fn try_close_up(
        &self,
        door: &Door<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        self.close_up(door, from, to)
    }

    fn try_compact(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.compact(door, position, fill)
    }
}

impl InStorage for BTree {}

impl Cuts for BTree {
    const CUTS: bool = true;

    fn try_cut<'d>(
        &'d self,
        door: &'d Door<'_>,
        low: &[u8],
        high: Option<&[u8]>,
        part: bool,
    ) -> Attempt<Box<dyn Cut + 'd>> {
        let wanted = Wanted { part, gap: false };
        Ok(Box::new(self.cut(door, low, high, wanted)?))
    }

    fn close_cut(&self, door: &Door<'_>, low: &[u8], high: Option<&[u8]>) {
        self.close_range(door, low, high);
    }
}

impl Sweep for BTree {
    fn try_visit(
        &self,
        door: &Door<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn terrace_access::RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, position, edit)
    }

    fn try_pack(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.pack(door, position, fill)
    }
}
