//! LSM-trees of which a page of an index cannot be read, and those that were opened again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use terrace_access::{AccessMethod, Flags, Merging, NoRoom, Plan, Retry, Touch, Value, Waits};
use terrace_base::checksum::mix;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Pace, PageStore, Space, StoreOptions};
use terrace_sim::SimDisk;

use super::faults::Planted;
use super::fixture::{info, options};
use crate::Lsm;
use crate::fault::{Fault, Point, hook, keep_tops_tiny, plant};

const PAGE: usize = 4096;
const FRAMES: usize = 256;
const KEYS: u64 = 20_000;
/// Some pages of the top, fewer than a step is made for.
const TOP_KEYS: u64 = 160;

/// Faults of the page store are planted in all of the process.
static PLANTING: terrace_base::sync::Mutex<()> = terrace_base::sync::Mutex::new(());

fn key(n: u64) -> [u8; 4] {
    (mix(n % KEYS, 7) as u32).to_be_bytes()
}

fn settled<T>(
    store: &PageStore,
    mut f: impl FnMut() -> std::result::Result<T, Retry>,
) -> Result<T> {
    loop {
        match f() {
            Ok(done) => return Ok(done),
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
}

fn change(store: &PageStore, lsm: &Lsm, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    lsm.catch_up(Space::Reserve, &mut Waits::of_a_change())?;
    let mut plan = |_: Option<(Flags, Value<'_>)>| {
        Ok(match value {
            Some(value) => Plan::Put(Value::Inline(value), Flags::NONE),
            None => Plan::Erase,
        })
    };
    settled(store, || {
        let door = store.enter()?;
        lsm.try_edit(&door, key, &mut plan, &mut NoRoom, &mut || Ok(()))
    })?;
    Ok(())
}

fn start() -> (SimDisk, Arc<PageStore>, Lsm) {
    let disk = SimDisk::new(5);
    let made = PageStore::create(disk.shared(), options(PAGE, FRAMES), 1, &info()).unwrap();
    let store = Arc::new(made);
    let lsm = settled(&store, || Lsm::create(&store, &store.enter()?)).unwrap();
    (disk, store, lsm)
}

/// Closed in order, and opened again.
fn again(disk: &SimDisk, store: Arc<PageStore>, lsm: Lsm) -> (Arc<PageStore>, Lsm) {
    store.checkpoint(Pace::Fast, &mut info).unwrap();
    let root = lsm.root();
    drop((lsm, store));
    let opened = PageStore::open(disk.shared(), options(PAGE, FRAMES)).unwrap();
    let store = Arc::new(opened);
    (store.clone(), Lsm::open(store, root))
}

/// Some bytes from the middle of a page.
fn middle_of(store: &PageStore, page: PageId) -> Vec<u8> {
    let copied = settled(store, || {
        let latched = store.shared(page)?;
        let mut bytes = Vec::new();
        let copied = latched.view().append_to(100, 300, &mut bytes);
        copied.map_err(|_| Retry::Conflict)?;
        Ok(bytes)
    });
    copied.unwrap()
}

/// Closed, and opened again with a page that has rotted, wherever it lies: one with these bytes in its middle.
fn rotten(disk: &SimDisk, store: Arc<PageStore>, lsm: Lsm, middle: &[u8]) -> (Arc<PageStore>, Lsm) {
    store.checkpoint(Pace::Fast, &mut info).unwrap();
    let root = lsm.root();
    drop((lsm, store));
    let mut data = disk.contents("data").unwrap();
    let windows = data.windows(middle.len()).enumerate();
    let places = windows.filter(|(_, w)| *w == middle);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    assert!(!places.is_empty());
    places.iter().for_each(|at| data[at + 7] ^= 0x55);
    disk.place("data", data);
    let store = Arc::new(PageStore::open(disk.shared(), options(PAGE, FRAMES)).unwrap());
    let lsm = Lsm::open(store.clone(), root);
    (store, lsm)
}

/// A page of the index of the last level rots: what it leads to is not merged any more, and all else is.
#[test]
fn a_page_of_an_index_that_cannot_be_read_is_no_bar_to_other_steps() {
    let (disk, store, lsm) = start();
    for n in 0..KEYS {
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    let mut pages = Vec::new();
    let index = &lsm.state().map_err(|_| ()).unwrap().level(0).unwrap().index;
    let (root, walk) = (
        index.root(),
        index.verify(&mut |_, _, _| Ok(()), &mut |page: PageId| {
            pages.push(page);
            Ok(())
        }),
    );
    walk.unwrap();
    pages.retain(|page| *page != root);
    assert!(pages.len() > 3, "{} pages of the index", pages.len());
    let middle = middle_of(&store, pages[1]);
    let (store, lsm) = rotten(&disk, store, lsm, &middle);
    let mut value = Vec::new();
    let bad = (0..KEYS)
        .filter(|n| settled(&store, || lsm.try_get(&key(*n), Touch::No, &mut value)).is_err());
    let bad: BTreeSet<[u8; 4]> = bad.map(key).collect();
    // Some records of that range lie in levels above, and were found.
    let (first, last) = (bad.first().unwrap(), bad.last().unwrap());
    let lost = (0..KEYS).filter(|n| (first..=last).contains(&&key(*n)));
    let lost: BTreeSet<u64> = lost.collect();
    assert!((lost.len() as u64) < KEYS / 2, "{}", lost.len());
    // Changes elsewhere are merged as ever, but for those next to it: a step there would reach into it.
    let mut most = 0;
    for n in (0..2 * KEYS).filter(|n| !lost.contains(&(n % KEYS))) {
        change(&store, &lsm, &key(n), Some(&[2; 100])).unwrap();
        most = most.max(lsm.figures().unwrap().top_leaves);
    }
    let bound = lsm.figures().unwrap().top_bound;
    assert!(
        most <= 8 * bound,
        "{most} leaves in the top, {bound} at most"
    );
    // Those there are taken, too, and stay above.
    for n in &lost {
        change(&store, &lsm, &key(*n), Some(&[3; 10])).unwrap();
    }
    for n in 0..KEYS {
        let found = settled(&store, || lsm.try_get(&key(n), Touch::No, &mut value)).unwrap();
        assert!(found.is_some());
        assert_eq!(value[0], if lost.contains(&n) { 3 } else { 2 });
    }
}

/// The most leaves that the top has while all records are changed twice, with a page of the last level that has
/// rotted; its records can only stay above.
fn top_beside_a_rotten_page() -> (u64, u64) {
    let (disk, store, lsm) = start();
    for n in 0..KEYS {
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    let state = lsm.state().map_err(|_| ()).unwrap();
    let slots = state.level(0).unwrap().slots(&store, (b"", None), 1 << 20);
    let pages = slots.unwrap().into_iter().filter_map(|slot| slot.entry);
    let pages: Vec<PageId> = pages.map(|entry| entry.name.page).collect();
    let middle = middle_of(&store, pages[pages.len() / 2]);
    let (store, lsm) = rotten(&disk, store, lsm, &middle);
    let mut most = 0;
    for n in 0..2 * KEYS {
        change(&store, &lsm, &key(n), Some(&[2; 100])).unwrap();
        most = most.max(lsm.figures().unwrap().top_leaves);
        if most > 3 * lsm.figures().unwrap().top_bound {
            break;
        }
    }
    let mut value = Vec::new();
    for n in (0..KEYS).take_while(|_| most <= 3 * lsm.figures().unwrap().top_bound) {
        let found = settled(&store, || lsm.try_get(&key(n), Touch::No, &mut value)).unwrap();
        assert!(found.is_some() && value == [2; 100]);
    }
    (most, lsm.figures().unwrap().top_bound)
}

/// What lies around a page that cannot be read becomes the densest range of all, and is passed over.
#[test]
fn a_page_that_cannot_be_read_is_no_bar_to_other_steps() {
    let (most, bound) = top_beside_a_rotten_page();
    assert!(most <= bound + 4, "{most} leaves, {bound} at most");
    let _planted = Planted;
    plant(Some(Fault::NothingRefused));
    let (most, bound) = top_beside_a_rotten_page();
    assert!(most > 2 * bound, "{most} leaves, {bound} at most");
}

/// A tree of which most is deleted puts nothing into the levels that it does not need any more.
#[test]
fn a_tree_that_has_shrunk_does_without_its_upper_levels() {
    let (_, store, lsm) = start();
    keep_tops_tiny(true);
    for n in 0..KEYS {
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    let pages_above = || -> Vec<u64> {
        let levels = lsm.figures().unwrap().levels;
        levels[1..].iter().map(|level| level.pages).collect()
    };
    assert!(pages_above().iter().filter(|pages| **pages > 0).count() >= 2);
    const LEFT: u64 = 150;
    for n in LEFT..KEYS {
        change(&store, &lsm, &key(n), None).unwrap();
    }
    while lsm.purge(true).unwrap() {}
    for n in 0..20 * LEFT {
        change(&store, &lsm, &key(n % LEFT), Some(&[2; 100])).unwrap();
        assert!(pages_above().iter().all(|pages| *pages == 0));
    }
    assert!(lsm.figures().unwrap().steps > 50);
    owned(&store, &[&lsm]).unwrap();
    let mut value = Vec::new();
    for n in 0..KEYS {
        let found = settled(&store, || lsm.try_get(&key(n), Touch::No, &mut value)).unwrap();
        assert_eq!(found.is_some(), n < LEFT);
    }
    // With as many records as before all levels are used again.
    for n in 0..KEYS {
        change(&store, &lsm, &key(n), Some(&[3; 100])).unwrap();
    }
    assert!(pages_above().iter().filter(|pages| **pages > 0).count() >= 2);
    keep_tops_tiny(false);
}

/// Tombstones that the top had when all was closed take what they hide away after the next opening.
#[test]
fn what_was_deleted_before_an_opening_leaves_nothing() {
    let (disk, store, lsm) = start();
    let empty = store.live_pages();
    for n in 0..500 {
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    while lsm.step(0.0, Space::Ordinary).unwrap() {}
    assert!(lsm.figures().unwrap().levels[0].pages > 5);
    for n in 0..500 {
        change(&store, &lsm, &key(n), None).unwrap();
    }
    let (store, lsm) = again(&disk, store, lsm);
    while lsm.purge(true).unwrap() {}
    assert!(
        store.live_pages() <= empty + 2,
        "{} pages, {empty} when it was empty",
        store.live_pages()
    );
}

/// Where another thread holds the leaf beside one that a step has emptied, the two are not joined. Later steps find
/// nothing to carry there: they join them, and come to an end.
#[test]
fn leaves_that_a_step_left_empty_are_joined_by_later_ones() {
    let (_, store, lsm) = start();
    for n in 0..2_000 {
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    let steps_to_the_end = || {
        let steps = (0..10_000).take_while(|_| lsm.step(0.0, Space::Ordinary).unwrap());
        steps.count()
    };
    {
        let _planted = Planted;
        plant(Some(Fault::EmptiedLeavesKept));
        assert!(steps_to_the_end() < 10_000);
    }
    for _ in 0..20 {
        assert!(!lsm.step(0.0, Space::Ordinary).unwrap());
    }
    assert_eq!(lsm.figures().unwrap().top_leaves, 1);
    let mut value = Vec::new();
    for n in 0..2_000 {
        let found = settled(&store, || lsm.try_get(&key(n), Touch::No, &mut value)).unwrap();
        assert!(found.is_some() && value == [1; 100]);
    }
}

/// The top stays in memory, and is written by checkpoints alone, whoever else needs the frames.
#[test]
fn a_top_is_neither_thrown_out_nor_written_ahead() {
    let _alone = PLANTING.lock();
    assert_eq!(thrown_out_and_written(), (0, 0));
    // In all of the process: others that run meanwhile lose some reads and writes by it, and nothing else.
    terrace_pages::plant(terrace_pages::Planted::TopsAsOthers);
    let lost = std::panic::catch_unwind(thrown_out_and_written);
    terrace_pages::plant(terrace_pages::Planted::None);
    let (thrown_out, written) = lost.unwrap();
    assert!(
        thrown_out > 0 && written > 0,
        "{thrown_out}, {written} written"
    );
}

/// Looks into a top that found no page after much else was read, and pages that were written between two
/// checkpoints while nothing but the top was changed.
fn thrown_out_and_written() -> (usize, u64) {
    let (_, store, lsm) = start();
    // Some other structure, much larger than the memory.
    let other = settled(&store, || Lsm::create(&store, &store.enter()?)).unwrap();
    for n in 0..4 * KEYS {
        let key = (mix(n, 3) as u32).to_be_bytes();
        change(&store, &other, &key, Some(&[1; 100])).unwrap();
    }
    for _ in 0..10_000 {
        if !other.step(0.0, Space::Ordinary).unwrap() {
            break;
        }
    }
    for n in 0..TOP_KEYS {
        change(&store, &lsm, &key(n), Some(&[2; 100])).unwrap();
    }
    let figures = lsm.figures().unwrap();
    assert!(figures.steps == 0 && figures.top_leaves >= 4, "{figures:?}");
    store.checkpoint(Pace::Fast, &mut info).unwrap();
    let before = store.stats();
    let mut value = Vec::new();
    for n in 0..4 * KEYS {
        let elsewhere = (mix(n, 3) as u32).to_be_bytes();
        settled(&store, || other.try_get(&elsewhere, Touch::No, &mut value)).unwrap();
    }
    let reads = store.stats().page_reads - before.page_reads;
    assert!(reads > 1000, "{reads}");
    let looks = (0..TOP_KEYS).map(|n| lsm.try_get(&key(n), Touch::No, &mut value));
    let is_miss = |look: &std::result::Result<_, Retry>| matches!(look, Err(Retry::Miss(_)));
    let thrown_out = looks.filter(is_miss).count();
    for n in 0..TOP_KEYS {
        change(&store, &lsm, &key(n), Some(&[3; 100])).unwrap();
    }
    for _ in 0..4 {
        store.clean_now().unwrap();
    }
    (thrown_out, store.stats().page_writes - before.page_writes)
}

/// Tops of many structures share what one may have, and those that are idle give theirs up.
#[test]
fn tops_of_many_structures_share_their_part_of_the_memory() {
    const FRAMES: usize = 1024;
    let disk = SimDisk::new(6).shared();
    let made = PageStore::create(disk, options(PAGE, FRAMES), 1, &info()).unwrap();
    let store = Arc::new(made);
    let make = |_| settled(&store, || Lsm::create(&store, &store.enter()?)).unwrap();
    let all: Vec<Lsm> = (0..40).map(make).collect();
    let part = store.frames() / 8;
    for (i, lsm) in all.iter().enumerate() {
        for n in 0..1500 {
            change(&store, lsm, &key(n + i as u64), Some(&[1; 100])).unwrap();
        }
        // A page more for each: who looks does so now and then.
        assert!(
            store.top_frames() <= part + 2 * all.len() as u64,
            "{} frames of tops of {part}",
            store.top_frames()
        );
        all.iter().for_each(|lsm| lsm.tend().unwrap());
    }
}

/// The pages that a store has are those that its two trees name.
fn owned(store: &PageStore, lsms: &[&Lsm]) -> Result<()> {
    let mut pages = BTreeSet::new();
    for lsm in lsms {
        lsm.verify(&mut |_, _, _| Ok(()), &mut |page| {
            pages.insert(page);
            Ok(())
        })?;
    }
    match (pages.len() as u64, store.live_pages()) {
        (named, live) if named == live => Ok(()),
        (named, live) => Err(Error::invalid(format!("{named} of {live} pages are named"))),
    }
}

/// Checkpoints while steps are under way, each of which is opened after a power cut.
fn cuts_in_steps() -> Result<()> {
    let (disk, store, lsm) = start();
    let trouble: Rc<RefCell<Option<Error>>> = Rc::default();
    let (turn, seen) = (Rc::new(Cell::new(0u64)), Rc::new(Cell::new(0)));
    {
        let (disk, store, trouble) = (disk.clone(), store.clone(), trouble.clone());
        let (turn, seen, root) = (turn.clone(), seen.clone(), lsm.root());
        hook(Some(Box::new(move |point| {
            turn.set(turn.get() + 1);
            if point != Point::Merged || !turn.get().is_multiple_of(5) || seen.get() > 20 {
                return;
            }
            let looked = (|| {
                store.checkpoint(Pace::Fast, &mut info)?;
                let cut = disk.copy();
                let opened = PageStore::open(cut.shared(), options(PAGE, FRAMES))?;
                let opened = Arc::new(opened);
                let there = Lsm::open(opened.clone(), root);
                owned(&opened, &[&there])
            })();
            seen.set(seen.get() + 1);
            if let Err(e) = looked {
                trouble.borrow_mut().get_or_insert(e);
            }
        })));
    }
    let done = (0..20_000).try_for_each(|n| change(&store, &lsm, &key(n), Some(&[1; 100])));
    hook(None);
    done?;
    assert!(seen.get() > 5, "{} cuts", seen.get());
    let trouble = trouble.borrow_mut().take();
    trouble.map_or(Ok(()), Err)
}

#[test]
fn a_cut_has_no_page_that_nobody_names() {
    cuts_in_steps().unwrap();
    plant(Some(Fault::PagesEarly));
    let planted = Planted;
    let found = cuts_in_steps();
    drop(planted);
    assert!(found.is_err_and(|e| e.to_string().contains("are named")));
}

/// The least memory that a store opens with has room for the top of a tree, and for its steps.
#[test]
fn the_least_memory_has_room_for_a_top() {
    let disk = || SimDisk::new(9).shared();
    let of = |memory| StoreOptions {
        page_bytes: PAGE,
        memory,
    };
    let Err(Error::MemoryTooSmall { needed, .. }) = PageStore::create(disk(), of(4096), 1, &info())
    else {
        panic!("there is no least memory");
    };
    assert!(PageStore::create(disk(), of(needed / 2), 1, &info()).is_err());
    let store = Arc::new(PageStore::create(disk(), of(needed), 1, &info()).unwrap());
    let lsm = settled(&store, || Lsm::create(&store, &store.enter()?)).unwrap();
    for n in 0..4000 {
        change(&store, &lsm, &key(n), Some(&[n as u8; 100])).unwrap();
        let figures = lsm.figures().unwrap();
        assert!(figures.top_leaves * 4 <= store.frames(), "{figures:?}");
    }
    assert!(lsm.figures().unwrap().steps > 5);
    let mut value = Vec::new();
    for n in 0..4000 {
        let found = settled(&store, || lsm.try_get(&key(n), Touch::No, &mut value)).unwrap();
        assert!(found.is_some());
    }
    owned(&store, &[&lsm]).unwrap();
}

/// How often steps waited inside the gate while others read so much that every page which may leave memory
/// does, between any two entries that a step changes.
fn waits_while_others_read() -> u64 {
    let (_, store, lsm) = start();
    let other = Rc::new(settled(&store, || Lsm::create(&store, &store.enter()?)).unwrap());
    for n in 0..KEYS {
        change(&store, &other, &key(n), Some(&[1; 100])).unwrap();
        change(&store, &lsm, &key(n), Some(&[1; 100])).unwrap();
    }
    let before = lsm.waits_inside();
    let turn = Rc::new(Cell::new(0));
    {
        let (store, other, turn) = (store.clone(), other.clone(), turn.clone());
        hook(Some(Box::new(move |point| {
            if point != Point::Installing {
                return;
            }
            let mut value = Vec::new();
            for _ in 0..40 {
                turn.set(turn.get() + 1);
                let key = key(turn.get() * 997);
                let found = settled(&store, || other.try_get(&key, Touch::No, &mut value));
                assert!(found.unwrap().is_some());
            }
        })));
    }
    for n in 0..KEYS / 10 {
        change(&store, &lsm, &key(n), Some(&[2; 100])).unwrap();
    }
    hook(None);
    assert!(turn.get() > 1000, "{}", turn.get());
    lsm.waits_inside() - before
}

/// What a step is about to change stays in memory, so that no thread waits for a disk inside the gate.
#[test]
fn no_step_waits_inside_the_gate_for_a_page_of_an_index() {
    let _alone = PLANTING.lock();
    assert_eq!(waits_while_others_read(), 0);
    // In all of the process: others that run meanwhile wait a little more by it.
    terrace_pages::plant(terrace_pages::Planted::StayingLeave);
    let waits = std::panic::catch_unwind(waits_while_others_read);
    terrace_pages::plant(terrace_pages::Planted::None);
    assert!(waits.unwrap() > 0);
}
