//! A tiny record layer over a page store, the truth beside it, and a disk that calls back.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terrace_base::checksum::mix;
use terrace_base::disk::{Disk, DiskFile, DiskRead};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{
    CheckpointMeta, Class, Exclusive, Pace, PageStore, Presence, Retry, Space, StoreOptions, View,
    WriteGuard,
};
use terrace_sim::Rng;

pub const PAGE: usize = 4096;
/// Records of a page.
pub const RECORDS: usize = 16;
/// Memory with which a store of 4 KiB pages has few more than its least number of frames.
pub const TINY: u64 = 345_000;

/// The records of one page.
pub type Records = [u64; RECORDS];
/// The records of all pages.
pub type Truth = BTreeMap<u64, Records>;

pub fn options(memory: u64) -> StoreOptions {
    StoreOptions {
        page_bytes: PAGE,
        ..StoreOptions::new(memory)
    }
}

pub fn info(stamp: u64) -> CheckpointMeta {
    CheckpointMeta {
        log_position: [1; 24],
        learnt: [2; 40],
        next_structure: 3,
        next_sequence: stamp,
        unlogged_from: stamp,
        catalog_root: PageId::NONE,
        clean: false,
    }
}

// ------------------------------------------------------------------------------------- records

pub fn at(record: usize) -> usize {
    32 + record * 32
}

/// A record and what proves that it belongs to this page and this place.
pub fn encode(pid: PageId, record: usize, value: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8..].copy_from_slice(&mix(pid.0 << 8 | record as u64, value).to_le_bytes());
    bytes
}

pub fn set_record(page: &mut Exclusive<'_>, record: usize, value: u64) {
    let bytes = encode(page.pid(), record, value);
    page.change(at(record), 16)
        .expect("a record in the page")
        .copy_from_slice(&bytes);
}

/// Rewrites the whole page, its header aside.
pub fn set_all(page: &mut Exclusive<'_>, records: &Records) {
    let pid = page.pid();
    let bytes = page.change_all().expect("a whole page");
    bytes[16..].fill(records[0] as u8);
    for (i, value) in records.iter().enumerate() {
        bytes[at(i)..at(i) + 16].copy_from_slice(&encode(pid, i, *value));
    }
}

/// The records of a page, or `None` if one of them is not what was written as a whole.
pub fn records(pid: PageId, view: View<'_>) -> Option<Records> {
    let mut out = [0; RECORDS];
    for (i, value) in out.iter_mut().enumerate() {
        *value = view.u64(at(i)).ok()?;
        if view.u64(at(i) + 8).ok()? != mix(pid.0 << 8 | i as u64, *value) {
            return None;
        }
    }
    Some(out)
}

/// Reads a page, faulting it in as often as it takes; `None` if it is free.
pub fn read(store: &PageStore, pid: PageId) -> Result<Option<Records>> {
    loop {
        match store.shared(pid) {
            Ok(page) => return Ok(Some(records(pid, page.view()).expect("whole records"))),
            Err(Retry::Conflict) => return Ok(None),
            Err(other) => store.settle(other)?,
        }
    }
}

/// A store with little memory and these pages `0..pages`, durable: each record is the number of its page.
pub fn made(disk: Arc<dyn Disk>, pages: u64) -> PageStore {
    let store = PageStore::create(disk, options(2 * TINY), 1, &info(0)).unwrap();
    for pid in 0..pages {
        loop {
            let door = store.enter().unwrap();
            let interrupt = match store.allocate(&door, Class::Cold) {
                Ok(mut page) => break set_all(&mut page, &[pid; RECORDS]),
                Err(e) => e,
            };
            drop(door);
            store.settle(interrupt).unwrap();
        }
    }
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
    store
}

// ------------------------------------------------------------------------------------- the disk

