//! Pages that rotted, or that are older than they should be.

#![cfg(not(feature = "shuttle"))]

mod common;

use common::{PAGE, RECORDS, TINY, info, options, set_all};
use terrace_base::{Error, PageId};
use terrace_pages::{Class, Interrupt, Pace, PageStore};
use terrace_sim::SimDisk;

/// Where the slots begin.
const START: usize = 65536;

fn checkpoint(store: &PageStore) {
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
}

/// Does something to a page, however often it takes.
fn with(store: &PageStore, pid: u64, f: impl Fn(terrace_pages::Exclusive<'_>)) {
    loop {
        let door = store.enter().unwrap();
        let interrupt = match store.exclusive(PageId(pid), &door) {
            Ok(page) => return f(page),
            Err(e) => e,
        };
        drop(door);
        store.settle(interrupt).unwrap();
    }
}

/// Pages `0..pages`, durable.
fn made(disk: &SimDisk, pages: u64) -> PageStore {
    let store = PageStore::create(disk.shared(), options(2 * TINY), 1, &info(0)).unwrap();
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
    checkpoint(&store);
    store
}

/// The slots in which a page of this number lies, with their content.
fn slots_of(data: &[u8], pid: u64) -> Vec<(usize, Vec<u8>)> {
    let slots = data[START..].chunks_exact(PAGE).enumerate();
    let is_it = |page: &[u8]| page[..8] != [0; 8] && page[8..13] == pid.to_le_bytes()[..5];
    slots
        .filter(|(_, page)| is_it(page))
        .map(|(slot, page)| (slot, page.to_vec()))
        .collect()
}

#[test]
fn pages_leave_the_end_of_the_file_though_one_there_cannot_be_read() {
    const PAGES: u64 = 3000;
    const KEPT: u64 = 300;
    let disk = SimDisk::new(1);
    let store = made(&disk, PAGES);
    for pid in 0..PAGES - KEPT {
        with(&store, pid, |page| page.free());
    }
    checkpoint(&store);
    drop(store);
    let mut data = disk.contents("data").unwrap();
    let bad = PAGES - KEPT + 10;
    let (slot, _) = slots_of(&data, bad).pop().unwrap();
    data[START + slot * PAGE + 100] ^= 1;
    disk.place("data", data);
    let store = PageStore::open(disk.shared(), options(2 * TINY)).unwrap();
    for _ in 0..4 {
        store.relocate_some().unwrap();
        checkpoint(&store);
    }
    // All that lay behind it, at least, and the file was cut.
    let moved = store.stats().page_writes;
    assert!(moved >= PAGES - 1 - bad, "{moved}");
    let slots = (disk.contents("data").unwrap().len() - START) / PAGE;
    assert!(slots <= PAGES as usize - 256, "{slots}");
    assert!(matches!(
        store.settle(Interrupt::Miss(PageId(bad))),
        Err(Error::Corrupt { .. })
    ));
    store.check_accounts().unwrap();
}
