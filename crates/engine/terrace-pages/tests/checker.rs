//! A whole store under the concurrency checker: changes, page faults, evictions, the cleaner and
//! checkpoints in random order, more pages than frames.

mod common;

use std::sync::Arc;

use common::{HookDisk, RECORDS, TINY, at, info, options, records, set_all, set_record};
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use terrace_base::PageId;
use terrace_base::sync::thread;
use terrace_pages::{Attempt, Class, Pace, PageStore, Retry, WriteGuard};
use terrace_sim::{SimDisk, Survival};

/// More than there are frames.
const PAGES: u64 = 76;
const EACH: u64 = 1000;

fn inside<T>(store: &PageStore, mut f: impl FnMut(&WriteGuard<'_>) -> Attempt<T>) -> T {
    loop {
        let door = store.enter().unwrap();
        let interrupt = match f(&door) {
            Ok(value) => return value,
            Err(e) => e,
        };
        drop(door);
        store.settle(interrupt).unwrap();
    }
}

fn transfer(store: &PageStore) {
    // The last pages are freed and made again by another thread.
    let a = thread_rng().gen_range(0..PAGES - 4);
    let b = thread_rng().gen_range(0..PAGES - 4);
    if a == b {
        return;
    }
    inside(store, |door| {
        let mut from = store.exclusive(PageId(a.min(b)), door)?;
        let mut to = store.try_exclusive(PageId(a.max(b)), door)?;
        let (i, j) = (a as usize % RECORDS, b as usize % RECORDS);
        let left = from.view().u64(at(i)).unwrap() - 1;
        let right = to.view().u64(at(j)).unwrap() + 1;
        set_record(&mut from, i, left);
        set_record(&mut to, j, right);
        Ok(())
    });
}

/// Frees one of the last pages and makes another with the same content, in one stay.
fn replace(store: &PageStore) {
    let old = PageId(PAGES - 4 + thread_rng().gen_range(0..4));
    inside(store, |door| {
        let mut new = match store.allocate(door, Class::Cold) {
            Err(Retry::HotFull) => unreachable!("a cold page"),
            other => other?,
        };
        if new.pid() == old {
            // It was freed before, and its number is used again.
            new.free();
            return Ok(());
        }
        match store.exclusive(old, door) {
            Ok(page) => {
                set_all(&mut new, &[EACH; RECORDS]);
                page.free();
                Ok(())
            }
            // It was freed before: nothing happens at all.
            Err(Retry::Conflict) => {
                new.free();
                Ok(())
            }
            Err(e) => {
                new.free();
                Err(e)
            }
        }
    });
}

/// What all records add up to; every page is whole.
fn sum(store: &PageStore) -> u64 {
    (0..PAGES + 8)
        .filter_map(|pid| common::read(store, PageId(pid)).unwrap())
        .map(|page| page.iter().sum::<u64>())
        .sum()
}

fn peek(store: &PageStore) {
    let pid = PageId(thread_rng().gen_range(0..PAGES - 4));
    match store.optimistic(pid) {
        Ok(page) => {
            let found = records(pid, page.view());
            assert!(
                !page.is_valid() || found.is_some(),
                "a validated page is whole"
            );
        }
        Err(e) => store.settle(e).unwrap(),
    }
}

fn run() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(TINY), 1, &info(0)).unwrap();
    let store = Arc::new(store);
    assert!(PAGES > store.stats().frames);
    for _ in 0..PAGES {
        inside(&store, |door| {
            set_all(&mut store.allocate(door, Class::Cold)?, &[EACH; RECORDS]);
            Ok(())
        });
    }
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let store = store.clone();
        threads.push(thread::spawn(move || {
            for _ in 0..4 {
                transfer(&store);
                peek(&store);
            }
        }));
    }
    let of = store.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..2 {
            replace(&of);
            of.settle(Retry::NoFrame).unwrap();
        }
    }));
    let of = store.clone();
    threads.push(thread::spawn(move || {
        for _ in 0..2 {
            of.checkpoint(Pace::Fast, &mut || info(2)).unwrap();
        }
    }));
    for thread in threads {
        thread.join().unwrap();
    }
    let whole = PAGES * RECORDS as u64 * EACH;
    assert_eq!(sum(&store), whole, "what is in memory");
    store.check_accounts().unwrap();
    let left = disk.crash_keeping(Survival::Nothing);
    let store = PageStore::open(left.shared(), options(TINY)).unwrap();
    assert_eq!(sum(&store), whole, "what is durable");
    store.check_accounts().unwrap();
}

fn rounds(usual: usize) -> usize {
    std::env::var("TERRACE_SEEDS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(usual)
}

fn config() -> shuttle::Config {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000_000);
    config
}

#[test]
fn every_order_of_changes_faults_evictions_and_checkpoints_adds_up() {
    shuttle::Runner::new(RandomScheduler::new(rounds(150)), config()).run(run);
}

/// Pages are brought in many at a time, answered in another order than asked for, while others push them out, change
/// them, and wait for them.
#[test]
fn every_order_of_reads_together_and_evictions_adds_up() {
    shuttle::Runner::new(RandomScheduler::new(rounds(100)), config()).run(|| {
        let disk = HookDisk::new(SimDisk::new(1).shared());
        let store = PageStore::create(Arc::new(disk), options(TINY), 1, &info(0)).unwrap();
        let store = Arc::new(store);
        for _ in 0..PAGES {
            inside(&store, |door| {
                set_all(&mut store.allocate(door, Class::Cold)?, &[EACH; RECORDS]);
                Ok(())
            });
        }
        store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
        let mut threads = Vec::new();
        for _ in 0..2 {
            let store = store.clone();
            threads.push(thread::spawn(move || {
                for _ in 0..2 {
                    let first = thread_rng().gen_range(0..PAGES);
                    let page = |i: u64| PageId((first + i * 5) % (PAGES + 4));
                    store.fetch(&mut (0..12).map(page).collect()).unwrap();
                    transfer(&store);
                }
            }));
        }
        let of = store.clone();
        threads.push(thread::spawn(move || {
            of.checkpoint(Pace::Fast, &mut || info(2)).unwrap();
            for _ in 0..3 {
                peek(&of);
                transfer(&of);
            }
        }));
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(sum(&store), PAGES * RECORDS as u64 * EACH);
        store.check_accounts().unwrap();
    });
}

/// Pages are made and freed, and another thread asks how many there are.
#[test]
fn the_number_of_pages_is_one_that_there_was() {
    // One of them stands still for long, between any two of its steps.
    let scheduler = PctScheduler::new(2, rounds(300));
    shuttle::Runner::new(scheduler, config()).run(|| {
        let store = PageStore::create(SimDisk::new(1).shared(), options(TINY), 1, &info(0));
        let store = Arc::new(store.unwrap());
        let of = store.clone();
        let makes = thread::spawn(move || {
            let door = of.enter().unwrap();
            of.allocate(&door, Class::Cold).unwrap().free();
        });
        for _ in 0..8 {
            let live = store.live_pages();
            assert!(live <= 1, "{live}");
        }
        makes.join().unwrap();
        assert_eq!(store.live_pages(), 0);
    });
}
