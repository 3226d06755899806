//! Sorted records that go straight to the tier where records rest: the cold one, or the only one.
//!
//! Where many records are loaded at once, a hot tier is a detour: each would be put twice. In the order of
//! the structure they can be put leaf by leaf, and what lies below is then full pages in that order.
//!
//! Under the locks of all records of a run: who is in the hot tier is found out first, and goes the way of
//! any single change that goes straight to the cold tier (see [`straight`](super::write_through)), which ends
//! with the hot record erased. Others are nowhere but below (rule 1), and no thread can bring them up
//! meanwhile (rule 2), so for them changing the cold tier is all (rule 4: it upserts).

use terrace_access::{
    AccessMethod, Attempt, Ordered, Retry, Rooted, Runs, Touch, Waits, Window, WriteGuard,
};
use terrace_base::Result;

use super::tiers::{Pair, Tiers};
use crate::context::TierContext;
use crate::fault::{Fault, planted};
use crate::merging::{catch_up_for_many, note_put, note_written};
use crate::method::bytes_of;
use crate::runs::{most_misses, put_all, reach};
use crate::structure::Change;
use crate::value::{free_inside, prepare_inside};

impl<P: Pair> Tiers<P> {
    /// See [`crate::Structure::apply_run_locked`].
    pub fn put_run_cold(&self, door: &WriteGuard<'_>, run: &Window) -> Result<()> {
        self.events().writes.add(run.len() as u64);
        let inline = P::Cold::max_inline(self.store().page_bytes());
        let hot = self.which_are_hot(run)?;
        put_all(
            run.len(),
            |i| !hot[i] && run.value(i).len() <= inline,
            |which| {
                let put = self.cold().put_run(door, run, which);
                note_put(self.cold(), run, &which[..put]);
                put
            },
            |i| {
                let change = Change::Put(run.value(i));
                let key = P::Hot::key_at(run.key(i));
                note_written(self.cold(), change.bytes(key));
                self.apply_cold_locked(door, key, change)
            },
        )
    }

    /// Which records of a run the hot tier has. Their locks are held, so it stays so.
    fn which_are_hot(&self, run: &Window) -> Result<Vec<bool>> {
        let mut is_hot = vec![false; run.len()];
        let (Some(hot), Some(last)) = (self.hot(), run.len().checked_sub(1)) else {
            return Ok(is_hot);
        };
        if planted(Fault::RunPassesOverHot) {
            return Ok(is_hot);
        }
        let behind = [run.key(last), &[0]].concat();
        self.context().with_windows(|found, _| {
            found.set_keys_only(true);
            // One leaf at once: where many are loaded, or few are hot, it covers the whole run.
            let copied = self.until_done(|| {
                hot.try_window_within(run.key(0), Some(&behind), &mut |_| true, found)
            });
            copied?;
            let mut value = Vec::new();
            for (i, is_hot) in is_hot.iter_mut().enumerate() {
                let position = run.key(i);
                *is_hot = if found.high.as_deref().is_none_or(|high| position < high) {
                    let at = found.lower_bound(position);
                    at < found.len() && found.key(at) == position
                } else {
                    let key = P::Hot::key_at(position);
                    self.until_done(|| hot.try_get(key, Touch::No, &mut value))?
                        .is_some()
                };
            }
            Ok(is_hot)
        })
    }

    /// Makes one change in the cold tier, whatever it takes. The caller is inside the gate with `door`, and
    /// holds the record's lock.
    fn apply_cold_locked(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        change: Change<'_>,
    ) -> Result<()> {
        let store = self.store();
        let inline = P::Cold::max_inline(store.page_bytes());
        let value = prepare_inside(store, door, change, inline, self.expires())?;
        let old = self.until_done(|| self.apply_cold(door, key, value, &|| true, &mut || ()))?;
        free_inside(store, door, old.into_iter().flatten())
    }

    /// Does something until it works, for a caller inside the gate.
    fn until_done<T>(&self, mut f: impl FnMut() -> Attempt<T>) -> Result<T> {
        loop {
            match f() {
                Ok(done) => return Ok(done),
                Err(interrupt) => self.settle_inside(interrupt)?,
            }
        }
    }

    /// See [`crate::Structure::prefault_run`].
    pub fn prefault_run_cold(&self, run: &Window) -> Result<usize> {
        let mut waits = Waits::of_a_change();
        catch_up_for_many(self.context(), self.cold(), bytes_of(run), &mut waits)?;
        let mut misses = most_misses(run);
        let reached = reach(self.cold(), run, run.len(), &mut misses, |interrupt| {
            self.settle_read(interrupt)
        })?;
        let Some(hot) = self.hot() else {
            return Ok(reached);
        };
        // They may be out of memory after an opening, and which of these records are hot is asked inside.
        reach(hot, run, reached, &mut misses, |interrupt| {
            self.settle_read(interrupt)
        })
    }

    fn settle_read(&self, interrupt: Retry) -> Result<()> {
        let settle = |interrupt| self.context().settle(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
    }
}
