//! A page store in miniature around the real page map and its files, beside a plain model of the
//! three layers: every step of the protocol is one call, so that a test can interleave them.

mod checkpoint;
mod pins;

use super::disk::Disk;
use super::{Bug, Rng};
use crate::map::*;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use terrace_base::checksum::mix;
use terrace_base::{Error, PageId};

pub type Step = Result<(), String>;

const PAGE_BYTES: u32 = 4096;
const DATABASE: u64 = 0x7e44ace;

#[derive(Clone, Copy)]
pub struct Frame {
    pid: u64,
    content: u64,
    dirty: bool,
    /// Epoch of the last change.
    epoch: u64,
    /// Rises with every change and every new use of the frame.
    version: u64,
    newest: Place,
}

#[derive(Clone, Copy, PartialEq)]
enum Word {
    Disk(Place),
    Frame(usize),
}

/// The page table and the frames.
#[derive(Default)]
pub struct Store {
    words: RefCell<Vec<Word>>,
    frames: RefCell<Vec<Option<Frame>>>,
}

impl Store {
    fn set_place(&self, pid: u64, place: Place) {
        let word = self.words.borrow()[pid as usize];
        match word {
            Word::Disk(_) => self.words.borrow_mut()[pid as usize] = Word::Disk(place),
            Word::Frame(f) => {
                self.frames.borrow_mut()[f]
                    .as_mut()
                    .expect("a frame is there")
                    .newest = place
            }
        }
    }

    fn frame(&self, index: usize) -> Option<Frame> {
        self.frames.borrow()[index]
    }
}

impl Words for Store {
    fn place(&self, pid: PageId) -> Place {
        match self.words.borrow().get(pid.0 as usize) {
            None => Place::FREE,
            Some(Word::Disk(place)) => *place,
            Some(Word::Frame(f)) => self.frame(*f).map_or(Place::FREE, |frame| frame.newest),
        }
    }

    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool {
        let same = self.place(pid) == from;
        if same {
            self.set_place(pid.0, to);
        }
        same
    }
}

impl PlaceTable for Store {
    fn set(&mut self, pid: PageId, place: Place) {
        self.words.get_mut()[pid.0 as usize] = Word::Disk(place);
    }
}

/// A page write under way.
struct Flight {
    pid: u64,
    content: u64,
    slot: u64,
    kind: Kind,
}

enum Kind {
    /// Of a dirty frame, with its version and the epoch of the content.
    Frame {
        frame: usize,
        version: u64,
        epoch: u64,
    },
    /// Of a copy handed over for the cut with this epoch.
    Copy { epoch: u64 },
    /// Of a page on disk that is only moved, from here.
    Move { from: Place },
}

/// The layers as the rules give them, without any of the map's devices.
#[derive(Default)]
struct Layers {
    image: BTreeMap<u64, u64>,
    cut: BTreeMap<u64, Option<u64>>,
    next: BTreeMap<u64, Option<u64>>,
}

struct Checkpoint {
    /// Frames dirty at the cut and not written since.
    todo: BTreeSet<usize>,
    copies: Vec<(u64, u64)>,
    /// What a crash after this checkpoint must bring back.
    truth: BTreeMap<u64, u64>,
    pages: u64,
    delta: DeltaCursor,
    fold: FoldCursor,
    fold_base_done: bool,
    writer: Option<MapWriter>,
    aborting: bool,
    superblock: Option<Superblock>,
}

/// A pin that is being made: places are copied in steps while pages are written.
pub struct Pinning {
    cursor: FoldCursor,
    base_done: bool,
    places: Vec<Place>,
}

/// An image that is pinned.
pub struct Pin {
    id: PinId,
    pub places: BTreeMap<u64, Place>,
    want: BTreeMap<u64, u64>,
}

pub struct World {
    pub rng: Rng,
    bug: Bug,
    disk: Disk,
    pub map: PageMap,
    store: Store,
    last: Superblock,
    epoch: u64,
    pages: u64,
    /// Page numbers given out lie below.
    bound: u64,
    checkpoint: Option<Checkpoint>,
    flights: Vec<Flight>,
    layers: Layers,
    /// What every page holds now.
    truth: BTreeMap<u64, u64>,
    pinning: Option<Pinning>,
    pins: Vec<Pin>,
    leaving: Vec<PinId>,
    /// Of each page in the last backup: its slot then, and its content.
    backup: BTreeMap<u64, (u64, u64)>,
    history: BTreeMap<u64, BTreeMap<u64, u64>>,
    counter: u64,
    pub checkpoints_done: u64,
}

fn check16(pid: u64, content: u64) -> u16 {
    mix(pid, content) as u16
}

fn text(error: Error) -> String {
    error.to_string()
}

