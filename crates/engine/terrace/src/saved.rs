//! What was saved of hot tiers comes back into them after an opening: in order, by a thread, and before anything is saved
//! once more. Whoever asks for a record of it does not wait for that: the structure has what it needs come first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use terrace_base::Result;

use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::core::Core;

/// Bytes of saved pages after which the pages that their records have come to are closed up: they come beside others, so
/// pages are divided in halves.
const CLOSED_UP: usize = 1 << 20;

impl Registry {
    /// About how many slots is taken by what is saved of hot tiers.
    pub fn saved_slots(&self) -> Result<u64> {
        let mut slots = 0;
        for open in self.all().iter().filter(|open| !open.is_dropped()) {
            slots += open.structure.saved_slots()?;
        }
        Ok(slots)
    }
}

impl Core {
    /// Whether all that was saved has come back by itself, but for what cannot be read.
    pub fn has_loaded(&self) -> bool {
        self.loaded_saved().load(Ordering::Acquire)
    }

    /// Has all of it come back, as long as the threads go on; whether they do.
    pub fn load_in_background(&self) -> Result<bool> {
        for open in self.registry().all() {
            if !self.load_structure(&open, &|| self.rounds().wait(Duration::ZERO))? {
                return Ok(false);
            }
        }
        self.loaded_saved().store(true, Ordering::Release);
        Ok(true)
    }

    /// Has all of it come back now. The caller is not inside the gate.
    pub fn load_all_saved(&self) -> Result<()> {
        if self.has_loaded() {
            return Ok(());
        }
        for open in self.registry().all() {
            self.load_structure(&open, &|| true)?;
        }
        self.loaded_saved().store(true, Ordering::Release);
        Ok(())
    }

    fn load_structure(&self, open: &Open, goes_on: &dyn Fn() -> bool) -> Result<bool> {
        let (mut from, mut open_from, mut leaves) = (Vec::new(), Vec::new(), 0);
        let leaves_of_part = CLOSED_UP / self.store().page_bytes();
        while !open.is_dropped() {
            if !goes_on() {
                return Ok(false);
            }
            let next = open.structure.load_saved(&from)?;
            leaves += 1;
            let is_end = next.is_none();
            if leaves >= leaves_of_part || is_end && leaves > leaves_of_part / 4 {
                open.structure.close_up_hot(&open_from, next.as_deref())?;
                open_from = next.clone().unwrap_or_default();
                leaves = 0;
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Ok(true)
    }
}
