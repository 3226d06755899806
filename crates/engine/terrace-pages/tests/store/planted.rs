//! Faults planted one at a time: each is noticed by a test that holds without it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use crate::common::{Callback, State, TINY, World, info, read, set_record};
use terrace_base::PageId;
use terrace_base::disk::Disk;
use terrace_pages::{Class, Pace, Planted, Point, Retry, Space, SpaceQuota, hook, plant};
use terrace_sim::{Fault, Injection, Op, SimDisk, Survival};

/// A test that must hold, and must fail with the fault. The faults are of a whole process, so it runs in one of its own.
macro_rules! catches {
    ($fault:expr, $test:expr) => {
        if terrace_sim::alone!() {
            catches_alone($fault, $test)
        }
    };
}

fn catches_alone(fault: Planted, test: fn()) {
    test();
    plant(fault);
    let noticed = catch_unwind(AssertUnwindSafe(test)).is_err();
    plant(Planted::None);
    assert!(noticed, "nobody noticed {fault:?}");
}

/// A store with some dirty pages, all in memory.
fn world(pages: usize) -> (SimDisk, Arc<World>) {
    let disk = SimDisk::new(1);
    let world = World::start(disk.shared(), TINY, State::new(1)).unwrap();
    for _ in 0..pages {
        world.allocate(Class::Cold, false).unwrap();
    }
    (disk, world)
}

/// Opens what is durable and compares it with its cut.
fn reopen(disk: &SimDisk, world: &World) {
    let left = disk.crash_keeping(Survival::Nothing);
    World::start(left.shared(), TINY, world.end()).unwrap();
}

/// A checkpoint during whose first page write `f` happens, once.
fn checkpoint_with(world: &Arc<World>, f: impl Fn(&World) + Send + Sync + 'static) {
    let once = AtomicBool::new(false);
    let weak = Arc::downgrade(world);
    let callback: Callback = Arc::new(move |_, _| {
        if !once.swap(true, Ordering::SeqCst) {
            f(&weak.upgrade().unwrap());
        }
    });
    let stamp = cut(world);
    world.disk.on_call(Some(callback));
    world
        .store
        .checkpoint(Pace::Fast, &mut || info(stamp))
        .unwrap();
    world.disk.on_call(None);
    world.state.lock().unwrap().durable = stamp;
}

/// Notes the truth as that of a cut.
fn cut(world: &World) -> u64 {
    let mut state = world.state.lock().unwrap();
    let stamp = 1 + *state.cuts.keys().max().unwrap();
    let truth = state.truth.clone();
    state.cuts.insert(stamp, truth);
    stamp
}

#[test]
fn undo_that_is_not_applied() {
    catches!(Planted::UndoNotApplied, || {
        let (disk, world) = world(20);
        checkpoint_with(&world, |world| {
            for pid in 0..20 {
                world.change_record(PageId(pid), 3, true).unwrap();
                world.change_record(PageId(pid), 3, true).unwrap();
                world.change_record(PageId(pid), 5, true).unwrap();
                if pid % 3 == 0 {
                    world.rewrite(PageId(pid), true).unwrap();
                }
            }
        });
        reopen(&disk, &world);
    });
}

#[test]
fn page_freed_without_a_copy_for_the_cut() {
    catches!(Planted::FreedWithoutCopy, || {
        let (disk, world) = world(20);
        checkpoint_with(&world, |world| {
            for pid in (0..20).step_by(2) {
                world.change_record(PageId(pid), 1, true).unwrap();
                world.free(PageId(pid), true).unwrap();
            }
            world.free(PageId(19), true).unwrap();
            // Some of the numbers go to other pages at once.
            for _ in 0..5 {
                world.allocate(Class::Cold, true).unwrap();
            }
        });
        reopen(&disk, &world);
        world.store.check_accounts().unwrap();
    });
}