impl World {
    pub fn new(seed: u64, bug: Bug) -> World {
        let mut rng = Rng::new(seed);
        let (pages, slots, frames) = (rng.range(3, 9), rng.range(10, 24), rng.range(2, 6));
        let mut disk = Disk::default();
        let mut sink = |offset, bytes: &[u8]| {
            disk.write_map(0, offset, bytes);
            Ok(())
        };
        let file =
            MapWriter::create(DATABASE, 0, 0, 0, &mut sink).and_then(|w| w.finish(&mut sink));
        let last = Superblock {
            version: crate::map::superblock::NEWEST_VERSION,
            page_bytes: PAGE_BYTES,
            database: DATABASE,
            generation: 0,
            epoch: 0,
            pages: 0,
            slots,
            map: file.expect("an empty map file"),
            log_position: [1; 24],
            learnt: [2; superblock::LEARNT_BYTES],
            next_structure: 1,
            next_sequence: 1,
            unlogged_from: 1,
            catalog_root: PageId(0),
            clean: false,
        };
        let mut block = vec![0; superblock::SUPERBLOCK_BYTES];
        last.encode(&mut block);
        disk.write_superblock(0, block);
        disk.sync();
        let mut world = World {
            rng,
            bug,
            disk,
            map: PageMap::new(0),
            store: Store::default(),
            last,
            epoch: 1,
            pages,
            bound: 0,
            checkpoint: None,
            flights: Vec::new(),
            layers: Layers::default(),
            truth: BTreeMap::new(),
            pinning: None,
            pins: Vec::new(),
            leaving: Vec::new(),
            backup: BTreeMap::new(),
            history: BTreeMap::from([(0, BTreeMap::new())]),
            counter: 0,
            checkpoints_done: 0,
        };
        world.store.frames = RefCell::new(vec![None; frames as usize]);
        world.open().expect("an empty database opens");
        world
    }

    // ---- opening

    fn recover(&self) -> Result<(Superblock, Store, PageMap), String> {
        let files = &self.disk.live;
        let blocks = [
            files.superblocks[0].as_slice(),
            files.superblocks[1].as_slice(),
        ];
        let mut read = Superblocks::read(blocks, Some(PAGE_BYTES)).map_err(text)?;
        if self.bug == Bug::OlderSuperblockOpened && read.other.is_some() {
            let older = read.newest.generation % 2;
            let mut only = blocks;
            only[older as usize] = &[];
            read = Superblocks::read(only, Some(PAGE_BYTES)).map_err(text)?;
        } else if read.newest.generation < self.last.generation {
            return Err(format!(
                "generation {} was durable, and {} is the newest that is left",
                self.last.generation, read.newest.generation
            ));
        }
        let superblock = read.newest;
        let words = vec![Word::Disk(Place::FREE); self.pages.max(superblock.pages) as usize];
        let mut store = Store {
            words: RefCell::new(words),
            frames: RefCell::default(),
        };
        let name = MapFile::name(superblock.map.number);
        let file = files
            .maps
            .get(&superblock.map.number)
            .ok_or("no map file")?;
        let mut rebuild = Rebuild::new(&mut store, name, superblock.pages, superblock.slots);
        let mut reader = MapReader::new(&superblock).map_err(text)?;
        while let Some((offset, len)) = reader.next_read() {
            let at = offset as usize;
            let bytes = file.get(at..at + len).ok_or("the map file is too short")?;
            reader
                .decode(bytes, |pid, place| rebuild.apply(pid, place))
                .map_err(text)?;
        }
        let map = rebuild.finish(|_, _| {}).map_err(text)?;
        Ok((superblock, store, map))
    }

    fn open(&mut self) -> Step {
        let (superblock, store, map) = self.recover()?;
        let frames = self.store.frames.borrow().len();
        self.store = Store {
            frames: RefCell::new(vec![None; frames]),
            ..store
        };
        self.map = map;
        self.map.faults = self.bug.faults();
        self.epoch = superblock.epoch + 1;
        self.bound = superblock.pages;
        self.last = superblock;
        self.checkpoint = None;
        self.flights.clear();
        self.pinning = None;
        self.pins.clear();
        self.leaving.clear();
        self.layers = Layers::default();
        self.truth.clear();
        for pid in 0..self.pages {
            if let Some(slot) = self.store.place(PageId(pid)).slot() {
                self.layers.image.insert(pid, slot);
                let content = self.read(pid)?;
                self.truth.insert(pid, content);
            }
        }
        Ok(())
    }

