//! What holds at the limits: pages not linked yet and cuts, more hot pages than there is room for,
//! a disk that fails, an operation that fails halfway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{HookDisk, PAGE, State, TINY, World, info, options, read, set_all};
use terrace_base::{Error, PageId};
use terrace_pages::{Class, Cleaner, Pace, PageStore, Retry, Space, SpaceQuota};
use terrace_sim::{Fault, Injection, Op, SimDisk, Survival};

#[test]
fn no_cut_begins_while_pages_are_not_linked() {
    let store = PageStore::create(SimDisk::new(1).shared(), options(TINY), 1, &info(0)).unwrap();
    let held = AtomicBool::new(true);
    std::thread::scope(|scope| {
        let guard = store.large_guard();
        let checkpoint = scope.spawn(|| {
            store.checkpoint(Pace::Fast, &mut || {
                assert!(!held.load(Ordering::SeqCst), "a cut while a guard was held");
                info(1)
            })
        });
        for _ in 0..2000 {
            // A second one of the same thread does not queue up behind the checkpoint.
            let second = store.large_guard();
            std::thread::yield_now();
            drop(second);
            drop(store.enter().unwrap());
        }
        held.store(false, Ordering::SeqCst);
        drop(guard);
        checkpoint.join().unwrap().unwrap();
    });
}

#[test]
fn more_hot_pages_than_memory_can_still_be_read() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(10 * TINY), 1, &info(0)).unwrap();
    let mut pages = 0;
    loop {
        let door = store.enter().unwrap();
        match store.allocate(&door, Class::Hot) {
            Ok(mut page) => {
                let records = [page.pid().0; crate::common::RECORDS];
                set_all(&mut page, &records);
            }
            Err(Retry::HotFull) => break,
            Err(e) => panic!("{e:?}"),
        }
        pages += 1;
    }
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
    drop(store);
    let store = PageStore::open(disk.shared(), options(TINY)).unwrap();
    assert!(pages > 2 * store.stats().frames);
    for pid in 0..pages {
        let found = read(&store, PageId(pid)).unwrap().unwrap();
        assert_eq!(found, [pid; crate::common::RECORDS]);
    }
    store.check_accounts().unwrap();
}

/// As when a checkpoint borrows frames: records have to go, one by one, and meanwhile others get by with
/// fewer frames. A page of hot records that leaves is asked for again at once.
#[test]
fn hot_pages_stay_when_a_few_frames_are_borrowed() {
    const COLD: u64 = 500;
    const BORROWED: u64 = 64;
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(32 << 20), 1, &info(0)).unwrap();
    let make = |class| {
        let door = store.enter().unwrap();
        store.allocate(&door, class).map(|page| page.pid())
    };
    let cold: Vec<PageId> = (0..COLD).map(|_| make(Class::Cold).unwrap()).collect();
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
    loop {
        match make(Class::Hot) {
            Ok(_) => {}
            Err(Retry::HotFull) => break,
            Err(interrupt) => store.settle(interrupt).unwrap(),
        }
    }
    store.checkpoint(Pace::Fast, &mut || info(2)).unwrap();
    let before = store.stats();
    store.take_extra_bytes(BORROWED * store.page_bytes() as u64);
    store.rebalance();
    let after = store.stats();
    assert!(after.lent_frames >= before.lent_frames + BORROWED);
    // More than the slack above the cap.
    assert!(after.hot_frames > after.hot_cap + 32, "{after:?}");
    for &pid in cold.iter().chain(&cold) {
        while let Err(interrupt) = store.shared(pid).map(drop) {
            store.settle(interrupt).unwrap();
        }
    }
    let now = store.stats();
    assert!(now.page_reads > after.page_reads + COLD, "{now:?}");
    assert_eq!(now.hot_frames, before.hot_frames);
    store.check_accounts().unwrap();
}

#[test]
fn a_failed_page_write_stops_writing_and_not_reading() {
    let disk = SimDisk::new(1);
    let world = World::start(disk.shared(), TINY, State::new(1)).unwrap();
    for _ in 0..30 {
        world.allocate(Class::Cold, false).unwrap();
    }
    world.checkpoint(0).unwrap();
    world.change_record(PageId(3), 1, false).unwrap();
    disk.inject(Injection::at(Op::Write, 1, Fault::Eio));
    let error = world.store.settle(Retry::NoFrame).unwrap_err();
    assert!(matches!(error, Error::Poisoned { .. }), "{error}");
    assert!(world.store.enter().is_err() && world.store.try_enter().is_none());
    assert!(world.store.checkpoint(Pace::Fast, &mut || info(9)).is_err());
    world.verify().unwrap();
    World::start(
        disk.crash_keeping(Survival::All).shared(),
        TINY,
        world.end(),
    )
    .unwrap();
}

