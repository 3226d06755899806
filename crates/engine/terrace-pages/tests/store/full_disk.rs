//! The disk is full to the last slot: whoever is let in can be written out by a checkpoint, and no writer
//! asks for one that would free nothing.

use std::sync::Barrier;

use crate::common::{RECORDS, TINY, info, options, set_all, set_record};
use terrace_base::PageId;
use terrace_pages::{Class, Pace, PageStore, Space, WriteGuard};
use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk};

/// A store whose disk is full, with `pages` pages in memory, all of them clean.
fn full(pages: u64) -> PageStore {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(16 * TINY), 1, &info(0)).unwrap();
    assert!(store.stats().frames > pages);
    (0..pages).for_each(|_| add(&store, &store.enter().unwrap()));
    checkpoint(&store);
    disk.set_capacity(Some(disk.used_bytes()));
    store
}

fn add(store: &PageStore, door: &WriteGuard<'_>) {
    set_all(
        &mut store.allocate(door, Class::Cold).unwrap(),
        &[1; RECORDS],
    );
}

fn change(store: &PageStore, door: &WriteGuard<'_>, pid: u64) {
    let Ok(mut page) = store.exclusive(PageId(pid), door) else {
        panic!("it is in memory");
    };
    set_record(&mut page, 0, pid);
}

fn checkpoint(store: &PageStore) {
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
}

/// Slots that are left once all that is dirty is written.
fn left(store: &PageStore) -> u64 {
    let stats = store.stats();
    stats.slots.free - stats.dirty_frames
}

#[test]
fn many_who_are_inside_at_once_leave_a_checkpoint_its_space() {
    for spare in 32..42 {
        let store = full(700);
        let mut pids = 0..700;
        let mut next = || pids.next().unwrap();
        while left(&store) > spare {
            change(&store, &store.enter_for(Space::Reserve).unwrap(), next());
        }
        // All of them come in before one has changed anything.
        let (all, store, first) = (&Barrier::new(8), &store, next());
        let inside: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|i| {
                    scope.spawn(move || {
                        let door = store.enter_for(Space::Reserve);
                        all.wait();
                        let pids = first + 8 * i..first + 8 * i + 8;
                        door.map_or(0, |door| {
                            pids.for_each(|pid| change(store, &door, pid));
                            1
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert!(inside > 0, "one alone may use the reserve");
        checkpoint(store);
        // And a single one is let in again.
        drop(store.enter_for(Space::Reserve).unwrap());
        store.check_accounts().unwrap();
    }
}

/// A new map file that could not be written leaves no promise of space behind for the one that comes instead.
#[test]
fn checkpoints_go_on_on_a_full_disk_after_a_map_file_that_failed() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(16 * TINY), 1, &info(0)).unwrap();
    (0..600).for_each(|_| add(&store, &store.enter().unwrap()));
    checkpoint(&store);
    let change_all = || {
        let door = store.enter_for(Space::Reserve).unwrap();
        (0..600).for_each(|pid| change(&store, &door, pid));
    };
    let newest = || {
        let names = disk.names();
        let numbers = names.iter().filter_map(|name| name.strip_prefix("map-"));
        let numbers = numbers.filter_map(|number| number.parse::<u64>().ok());
        numbers.max().unwrap()
    };
    let next = newest();
    // The first write to the map file that is made ahead comes when it is its turn.
    disk.inject(Injection {
        file: Some(format!("map-{next}")),
        ..Injection::at(Op::Write, 1, DiskFault::Eio)
    });
    let mut failed = false;
    for _ in 0..200 {
        change_all();
        if store.checkpoint(Pace::Fast, &mut || info(1)).is_err() {
            failed = true;
            break;
        }
    }
    assert!(failed, "a new map file was never due");
    checkpoint(&store);
    disk.set_capacity(Some(disk.used_bytes()));
    for _ in 0..20 {
        let door = store.enter_for(Space::Reserve).unwrap();
        (0..16).for_each(|pid| change(&store, &door, pid));
        drop(door);
        checkpoint(&store);
    }
}

#[test]
fn a_full_disk_asks_for_a_checkpoint_only_if_that_frees_something() {
    let store = full(300);
    // All of them new, so a checkpoint leaves as little as there is.
    while let Ok(door) = store.enter() {
        add(&store, &door);
    }
    checkpoint(&store);
    let _ = store.wants_checkpoint();
    for _ in 0..3 {
        assert!(store.enter().is_err_and(|e| e.is_disk_full()));
        assert!(!store.wants_checkpoint(), "nothing has changed since");
    }
    // The place that a page has in the last image can be had.
    change(&store, &store.enter_for(Space::Reserve).unwrap(), 1);
    assert!(store.enter().is_err_and(|e| e.is_disk_full()));
    assert!(store.wants_checkpoint());
}