    /// The power goes, and comes again.
    pub fn crash(&mut self) -> Step {
        self.disk.crash(&mut self.rng);
        self.open()?;
        let generation = self.last.generation;
        let wanted = self.history.get(&generation).cloned().unwrap_or_default();
        if self.truth != wanted {
            return Err(format!(
                "generation {generation} came back as {:?}, not {wanted:?}",
                self.truth
            ));
        }
        Ok(())
    }

    fn read(&self, pid: u64) -> Result<u64, String> {
        let place = self.store.place(PageId(pid));
        let slot = place.slot().ok_or_else(|| format!("page {pid} is free"))?;
        match self.disk.live.slots.get(&slot) {
            Some((p, content)) if *p == pid && check16(pid, *content) == place.check() => {
                Ok(*content)
            }
            other => Err(format!("{place:?} holds {other:?}, wanted page {pid}")),
        }
    }

    // ---- what the access methods do

    fn pick_frame(&mut self, wanted: impl Fn(Option<Frame>) -> bool) -> Option<usize> {
        let frames: Vec<usize> = (0..self.store.frames.borrow().len()).collect();
        let fit: Vec<usize> = frames
            .into_iter()
            .filter(|f| wanted(self.store.frame(*f)))
            .collect();
        self.rng.pick(&fit)
    }

    fn hand_over(&mut self, index: usize) {
        let Some(frame) = self.store.frame(index) else {
            return;
        };
        if let Some(checkpoint) = &mut self.checkpoint
            && checkpoint.todo.remove(&index)
        {
            checkpoint.copies.push((frame.pid, frame.content));
        }
    }

    pub fn modify(&mut self) -> Step {
        let Some(index) = self.pick_frame(|f| f.is_some()) else {
            return Ok(());
        };
        self.hand_over(index);
        self.counter += 1;
        if let Some(frame) = &mut self.store.frames.borrow_mut()[index] {
            (frame.content, frame.version) = (self.counter, self.counter);
            (frame.dirty, frame.epoch) = (true, self.epoch);
            self.truth.insert(frame.pid, self.counter);
        }
        Ok(())
    }

    pub fn allocate_page(&mut self) -> Step {
        let free: Vec<u64> = (0..self.pages)
            .filter(|p| !self.truth.contains_key(p))
            .collect();
        let (Some(pid), Some(index)) = (self.rng.pick(&free), self.pick_frame(|f| f.is_none()))
        else {
            return Ok(());
        };
        self.counter += 1;
        let newest = self.store.place(PageId(pid));
        let frame = Frame {
            pid,
            content: self.counter,
            dirty: true,
            epoch: self.epoch,
            version: self.counter,
            newest,
        };
        self.store.frames.borrow_mut()[index] = Some(frame);
        self.store.words.borrow_mut()[pid as usize] = Word::Frame(index);
        self.bound = self.bound.max(pid + 1);
        self.truth.insert(pid, self.counter);
        Ok(())
    }

    pub fn free_page(&mut self) -> Step {
        let pids: Vec<u64> = self.truth.keys().copied().collect();
        let Some(pid) = self.rng.pick(&pids) else {
            return Ok(());
        };
        let word = self.store.words.borrow()[pid as usize];
        if let Word::Frame(index) = word {
            if self.bug != Bug::FreeWithoutCopy {
                self.hand_over(index);
            } else if let Some(checkpoint) = &mut self.checkpoint {
                checkpoint.todo.remove(&index);
            }
        }
        let newest = self.store.place(PageId(pid));
        let place = self
            .map
            .free_page(PageId(pid), newest)
            .with_link(PageId::NONE);
        if let Word::Frame(index) = word {
            self.store.frames.borrow_mut()[index] = None;
        }
        self.store.words.borrow_mut()[pid as usize] = Word::Disk(place);
        self.layers.next.insert(pid, None);
        self.truth.remove(&pid);
        Ok(())
    }

    pub fn fault(&mut self) -> Step {
        let words = self.store.words.borrow().clone();
        let on_disk = |p: &u64| matches!(words[*p as usize], Word::Disk(place) if !place.is_free());
        let pids: Vec<u64> = (0..self.pages).filter(on_disk).collect();
        let (Some(pid), Some(index)) = (self.rng.pick(&pids), self.pick_frame(|f| f.is_none()))
        else {
            return Ok(());
        };
        let content = self.read(pid)?;
        if self.truth.get(&pid) != Some(&content) {
            return Err(format!(
                "page {pid} reads {content}, wanted {:?}",
                self.truth.get(&pid)
            ));
        }
        self.counter += 1;
        let newest = self.store.place(PageId(pid));
        let frame = Frame {
            pid,
            content,
            dirty: false,
            epoch: 0,
            version: self.counter,
            newest,
        };
        self.store.frames.borrow_mut()[index] = Some(frame);
        self.store.words.borrow_mut()[pid as usize] = Word::Frame(index);
        Ok(())
    }

