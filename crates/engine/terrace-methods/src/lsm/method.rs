//! The LSM-tree as an access method.

use std::sync::Arc;

use terrace_access::{
    AccessMethod, Applied, Attempt, Capabilities, Edge, Expiry, Flags, Found, InStorage,
    MergeFigures, Merging, Neighbours, Ordered, Plan, PreparedDelete, RangeDeletes, Room, Runs,
    Sampled, Touch, Value, Waits, Window, WriteGuard,
};
use terrace_base::sync::atomic::Ordering;
use terrace_base::{PageId, Result};
use terrace_pages::Space;

use super::Lsm;
use crate::fault::{self, Fault, Point};

impl AccessMethod for Lsm {
    const CAPABILITIES: Capabilities = Capabilities {
        blind: true,
        cuts: true,
        ..Capabilities::PLAIN
    };

    fn try_get(&self, key: &[u8], _: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let state = self.state()?;
        let early = match fault::planted(Fault::EarlyLevels) {
            true => Some(self.find_in_levels(state, key, value)?),
            false => None,
        };
        let found = match state.top.try_get(key, Touch::No, value)? {
            Some(found) => Some(found),
            None => {
                fault::reached(Point::Looking);
                match early {
                    Some(found) => found,
                    None => self.find_in_levels(state, key, value)?,
                }
            }
        };
        Ok(found.filter(|found| !found.flags.is_deleted()))
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

    #[inline]
    fn merging(&self) -> Option<&dyn Merging> {
        Some(self)
    }
}

impl Merging for Lsm {
    fn catch_up(&self, space: Space, waits: &mut Waits) -> Result<bool> {
        self.make_due_step(space, waits)
    }

    fn slow_down(&self, bytes: usize) {
        self.wait_a_little(bytes as u64);
    }

    fn note_written(&self, bytes: usize) {
        self.counters.user_bytes.add(bytes as u64);
    }

    fn is_behind(&self) -> bool {
        self.lags_by(1)
    }

    fn tend(&self) -> Result<()> {
        self.work_ahead()
    }

    fn purge(&self, waited: bool) -> Result<bool> {
        self.purge_some(waited)
    }

    fn most_marks_above(&self) -> u64 {
        self.state
            .get()
            .map_or(u64::MAX, |state| self.most_dead(state))
    }

    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        // There is one for as long as it is open.
        let _ = self.expiry.set(expiry);
    }

    fn compress(&self, levels: u8) {
        self.compressed.store(levels, Ordering::Relaxed);
    }

    /// As long as nothing was read of it nothing is known, and it is not read for this.
    fn merge_figures(&self) -> MergeFigures {
        let known = self.state.get().and_then(|_| self.figures().ok());
        known.unwrap_or_default()
    }

    fn settle_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.merge_down(from)
    }
}

impl Ordered for Lsm {
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        self.window(edge, &mut |_| true, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.window(edge, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.state()?.top.try_span(position, window)
    }

    fn still_same(&self, _: &Window) -> bool {
        false
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        self.reach(edge)
    }

    fn try_reach_to_put(&self, position: &[u8]) -> Attempt<()> {
        self.state()?.top.try_reach(Edge::From(position))
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        self.try_window(edge, window)?;
        inside(window)
    }
}

impl Sampled for Lsm {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.random(random)
    }

    fn try_chosen(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.chosen(position, window)
    }
}

impl Runs for Lsm {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.state()?.top.try_reach_run(run, next)
    }

    fn put_run(&self, door: &WriteGuard<'_>, window: &Window, which: &[usize]) -> usize {
        let Ok(state) = self.state() else {
            return 0;
        };
        // A tombstone is put like a record, one by one.
        let is_dead = |&&i: &&usize| window.entry(i).flags.is_deleted();
        let live = which.iter().take_while(|i| !is_dead(i)).count();
        let (put, revived) = state.top.put_records(door, window, &which[..live]);
        self.counters.fewer_dead(revived as u64);
        for &i in &which[..put] {
            self.note_change(window.key(i).len() + window.value(i).len());
        }
        put
    }
}

impl Neighbours for Lsm {}

impl RangeDeletes for Lsm {
    fn prepare_cut(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        self.divide((low, high))
    }

    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
        part: bool,
    ) -> Attempt<Box<dyn PreparedDelete + 'd>> {
        Ok(Box::new(self.cut_out(door, (low, high), part)?))
    }

    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        self.close_range(door, (low, high));
    }
}

impl InStorage for Lsm {}
