//! Figures of a level made exact again, after a range was taken out of it that nobody counted.
//!
//! The entries are looked at some leaves of the index at a time, by who is at work. What steps change in between, before
//! the place that counting has come to, counts at once; what they change behind it is counted when it is come to.

use terrace_access::LevelFigures;
use terrace_base::Result;
use terrace_base::sync::Mutex;

use super::entry::Entry;
use super::{Lsm, State};

/// Pages whose entries are looked at in one go: those of some leaves of an index. In tests of this crate fewer, so that
/// steps come in between.
const AT_ONCE: usize = if cfg!(test) { 24 } else { 1024 };

/// See the module's text. A hint, lost at an opening: then it begins again.
#[derive(Default)]
pub(crate) struct Recount(Mutex<Option<Counting>>);

struct Counting {
    level: u8,
    /// Entries that begin before this are counted.
    at: Vec<u8>,
    found: LevelFigures,
}

impl Recount {
    /// A step replaces these entries of a level by those.
    pub fn replaced<'e>(
        &self,
        level: u8,
        old: impl Iterator<Item = (&'e Vec<u8>, &'e Entry)>,
        new: impl Iterator<Item = (&'e Vec<u8>, &'e Entry)>,
    ) {
        let mut counting = self.0.lock();
        let Some(counting) = counting.as_mut().filter(|of| of.level == level) else {
            return;
        };
        for (_, entry) in old.filter(|(low, _)| **low < counting.at) {
            entry.take_from(&mut counting.found);
        }
        for (_, entry) in new.filter(|(low, _)| **low < counting.at) {
            entry.add_to(&mut counting.found);
        }
    }

    /// A range was taken out of a level: what was counted of it says nothing.
    pub fn forget(&self, level: u8) {
        let mut counting = self.0.lock();
        if counting.as_ref().is_some_and(|of| of.level == level) {
            *counting = None;
        }
    }
}

impl Lsm {
    /// Counts some entries of a level of which the figures are estimates, if there is one. The caller is at work.
    pub(crate) fn count_some(&self, state: &State) -> Result<()> {
        let Some(level) = state.downwards().find(|level| level.is_estimate()) else {
            return Ok(());
        };
        let begun = self.recount.0.lock().take();
        let begun = begun.filter(|of| of.level == level.number);
        let mut counting = begun.unwrap_or_else(|| Counting {
            level: level.number,
            at: Vec::new(),
            found: LevelFigures::default(),
        });
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
                *self.recount.0.lock() = Some(counting);
            }
            None => {
                level.set_figures(counting.found);
                level.set_estimate(false);
            }
        }
        Ok(())
    }
}