    // ---- writing pages

    fn in_flight(&self, index: usize) -> bool {
        self.flights
            .iter()
            .any(|f| matches!(f.kind, Kind::Frame { frame, .. } if frame == index))
    }

    fn slot(&mut self) -> Option<u64> {
        let run = self.map.allocate(1)?;
        Some(run.first)
    }

    fn start_frame_write(&mut self, index: usize) -> bool {
        let Some(frame) = self
            .store
            .frame(index)
            .filter(|f| f.dirty && !self.in_flight(index))
        else {
            return true;
        };
        let Some(slot) = self.slot() else {
            return false;
        };
        let kind = Kind::Frame {
            frame: index,
            version: frame.version,
            epoch: frame.epoch,
        };
        self.flights.push(Flight {
            pid: frame.pid,
            content: frame.content,
            slot,
            kind,
        });
        true
    }

    pub fn evict(&mut self) -> Step {
        let Some(index) = self.pick_frame(|f| f.is_some()) else {
            return Ok(());
        };
        match self.store.frame(index) {
            Some(frame) if !frame.dirty => {
                self.store.words.borrow_mut()[frame.pid as usize] = Word::Disk(frame.newest);
                self.store.frames.borrow_mut()[index] = None;
            }
            _ => drop(self.start_frame_write(index)),
        }
        Ok(())
    }

    pub fn move_from_tail(&mut self) -> Step {
        let tail = self.map.tail_start(2);
        let words = self.store.words.borrow().clone();
        for (pid, word) in words.iter().enumerate() {
            let Word::Disk(from) = *word else { continue };
            let moving = self.flights.iter().any(|f| f.pid == pid as u64);
            if from.slot().is_some_and(|slot| slot >= tail)
                && !moving
                && let Some(run) = self.map.allocate_below(1, tail)
            {
                let content = self.read(pid as u64)?;
                let kind = Kind::Move { from };
                self.flights.push(Flight {
                    pid: pid as u64,
                    content,
                    slot: run.first,
                    kind,
                });
            }
        }
        Ok(())
    }

    pub fn finish_write(&mut self) -> Step {
        if self.flights.is_empty() {
            return Ok(());
        }
        let at = self.rng.below(self.flights.len() as u64) as usize;
        let Flight {
            pid,
            content,
            slot,
            kind,
        } = self.flights.swap_remove(at);
        self.disk.write_slot(slot, (pid, content));
        match kind {
            Kind::Frame {
                frame: index,
                version,
                epoch,
            } => {
                let same = |f: &Frame| f.pid == pid && f.version == version && f.dirty;
                if !self.store.frame(index).is_some_and(|f| same(&f)) {
                    self.map.release(slot);
                    return Ok(());
                }
                self.register(pid, slot, content, epoch)?;
                if let Some(checkpoint) = &mut self.checkpoint {
                    checkpoint.todo.remove(&index);
                }
                if let Some(frame) = &mut self.store.frames.borrow_mut()[index] {
                    frame.dirty = false;
                }
                if self.rng.below(10) < 7
                    && let Some(frame) = self.store.frame(index)
                {
                    self.store.words.borrow_mut()[pid as usize] = Word::Disk(frame.newest);
                    self.store.frames.borrow_mut()[index] = None;
                }
                Ok(())
            }
            Kind::Copy { epoch } => {
                if self.checkpoint.as_ref().is_some_and(|c| !c.aborting) && epoch + 1 == self.epoch
                {
                    return self.register(pid, slot, content, epoch);
                }
                self.map.release(slot);
                Ok(())
            }
            Kind::Move { from } => {
                // A tag that changed meanwhile does not make it another version.
                let now = self.store.words.borrow()[pid as usize];
                if !matches!(now, Word::Disk(place) if place.with_tag(Tag::IMAGE) == from.with_tag(Tag::IMAGE))
                {
                    self.map.release(slot);
                    return Ok(());
                }
                self.register(pid, slot, content, self.epoch)
            }
        }
    }

    fn register(&mut self, pid: u64, slot: u64, content: u64, epoch: u64) -> Step {
        let for_cut = self.map.phase() == Phase::Open && epoch < self.epoch;
        let newest = self.store.place(PageId(pid));
        match self
            .map
            .register(PageId(pid), newest, slot, check16(pid, content), epoch)
        {
            Registered::Newest(place) => self.store.set_place(pid, place),
            Registered::Late => {}
            Registered::Refused => return Err(format!("the write of page {pid} was refused")),
        }
        let layer = if for_cut {
            &mut self.layers.cut
        } else {
            &mut self.layers.next
        };
        layer.insert(pid, Some(slot));
        Ok(())
    }
}