/// However many pages are dirty then, and whichever are clean.
#[test]
fn what_is_clean_makes_way_for_readers_when_writing_has_stopped() {
    const PAGES: u64 = 1700;
    const CLEAN: u64 = 20;
    for class in [Class::Cold, Class::Inner, Class::Hot] {
        let disk = SimDisk::new(1);
        let world = World::start(disk.shared(), 6 << 20, State::new(1)).unwrap();
        for i in 0..PAGES {
            let class = if i < CLEAN { class } else { Class::Cold };
            world.allocate(class, false).unwrap();
        }
        world.checkpoint(0).unwrap();
        let store = &world.store;
        for pid in 0..CLEAN {
            read(store, PageId(pid)).unwrap();
        }
        let mut dirty = 0;
        for pid in (CLEAN..PAGES).map(PageId) {
            if store.is_resident(pid) {
                world.change_record(pid, 1, false).unwrap();
                dirty += 1;
            }
        }
        // More than a writer that is in a hurry passes over, and hardly any others.
        assert!(dirty > 1024 && store.stats().frames < dirty + 2 * CLEAN);
        store.poison(&Error::invalid("a page could not be written"));
        world.verify().unwrap();
    }
}

#[test]
fn an_operation_that_failed_halfway_is_in_no_cut() {
    let disk = SimDisk::new(1);
    let world = World::start(disk.shared(), TINY, State::new(1)).unwrap();
    for _ in 0..10 {
        world.allocate(Class::Cold, false).unwrap();
    }
    world.checkpoint(0).unwrap();
    std::thread::scope(|scope| {
        let door = world.store.enter().unwrap();
        let checkpoint = scope.spawn(|| world.store.checkpoint(Pace::Fast, &mut || info(99)));
        let mut page = world.store.exclusive(PageId(2), &door).unwrap();
        page.change_all().unwrap()[16..].fill(0);
        world.store.poison(&Error::invalid("it failed halfway"));
        drop(page);
        drop(door);
        checkpoint.join().unwrap().unwrap_err();
    });
    World::start(
        disk.crash_keeping(Survival::All).shared(),
        TINY,
        world.end(),
    )
    .unwrap();
}

#[test]
fn a_full_disk_refuses_changes_and_a_checkpoint_makes_room() {
    let disk = SimDisk::new(1);
    let world = World::start(disk.shared(), TINY, State::new(1)).unwrap();
    for _ in 0..150 {
        world.allocate(Class::Cold, false).unwrap();
    }
    world.checkpoint(0).unwrap();
    disk.set_capacity(Some(disk.used_bytes() + 64 * 1024));
    let mut refused = false;
    for round in 0..2000 {
        refused |= world.store.enter().is_err();
        world.change_record(PageId(round % 150), 1, false).unwrap();
    }
    assert!(refused, "the disk was never full");
    world.verify().unwrap();
    // Deletes and a checkpoint go on, and then there is room again.
    for pid in 0..100 {
        world.free(PageId(pid), false).unwrap();
    }
    world.checkpoint(0).unwrap();
    world.checkpoint(0).unwrap();
    drop(world.store.enter().unwrap());
    world.verify().unwrap();
    world.store.check_accounts().unwrap();
}

/// A store with `pages` pages, all of which fit into memory.
fn store_of(disk: &SimDisk, pages: usize) -> (PageStore, Vec<PageId>) {
    let store = PageStore::create(disk.shared(), options(8 * TINY), 1, &info(0)).unwrap();
    let make = |_| {
        let door = store.enter().unwrap();
        let mut page = store.allocate(&door, Class::Cold).unwrap();
        set_all(&mut page, &[1; crate::common::RECORDS]);
        page.pid()
    };
    let pages = (0..pages).map(make).collect();
    (store, pages)
}

/// Changes these pages, on what is kept for deletes if there is nothing else.
fn change<'a>(store: &PageStore, pages: impl Iterator<Item = &'a PageId>, value: u64) {
    for pid in pages {
        let door = store.enter_for(Space::Reserve).unwrap();
        let mut page = store.exclusive(*pid, &door).unwrap();
        set_all(&mut page, &[value; crate::common::RECORDS]);
    }
}

#[test]
fn checkpoints_follow_one_another_on_a_disk_that_stays_full() {
    let disk = SimDisk::new(1);
    let (store, pages) = store_of(&disk, 150);
    let checkpoint = || store.checkpoint(Pace::Fast, &mut || info(0)).map(|_| ());
    checkpoint().unwrap();
    checkpoint().unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    // Each needs more of the journal, or the next map file, and no byte is free but what others left.
    for round in 0..100 {
        let some = pages.iter().skip(round % 10).step_by(10);
        change(&store, some, round as u64);
        let made = checkpoint();
        made.unwrap_or_else(|e| panic!("checkpoint {round}: {e}"));
    }
    store.check_accounts().unwrap();
    let names: Vec<String> = disk.shared().list().unwrap();
    let maps = names.iter().filter(|name| name.starts_with("map-"));
    assert_eq!(maps.count(), 2, "{names:?}");
}

