//! Pages that are brought in many at a time.

use std::sync::Arc;

use crate::common::{HookDisk, PAGE, RECORDS, TINY, info, made, options, read};
use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::{Error, PageId};
use terrace_pages::{Pace, PageStore};
use terrace_sim::{Fault, Injection, Op, SimDisk};

const PAGES: u64 = 700;
/// Where the slots begin.
const START: usize = 65536;

/// Some pages that are not in memory, each `step` numbers behind the one before.
fn out(store: &PageStore, step: usize, count: usize) -> Vec<PageId> {
    let out = (0..PAGES)
        .map(PageId)
        .filter(|page| !store.is_resident(*page));
    let pages: Vec<PageId> = out.step_by(step).take(count).collect();
    assert_eq!(pages.len(), count);
    pages
}

fn resident(store: &PageStore, pages: &[PageId]) -> usize {
    pages
        .iter()
        .filter(|page| store.is_resident(**page))
        .count()
}

fn all_are_whole(store: &PageStore) {
    for pid in 0..PAGES {
        assert_eq!(read(store, PageId(pid)).unwrap(), Some([pid; RECORDS]));
    }
    store.check_accounts().unwrap();
}

#[test]
fn each_page_is_read_once_and_neighbours_by_one_request() {
    let disk = SimDisk::new(1);
    let store = made(disk.shared(), PAGES);
    let mut apart = out(&store, 3, 10);
    let (before, reads) = (store.stats().page_reads, disk.reads().0);
    store.fetch(&mut apart).unwrap();
    assert_eq!(resident(&store, &apart), 10);
    assert_eq!(store.stats().page_reads - before, 10);
    assert_eq!(disk.reads().0 - reads, 10);
    // Those that are there, those twice, and those that there are not cost nothing.
    apart.extend([apart[0], PageId(PAGES + 7)]);
    store.fetch(&mut apart).unwrap();
    assert_eq!(disk.reads().0 - reads, 10);
    let mut beside = out(&store, 1, 10);
    store.fetch(&mut beside).unwrap();
    assert_eq!(resident(&store, &beside), 10);
    assert_eq!(store.stats().page_reads - before, 20);
    let requests = disk.reads().0 - reads - 10;
    assert!(requests < 8, "{requests} requests for pages side by side");
    all_are_whole(&store);
}

#[test]
fn more_pages_than_there_are_frames_come_and_go() {
    let store = made(Arc::new(HookDisk::new(SimDisk::new(1).shared())), PAGES);
    assert!(PAGES > 3 * store.stats().frames);
    let before = store.stats().page_reads;
    let out = PAGES - resident(&store, &(0..PAGES).map(PageId).collect::<Vec<_>>()) as u64;
    store.fetch(&mut (0..PAGES).map(PageId).collect()).unwrap();
    let read = store.stats().page_reads - before;
    assert!(read >= out && read <= PAGES, "{read}");
    all_are_whole(&store);
}

#[test]
fn the_error_of_one_page_keeps_no_other_out() {
    for nth in 1..=8 {
        let disk = SimDisk::new(nth);
        let store = made(Arc::new(HookDisk::new(disk.shared())), PAGES);
        let mut pages = out(&store, 3, 8);
        disk.inject(Injection::at(Op::Read, nth, Fault::Eio));
        let error = store.fetch(&mut pages).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert_eq!(resident(&store, &pages), 7);
        store.check_accounts().unwrap();
        store.fetch(&mut pages).unwrap();
        assert_eq!(resident(&store, &pages), 8);
        all_are_whole(&store);
    }
}

#[test]
fn of_pages_that_are_read_by_one_request_the_damaged_one_alone_is_an_error() {
    let disk = SimDisk::new(1);
    let store = made(disk.shared(), PAGES);
    let beside = out(&store, 1, 12);
    let bad = beside[5];
    let mut data = disk.contents("data").unwrap();
    let is_it = |page: &[u8]| page[..8] != [0; 8] && page[8..13] == bad.0.to_le_bytes()[..5];
    for page in data[START..]
        .chunks_exact_mut(PAGE)
        .filter(|page| is_it(page))
    {
        page[100] ^= 1;
    }
    disk.place("data", data);
    let store = PageStore::open(disk.shared(), options(2 * TINY)).unwrap();
    let error = store.fetch(&mut beside.clone()).unwrap_err();
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains(&bad.to_string()), "{error}");
    assert_eq!(resident(&store, &beside), 11);
    // A read that fails as a whole says nothing of its pages: each is read by itself.
    let others: Vec<PageId> = out(&store, 1, 300).split_off(280);
    disk.inject(Injection::at(Op::Read, 1, Fault::Eio));
    store.fetch(&mut others.clone()).unwrap();
    assert_eq!(resident(&store, &others), 20);
    store.check_accounts().unwrap();
}

#[test]
fn a_file_that_ends_too_early_is_an_error_of_the_pages_behind_its_end() {
    let disk = SimDisk::new(1);
    let store = made(disk.shared(), PAGES);
    let data = disk.open("data").unwrap();
    let slots = (data.len().unwrap() - START as u64) / PAGE as u64;
    let end = START as u64 + (slots / 2) * PAGE as u64 + 512;
    data.set_len(end).unwrap();
    let mut pages = out(&store, 1, 64);
    pages.extend(out(&store, 1, 500).split_off(440));
    let error = store.fetch(&mut pages).unwrap_err();
    assert!(error.to_string().contains("the file ends"), "{error}");
    let there = resident(&store, &pages);
    assert!((1..pages.len()).contains(&there), "{there}");
    store.check_accounts().unwrap();
}

/// On a real disk: by io_uring or threads, whatever there is.
#[test]
fn several_threads_fetch_pages_that_push_each_other_out() {
    let dir = tempfile::tempdir().unwrap();
    let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
    let store = made(Arc::new(disk), PAGES);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                for round in 0..20 {
                    let page = |i: u64| PageId((thread * 97 + round * 31 + i * 7) % PAGES);
                    let pages: Vec<PageId> = (0..48).map(page).collect();
                    store.fetch(&mut pages.clone()).unwrap();
                    for page in pages {
                        // `None` where another thread is just at it.
                        let found = std::iter::repeat_with(|| read(store, page).unwrap());
                        assert_eq!(found.flatten().next(), Some([page.0; RECORDS]));
                    }
                }
            });
        }
        for stamp in 2..5 {
            store.checkpoint(Pace::Fast, &mut || info(stamp)).unwrap();
        }
    });
    all_are_whole(&store);
}