#[test]
fn epoch_read_at_completion() {
    catches!(Planted::EpochAtCompletion, || {
        let (disk, world) = world(6);
        let stamp = cut(&world);
        let (at_cut, is_cut) = mpsc::channel();
        std::thread::scope(|scope| {
            // While a batch of the cleaner is on its way, the cut comes.
            let is_cut = Mutex::new(is_cut);
            let at_cut = Mutex::new(Some(at_cut));
            let start = Arc::new(std::sync::Barrier::new(2));
            let (go, weak) = (start.clone(), Arc::downgrade(&world));
            let checkpointer = scope.spawn(move || {
                go.wait();
                let world = weak.upgrade().unwrap();
                let at_cut = at_cut.lock().unwrap().take().unwrap();
                world.store.checkpoint(Pace::Fast, &mut || {
                    at_cut.send(()).unwrap();
                    info(stamp)
                })
            });
            let once = AtomicBool::new(false);
            let is_cut: Arc<Mutex<_>> = Arc::new(is_cut);
            world.disk.on_call(Some(Arc::new(move |_, _| {
                if !once.swap(true, Ordering::SeqCst) {
                    start.wait();
                    is_cut.lock().unwrap().recv().unwrap();
                }
            })));
            world.store.settle(Retry::NoFrame).unwrap();
            checkpointer.join().unwrap().unwrap();
        });
        world.disk.on_call(None);
        world.state.lock().unwrap().durable = stamp;
        reopen(&disk, &world);
    });
}

#[test]
fn clean_although_it_changed_while_it_was_written() {
    catches!(Planted::CleanThoughChanged, || {
        let (disk, world) = world(6);
        let weak = Arc::downgrade(&world);
        let once = AtomicBool::new(false);
        world.disk.on_call(Some(Arc::new(move |_, _| {
            let world = weak.upgrade().unwrap();
            if !once.swap(true, Ordering::SeqCst) {
                for pid in 0..6 {
                    world.change_record(PageId(pid), 2, true).unwrap();
                }
            }
        })));
        world.store.settle(Retry::NoFrame).unwrap();
        world.disk.on_call(None);
        checkpoint_with(&world, |_| {});
        reopen(&disk, &world);
    });
}

#[test]
fn evicted_with_a_place_of_a_layer_that_is_gone() {
    catches!(Planted::RetagLost, || {
        let (disk, world) = world(20);
        // Twice, because the tags take turns; evicted and changed again between.
        for round in 0..4 {
            checkpoint_with(&world, |_| {});
            for _ in 0..60 {
                world.allocate(Class::Cold, false).unwrap();
                world.store.settle(Retry::NoFrame).unwrap();
            }
            let pids: Vec<_> = world
                .state
                .lock()
                .unwrap()
                .truth
                .keys()
                .skip(20)
                .copied()
                .collect();
            for pid in pids {
                world.free(PageId(pid), false).unwrap();
            }
            for pid in 0..20 {
                assert!(read(&world.store, PageId(pid)).unwrap().is_some());
                if (pid + round) % 3 == 0 {
                    world.change_record(PageId(pid), 7, false).unwrap();
                }
            }
        }
        checkpoint_with(&world, |_| {});
        reopen(&disk, &world);
        world.store.check_accounts().unwrap();
    });
}

/// A writer changes two pages under one write guard, and between the two a checkpoint begins.
#[test]
fn a_cut_through_the_middle_of_a_change() {
    catches!(Planted::GateNotDrained, || {
        let (disk, world) = world(2);
        let change = |page: u64, door: &_| {
            let mut page = world.store.exclusive(PageId(page), door).unwrap();
            let mut state = world.state.lock().unwrap();
            let value = state.value();
            set_record(&mut page, 4, value);
            state.truth.get_mut(&page.pid().0).unwrap()[4] = value;
        };
        let (begun, has_begun) = mpsc::channel();
        let (done, is_done) = mpsc::channel();
        let stamp = std::thread::scope(|scope| {
            let door = world.store.enter().unwrap();
            change(0, &door);
            let world = &world;
            let checkpointer = scope.spawn(move || {
                let waits = begun.clone();
                hook(Some(Box::new(move |point| {
                    if point == Point::Draining {
                        let _ = waits.send(());
                    }
                })));
                let mut stamp = 0;
                let made = world.store.checkpoint(Pace::Fast, &mut || {
                    // The cut comes when all is done, or else holds what the one inside has not done yet.
                    stamp = cut(world);
                    let _ = begun.send(());
                    is_done.recv().unwrap();
                    info(stamp)
                });
                hook(None);
                made.unwrap();
                stamp
            });
            has_begun.recv().unwrap();
            change(1, &door);
            done.send(()).unwrap();
            drop(door);
            checkpointer.join().unwrap()
        });
        world.state.lock().unwrap().durable = stamp;
        reopen(&disk, &world);
    });
}

