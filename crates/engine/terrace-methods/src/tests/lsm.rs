//! LSM-trees against a model: after each step, and in the middle of steps, where a hook looks.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use terrace_access::{
    AccessMethod, Edge, Flags, LargeRef, Merging, NoRoom, Ordered, Plan, Retry, Touch, Value,
    Waits, Window,
};
use terrace_base::checksum::mix;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Pace, PageStore, Space};
use terrace_sim::SimDisk;

use super::faults::Planted;
use super::fixture::{factor, info, options};
use crate::fault::{Fault, Point, hook, plant};
use crate::{Lsm, overflow};

const PAGE: usize = 4096;
/// Enough for a second level.
const KEYS: u64 = 8000;

/// What a key has: bytes, or a large value of that length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Have {
    Bytes(Vec<u8>),
    Large(usize),
}

pub(super) struct Tested {
    pub store: Arc<PageStore>,
    pub lsm: Lsm,
    /// Takes the numbers of pages that the other one frees, for other records with the same keys.
    other: Lsm,
    pub model: RefCell<BTreeMap<Vec<u8>, Have>>,
    /// Whether pages are compressed; large values are in a part of the keys then.
    is_compressed: bool,
}

fn failed(what: String) -> Error {
    Error::invalid(what)
}

pub(super) fn key(n: u64) -> Vec<u8> {
    // In an order that is not that of the numbers, over many leaves.
    (mix(n % KEYS, 7) as u32).to_be_bytes().to_vec()
}

impl Tested {
    pub fn new() -> Result<Tested> {
        Tested::with(false)
    }

    pub fn with(is_compressed: bool) -> Result<Tested> {
        Tested::in_memory_of(256, is_compressed)
    }

    pub fn in_memory_of(frames: usize, is_compressed: bool) -> Result<Tested> {
        let disk = SimDisk::new(5).shared();
        let store = Arc::new(PageStore::create(disk, options(PAGE, frames), 1, &info())?);
        let make = || loop {
            let made = Lsm::create(&store, &store.enter()?);
            match made {
                Ok(lsm) => return Ok::<_, Error>(lsm),
                Err(interrupt) => store.settle(interrupt)?,
            }
        };
        let (lsm, other) = (make()?, make()?);
        if is_compressed {
            lsm.compress(8);
            other.compress(8);
        }
        Ok(Tested {
            store,
            lsm,
            other,
            model: RefCell::default(),
            is_compressed,
        })
    }

