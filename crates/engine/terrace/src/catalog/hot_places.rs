//! Where hot tiers have their pages, once a database is opened: in memory alone, or in the file.
//!
//! What is saved of a hot tier in memory is a tree like a hot tier in the file, so either can be taken for the other:
//! only the entry in the catalog changes. Invariant: nothing was put into the hot tier by then.

use terrace_access::Window;
use terrace_base::Result;
use terrace_pages::{HOT_IN_MEMORY, UNLOGGED_IN_MEMORY};

use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::planted::{Fault, planted};

impl Registry {
    /// Structures of an earlier `version` have their hot tiers in memory alone from now on, where they can: their hot pages
    /// are what was saved. Those of which a page cannot be read, and those with long values above, whose pages the hot
    /// tier owns, stay as they are. Whether there was any.
    pub fn bring_over(&self, version: u32) -> Result<bool> {
        let (mut window, mut brought_over) = (Window::new(), false);
        for open in self.all() {
            let newest = match open.spec.logged {
                true => HOT_IN_MEMORY,
                false => UNLOGGED_IN_MEMORY,
            };
            let is_older = version < newest && !open.spec.in_memory && open.spec.may_be_in_memory();
            if !is_older || open.is_dropped() || open.is_unfinished() {
                continue;
            }
            let tried = self.as_if_in_memory(&open);
            // It is not looked at once more, whatever comes of it.
            self.prepare_for(tried.spec);
            let mut has_long = false;
            let mut look = |window: &Window| {
                has_long |= (0..window.len()).any(|i| window.entry(i).large.is_some());
                Ok(())
            };
            let read = each_saved(&tried, false, &mut window, &mut look)
                .and_then(|()| each_saved(&tried, true, &mut window, &mut look));
            match read {
                Err(e) if e.is_unreadable() => continue,
                read => read?,
            }
            if !has_long || planted(Fault::LongBroughtOver) {
                self.move_hot(&open, true)?;
                brought_over = true;
            }
        }
        Ok(brought_over)
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
