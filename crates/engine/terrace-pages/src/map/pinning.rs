//! Pinning an image of a page map, and what is kept for it.

use super::page_map::{PageMap, Phase};
use super::pins::{MOST_PINS, MOST_TRACKED, Pin, PinId, SlotSet, Tracked};
use terrace_base::{Error, Result};

impl PageMap {
    /// Pins the last durable image, whose slots are `slots`: as [`PageMap::fold_base`] and
    /// [`PageMap::fold_overrides`] have named them since the last checkpoint ended.
    ///
    /// # Errors
    /// While a checkpoint is being made, or with [`MOST_PINS`] pins.
    pub fn pin(&mut self, slots: SlotSet) -> Result<PinId> {
        self.health()?;
        if self.phase != Phase::Idle {
            return Err(Error::invalid(
                "an image cannot be pinned while a checkpoint is being made",
            ));
        }
        if self.pins.pins.iter().filter(|pin| !pin.leaving).count() >= MOST_PINS {
            return Err(Error::invalid(format!(
                "{MOST_PINS} checkpoints are held by snapshots and backups already, which is the most; drop one of them, or take a snapshot of a checkpoint that is held"
            )));
        }
        let id = PinId(self.pins.next);
        self.pins.next += 1;
        self.pins.pins.push(Pin {
            id,
            slots,
            leaving: false,
            at: 0,
        });
        Ok(id)
    }

    /// Takes a pin back and frees what was kept for it alone. Called until it returns `true`; each call
    /// looks at 64 slots for each one of `budget`.
    pub fn unpin_step(&mut self, id: PinId, budget: usize) -> bool {
        let Some(index) = self.pins.pins.iter().position(|pin| pin.id == id) else {
            return true;
        };
        let pin = &mut self.pins.pins[index];
        pin.leaving = true;
        let from = pin.at;
        let to = pin
            .slots
            .words
            .len()
            .min(from.saturating_add(budget.max(1)));
        pin.at = to;
        for at in from..to {
            let kept = self.pins.kept.words.get(at).copied().unwrap_or(0);
            let mut both = self.pins.pins[index].slots.words[at] & kept;
            while both != 0 {
                let slot = at as u64 * 64 + u64::from(both.trailing_zeros());
                both &= both - 1;
                let wanted = self.pins.wants(slot);
                #[cfg(test)]
                let wanted = wanted && !self.faults.one_of_many;
                if !wanted {
                    self.free_kept(slot);
                }
            }
        }
        if to < self.pins.pins[index].slots.words.len() {
            return false;
        }
        self.pins.pins.remove(index);
        if self.pins.pins.is_empty() {
            if self.pins.count != 0 {
                self.broken.get_or_insert("slots are kept for nobody");
            }
            // Its memory, too.
            self.pins.kept = SlotSet::default();
        }
        true
    }

    fn free_kept(&mut self, slot: u64) {
        self.pins.kept.remove(slot);
        Self::less(
            &mut self.pins.count,
            &mut self.broken,
            "more kept slots than were counted",
        );
        self.free_slot(slot);
    }

    /// The image gives up a slot: it is free, or kept for a pin that has it.
    pub(super) fn give_up(&mut self, slot: u64) {
        let wanted = self.pins.wants(slot);
        #[cfg(test)]
        let wanted = (wanted && !self.faults.frees_pinned)
            || (self.faults.keeps_born && !self.pins.pins.is_empty());
        if !wanted {
            return self.free_slot(slot);
        }
        if self.pins.kept.has(slot) {
            self.broken.get_or_insert("a slot kept twice");
            return;
        }
        self.pins.kept.insert(slot);
        self.pins.count += 1;
    }

    /// Begins anew to note which slots are written, for the backup set of this name; returns those noted
    /// before, if there are any. To be called when the image is pinned that the backup is of, before anything
    /// else happens.
    pub fn track(&mut self, set: u64) -> Option<SlotSet> {
        let tracked = &mut self.pins.tracked;
        let before = tracked.iter().position(|t| t.set == set);
        let before = before.map(|at| tracked.remove(at).written);
        if tracked.len() == MOST_TRACKED {
            // That of the set which was not backed up to for the longest time.
            tracked.remove(0);
        }
        tracked.push(Tracked {
            set,
            written: SlotSet::default(),
        });
        before
    }

    /// The backup that [`PageMap::track`] was called for has failed: what was noted before counts again,
    /// or nothing does if nothing was.
    pub fn track_again(&mut self, set: u64, before: Option<SlotSet>) {
        let tracked = &mut self.pins.tracked;
        let Some(at) = tracked.iter().position(|t| t.set == set) else {
            return;
        };
        match before {
            Some(before) => tracked[at].written.join(&before),
            None => drop(tracked.remove(at)),
        }
    }
}
