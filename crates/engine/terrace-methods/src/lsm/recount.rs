//! How far the entries of a level are counted, of which the figures are estimates. See [`super::counting`].

use terrace_access::LevelFigures;
use terrace_base::sync::Mutex;

use super::entry::Entry;

/// How far a level is counted. A hint, lost at an opening: then it begins again.
#[derive(Default)]
pub(crate) struct Recount(Mutex<Option<Counting>>);

/// What is counted of one level.
pub(crate) struct Counting {
    pub level: u8,
    /// Entries that begin before this are counted.
    pub at: Vec<u8>,
    pub found: LevelFigures,
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

    /// What is counted of this level; nothing yet if it was another one.
    pub fn take(&self, level: u8) -> Counting {
        let begun = self.0.lock().take().filter(|of| of.level == level);
        begun.unwrap_or_else(|| Counting {
            level,
            at: Vec::new(),
            found: LevelFigures::default(),
        })
    }

    /// It goes on from here.
    pub fn keep(&self, counting: Counting) {
        *self.0.lock() = Some(counting);
    }

    /// A range was taken out of a level: what was counted of it says nothing.
    pub fn forget(&self, level: u8) {
        let mut counting = self.0.lock();
        if counting.as_ref().is_some_and(|of| of.level == level) {
            *counting = None;
        }
    }
}
