//! Two tiers under the concurrency checker: writes, promotion, demotion and scans in random order. Whoever
//! alone writes a key finds what it wrote, in whichever tier it is by then; every other thread finds what was
//! written when they began, or something newer; and a scan shows every key that stays, once.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::*;
use shuttle::scheduler::RandomScheduler;
use terrace_access::{Merging, Ordered, Waits, Window};
use terrace_base::sync::thread;
use terrace_pages::Space;
use terrace_sim::SimDisk;
use terrace_tier::policy::Sampled;
use terrace_tier::{Change, LockTable, Saving, Structure, TierContext, TierOptions};

const MEMORY: u64 = 1 << 20;
/// Keys that are there all the while; each writer has some of its own besides, which come and go.
const KEYS: u64 = 4;
const WRITERS: u64 = 2;

/// What was last written of each key that stays.
type Written = [AtomicU64; KEYS as usize];

fn key(n: u64) -> Vec<u8> {
    format!("key-{n}").into_bytes()
}

fn put<M: Method>(tree: &Two<M>, key: &[u8], number: u64) {
    let value = number.to_be_bytes();
    assert!(
        tree.write(key, Change::Put(&value), None, &mut || ())
            .unwrap()
    );
}

fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().unwrap())
}

fn get<M: Method>(tree: &Two<M>, key: &[u8]) -> Option<u64> {
    let mut value = Vec::new();
    tree.get(key, &mut value).unwrap().then(|| number(&value))
}

/// Changes a key that stays, and makes, finds and deletes one that no other thread knows.
fn write<M: Method>(tree: &Two<M>, written: &Written, writer: u64) {
    let own = format!("own-{writer}").into_bytes();
    for round in 1..5 {
        let n = (writer + round * WRITERS) % KEYS;
        let n = n - n % WRITERS + writer;
        put::<M>(tree, &key(n), round);
        written[n as usize].store(round, Ordering::SeqCst);
        put::<M>(tree, &own, round);
        assert_eq!(get::<M>(tree, &own), Some(round));
        if round % 2 == 0 {
            let deleted = tree.write(&own, Change::Delete, None, &mut || ());
            assert!(deleted.unwrap());
            assert_eq!(get::<M>(tree, &own), None);
        }
    }
}

fn read<M: Method>(tree: &Two<M>, written: &Written) {
    for n in 0..KEYS {
        let least = written[n as usize].load(Ordering::SeqCst);
        let found = get::<M>(tree, &key(n)).expect("a key that stays");
        assert!(found >= least, "{found} where {least} was written");
    }
}

fn scan<M: Method>(tree: &Two<M>, written: &Written) {
    let least: Vec<u64> = written.iter().map(|n| n.load(Ordering::SeqCst)).collect();
    let (mut window, mut from, mut seen) = (Window::new(), Vec::new(), Vec::new());
    loop {
        tree.scan_up(&from, &mut window).unwrap();
        for i in 0..window.len() {
            let found = M::Cold::key_at(window.key(i)).to_vec();
            if found.starts_with(b"key-") && found.len() == 5 {
                seen.push((found, number(window.value(i))));
            }
        }
        match window.high.take() {
            Some(high) => from = high,
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen.len() as u64, KEYS, "{seen:?}");
    for (n, (found, number)) in seen.iter().enumerate() {
        assert_eq!(found, &key(n as u64));
        assert!(
            *number >= least[n],
            "{number} where {} was written",
            least[n]
        );
    }
}

fn run<M: Method>(inclusive: bool) {
    run_beside::<M>(inclusive, |_, _| Vec::new());
}

/// The same, beside what other threads do.
fn run_beside<M: Method>(
    inclusive: bool,
    others: impl FnOnce(&Arc<TierContext>, &Arc<Two<M>>) -> Vec<thread::JoinHandle<()>>,
) {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, MEMORY, 4096);
    let options = TierOptions {
        policy: Arc::new(Sampled {
            admit_per_mille: 1000,
        }),
        inclusive,
        ..TierOptions::default()
    };
    let tree = two_tiers::<M>(&context, &options);
    (0..KEYS).for_each(|n| put::<M>(&tree, &key(n), 0));
    // Everything is cold at first.
    (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
    let others = others(&context, &tree);
    at_work::<M>(&tree, 0, others);
}

/// A structure that was just opened: all that it has was saved, on some leaves, and comes while it is worked with.
fn run_loading<M: Method>() {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, MEMORY, 4096);
    let options = TierOptions {
        policy: Arc::new(Sampled {
            admit_per_mille: 1000,
        }),
        in_memory: true,
        ..TierOptions::default()
    };
    let before = two_tiers::<M>(&context, &options);
    // What was below is older, of half of the keys.
    (0..KEYS)
        .step_by(2)
        .for_each(|n| put::<M>(&before, &key(n), 0));
    (0..8).for_each(|_| assert!(before.sweep_once().unwrap()));
    for n in 0..KEYS {
        put::<M>(&before, &key(n), 1);
        for i in 0..3 {
            let between = [&key(n)[..], &[b'~', i]].concat();
            let put = before.write(&between, Change::Put(&[7; 900]), None, &mut || ());
            assert!(put.unwrap());
        }
    }
    let mut from = Vec::new();
    while let Some(next) = before.save_step(&from, Saving::All).unwrap() {
        from = next;
    }
    let tree = reopen::<M>(&context, before.roots(), &options);
    let of = tree.clone();
    let loads = thread::spawn(move || {
        let mut from = Vec::new();
        while let Some(next) = of.load_saved(&from).unwrap() {
            from = next;
        }
    });
    at_work::<M>(&tree, 1, vec![loads]);
}

