//! Figures of a level made exact again, after a range was taken out of it that was not counted.
//!
//! The entries are looked at some leaves of the index at a time, by who is at work. What steps change in between, before
//! the place that counting has come to, counts at once; what they change behind it is counted when it is come to.

use terrace_base::Result;

use super::{Lsm, State};

/// Pages whose entries are looked at in one go: those of some leaves of an index. In tests of this crate fewer, so that
/// steps come in between.
const AT_ONCE: usize = if cfg!(test) { 24 } else { 1024 };

impl Lsm {
    /// Counts some entries of a level of which the figures are estimates, if there is one. The caller is at work.
    pub(crate) fn count_some(&self, state: &State) -> Result<()> {
        let Some(level) = state.downwards().find(|level| level.is_estimate()) else {
            return Ok(());
        };
        let mut counting = self.recount.take(level.number);
        let slots = level.slots(&self.store, (&counting.at, None), AT_ONCE)?;
        // A page that a step has made since may begin before, and is counted.
        for slot in slots.iter().filter(|slot| slot.low >= counting.at) {
            if let Some(entry) = &slot.entry {
                entry.add_to(&mut counting.found);
            }
        }
        match slots.into_iter().last().and_then(|slot| slot.high) {
            Some(next) => {
                counting.at = next;
                self.recount.keep(counting);
            }
            None => {
                level.set_figures(counting.found);
                level.set_estimate(false);
            }
        }
        Ok(())
    }
}