    /// Makes a change without a step before it.
    pub fn change(&self, key: &[u8], have: Option<Have>) -> Result<()> {
        let guard = self.store.large_guard();
        let large = match &have {
            Some(Have::Large(len)) => Some(overflow::write(&self.store, &vec![key[0]; *len])?),
            _ => None,
        };
        let plan_of = |_: Option<(Flags, Value<'_>)>| {
            Ok(match (&have, large) {
                (_, Some(large)) => Plan::Put(Value::Large(large), Flags::NONE),
                (Some(Have::Bytes(bytes)), _) => Plan::Put(Value::Inline(bytes), Flags::NONE),
                _ => Plan::Erase,
            })
        };
        let done = loop {
            let door = self.store.enter()?;
            let done = self
                .lsm
                .try_edit(&door, key, &mut { plan_of }, &mut NoRoom, &mut || Ok(()));
            drop(door);
            match done {
                Ok(done) => break done,
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        };
        if let Some((_, Some(old))) = done.before {
            overflow::free(&self.store, old)?;
        }
        drop(guard);
        let mut model = self.model.borrow_mut();
        match have {
            Some(have) => model.insert(key.to_vec(), have),
            None => model.remove(key),
        };
        Ok(())
    }

    /// A step here, and the pages that it frees are taken there.
    fn trade_pages(&self, n: u64) -> Result<()> {
        for i in 0..100 {
            let key = key(mix(n, i));
            let have = self.model.borrow().get(&key).cloned();
            // What is there already: the step has something to take along.
            if let Some(Have::Bytes(_)) = have {
                self.change(&key, have)?;
            }
        }
        self.lsm.step(0.0, Space::Ordinary)?;
        for i in 0..200 {
            let key = key(mix(n, i));
            loop {
                let door = self.store.enter()?;
                let put = Plan::Put(Value::Inline(b"of another tree"), Flags::NONE);
                let done =
                    self.other
                        .try_edit(&door, &key, &mut |_| Ok(put), &mut NoRoom, &mut || Ok(()));
                drop(door);
                match done {
                    Ok(_) => break,
                    Err(interrupt) => self.store.settle(interrupt)?,
                }
            }
        }
        self.other.step(0.0, Space::Ordinary).map(|_| ())
    }

    pub fn get(&self, key: &[u8]) -> Result<Option<Have>> {
        let mut value = Vec::new();
        // Whoever starts over for ever has met what no step repairs.
        for _ in 0..1000 {
            match self.lsm.try_get(key, Touch::No, &mut value) {
                Ok(None) => return Ok(None),
                Ok(Some(found)) => match found.large {
                    None => return Ok(Some(Have::Bytes(value))),
                    Some(large) => match self.read(large) {
                        Ok(bytes) if bytes.iter().all(|b| *b == key[0]) => {
                            return Ok(Some(Have::Large(bytes.len())));
                        }
                        Ok(_) => return Err(failed("a large value of another key".into())),
                        Err(Retry::Conflict) => {}
                        Err(interrupt) => self.store.settle(interrupt)?,
                    },
                },
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        }
        Err(failed("a reader starts over for ever".into()))
    }

    fn read(&self, large: LargeRef) -> std::result::Result<Vec<u8>, Retry> {
        let mut out = Vec::new();
        overflow::read(&self.store, large, &mut out, &mut || Ok(true), &mut || {
            Ok(false)
        })?;
        Ok(out)
    }

    pub fn expect(&self, key: &[u8]) -> Result<()> {
        let expected = self.model.borrow().get(key).cloned();
        let found = self.get(key)?;
        match found == expected {
            true => Ok(()),
            false => Err(failed(format!(
                "{key:02x?} has {found:?} instead of {expected:?}"
            ))),
        }
    }

    /// All keys by windows, in both directions, and each by itself.
    pub fn expect_all(&self) -> Result<()> {
        (0..KEYS).try_for_each(|n| self.expect(&key(n)))?;
        let model = self.model.borrow();
        for limit in [usize::MAX, 7] {
            let mut window = Window::new();
            window.set_limit(limit);
            // Nothing lies below the empty key, and nothing is damaged there.
            self.settled(|| self.lsm.try_window(Edge::Below(b""), &mut window))?;
            self.settled(|| self.lsm.try_reach(Edge::Below(b"")))?;
            if !window.low.is_empty() {
                return Err(failed(
                    "a window below the first key goes on below it".into(),
                ));
            }
            let (mut up, mut at) = (Vec::new(), Vec::new());
            loop {
                self.settled(|| self.lsm.try_window(Edge::From(&at), &mut window))?;
                up.extend((window.lower_bound(&at)..window.len()).map(|i| window.key(i).to_vec()));
                match window.high.take() {
                    Some(high) if high > at => at = high,
                    Some(_) => return Err(failed("a window goes nowhere".into())),
                    None => break,
                }
            }
            let (mut down, mut below) = (Vec::new(), None::<Vec<u8>>);
            loop {
                let edge = below.as_deref().map_or(Edge::End, Edge::Below);
                self.settled(|| self.lsm.try_window(edge, &mut window))?;
                let end = below
                    .as_deref()
                    .map_or(window.len(), |below| window.lower_bound(below));
                down.extend((0..end).rev().map(|i| window.key(i).to_vec()));
                if window.low.is_empty() {
                    break;
                }
                below = Some(window.low.clone());
            }
            down.reverse();
            for keys in [up, down] {
                if !keys.iter().eq(model.keys()) {
                    return Err(failed(format!(
                        "windows of {limit} have {} records instead of {}",
                        keys.len(),
                        model.len()
                    )));
                }
            }
        }
        Ok(())
    }

    pub fn settled<T>(&self, mut f: impl FnMut() -> std::result::Result<T, Retry>) -> Result<T> {
        loop {
            match f() {
                Ok(done) => return Ok(done),
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        }
    }

    /// Every page has an owner, and every invariant holds.
    pub fn verify(&self) -> Result<()> {
        self.verify_with(None)
    }

    /// The same with a part that was taken out.
    pub fn verify_with(&self, part: Option<&Lsm>) -> Result<()> {
        let mut pages = std::collections::BTreeSet::new();
        let mut records = 0;
        let mut own = |page: PageId| match pages.insert(page) {
            true => Ok(()),
            false => Err(failed(format!("{page} has two owners"))),
        };
        let mut count = |_: &[u8], _: Flags, _: Value<'_>| {
            records += 1;
            Ok(())
        };
        self.lsm.verify(&mut count, &mut own)?;
        for beside in part.into_iter().chain([&self.other]) {
            beside.verify(&mut |_, _, _| Ok(()), &mut own)?;
        }
        if records != self.model.borrow().len() {
            return Err(failed(format!("{records} records are counted")));
        }
        let live = self.store.live_pages();
        match pages.len() as u64 == live {
            true => Ok(()),
            false => Err(failed(format!("{} of {live} pages are owned", pages.len()))),
        }
    }

    /// Changes as a seed has them, with steps as they fall due.
    pub fn work(&self, seed: u64, changes: u64) -> Result<()> {
        for n in 0..changes {
            let draw = mix(seed, n);
            let key = key(draw >> 20);
            let have = match draw % 16 {
                0..3 => None,
                3 if !self.is_compressed || key[0] >= 0xC0 => {
                    Some(Have::Large(5000 + (draw >> 40) as usize % 9000))
                }
                _ => Some(Have::Bytes(vec![
                    draw as u8;
                    20 + (draw >> 32) as usize % 150
                ])),
            };
            self.lsm
                .catch_up(Space::Ordinary, &mut Waits::of_a_change())?;
            self.change(&key, have)?;
            if draw.is_multiple_of(997) {
                self.store.checkpoint(Pace::Fast, &mut info)?;
            }
        }
        Ok(())
    }
}

/// Some work, looked at from all sides, in the middle of steps too.
fn run(seed: u64, changes: u64, between: u64, is_compressed: bool) -> Result<()> {
    let tested = Rc::new(Tested::with(is_compressed)?);
    let trouble: Rc<RefCell<Option<Error>>> = Rc::default();
    let turn = Rc::new(Cell::new(seed));
    {
        let (tested, trouble, turn) = (tested.clone(), trouble.clone(), turn.clone());
        hook(Some(Box::new(move |point| {
            turn.set(turn.get() + 1);
            let n = turn.get();
            let done = match point {
                // A look from above is right at every instant: some keys each time.
                Point::Installing => (0..5).try_for_each(|i| tested.expect(&key(mix(n, i)))),
                // The key that is copied may change before it is installed.
                Point::Merged if n.is_multiple_of(3) => (0..20).try_for_each(|i| {
                    let have = match i % 4 {
                        0 => None,
                        1 => Some(Have::Large(6000)),
                        _ => Some(Have::Bytes(vec![n as u8; 40])),
                    };
                    tested.change(&key(mix(n, i)), have)
                }),
                // Whatever a reader has seen, a step may be made before it goes on.
                Point::Looking | Point::Following if n.is_multiple_of(between) => {
                    tested.trade_pages(n)
                }
                _ => Ok(()),
            };
            if let Err(e) = done {
                trouble.borrow_mut().get_or_insert(e);
            }
        })));
    }
    let result = (|| {
        for round in 0..4 {
            tested.work(seed * 10 + round, changes / 4)?;
            tested.expect_all()?;
            tested.verify()?;
            if let Some(e) = trouble.borrow_mut().take() {
                return Err(e);
            }
        }
        Ok(())
    })();
    hook(None);
    result
}

#[test]
fn lsm_trees_agree_with_a_map_at_every_instant() {
    for seed in 1..2 + factor() {
        if let Err(e) = run(seed, 10_000, 64, false) {
            panic!("seed {seed}: {e}");
        }
    }
}

/// The same, with pages that have several leaves, and pages that have one, side by side.
#[test]
fn compressed_lsm_trees_agree_with_a_map_at_every_instant() {
    for seed in 1..2 + factor() {
        if let Err(e) = run(seed, 10_000, 64, true) {
            panic!("seed {seed}: {e}");
        }
    }
}

/// Pages take in more records compressed, where the level is among those that are to be; and what there is
/// already is found all the same when that changes.
#[test]
fn pages_are_compressed_as_they_are_made() {
    let tested = Tested::with(true).unwrap();
    let full_of = |number: usize| {
        let state = tested.settled(|| tested.lsm.state()).unwrap();
        let figures = state.level(number).map(|l| l.figures()).unwrap_or_default();
        (figures.bytes, figures.pages * PAGE as u64)
    };
    tested.lsm.compress(0);
    tested.work(41, 6000).unwrap();
    let (bytes, room) = full_of(0);
    assert!(
        bytes > 20 * PAGE as u64 && bytes < room,
        "{bytes} in {room}"
    );
    tested.lsm.compress(1);
    tested.work(42, 3000).unwrap();
    tested.expect_all().unwrap();
    tested.verify().unwrap();
    // Only steps compress: some of it may be as it was.
    let (bytes, room) = full_of(0);
    assert!(bytes > room * 5 / 4, "{bytes} in {room}");
    let (bytes, room) = full_of(1);
    assert!(
        bytes <= room,
        "{bytes} in {room} of a level that is not compressed"
    );
    tested.lsm.compress(0);
    tested.work(43, 6000).unwrap();
    tested.expect_all().unwrap();
    tested.verify().unwrap();
    // All down to the last level, in pages as they are made now.
    let mut at = Vec::new();
    while let Some(next) = tested.lsm.settle_down(&at).unwrap() {
        at = next;
    }
    tested.expect_all().unwrap();
    tested.verify().unwrap();
}

/// What does not get smaller is not compressed, and takes no more pages.
#[test]
fn random_bytes_stay_as_they_are() {
    let pages = [false, true].map(|is_compressed| {
        let tested = Tested::with(is_compressed).unwrap();
        for n in 0..4000 {
            let draw = (0..8).flat_map(|i| mix(n, i).to_le_bytes()).collect();
            tested
                .lsm
                .catch_up(Space::Ordinary, &mut Waits::of_a_change())
                .unwrap();
            tested.change(&key(n), Some(Have::Bytes(draw))).unwrap();
        }
        tested.verify().unwrap();
        let levels = tested.lsm.figures().unwrap().levels;
        levels.iter().map(|level| level.pages).sum::<u64>()
    });
    assert!(pages[0] > 50);
    assert_eq!(pages[0], pages[1]);
}

#[test]
fn the_model_finds_every_planted_fault_of_an_lsm_tree() {
    for fault in Fault::OF_AN_LSM {
        plant(Some(fault));
        let planted = Planted;
        let is_compressed = fault == Fault::LeafBelieved;
        // Only who meets a page number that has just been taken by a page for the same key falls for it; and few
        // records that a step copies have a chain and change meanwhile.
        let (seeds, between) = match fault {
            Fault::StampIgnored => (1..9, 4),
            Fault::StaleChain => (1..25, 64),
            _ => (1..4, 64),
        };
        let found = seeds
            .map(|seed| run(seed, 20_000, between, is_compressed))
            .find(Result::is_err);
        drop(planted);
        match found {
            Some(Err(e)) => println!("{fault:?}: {e}"),
            _ => panic!("{fault:?} was not found"),
        }
    }
}

/// After all is deleted and the tombstones have gone down, no page is left but those of an empty tree.
#[test]
fn what_is_deleted_leaves_nothing() {
    let tested = Tested::new().unwrap();
    let empty = tested.store.live_pages();
    tested.work(3, 12_000).unwrap();
    let keys: Vec<_> = tested.model.borrow().keys().cloned().collect();
    for key in keys {
        tested
            .lsm
            .catch_up(Space::Reserve, &mut Waits::of_a_change())
            .unwrap();
        tested.change(&key, None).unwrap();
    }
    let mut more = tested.lsm.purge(true).unwrap();
    while more {
        more = tested.lsm.purge(false).unwrap();
    }
    tested.verify().unwrap();
    let left = tested.store.live_pages();
    let levels = tested.lsm.figures().unwrap().levels.len() as u64;
    assert!(
        left <= empty + levels + 8,
        "{left} pages, {empty} when it was empty"
    );
}

/// Clearing ends, in bounded steps, also where it was begun before a crash, and leaves only roots.
#[test]
fn clearing_leaves_nothing_but_roots() {
    let tested = Tested::new().unwrap();
    tested.work(4, 8_000).unwrap();
    let mut steps = 0;
    loop {
        let door = tested.store.enter_for(Space::Reserve).unwrap();
        let more = tested.lsm.try_clear_step(&door);
        drop(door);
        match more {
            Ok(false) => break,
            Ok(true) => steps += 1,
            Err(interrupt) => tested.store.settle(interrupt).unwrap(),
        }
    }
    assert!(steps > 1);
    let parts_of = |lsm: &Lsm| tested.settled(|| lsm.part_roots()).unwrap().len() as u64;
    let others = parts_of(&tested.other) + 1;
    let roots = parts_of(&tested.lsm) + 1 + others;
    assert_eq!(tested.store.live_pages(), roots);
    loop {
        let door = tested.store.enter_for(Space::Reserve).unwrap();
        let freed = tested.lsm.try_free_root(&door);
        drop(door);
        match freed {
            Ok(()) => break,
            Err(interrupt) => tested.store.settle(interrupt).unwrap(),
        }
    }
    assert_eq!(tested.store.live_pages(), others);
}

/// Pages that a step reads at most, and so writes, beside those that it begins or ends within.
const MOST_PAGES: u64 = 64;
/// Each step writes and reads a bounded number of pages, compressed or not, however much memory there is.
#[test]
fn steps_are_bounded() {
    for frames in [256, 4096] {
        bounded_steps(false, frames).unwrap();
        bounded_steps(true, frames).unwrap();
    }
    plant(Some(Fault::StepTooLong));
    let planted = Planted;
    let found = bounded_steps(false, 4096);
    drop(planted);
    assert!(found.is_err_and(|e| e.to_string().contains("in one step")));
}

fn bounded_steps(is_compressed: bool, frames: usize) -> Result<()> {
    let tested = Tested::in_memory_of(frames, is_compressed)?;
    for n in 0..20_000 {
        let before = tested.lsm.figures()?;
        let mut waits = Waits::of_a_change();
        tested.lsm.catch_up(Space::Ordinary, &mut waits)?;
        let after = tested.lsm.figures()?;
        assert!(after.steps <= before.steps + 1);
        let written = (after.merge_bytes - before.merge_bytes) / PAGE as u64;
        let read = after.merge_reads - before.merge_reads;
        // Of each level a page may lie on either end.
        let more = 2 * after.levels.len() as u64;
        if written.max(read) > MOST_PAGES + more {
            let what = format!("{written} pages are written, {read} read in one step");
            return Err(failed(what));
        }
        tested.change(&wide_key(n * n), Some(Have::Bytes(vec![1; 60])))?;
        assert!(after.top_leaves <= after.top_bound + 4);
    }
    // What steps read is counted as theirs, not as what a caller asked for.
    let (reads, figures) = (tested.store.stats().merging_reads, tested.lsm.figures()?);
    assert!(
        reads >= figures.merge_reads,
        "{reads} of {}",
        figures.merge_reads
    );
    assert!(reads > 0 || frames > 256 || is_compressed, "{reads}");
    Ok(())
}

/// A step takes little of a small memory for its pages, and keeps it from one step to the next: hot records,
/// which would grow into it, would have to go again.
#[test]
fn memory_for_steps_is_little_and_stays() {
    for frames in [256, 1024, 4096] {
        let tested = Tested::in_memory_of(frames, false).unwrap();
        let before = tested.store.dynamic_bytes();
        let mut n = 0;
        while tested.lsm.figures().unwrap().steps == 0 {
            tested
                .change(&wide_key(n), Some(Have::Bytes(vec![1; 60])))
                .unwrap();
            n += 1;
            if n % 64 == 0 {
                tested.lsm.tend().unwrap();
            }
        }
        let taken = || (tested.store.dynamic_bytes() - before) as usize / PAGE;
        assert!((1..=frames / 8 + 2).contains(&taken()), "{}", taken());
        let with = taken();
        // The top is less than full now.
        for _ in 0..100 {
            tested.lsm.tend().unwrap();
        }
        assert_eq!(taken(), with, "given back in a lull");
        for _ in 0..2000 {
            tested.lsm.tend().unwrap();
        }
        assert!(taken() < with, "kept for good");
    }
}

/// One of many more keys.
fn wide_key(n: u64) -> Vec<u8> {
    mix(n, 7).to_be_bytes().to_vec()
}

/// The figures by which steps are planned are hints: wrong ones cost I/O, and no record.
#[test]
fn wrong_figures_lose_nothing() {
    let tested = Tested::new().unwrap();
    for round in 0..12u64 {
        tested.work(70 + round, 1500).unwrap();
        let state = tested.settled(|| tested.lsm.state()).unwrap();
        for level in state.downwards() {
            let mut figures = level.figures();
            let draw = mix(round, u64::from(level.number));
            for (n, figure) in [
                &mut figures.pages,
                &mut figures.bytes,
                &mut figures.records,
                &mut figures.tombstones,
            ]
            .into_iter()
            .enumerate()
            {
                *figure = match (draw >> (8 * n)) % 4 {
                    0 => 0,
                    1 => (*figure).min(u64::MAX >> 16) * 100,
                    2 => u64::MAX >> 8,
                    _ => *figure / 100,
                };
            }
            level.set_figures(figures);
        }
        tested.lsm.purge(true).unwrap();
        tested.expect_all().unwrap();
    }
}

/// Bytes that no writer writes are errors: no panic, no endless loop.
#[test]
fn any_bytes_of_a_page_a_root_or_an_entry_are_sound_or_an_error() {
    any_bytes(false);
}

#[test]
fn any_bytes_of_a_compressed_page_are_sound_or_an_error() {
    any_bytes(true);
}

fn any_bytes(is_compressed: bool) {
    let tested = Tested::with(is_compressed).unwrap();
    tested.work(6, 4_000).unwrap();
    let mut pages = Vec::new();
    let walk = tested.lsm.verify(&mut |_, _, _| Ok(()), &mut |page| {
        pages.push(page);
        Ok(())
    });
    walk.unwrap();
    let bytes_of = |page: PageId| {
        let copied = tested.settled(|| {
            let latched = tested.store.shared(page)?;
            let mut bytes = Vec::new();
            let copied = latched.view().append_to(0, PAGE, &mut bytes);
            copied.map_err(|_| Retry::Conflict)?;
            Ok(bytes)
        });
        copied.unwrap()
    };
    let all: Vec<Vec<u8>> = pages.into_iter().map(bytes_of).collect();
    let is_data = |bytes: &&Vec<u8>| crate::lsm::verify_page(bytes).is_ok();
    let is_root = |bytes: &&Vec<u8>| crate::lsm::verify_root(bytes).is_ok();
    assert!(all.iter().filter(is_data).count() > 10);
    assert_eq!(all.iter().filter(is_root).count(), 1);
    let several = all.iter().filter(|bytes| bytes[16] == 0xBB).count();
    assert_eq!(several > 5, is_compressed, "{several}");
    let good: Vec<&Vec<u8>> = all.iter().filter(|b| is_data(b) || is_root(b)).collect();
    for n in 0..20_000 {
        let mut bytes = good[mix(n, 1) as usize % good.len()].clone();
        for change in 0..1 + mix(n, 2) % 6 {
            // Mostly where numbers are.
            let draw = mix(n, 3 + change);
            let end = if draw % 10 < 7 { 100 } else { PAGE };
            let at = 16 + (draw >> 8) as usize % (end - 16);
            bytes[at] = (draw >> 40) as u8;
        }
        bytes.truncate(if !mix(n, 9).is_multiple_of(16) {
            PAGE
        } else {
            mix(n, 10) as usize % PAGE
        });
        let _ = crate::lsm::verify_page(&bytes);
        let _ = crate::lsm::verify_root(&bytes);
        let _ = crate::lsm::verify_entry(&bytes[..bytes.len().min(mix(n, 11) as usize % 64)]);
    }
}
