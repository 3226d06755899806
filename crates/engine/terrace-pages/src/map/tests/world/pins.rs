//! Pins and backups in the world in miniature: what a pinned image reads, and what a backup of only what was
//! written comes to.

use super::*;

/// The set to which all backups go.
const SET: u64 = 7;

impl World {
    /// One step of pinning the last image.
    pub fn pin_step(&mut self) -> Step {
        let budget = self.rng.range(1, 4) as usize;
        let Some(pinning) = &mut self.pinning else {
            if self.checkpoint.is_none() && self.pins.len() < 3 {
                self.pinning = Some(Pinning {
                    cursor: FoldCursor::default(),
                    base_done: false,
                    places: Vec::new(),
                });
            }
            return Ok(());
        };
        let (pages, cursor) = (self.last.pages, &mut pinning.cursor);
        if !pinning.base_done {
            let places = &mut pinning.places;
            let done = self
                .map
                .fold_base(&self.store, cursor, pages, places, budget);
            pinning.base_done = done.map_err(text)?;
            return Ok(());
        }
        let mut changes = Vec::new();
        let done = self
            .map
            .fold_overrides(cursor, pages, &mut changes, budget)
            .map_err(text)?;
        for (pid, place) in changes {
            if self.bug != Bug::PinForgetsNext {
                pinning.places[pid.0 as usize] = place;
            }
        }
        if !done {
            return Ok(());
        }
        let (mut slots, mut places) = (SlotSet::default(), BTreeMap::new());
        for (pid, place) in pinning.places.iter().enumerate() {
            if let Some(slot) = place.slot() {
                slots.insert(slot);
                places.insert(pid as u64, *place);
            }
        }
        let id = self.map.pin(slots).map_err(text)?;
        let want = self.history.get(&self.last.generation).cloned();
        self.pinning = None;
        self.pins.push(Pin {
            id,
            places,
            want: want.unwrap_or_default(),
        });
        Ok(())
    }

    /// A pin is given up, by whoever has it or for want of space.
    pub fn unpin(&mut self) -> Step {
        if !self.pins.is_empty() {
            let at = self.rng.below(self.pins.len() as u64) as usize;
            self.leaving.push(self.pins.remove(at).id);
        }
        Ok(())
    }

    /// One step of freeing what was kept for a pin.
    pub fn leave_step(&mut self) -> Step {
        if !self.leaving.is_empty() {
            let at = self.rng.below(self.leaving.len() as u64) as usize;
            if self.map.unpin_step(self.leaving[at], 1) {
                self.leaving.remove(at);
            }
        }
        Ok(())
    }

    /// A backup of the last image: what was not written since the last one is not read again.
    pub fn back_up(&mut self) -> Step {
        if self.checkpoint.is_some() || self.pinning.is_some() {
            return Ok(());
        }
        let (mut cursor, mut places, mut changes) = Default::default();
        let pages = self.last.pages;
        while !self
            .map
            .fold_base(&self.store, &mut cursor, pages, &mut places, 9)
            .map_err(text)?
        {}
        while !self
            .map
            .fold_overrides(&mut cursor, pages, &mut changes, 9)
            .map_err(text)?
        {}
        for (pid, place) in changes {
            places[pid.0 as usize] = place;
        }
        let before = self.map.track(SET);
        if self.rng.below(4) == 0 {
            self.map.track_again(SET, before);
            return Ok(());
        }
        let mut next = BTreeMap::new();
        for (pid, place) in places.iter().enumerate() {
            let Some(slot) = place.slot() else { continue };
            let there = self.backup.get(&(pid as u64)).copied();
            let unwritten = before
                .as_ref()
                .is_some_and(|written| !written.has(slot) || self.bug == Bug::BackupBitless);
            let content = match there {
                Some((at, content)) if at == slot && unwritten => content,
                _ => match self.disk.live.slots.get(&slot) {
                    Some((page, content)) if *page == pid as u64 => *content,
                    other => return Err(format!("slot {slot} of page {pid} holds {other:?}")),
                },
            };
            next.insert(pid as u64, (slot, content));
        }
        self.backup = next;
        let found: BTreeMap<u64, u64> = self.backup.iter().map(|(p, (_, c))| (*p, *c)).collect();
        let want = self.history.get(&self.last.generation);
        if Some(&found) != want {
            return Err(format!("the backup is {found:?}, the image {want:?}"));
        }
        Ok(())
    }

    /// Each pin reads what its image held, and what is kept is what they have.
    pub fn check_pins(&self) -> Step {
        for pin in &self.pins {
            let read = |(pid, place): (&u64, &Place)| {
                let found = self.disk.live.slots.get(&place.slot()?)?;
                (found.0 == *pid && !self.map.slots.is_free(place.slot()?))
                    .then_some((*pid, found.1))
            };
            let found: BTreeMap<u64, u64> = pin.places.iter().filter_map(read).collect();
            if found != pin.want {
                return Err(format!(
                    "a pin reads {found:?}, its image was {:?}",
                    pin.want
                ));
            }
        }
        Ok(())
    }

    /// Slots that only pins have.
    pub fn kept_for_pins(&self) -> BTreeSet<u64> {
        let named: BTreeSet<u64> = self.layers.image.values().copied().collect();
        let pinned = self.pins.iter().flat_map(|pin| pin.places.values());
        pinned
            .filter_map(|place| place.slot())
            .filter(|slot| !named.contains(slot))
            .collect()
    }
}