/// Notes whether a thread is inside the gate when something is written or synced.
fn watched(world: &Arc<World>) -> Arc<AtomicBool> {
    let caught = Arc::new(AtomicBool::new(false));
    let (weak, noted) = (Arc::downgrade(world), caught.clone());
    world.disk.on_call(Some(Arc::new(move |_, _| {
        let inside = weak.upgrade().unwrap().store.inside();
        noted.fetch_or(inside > 0, Ordering::SeqCst);
    })));
    caught
}

#[test]
fn a_cleaner_that_keeps_a_cut_waiting_for_the_disk() {
    catches!(Planted::CleanerEnters, || {
        let (_disk, world) = world(6);
        let caught = watched(&world);
        world.store.settle(Retry::NoFrame).unwrap();
        world.disk.on_call(None);
        assert!(world.store.stats().page_writes > 0);
        assert!(!caught.load(Ordering::SeqCst));
    });
}

#[test]
fn a_checkpointer_that_is_inside_while_it_writes() {
    catches!(Planted::CutWritesEnter, || {
        let (_disk, world) = world(6);
        let caught = watched(&world);
        let stamp = cut(&world);
        let mut at_cut = || info(stamp);
        world.store.checkpoint(Pace::Fast, &mut at_cut).unwrap();
        world.disk.on_call(None);
        assert!(world.store.stats().page_writes > 0);
        assert!(!caught.load(Ordering::SeqCst));
    });
}

/// Records that have to go because the cap of hot pages falls come to pages that gather changes: it must not fall
/// for these.
#[test]
fn a_cap_that_follows_pages_that_gather_changes() {
    catches!(Planted::CapFollowsTops, || {
        let (_, world) = world(0);
        let store = &world.store;
        let aside = store.frames() / 16;
        store.set_tops_aside(aside);
        let cap = store.hot_cap();
        for _ in 0..aside {
            world.allocate(Class::Top, false).unwrap();
            assert_eq!(store.hot_cap(), cap);
        }
        assert_eq!(store.top_frames(), aside);
        // What is far more than was set aside is taken off.
        for _ in 0..aside {
            world.allocate(Class::Top, false).unwrap();
        }
        assert!(store.hot_cap() < cap);
        // As all that there is, where nothing is.
        store.give_tops_back(aside);
        assert!(store.hot_cap() < cap);
    });
}

/// Pages made under write guards of this kind until there are no numbers any more.
fn made_for(world: &World, space: Space) -> u64 {
    let store = &world.store;
    let mut made = 0;
    loop {
        let door = store.enter_for(space).unwrap();
        let attempt = store.allocate(&door, Class::Cold).map(drop);
        drop(door);
        match attempt {
            Ok(()) => made += 1,
            Err(Retry::NoFrame) => store.settle(Retry::NoFrame).unwrap(),
            Err(Retry::Fail(e)) => {
                assert!(e.is_no_room(), "{e}");
                return made;
            }
            Err(e) => panic!("{e:?}"),
        }
    }
}

/// Who fills the table of pages leaves numbers for those who delete, and these some for what must not fail.
#[test]
fn a_table_of_pages_of_which_nothing_is_kept_back() {
    catches!(Planted::NoNumbersKept, || {
        let (_, world) = world(0);
        let steps = [Space::Ordinary, Space::Migration, Space::Reserve];
        let [_, second, third] = steps.map(|space| made_for(&world, space));
        assert!(second >= 200 && third >= 150, "{second}, {third}");
        let promise = |new| SpaceQuota { dirty: 0, new };
        let enter = |new| world.store.enter_for_many(Space::Reserve, promise(new));
        assert!(enter(1).is_err());
    });
}