/// Threads at work on a structure that has all keys with this number, beside others.
fn at_work<M: Method>(tree: &Arc<Two<M>>, first: u64, mut threads: Vec<thread::JoinHandle<()>>) {
    let written: Arc<Written> = Arc::new(std::array::from_fn(|_| AtomicU64::new(first)));
    for writer in 0..WRITERS {
        let (tree, written) = (tree.clone(), written.clone());
        threads.push(thread::spawn(move || write::<M>(&tree, &written, writer)));
    }
    let (of, known) = (tree.clone(), written.clone());
    threads.push(thread::spawn(move || {
        (0..4).for_each(|_| read::<M>(&of, &known))
    }));
    let (of, known) = (tree.clone(), written.clone());
    threads.push(thread::spawn(move || {
        (0..3).for_each(|_| scan::<M>(&of, &known))
    }));
    let of = tree.clone();
    threads.push(thread::spawn(move || {
        // There may be nothing above yet.
        (0..12).for_each(|_| _ = of.sweep_once().unwrap());
    }));
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
    let own = (0..WRITERS).map(|writer| format!("own-{writer}"));
    own.for_each(|own| assert_eq!(get::<M>(tree, own.as_bytes()), None));
    read::<M>(tree, &written);
    scan::<M>(tree, &written);
    tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(())).unwrap();
}

/// Tries `orders` orders of steps.
fn check(orders: usize, run: impl Fn() + Send + Sync + 'static) {
    let number = |name: &str| -> Option<u64> { std::env::var(name).ok()?.parse().ok() };
    let rounds = orders * number("TERRACE_TEST_FACTOR").unwrap_or(1) as usize;
    let seed = number("TERRACE_TEST_SEED").unwrap_or(1);
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::FailAfter(20_000_000);
    shuttle::Runner::new(RandomScheduler::new_from_seed(seed, rounds), config).run(run);
}

#[test]
fn trees_answer_rightly_while_records_move() {
    check(150, || run::<BTree>(true));
    check(150, || run::<BTree>(false));
}

#[test]
fn hash_tables_answer_rightly_while_records_move() {
    check(150, || run::<HashTable>(true));
    check(150, || run::<HashTable>(false));
}

#[test]
fn heaps_answer_rightly_while_records_move() {
    check(150, || run::<Heap>(true));
    check(150, || run::<Rows>(true));
    check(150, || run::<Heap>(false));
    check(150, || run::<Rows>(false));
}

#[test]
fn what_was_saved_comes_while_it_is_worked_with() {
    check(150, run_loading::<BTree>);
    check(100, run_loading::<HashTable>);
}

/// A tree over an LSM-tree whose top has room for one leaf, so that whoever writes down makes a step first: with
/// readers, writers, a scan, demotion, steps ahead of need, tombstones on their way out, and cuts.
#[cfg(feature = "planted-faults")]
fn run_lsm() {
    run_beside::<Lsm>(true, |context, tree| {
        let (of, tending) = (tree.clone(), context.clone());
        let steps = thread::spawn(move || {
            for _ in 0..4 {
                let mut at = Vec::new();
                while let Some(next) = of.compact_step(&at, 0.9).unwrap() {
                    at = next;
                }
                tending.tend().unwrap();
            }
        });
        let store = context.store.clone();
        let cuts = thread::spawn(move || (0..3).for_each(|_| checkpoint(&store)));
        vec![steps, cuts]
    });
}

#[cfg(feature = "planted-faults")]
#[test]
fn lsm_trees_answer_rightly_while_steps_and_cuts_are_made() {
    terrace_methods::fault::keep_tops_tiny(true);
    check(100, run_lsm);
    terrace_methods::fault::keep_tops_tiny(false);
}