#[test]
fn the_map_that_a_superblock_names_stays_as_it_is_though_the_sync_of_that_one_failed() {
    // One of these checkpoints begins a new map file.
    for earlier in 10..24 {
        let disk = SimDisk::new(1);
        let (store, pages) = store_of(&disk, 150);
        let store = Arc::new(store);
        let checkpoint = || store.checkpoint(Pace::Fast, &mut || info(0)).map(|_| ());
        checkpoint().unwrap();
        disk.set_capacity(Some(disk.used_bytes()));
        // Until space is short.
        while let Ok(door) = store.enter() {
            if let Err(interrupt) = store.allocate(&door, Class::Cold).map(|_| ()) {
                drop(door);
                store.settle(interrupt).unwrap();
            }
        }
        for round in 0..earlier {
            change(&store, pages.iter().step_by(10), round);
            checkpoint().unwrap();
        }
        change(&store, pages.iter().step_by(10), earlier);
        // The map file, the pages, the superblock.
        disk.inject(Injection::at(Op::Sync, 3, Fault::Eio));
        let failed = checkpoint().unwrap_err();
        assert!(matches!(failed, Error::Poisoned { .. }), "{failed}");
        let maps = || {
            let names = disk.shared().list().unwrap().into_iter();
            let maps = names.filter(|name| name.starts_with("map-"));
            let with_bytes = maps.map(|name| (disk.contents(&name), name));
            with_bytes.collect::<Vec<_>>()
        };
        let before = maps();
        disk.set_capacity(None);
        let cleaner = Cleaner::start(store.clone()).unwrap();
        // It finds that space is short, whoever asks for it; were it late, there would be nothing to see.
        std::thread::sleep(std::time::Duration::from_millis(60));
        drop(cleaner);
        assert!(maps() == before, "after {earlier} checkpoints");
        drop(store);
        let opened = PageStore::open(disk.shared(), options(8 * TINY));
        opened.unwrap_or_else(|e| panic!("after {earlier} checkpoints: {e}"));
    }
}

/// Calls of the function that tells how much presses, and how long it took, of a checkpoint of 200 pages.
fn gentle(pressure: f64) -> (u32, std::time::Duration, u64) {
    let (store, _) = store_of(&SimDisk::new(1), 200);
    let calls = std::cell::Cell::new(0);
    let known = || {
        calls.set(calls.get() + 1);
        pressure
    };
    let report = store
        .checkpoint(Pace::Gentle(&known), &mut || info(1))
        .unwrap();
    assert_eq!(report.pages, 200);
    (calls.get(), report.total, store.page_bytes() as u64)
}

#[test]
fn a_gentle_checkpoint_leaves_the_device_to_others_until_it_is_pressed() {
    let (pressed, ..) = gentle(1.0);
    let (calls, took, page_bytes) = gentle(0.0);
    // It asks once for each write when it does not pause, and goes on asking while it does.
    assert!(calls >= 2 * pressed, "{calls} {pressed}");
    let planned =
        std::time::Duration::from_secs_f64(200.0 * page_bytes as f64 / f64::from(16 << 20));
    assert!(took >= planned, "{took:?} {planned:?}");
}

#[test]
fn a_checkpoint_is_given_up_when_writing_has_stopped_meanwhile() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(TINY), 1, &info(0)).unwrap();
    for _ in 0..20 {
        let door = store.enter().unwrap();
        set_all(
            &mut store.allocate(&door, Class::Cold).unwrap(),
            &[1; crate::common::RECORDS],
        );
    }
    // What another part of the database lost must not become durable by this way.
    let stop = || {
        store.poison(&Error::invalid("a sync of the log failed"));
        1.0
    };
    let before = PageStore::read_superblock(&*disk.shared()).unwrap().newest;
    let made = store.checkpoint(Pace::Gentle(&stop), &mut || info(1));
    assert!(matches!(made, Err(Error::Poisoned { .. })), "{made:?}");
    let after = PageStore::read_superblock(&*disk.shared()).unwrap().newest;
    assert_eq!(after.generation, before.generation);
}