/// Of pages that are read together some cannot be.
fn unreadable_among_others() {
    let (disk, world) = world(140);
    world
        .store
        .checkpoint(Pace::Fast, &mut || info(cut(&world)))
        .unwrap();
    let out = (0..140)
        .map(PageId)
        .filter(|page| !world.store.is_resident(*page));
    let mut pages: Vec<PageId> = out.step_by(3).take(6).collect();
    assert_eq!(pages.len(), 6);
    let eio = Injection {
        forever: true,
        ..Injection::at(Op::Read, 1, Fault::Eio)
    };
    disk.inject(eio);
    assert!(world.store.fetch(&mut pages).is_err());
    disk.heal();
    world.store.check_accounts().unwrap();
}

#[test]
fn an_error_of_one_page_among_others_is_told() {
    catches!(Planted::ErrorsAreForgotten, unreadable_among_others);
}

#[test]
fn a_page_that_could_not_be_read_with_others_is_nobodys() {
    catches!(Planted::ClaimsAreLost, unreadable_among_others);
}

/// Pages of hot tiers that lie in memory alone are neither written nor thrown out, and have no place.
#[test]
fn pages_in_memory_alone_that_get_a_place() {
    catches!(Planted::HotGetsPlace, || {
        let (_, world) = world(0);
        let pages: Vec<PageId> = (0..8)
            .map(|_| {
                let door = world.store.enter().unwrap();
                let page = world.store.allocate(&door, Class::Memory).unwrap();
                page.pid()
            })
            .collect();
        // More pages than there is memory for push each other out, and not these.
        for _ in 0..400 {
            world.allocate(Class::Cold, false).unwrap();
        }
        world
            .store
            .checkpoint(Pace::Fast, &mut || info(cut(&world)))
            .unwrap();
        assert!(pages.iter().all(|page| world.store.is_resident(*page)));
        world.store.check_accounts().unwrap();
        assert_eq!(world.store.live_pages(), 400);
    });
}

/// However much is borrowed, cold pages keep some frames beside those that lie in memory alone.
#[test]
fn frames_that_are_lent_as_if_hot_pages_could_leave() {
    catches!(Planted::LentAsIfHotCouldLeave, || {
        let (_, world) = world(100);
        let store = &world.store;
        loop {
            let door = store.enter().unwrap();
            match store.allocate(&door, Class::Memory).map(drop) {
                Ok(()) => {}
                Err(Retry::HotFull) => break,
                Err(interrupt) => {
                    drop(door);
                    store.settle(interrupt).unwrap();
                }
            }
        }
        store.checkpoint(Pace::Fast, &mut || info(1)).unwrap();
        store.take_extra_bytes(store.frames() * store.page_bytes() as u64);
        store.rebalance();
        let stats = store.stats();
        let cold = store.frames() - stats.hot_frames - stats.lent_frames;
        // Hot pages may pass their cap by a little.
        assert!(
            cold + 4 >= store.frames() / 4,
            "{cold} of {}",
            store.frames()
        );
    });
}

/// However full the disk becomes, the data file leaves what it was told to leave.
#[test]
fn a_data_file_that_takes_all_space() {
    catches!(Planted::DataTakesAllSpace, || {
        const LEFT: u64 = 256 << 10;
        let (disk, world) = world(100);
        world.store.leave_free(LEFT);
        disk.set_capacity(Some(disk.used_bytes() + (2 << 20)));
        let refused = loop {
            match world.store.enter() {
                Ok(door) => drop(door),
                Err(e) => break e,
            }
            world.allocate(Class::Cold, false).unwrap();
        };
        assert!(refused.is_disk_full(), "{refused}");
        assert!(disk.free_bytes().unwrap() >= LEFT);
        disk.set_capacity(None);
        world.allocate(Class::Cold, false).unwrap();
    });
}