/// A step that frees large values, a cut, and a change that has its guard of large values already and then
/// waits for a step: none of them waits for ever.
#[cfg(feature = "planted-faults")]
fn run_large() {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = one_tier::<Lsm>(&context);
    let put = |n: u8| {
        let value = [n; 3000];
        assert!(
            tree.write(b"key", Change::Put(&value), None, &mut || ())
                .unwrap()
        );
    };
    put(1);
    assert!(tree.method().step(0.0, Space::Migration).unwrap());
    put(2);
    let of = tree.clone();
    let steps = thread::spawn(move || {
        of.method().step(0.0, Space::Migration).unwrap();
    });
    let store = context.store.clone();
    let cuts = thread::spawn(move || checkpoint(&store));
    let (of, store) = (tree.clone(), context.store.clone());
    let changes = thread::spawn(move || {
        let _guard = store.large_guard();
        let waits = &mut Waits::of_a_change();
        of.method().catch_up(Space::Ordinary, waits).unwrap();
    });
    for thread in [steps, cuts, changes] {
        thread.join().unwrap();
    }
    let mut value = Vec::new();
    assert!(tree.get(b"key", &mut value).unwrap() && value == [2; 3000]);
    tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(())).unwrap();
}

#[cfg(feature = "planted-faults")]
#[test]
fn who_writes_a_large_value_waits_for_no_step_that_waits_for_a_cut() {
    terrace_methods::fault::keep_tops_tiny(true);
    check(300, run_large);
    terrace_methods::fault::keep_tops_tiny(false);
}

/// Each of these does harm only in some orders of the threads' steps.
#[cfg(feature = "planted-faults")]
#[test]
fn a_broken_rule_of_steps_is_found() {
    use terrace_methods::fault::{Fault, keep_tops_tiny, plant};
    keep_tops_tiny(true);
    // Other rules of steps are broken in the model of `terrace-methods`, which finds them.
    let broken: [(Fault, fn()); 2] = [(Fault::EarlyLevels, run_lsm), (Fault::LateGuard, run_large)];
    for (fault, run) in broken {
        let checked = std::panic::catch_unwind(|| {
            check(3000, move || {
                plant(Some(fault));
                run();
                plant(None);
            });
        });
        plant(None);
        assert!(checked.is_err(), "{fault:?} was not found");
    }
    keep_tops_tiny(false);
}

/// Who holds a lock is alone, and who validates has read nothing of a holder.
#[test]
fn record_locks_exclude_and_readers_validate_what_belongs_together() {
    check(150, || {
        let table = Arc::new(LockTable::new(512));
        let pair = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let mut threads = Vec::new();
        for _ in 0..2 {
            let (table, pair) = (table.clone(), pair.clone());
            threads.push(thread::spawn(move || {
                for _ in 0..3 {
                    let held = table.lock(7);
                    let n = pair[0].load(Ordering::SeqCst);
                    assert_eq!(n, pair[1].load(Ordering::SeqCst));
                    pair[0].store(n + 1, Ordering::SeqCst);
                    thread::yield_now();
                    pair[1].store(n + 1, Ordering::SeqCst);
                    held.release_changed();
                    if let Some(held) = table.try_lock(7) {
                        held.release_unchanged();
                    }
                }
            }));
        }
        let (of, both) = (table.clone(), pair.clone());
        threads.push(thread::spawn(move || {
            for _ in 0..4 {
                let version = of.read_waiting(7);
                let left = both[0].load(Ordering::SeqCst);
                thread::yield_now();
                let right = both[1].load(Ordering::SeqCst);
                if of.validate(7, version) {
                    assert_eq!(left, right);
                }
            }
        }));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(pair[0].load(Ordering::SeqCst), 6);
    });
}

/// Each of these does harm only in some orders of the threads' steps, or at all.
#[cfg(feature = "planted-faults")]
#[test]
fn a_broken_rule_is_found() {
    use terrace_tier::fault::{Fault, plant};
    for fault in [
        Fault::HotBeforeLoaded,
        Fault::LoadedEarly,
        Fault::ScanPastLoaded,
    ] {
        let checked = std::panic::catch_unwind(|| {
            check(3000, move || {
                plant(Some(fault));
                run_loading::<BTree>();
                plant(None);
            });
        });
        plant(None);
        assert!(checked.is_err(), "{fault:?} was not found");
    }
    for fault in [
        Fault::HotAskedLast,
        Fault::CopyBeforeLock,
        Fault::DirtyForgotten,
        Fault::TombstoneForgotten,
        Fault::DemotionInserts,
        Fault::EraseBeforeCopy,
        Fault::DropBeforeWrite,
        Fault::ScanUnvalidated,
        Fault::SweepDropsDirty,
    ] {
        let found = [true, false].into_iter().any(|inclusive| {
            let checked = std::panic::catch_unwind(|| {
                check(3000, move || {
                    plant(Some(fault));
                    run::<BTree>(inclusive);
                    plant(None);
                });
            });
            plant(None);
            checked.is_err()
        });
        assert!(found, "{fault:?} was not found");
    }
}