/// What happens at a call.
pub type Callback = Arc<dyn Fn(&'static str, &str) + Send + Sync>;

/// A disk that calls back before every write and sync.
#[derive(Clone)]
pub struct HookDisk {
    inner: Arc<dyn Disk>,
    callback: Arc<Mutex<Option<Callback>>>,
    busy: Arc<AtomicBool>,
}

struct HookFile {
    inner: Arc<dyn DiskFile>,
    name: String,
    disk: HookDisk,
}

impl HookDisk {
    pub fn new(inner: Arc<dyn Disk>) -> HookDisk {
        HookDisk {
            inner,
            callback: Arc::default(),
            busy: Arc::default(),
        }
    }

    /// Sets what happens at each write and sync; calls made meanwhile do not call back.
    pub fn on_call(&self, callback: Option<Callback>) {
        *self.callback.lock().unwrap() = callback;
    }

    fn call(&self, what: &'static str, name: &str) {
        let callback = self.callback.lock().unwrap().clone();
        if let Some(callback) = callback
            && !self.busy.swap(true, Ordering::SeqCst)
        {
            callback(what, name);
            self.busy.store(false, Ordering::SeqCst);
        }
    }

    fn file(
        &self,
        name: &str,
        inner: io::Result<Arc<dyn DiskFile>>,
    ) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(HookFile {
            inner: inner?,
            name: name.to_owned(),
            disk: self.clone(),
        }))
    }
}

impl Disk for HookDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, self.inner.open(name))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, self.inner.create(name))
    }
    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, self.inner.open_buffered(name))
    }
    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(name, self.inner.create_buffered(name))
    }
    fn delete(&self, name: &str) -> io::Result<()> {
        self.inner.delete(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.inner.list()
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
}

impl DiskFile for HookFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.inner.read_at(buf, offset)
    }
    /// As a device does: all are under way, and then they are answered in another order.
    fn read_together(
        &self,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        let made = |read: &mut DiskRead<'_>| self.inner.read_many_at(&mut read.bufs, read.offset);
        let mut made: Vec<_> = reads.iter_mut().map(made).enumerate().collect();
        made.sort_by_key(|(i, _)| mix(*i as u64, reads[0].offset));
        for (i, made) in made {
            terrace_base::sync::yield_now();
            done(i, &reads[i], made);
        }
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.disk.call("write", &self.name);
        self.inner.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        self.disk.call("sync", &self.name);
        self.inner.sync()
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.allocate(offset, len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.inner.len()
    }
}

// ------------------------------------------------------------------------------------- the world

/// What the test knows.
pub struct State {
    pub rng: Rng,
    pub truth: Truth,
    /// The truth at every cut, by its stamp.
    pub cuts: BTreeMap<u64, Truth>,
    /// Stamp of the last checkpoint that was reported as done.
    pub durable: u64,
    next_stamp: u64,
    next_value: u64,
}

/// One store, worked on by one thread (whose disk calls back into it during checkpoints).
pub struct World {
    pub store: PageStore,
    pub disk: HookDisk,
    pub state: Mutex<State>,
    /// Changes that may still be made inside the checkpoint in progress.
    pub credit: AtomicU64,
    /// Most pages that exist.
    pub most: usize,
}

/// An ordinary error of a full disk is no reason to stop.
fn unless_full(result: Result<()>) -> Result<()> {
    match result {
        Err(e) if e.is_disk_full() => Ok(()),
        other => other,
    }
}

impl World {
    /// Makes a store, or opens the one that is there and checks it against what may be there.
    pub fn start(inner: Arc<dyn Disk>, memory: u64, state: State) -> Result<Arc<World>> {
        let disk = HookDisk::new(inner);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let store = match PageStore::presence(&*shared)? {
            Presence::Absent => {
                assert_eq!(state.durable, 0, "the store is gone");
                PageStore::create(shared, options(memory), 77, &info(0))?
            }
            Presence::Present => PageStore::open(shared, options(memory))?,
        };
        let world = World {
            store,
            disk,
            state: Mutex::new(state),
            credit: AtomicU64::new(0),
            most: 160,
        };
        world.adopt()?;
        Ok(Arc::new(world))
    }

    /// Finds out which cut was opened and that all of it is there, and goes on from it.
    fn adopt(&self) -> Result<()> {
        let stamp = self.store.superblock().next_sequence;
        {
            let mut state = self.state.lock().unwrap();
            assert!(
                stamp >= state.durable,
                "opened cut {stamp}, before {}",
                state.durable
            );
            let truth = state.cuts.get(&stamp).cloned();
            state.truth = truth.unwrap_or_else(|| panic!("opened cut {stamp}, which was none"));
            state.durable = stamp;
            let mut later = state.cuts.split_off(&stamp);
            later.retain(|s, _| *s == stamp);
            state.cuts = later;
        }
        self.store.check_accounts().unwrap();
        self.verify()
    }

