//! Where hot tiers have their pages, once a database is opened: in memory alone, or in the file.
//!
//! What is saved of a hot tier in memory is a tree like a hot tier in the file, so either can be taken for the other:
//! only the entry in the catalog changes. Invariant: nothing was put into the hot tier by then.

use terrace_access::Window;
use terrace_base::{Error, Result};

use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::planted::{Fault, planted};

impl Registry {
    /// Structures of an earlier `version` have their hot tiers in memory alone from now on, where they can: their hot pages
    /// are what was saved, and their long values go below. Those of which a page cannot be read, or for whose long values
    /// there is no space, stay as they are this time. Whether there was any.
    pub fn bring_over(&self, version: u32) -> Result<bool> {
        let (mut window, mut brought_over) = (Window::new(), false);
        for open in self.all() {
            let is_older = open.spec.brought_over(version) != open.spec;
            if !is_older || open.is_dropped() || open.is_unfinished() {
                continue;
            }
            match self.make_ready(&open, &mut window) {
                Err(e) if e.is_unreadable() || matches!(e, Error::DiskFull { .. }) => continue,
                made => made?,
            }
            self.move_hot(&open, true)?;
            brought_over = true;
        }
        Ok(brought_over)
    }

    /// Has all that the hot tier of a structure has in the file be such that it can be taken for what was saved.
    fn make_ready(&self, open: &Open, window: &mut Window) -> Result<()> {
        let tried = self.as_if_in_memory(open);
        // It is not looked at once more, whatever comes of it.
        self.prepare_for(tried.spec);
        let mut has_long = false;
        let mut look = |window: &Window| {
            has_long |= (0..window.len()).any(|i| window.entry(i).large.is_some());
            Ok(())
        };
        each_saved(&tried, false, window, &mut look)?;
        each_saved(&tried, true, window, &mut look)?;
        drop(tried);
        let mut next = (has_long && !planted(Fault::LongBroughtOver)).then(Vec::new);
        while let Some(from) = next {
            next = open.structure.write_long_down(&from)?;
        }
        Ok(())
    }
}

/// Calls `each` with all that is saved of a structure, tombstones too, or with what is clean of it, window by window.
pub fn each_saved(
    open: &Open,
    clean: bool,
    window: &mut Window,
    each: &mut dyn FnMut(&Window) -> Result<()>,
) -> Result<()> {
    let mut from = Vec::new();
    while open.structure.saved_up(&from, clean, window)? {
        each(window)?;
        match window.high.take() {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(())
}
