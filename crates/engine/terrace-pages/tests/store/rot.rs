//! Pages that rotted, or that are older than they should be.

use crate::common::{PAGE, RECORDS, TINY, info, made, options, set_all};
use terrace_base::{Error, PageId};
use terrace_pages::{Pace, PageStore, Retry};
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
    let store = made(disk.shared(), PAGES);
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
        store.settle(Retry::Miss(PageId(bad))),
        Err(Error::Corrupt { .. })
    ));
    store.check_accounts().unwrap();
}

#[test]
fn an_older_version_of_a_page_in_its_place_is_an_error() {
    let disk = SimDisk::new(1);
    let store = made(disk.shared(), 20);
    let before = disk.contents("data").unwrap();
    let (_, old) = slots_of(&before, 7).pop().unwrap();
    with(&store, 7, |mut page| set_all(&mut page, &[99; RECORDS]));
    checkpoint(&store);
    drop(store);
    let data = disk.contents("data").unwrap();
    let mut found = 0;
    for (slot, now) in slots_of(&data, 7) {
        if now == old {
            continue;
        }
        found += 1;
        let mut data = data.clone();
        data[START + slot * PAGE..][..PAGE].copy_from_slice(&old);
        let lost = SimDisk::new(2);
        for name in disk.names() {
            lost.place(&name, disk.contents(&name).unwrap());
        }
        lost.place("data", data);
        let store = PageStore::open(lost.shared(), options(2 * TINY)).unwrap();
        let told = store.settle(Retry::Miss(PageId(7))).unwrap_err();
        let at = START + slot * PAGE;
        assert!(
            told.to_string()
                .starts_with(&format!("data is damaged at byte {at}: an old version")),
            "{told}"
        );
        assert!(store.settle(Retry::Miss(PageId(8))).is_ok());
    }
    assert_eq!(found, 1);
}
