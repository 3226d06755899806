//! Pins: images that stay readable after the checkpoint that replaces them.
//!
//! What always holds:
//! - A slot that an image gives up while a pin has it is *kept*: neither free nor named by any layer.
//! - A kept slot is free as soon as no pin has it any more.
//! - Only slots that the pinned image named are kept for it, so a pin costs that many slots at most,
//!   however long it is held and however many checkpoints pass.

/// Most images that are pinned at a time: each costs a bit for each slot, and each slot that is given up
/// is looked up in all of them.
pub const MOST_PINS: usize = 8;

/// Sets of written slots that are kept for incremental backups: few databases are backed up to more places.
pub const MOST_TRACKED: usize = 4;

/// One bit for each slot.
#[derive(Clone, Default, Debug)]
pub struct SlotSet {
    pub(super) words: Vec<u64>,
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

    pub(super) fn remove(&mut self, slot: u64) {
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
pub struct PinId(pub(super) u64);

/// One pinned image.
pub(super) struct Pin {
    pub(super) id: PinId,
    pub(super) slots: SlotSet,
    /// It is being taken back: nothing more is kept for it.
    pub(super) leaving: bool,
    /// Words of its slots that have been looked at since.
    pub(super) at: usize,
}

/// Slots that were written since a backup to some set began.
pub(super) struct Tracked {
    pub(super) set: u64,
    pub(super) written: SlotSet,
}

/// The pins of a map, and what is kept for them.
#[derive(Default)]
pub(super) struct Pins {
    pub(super) pins: Vec<Pin>,
    pub(super) kept: SlotSet,
    pub(super) count: u64,
    pub(super) next: u64,
    pub(super) tracked: Vec<Tracked>,
}

impl Pins {
    pub(super) fn wants(&self, slot: u64) -> bool {
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