/// A writer rewrites all pages while a checkpoint still has to write nearly all of them.
#[test]
fn who_changes_pages_waits_while_too_much_is_saved_for_the_cut() {
    const PAGES: u64 = 600;
    const MEMORY: u64 = 16 * TINY;
    let disk = HookDisk::new(SimDisk::new(1).shared());
    let store = PageStore::create(Arc::new(disk.clone()), options(MEMORY), 1, &info(0)).unwrap();
    let store = Arc::new(store);
    for _ in 0..PAGES {
        let door = store.enter().unwrap();
        set_all(
            &mut store.allocate(&door, Class::Cold).unwrap(),
            &[1; crate::common::RECORDS],
        );
    }
    let [begin, done] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let of = (store.clone(), begin.clone(), done.clone());
    // The first write of the checkpoint goes on when the other waits, or is through.
    disk.on_call(Some(Arc::new(move |_, _| {
        let (store, begin, done) = &of;
        if !begin.swap(true, Ordering::SeqCst) {
            while store.stats().waits_for_undo == 0 && !done.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
        }
    })));
    let most = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            while !begin.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            let mut most = 0;
            for pid in 0..PAGES {
                let door = store.enter().unwrap();
                let mut page = store.exclusive(PageId(pid), &door).unwrap();
                set_all(&mut page, &[2; crate::common::RECORDS]);
                most = most.max(store.stats().undo_bytes);
            }
            done.store(true, Ordering::SeqCst);
            most
        });
        store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
        writer.join().unwrap()
    });
    disk.on_call(None);
    assert!(store.stats().waits_for_undo > 0, "nobody waited");
    // A thirty-second of the memory, and what the last who came in saved.
    assert!(most > MEMORY / 64 && most < MEMORY / 16, "{most}");
    store.check_accounts().unwrap();
}

/// What a page says that cannot be names the page, and the byte in the file where it begins once it is
/// there.
#[test]
fn a_page_that_contradicts_itself_is_named_with_its_place_in_the_file() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(1 << 20), 1, &info(0)).unwrap();
    let door = store.enter().unwrap();
    let Ok(page) = store.allocate(&door, Class::Cold) else {
        panic!("there is room");
    };
    let pid = page.pid();
    let told = |interrupt: Retry| match interrupt {
        Retry::Fail(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let new = told(page.torn("it is odd"));
    assert!(
        new.starts_with(&format!("data is damaged: {pid}: it is odd")),
        "{new}"
    );
    drop(page);
    drop(door);
    store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
    let Ok(page) = store.shared(pid) else {
        panic!("it is in memory");
    };
    let written = told(page.torn("it is odd"));
    let place = written.strip_prefix("data is damaged at byte ").unwrap();
    let place: u64 = place.split(':').next().unwrap().parse().unwrap();
    assert!(
        place >= 65536 && (place - 65536).is_multiple_of(PAGE as u64),
        "{written}"
    );
}

#[test]
fn more_frames_than_can_be_numbered_are_refused_before_anything_is_made() {
    let disk = SimDisk::new(1);
    let made = PageStore::create(disk.shared(), options(1 << 60), 1, &info(0));
    let told = made.err().unwrap().to_string();
    assert!(told.contains("larger pages or less memory"), "{told}");
}

/// Numbers of pages that were promised to one are there for him, whoever comes meanwhile.
#[test]
fn numbers_of_pages_are_promised_once() {
    let disk = SimDisk::new(1);
    let store = PageStore::create(disk.shared(), options(TINY), 1, &info(0)).unwrap();
    let promise = |new| SpaceQuota { dirty: 0, new };
    let refused = |new: &u64| {
        store
            .enter_for_many(Space::Ordinary, promise(*new))
            .is_err()
    };
    let most = (1..).map(|i| i * 100).find(refused).unwrap();
    let two_thirds = promise(most * 2 / 3);
    let first = store.enter_for_many(Space::Ordinary, two_thirds).unwrap();
    let second = store.enter_for_many(Space::Ordinary, two_thirds);
    assert!(matches!(second, Err(Error::MemoryTooSmall { .. })));
    drop(second);
    // Others get what is left, and no more.
    let mut made = 0;
    let refused = loop {
        let door = store.enter().unwrap();
        let attempt = store.allocate(&door, Class::Cold).map(drop);
        drop(door);
        match attempt {
            Ok(()) => made += 1,
            Err(Retry::NoFrame) => store.settle(Retry::NoFrame).unwrap(),
            Err(e) => break e,
        }
    };
    assert!(
        matches!(refused, Retry::Fail(Error::MemoryTooSmall { .. })),
        "{refused:?}"
    );
    // Between the last that was let in and the first that was refused, and what is promised to no writer.
    let left = most - two_thirds.new;
    assert!((left - 100..left + 300).contains(&made), "{made} of {left}");
    drop(first);
    let door = store.enter().unwrap();
    let one_more = store.allocate(&door, Class::Cold).map(drop);
    assert!(matches!(one_more, Ok(()) | Err(Retry::NoFrame)));
}