    /// Compares every page with the truth.
    pub fn verify(&self) -> Result<()> {
        let truth = self.state.lock().unwrap().truth.clone();
        for (pid, expected) in &truth {
            let found = read(&self.store, PageId(*pid))?;
            assert_eq!(found.as_ref(), Some(expected), "page {pid}");
        }
        assert_eq!(
            self.store.live_pages(),
            truth.len() as u64,
            "pages that exist"
        );
        Ok(())
    }

    fn draw<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock().unwrap())
    }

    /// Goes in; during a checkpoint only if that needs no waiting, because this thread is the
    /// checkpointer.
    fn enter(&self, space: Space, nested: bool) -> Result<Option<WriteGuard<'_>>> {
        if nested {
            return Ok(self.store.try_enter());
        }
        match self.store.enter_for(space) {
            Ok(door) => Ok(Some(door)),
            Err(e) if e.is_disk_full() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Changes one page under its exclusive latch; a full disk is a reason not to.
    pub fn change(
        &self,
        pid: PageId,
        nested: bool,
        mut f: impl FnMut(&mut Exclusive<'_>, &mut State),
    ) -> Result<()> {
        loop {
            let Some(door) = self.enter(Space::Ordinary, nested)? else {
                return Ok(());
            };
            let interrupt = match self.store.exclusive(pid, &door) {
                Ok(mut page) => {
                    f(&mut page, &mut self.state.lock().unwrap());
                    return Ok(());
                }
                Err(e) => e,
            };
            drop(door);
            match self.store.settle(interrupt) {
                Err(e) if e.is_disk_full() => return Ok(()),
                other => other?,
            }
        }
    }

    pub fn allocate(&self, class: Class, nested: bool) -> Result<()> {
        loop {
            let Some(door) = self.enter(Space::Ordinary, nested)? else {
                return Ok(());
            };
            let interrupt = match self.store.allocate(&door, class) {
                Ok(mut page) => {
                    let mut state = self.state.lock().unwrap();
                    let fresh: Records = std::array::from_fn(|_| state.value());
                    set_all(&mut page, &fresh);
                    let old = state.truth.insert(page.pid().0, fresh);
                    assert!(old.is_none(), "{} was given out twice", page.pid());
                    return Ok(());
                }
                Err(Retry::HotFull) => return Ok(()),
                Err(e) => e,
            };
            drop(door);
            match self.store.settle(interrupt) {
                Err(e) if e.is_disk_full() => return Ok(()),
                other => other?,
            }
        }
    }

    pub fn free(&self, pid: PageId, nested: bool) -> Result<()> {
        loop {
            let Some(door) = self.enter(Space::Reserve, nested)? else {
                return Ok(());
            };
            let interrupt = match self.store.exclusive(pid, &door) {
                Ok(page) => {
                    page.free();
                    self.state.lock().unwrap().truth.remove(&pid.0);
                    return Ok(());
                }
                Err(e) => e,
            };
            drop(door);
            match self.store.settle(interrupt) {
                Err(e) if e.is_disk_full() => return Ok(()),
                other => other?,
            }
        }
    }

    pub fn change_record(&self, pid: PageId, record: usize, nested: bool) -> Result<()> {
        self.change(pid, nested, |page, state| {
            let value = state.value();
            set_record(page, record, value);
            state.truth.get_mut(&pid.0).expect("a live page")[record] = value;
        })
    }

    pub fn rewrite(&self, pid: PageId, nested: bool) -> Result<()> {
        self.change(pid, nested, |page, state| {
            let fresh: Records = std::array::from_fn(|_| state.value());
            set_all(page, &fresh);
            state.truth.insert(pid.0, fresh);
        })
    }

    /// A random page that exists.
    pub fn any_page(&self) -> Option<PageId> {
        self.draw(|s| {
            let n = s.truth.len() as u64;
            let nth = s.rng.below(n.max(1)) as usize;
            s.truth.keys().nth(nth).map(|p| PageId(*p))
        })
    }

    /// One random operation on pages.
    pub fn operate(&self, nested: bool) -> Result<()> {
        let (dice, record, live) = self.draw(|s| {
            (
                s.rng.below(100),
                s.rng.below(RECORDS as u64) as usize,
                s.truth.len(),
            )
        });
        let Some(pid) = self.any_page() else {
            return self.allocate(Class::Cold, nested);
        };
        match dice {
            0..15 if live < self.most => self.allocate(Class::Cold, nested),
            15..20 if live < self.most => self.allocate(Class::Hot, nested),
            20..22 if live < self.most => self.allocate(Class::Inner, nested),
            0..34 => self.free(pid, nested),
            34..70 => self.change_record(pid, record, nested),
            70..78 => self.rewrite(pid, nested),
            78..80 => {
                let class = [Class::Cold, Class::Hot, Class::Inner][record % 3];
                self.change(pid, nested, |page, _| {
                    page.set_class(class).expect("a class")
                })
            }
            _ => match read(&self.store, pid) {
                Ok(found) => {
                    let expected = self.draw(|s| s.truth.get(&pid.0).copied());
                    assert_eq!(found, expected, "{pid}");
                    Ok(())
                }
                Err(e) => unless_full(Err(e)),
            },
        }
    }

    /// A checkpoint, during whose writes and syncs up to `inside` more operations happen.
    pub fn checkpoint(self: &Arc<Self>, inside: u64) -> Result<()> {
        self.credit.store(inside, Ordering::SeqCst);
        let world = Arc::downgrade(self);
        let failed: Arc<Mutex<Option<Error>>> = Arc::default();
        let noted = failed.clone();
        self.disk.on_call((inside > 0).then(|| -> Callback {
            Arc::new(move |_, _| {
                let Some(world) = world.upgrade() else { return };
                for _ in 0..world.draw(|s| s.rng.below(4)) {
                    if world.credit.load(Ordering::SeqCst) == 0 {
                        return;
                    }
                    world.credit.fetch_sub(1, Ordering::SeqCst);
                    if let Err(e) = world.operate(true) {
                        *noted.lock().unwrap() = Some(e);
                        return;
                    }
                }
            })
        }));
        let mut stamp = 0;
        let result = self.store.checkpoint(Pace::Fast, &mut || {
            let mut state = self.state.lock().unwrap();
            state.next_stamp += 1;
            stamp = state.next_stamp;
            let truth = state.truth.clone();
            state.cuts.insert(stamp, truth);
            info(stamp)
        });
        self.disk.on_call(None);
        let done = match result {
            Ok(_) => {
                let mut state = self.state.lock().unwrap();
                state.durable = stamp;
                state.cuts = state.cuts.split_off(&stamp);
                Ok(())
            }
            Err(e) => Err(e),
        };
        unless_full(done)?;
        match failed.lock().unwrap().take() {
            Some(e) => unless_full(Err(e)),
            None => Ok(()),
        }
    }

    /// One random step: operations, a checkpoint, cleaning, moving, lending.
    pub fn step(self: &Arc<Self>) -> Result<()> {
        match self.draw(|s| s.rng.below(100)) {
            0..5 => {
                let inside = self.draw(|s| s.rng.below(30));
                self.checkpoint(inside)
            }
            5..9 => unless_full(self.store.settle(Retry::NoFrame)),
            9 => unless_full(self.store.relocate_some()),
            10 => {
                let extra = self.draw(|s| s.rng.below(60_000));
                self.store.take_extra_bytes(extra);
                self.store.rebalance();
                self.store.give_extra_bytes(extra);
                Ok(())
            }
            _ => self.operate(false),
        }
    }

    /// What goes on after a crash: the truth at every cut that may be found.
    pub fn end(&self) -> State {
        let mut state = self.state.lock().unwrap();
        let fresh = State::new(0);
        std::mem::replace(&mut *state, fresh)
    }
}

impl State {
    pub fn new(seed: u64) -> State {
        State {
            rng: Rng::new(seed),
            truth: Truth::new(),
            cuts: BTreeMap::from([(0, Truth::new())]),
            durable: 0,
            next_stamp: 0,
            next_value: 0,
        }
    }

    /// A copy for another outcome of the same crash.
    pub fn fork(&self) -> State {
        State {
            rng: self.rng.clone(),
            truth: Truth::new(),
            cuts: self.cuts.clone(),
            durable: self.durable,
            next_stamp: self.next_stamp,
            next_value: self.next_value,
        }
    }

    /// A value never used before.
    pub fn value(&mut self) -> u64 {
        self.next_value += 1;
        self.next_value
    }
}
