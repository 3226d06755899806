//! Images that are kept readable, and what is kept for them.
//!
//! Invariant: what gives a pin up says so before the first of its slots can be written again.

use std::sync::Arc;

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::disk::Storage;
use crate::map::{FoldCursor, PinId, Place, STEP, SlotSet, Superblock};
use crate::parts::pinned::{Known, PinState};

/// Pins and those who read them have one part in this many of the memory at most, all together: more frames
/// are never lent.
const MEMORY_PART: u64 = 4;

/// The image of a checkpoint that is kept.
pub(crate) struct Pin {
    pub id: PinId,
    pub state: Arc<PinState>,
    /// What its checkpoint left in the superblock.
    pub superblock: Superblock,
    /// Where its pages lie.
    pub places: Vec<Place>,
    /// How many there are.
    pub live: u64,
    /// Memory that it takes.
    pub bytes: u64,
}

impl Storage {
    /// Pins the image of the last checkpoint. For a backup set also answers the slots that were written since the last
    /// pin for it.
    pub(crate) fn pin(&self, set: Option<u64>) -> Result<(Pin, Option<SlotSet>)> {
        let durable = self.durable();
        self.common().health.check_poison()?;
        self.common().check_writable()?;
        let superblock = durable.superblock.clone();
        let pages = superblock.pages;
        let bytes = pages * size_of::<Place>() as u64;
        self.check_pin_bytes(bytes)?;
        let mut places = Vec::with_capacity(pages as usize);
        let mut cursor = FoldCursor::default();
        let mut done = pages == 0;
        while !done {
            let map = self.frames.lock_map();
            done = map.fold_base(&self.frames, &mut cursor, pages, &mut places, STEP)?;
        }
        let mut changes: Vec<(PageId, Place)> = Vec::new();
        let mut done = false;
        while !done {
            changes.clear();
            done = {
                let map = self.frames.lock_map();
                map.fold_overrides(&mut cursor, pages, &mut changes, STEP)?
            };
            for (pid, place) in &changes {
                if let Some(at) = places.get_mut(pid.0 as usize) {
                    *at = *place;
                }
            }
        }
        let (mut slots, mut live) = (SlotSet::default(), 0);
        for slot in places.iter().filter_map(|place| place.slot()) {
            slots.insert(slot);
            live += 1;
        }
        let state = Arc::new(PinState::new());
        let (id, written) = {
            let mut pins = self.pinned.pins.lock();
            let mut map = self.frames.lock_map();
            let id = map.pin(slots)?;
            pins.push(Known {
                id,
                live,
                state: state.clone(),
            });
            (id, set.and_then(|set| map.track(set)))
        };
        drop(durable);
        self.take_pin_bytes(bytes);
        let pin = Pin {
            id,
            state,
            superblock,
            places,
            live,
            bytes,
        };
        Ok((pin, written))
    }

    pub(crate) fn backup_failed(&self, set: u64, written: Option<SlotSet>) {
        self.frames.lock_map().track_again(set, written);
    }

    pub fn limit_pins(&self, slots: u64) {
        self.pinned.limit.store(slots, Ordering::Relaxed);
    }

    /// Whether pins and those who read them may take `more` bytes in addition.
    ///
    /// # Errors
    /// `MemoryTooSmall`.
    pub(crate) fn check_pin_bytes(&self, more: u64) -> Result<()> {
        let wanted = self.pin_bytes() + more;
        match wanted <= self.common().options.memory / MEMORY_PART {
            true => Ok(()),
            false => Err(Error::MemoryTooSmall {
                what: "one more snapshot or backup, or one of so much data (all of them have a quarter)"
                    .into(),
                given: self.common().options.memory,
                needed: wanted * MEMORY_PART,
            }),
        }
    }

    pub(crate) fn take_pin_bytes(&self, bytes: u64) {
        self.pinned.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.frames.lent().take_extra_bytes(bytes);
    }

    pub(crate) fn give_pin_bytes(&self, bytes: u64) {
        self.pinned.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.frames.lent().give_extra_bytes(bytes);
    }

    /// Bytes of memory that pinned images and their readers take.
    pub(crate) fn pin_bytes(&self) -> u64 {
        self.pinned.bytes.load(Ordering::Relaxed)
    }

    /// Frees what was kept for a pin alone.
    pub(crate) fn unpin(&self, id: PinId) {
        self.pinned.pins.lock().retain(|pin| pin.id != id);
        loop {
            let mut map = self.frames.lock_map();
            let done = map.unpin_step(id, STEP / 64);
            self.frames.note_slots(&map);
            if done {
                break;
            }
        }
        self.common().signals.note_progress();
    }

    /// Gives up the oldest pin, if any slot is kept for pins; tells whether it did.
    pub fn give_up_oldest_pin(&self, cause: &'static str) -> bool {
        if self.frames.lock_map().counts().kept == 0 {
            return false;
        }
        let oldest = {
            let pins = self.pinned.pins.lock();
            pins.first().map(|pin| (pin.id, pin.state.clone()))
        };
        let Some((id, state)) = oldest else {
            return false;
        };
        state.give_up(cause);
        self.unpin(id);
        true
    }

    /// Gives up pins until no more is kept for them than may be.
    pub(crate) fn keep_pins_small(&self) {
        loop {
            let kept = self.frames.lock_map().counts().kept;
            let limit = match self.pinned.limit.load(Ordering::Relaxed) {
                0 => {
                    let pins = self.pinned.pins.lock();
                    pins.iter().map(|pin| pin.live).max().unwrap_or(0)
                }
                limit => limit,
            };
            if kept <= limit
                || !self
                    .give_up_oldest_pin("it kept more space than Options::snapshot_space allows")
            {
                return;
            }
        }
    }
}
