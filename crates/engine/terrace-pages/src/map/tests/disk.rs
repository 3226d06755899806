//! A disk for the model: unsynced writes survive a power cut in any subset, and torn.

use super::Rng;
use std::collections::BTreeMap;

/// A page in a slot: its number and its content. A torn one has a number that no page has.
pub type Cell = (u64, u64);

#[derive(Clone, Default)]
pub struct Files {
    pub slots: BTreeMap<u64, Cell>,
    pub superblocks: [Vec<u8>; 2],
    pub maps: BTreeMap<u64, Vec<u8>>,
}

enum Write {
    Slot(u64, Cell),
    Superblock(usize, Vec<u8>),
    Map(u64, u64, Vec<u8>),
}

#[derive(Default)]
pub struct Disk {
    durable: Files,
    /// What reads see.
    pub live: Files,
    pending: Vec<Write>,
}

const SECTOR: usize = 512;

impl Files {
    /// `sectors` says which sectors of the write arrive.
    fn put(&mut self, write: &Write, mut sectors: impl FnMut() -> bool) {
        match write {
            Write::Slot(slot, cell) => {
                self.slots
                    .insert(*slot, if sectors() { *cell } else { (u64::MAX, 0) });
            }
            Write::Superblock(index, bytes) => {
                copy(&mut self.superblocks[*index], 0, bytes, sectors)
            }
            Write::Map(number, offset, bytes) => {
                copy(
                    self.maps.entry(*number).or_default(),
                    *offset as usize,
                    bytes,
                    sectors,
                );
            }
        }
    }
}

fn copy(file: &mut Vec<u8>, offset: usize, bytes: &[u8], mut sectors: impl FnMut() -> bool) {
    if file.len() < offset + bytes.len() {
        file.resize(offset + bytes.len(), 0);
    }
    for (i, sector) in bytes.chunks(SECTOR).enumerate() {
        if sectors() {
            let at = offset + i * SECTOR;
            file[at..at + sector.len()].copy_from_slice(sector);
        }
    }
}

impl Disk {
    fn write(&mut self, write: Write) {
        self.live.put(&write, || true);
        self.pending.push(write);
    }

    pub fn write_slot(&mut self, slot: u64, cell: Cell) {
        self.write(Write::Slot(slot, cell));
    }

    pub fn write_superblock(&mut self, index: usize, bytes: Vec<u8>) {
        self.write(Write::Superblock(index, bytes));
    }

    pub fn write_map(&mut self, number: u64, offset: u64, bytes: &[u8]) {
        self.write(Write::Map(number, offset, bytes.to_vec()));
    }

    /// Takes effect at once: the checks that follow from it are about what is read, not about it.
    pub fn delete_map(&mut self, number: u64) {
        self.live.maps.remove(&number);
        self.durable.maps.remove(&number);
        self.pending
            .retain(|write| !matches!(write, Write::Map(n, ..) if *n == number));
    }

    /// Cuts the slots from `end` on, at once.
    pub fn cut_slots(&mut self, end: u64) {
        self.live.slots.split_off(&end);
        self.durable.slots.split_off(&end);
        self.pending
            .retain(|write| !matches!(write, Write::Slot(slot, _) if *slot >= end));
    }

    pub fn sync(&mut self) {
        for write in self.pending.drain(..) {
            self.durable.put(&write, || true);
        }
    }

    pub fn crash(&mut self, rng: &mut Rng) {
        for write in std::mem::take(&mut self.pending) {
            match rng.below(10) {
                0..5 => self.durable.put(&write, || true),
                5..7 => self.durable.put(&write, || rng.below(2) == 0),
                _ => {}
            }
        }
        self.live = self.durable.clone();
    }
}
