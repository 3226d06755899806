//! Pins: images that stay readable after the checkpoint that replaces them.
//!
//! What always holds:
//! - A slot that an image gives up while a pin has it is *kept*: neither free nor named by any layer.
//! - A kept slot is free as soon as no pin has it any more.
//! - Only slots that the pinned image named are kept for it, so a pin costs that many slots at most,
//!   however long it is held and however many checkpoints pass.

use super::page_map::{PageMap, Phase};
use terrace_base::{Error, Result};

/// Most images that are pinned at a time: each costs a bit for each slot, and each slot that is given up
/// is looked up in all of them.
pub const MOST_PINS: usize = 8;

/// Sets of written slots that are kept for incremental backups: few databases are backed up to more places.
pub const MOST_TRACKED: usize = 4;

/// One bit for each slot.
#[derive(Clone, Default, Debug)]
pub struct SlotSet {
    words: Vec<u64>,
}

impl SlotSet {
    /// Whether the slot is in it.
    pub fn has(&self, slot: u64) -> bool {
        let word = self.words.get((slot / 64) as usize);
        word.is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    /// Puts the slot in.
    pub fn insert(&mut self, slot: u64) {
        let at = (slot / 64) as usize;
        if at >= self.words.len() {
            self.words.resize(at + 1, 0);
        }
        self.words[at] |= 1 << (slot % 64);
    }

    fn remove(&mut self, slot: u64) {
        if let Some(word) = self.words.get_mut((slot / 64) as usize) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Puts in all that the other has.
    pub fn join(&mut self, other: &SlotSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.words.capacity() * 8
    }
}

/// A pin's name; never given out again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PinId(u64);

/// One pinned image.
struct Pin {
    id: PinId,
    slots: SlotSet,
    /// It is being taken back: nothing more is kept for it.
    leaving: bool,
    /// Words of its slots that have been looked at since.
    at: usize,
}

/// Slots that were written since a backup to some set began.
struct Tracked {
    set: u64,
    written: SlotSet,
}

/// The pins of a map, and what is kept for them.
#[derive(Default)]
pub(super) struct Pins {
    pins: Vec<Pin>,
    kept: SlotSet,
    count: u64,
    next: u64,
    tracked: Vec<Tracked>,
}

impl Pins {
    fn wants(&self, slot: u64) -> bool {
        let has = |pin: &Pin| !pin.leaving && pin.slots.has(slot);
        self.pins.iter().any(has)
    }

    /// How many slots are kept.
    pub fn kept(&self) -> u64 {
        self.count
    }

    /// Notes that the slot has new content.
    #[inline]
    pub fn note_written(&mut self, slot: u64) {
        for tracked in &mut self.tracked {
            tracked.written.insert(slot);
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let pins = self.pins.iter().map(|pin| pin.slots.memory_bytes());
        let tracked = self.tracked.iter().map(|t| t.written.memory_bytes());
        pins.chain(tracked).sum::<usize>() + self.kept.memory_bytes()
    }

    #[cfg(test)]
    pub fn is_kept(&self, slot: u64) -> bool {
        self.kept.has(slot)
    }
}

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
