//! The memory limit holds: what the process has resident beyond its start stays within what the
//! store was given, whatever it holds beside its frames.

#![cfg(all(target_os = "linux", not(feature = "shuttle")))]

mod common;

use std::sync::Arc;

use common::{info, set_record};
use terrace_base::PageId;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_pages::{Class, Cleaner, Pace, PageStore, StoreOptions};
use terrace_sim::Rng;

const MEMORY: u64 = 64 << 20;
/// Stacks, the allocator's own, code touched for the first time.
const SLACK: u64 = 4 << 20;
/// Four times what fits.
const PAGES: u64 = 64 << 10;

fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 4096
}

fn change(store: &PageStore, pid: PageId, value: u64) {
    loop {
        let door = store.enter().unwrap();
        let interrupt = match store.exclusive(pid, &door) {
            Ok(mut page) => {
                set_record(&mut page, value as usize % 16, value);
                return;
            }
            Err(e) => e,
        };
        drop(door);
        store.settle(interrupt).unwrap();
    }
}

/// The only test of this file, so that nothing else is resident in its process.
#[test]
fn everything_stays_within_the_memory_given() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FileDisk::open(directory.path(), DirectIo::Preferred).unwrap());
    let start = resident();
    let options = StoreOptions {
        page_bytes: 4096,
        ..StoreOptions::new(MEMORY)
    };
    let store = Arc::new(PageStore::create(disk, options, 1, &info(0)).unwrap());
    let cleaner = Cleaner::start(store.clone()).unwrap();
    let mut most = 0;
    for i in 0..PAGES {
        loop {
            let door = store.enter().unwrap();
            let interrupt = match store.allocate(&door, Class::Cold) {
                Ok(_) => break,
                Err(e) => e,
            };
            drop(door);
            store.settle(interrupt).unwrap();
        }
        if i % 4096 == 0 {
            most = most.max(resident() - start);
        }
    }
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            let mut rng = Rng::new(1);
            let mut most = 0;
            for i in 0..60_000 {
                change(&store, PageId(rng.below(PAGES)), i);
                if i % 1000 == 0 {
                    most = most.max(resident() - start);
                }
            }
            most
        });
        while !changes.is_finished() {
            store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
        }
        most = most.max(changes.join().unwrap());
    });
    drop(cleaner);
    let stats = store.stats();
    assert!(stats.table_bytes > 0 && stats.map_memory_bytes > 0);
    // Both directions: nearly all of it is used, and no more.
    assert!(
        most <= MEMORY + SLACK,
        "{most} bytes are resident, of {MEMORY}: {stats:#?}"
    );
    assert!(most >= MEMORY / 2, "only {most} bytes are resident");
    // What other parts of the budget need is taken from the frames.
    store.take_extra_bytes(8 << 20);
    store.rebalance();
    let lent = store.stats().lent_frames * 4096;
    assert!(lent >= 8 << 20, "{lent} bytes lent");
    let now = resident() - start;
    assert!(
        now + (8 << 20) <= MEMORY + SLACK,
        "{now} bytes are resident, and 8 MiB wanted"
    );
    store.give_extra_bytes(8 << 20);
    store.rebalance();
    assert!(store.stats().lent_frames * 4096 < lent);
    store.check_accounts().unwrap();
}
