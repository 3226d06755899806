//! Every planted fault is found by a scenario that passes without it. Where a fault needs two
//! threads to do harm, the second one's work is done at a named point of the first, so that nothing
//! here depends on timing.

mod promotion;
mod watched;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use crate::common::*;
use terrace_access::{AccessMethod, Touch, Window};
use terrace_pages::PageStore;
use terrace_sim::{Call, HookedDisk, SimDisk};
use terrace_tier::fault::{Fault, Point, hook, plant};
use terrace_tier::policy::Sampled;
use terrace_tier::{Change, Expect, LockTable, RecordLock, Structure, TierContext, TierOptions};

thread_local! {
    /// The locks that must be free whenever this thread reads from the disk.
    static WATCHED: RefCell<Option<Arc<LockTable>>> = const { RefCell::new(None) };
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Notices reads by a thread which holds record locks.
fn watch(call: Call<'_>) {
    if !matches!(call, Call::Read(_)) {
        return;
    }
    WATCHED.with(|watched| {
        if let Some(locks) = &*watched.borrow() {
            let held = (0..locks.memory_bytes() / 8).any(|slot| locks.read(slot).is_none());
            CAUGHT.with(|caught| caught.set(caught.get() || held));
        }
    });
}

/// A structure in a memory of its own.
struct Bed<M: Method> {
    context: Arc<TierContext>,
    tree: Arc<Two<M>>,
    _cleaner: terrace_pages::Cleaner,
}

const SMALL: u64 = 400 << 10;
const AMPLE: u64 = 4 << 20;

impl<M: Method> Bed<M> {
    fn new(memory: u64, options: TierOptions) -> Bed<M> {
        let disk = Arc::new(HookedDisk::new(SimDisk::new(1).shared(), watch));
        let store =
            PageStore::create(disk, crate::common::options(memory, 4096), 7, &cut()).unwrap();
        let store = Arc::new(store);
        let cleaner = terrace_pages::Cleaner::start(store.clone()).unwrap();
        let context = TierContext::new(store, 1 << 14);
        let tree = two_tiers::<M>(&context, &options);
        Bed {
            context,
            tree,
            _cleaner: cleaner,
        }
    }

    fn put(&self, key: &[u8], value: &[u8]) {
        let done = self.tree.write(key, Change::Put(value), None, &mut || ());
        assert!(done.unwrap());
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        self.tree.get(key, &mut value).unwrap().then_some(value)
    }

    fn is_hot(&self, key: &[u8]) -> bool {
        let hot = self.tree.hot().unwrap();
        loop {
            // Where there are more hot pages than may be, some have left memory.
            match hot.try_get(key, Touch::No, &mut Vec::new()) {
                Ok(found) => return found.is_some(),
                Err(interrupt) => self.context.store.settle(interrupt).unwrap(),
            }
        }
    }

    /// Sweeps until every use count has come down and every record has gone that can go.
    fn demote_all(&self) {
        for _ in 0..400 {
            self.tree.sweep_once().unwrap();
        }
        self.merge_all();
    }

    /// What lies above all levels comes to them: by some policies it does not come up again before.
    fn merge_all(&self) {
        let mut from = <M::Cold as AccessMethod>::CAPABILITIES.blind.then(Vec::new);
        while let Some(next) = from {
            from = self.tree.compact_step(&next, 1.0).unwrap();
        }
    }

    /// What another thread would do to `key`, if its lock is free.
    fn put_if_free(tree: &Two<M>, context: &TierContext, key: &[u8], value: &[u8]) -> bool {
        let slot = context.locks.slot(tree.id(), key);
        match context.locks.read(slot) {
            Some(version) => tree
                .write(
                    key,
                    Change::Put(value),
                    Some(Expect::version(version)),
                    &mut || (),
                )
                .unwrap(),
            None => false,
        }
    }

    fn check(&self) {
        let verified = self.tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()));
        verified.unwrap();
    }
}

fn exclusive() -> TierOptions {
    TierOptions {
        inclusive: false,
        ..TierOptions::default()
    }
}

fn scanned<M: Method>(tree: &Two<M>) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut window, mut from, mut all) = (Window::new(), Vec::new(), BTreeMap::new());
    loop {
        tree.scan_up(&from, &mut window).unwrap();
        for i in 0..window.len() {
            all.insert(window.key(i).to_vec(), window.value(i).to_vec());
        }
        match window.high.take() {
            Some(high) => from = high,
            None => return all,
        }
    }
}

fn at(point: Point, mut f: impl FnMut() + 'static) {
    hook(Some(Box::new(move |reached| {
        if reached == point {
            f()
        }
    })));
}

/// Writes, demotion, overwriting, deletion, one after the other.
fn plain_life<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    bed.put(b"b", b"gone");
    bed.demote_all();
    assert!(!bed.is_hot(b"a"));
    bed.put(b"a", b"two");
    assert_eq!(bed.get(b"a").as_deref(), Some(b"two".as_slice()));
    let deleted = bed.tree.write(b"b", Change::Delete, None, &mut || ());
    assert!(deleted.unwrap());
    bed.demote_all();
    assert_eq!(bed.get(b"a").as_deref(), Some(b"two".as_slice()));
    assert_eq!(bed.get(b"b"), None);
    bed.check();
}

/// A writer writes a record just when it is demoted.
fn demotion_meets_a_write<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    let (tree, context) = (bed.tree.clone(), bed.context.clone());
    let written = Rc::new(Cell::new(false));
    let seen = written.clone();
    at(Point::Demoting, move || {
        seen.set(seen.get() || Bed::<M>::put_if_free(&tree, &context, b"a", b"two"));
    });
    bed.tree.sweep_once().unwrap();
    hook(None);
    bed.demote_all();
    let want: &[u8] = if written.get() { b"two" } else { b"one" };
    assert_eq!(bed.get(b"a").as_deref(), Some(want));
}

/// Between two steps of a promotion or demotion a scan sees the record.
fn a_moving_record_is_seen<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, exclusive());
    bed.put(b"a", b"one");
    let looked = Rc::new(Cell::new(0));
    let (tree, count) = (bed.tree.clone(), looked.clone());
    at(Point::BetweenTiers, move || {
        count.set(count.get() + 1);
        assert_eq!(
            scanned::<M>(&tree).len(),
            1,
            "the record is in neither tier"
        );
    });
    bed.demote_all();
    assert_eq!(looked.get(), 1);
    assert!(bed.get(b"a").is_some() && bed.is_hot(b"a"));
    assert_eq!(looked.get(), 2);
    hook(None);
}

/// A record moves while a scan is between the tiers, in both directions.
fn a_scan_meets_a_move<M: Method>() {
    for up in [true, false] {
        let bed = Bed::<M>::new(AMPLE, exclusive());
        for i in 0..20u8 {
            bed.put(&[i], b"one");
        }
        if up {
            bed.demote_all();
        }
        let tree = bed.tree.clone();
        at(Point::Scanning, move || {
            if up {
                assert!(tree.get(&[7], &mut Vec::new()).unwrap());
            } else {
                (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
            }
        });
        let found = scanned::<M>(&bed.tree);
        hook(None);
        assert_eq!(
            found.len(),
            20,
            "a scan missed a record that moved (up: {up})"
        );
    }
}

/// Few records move down while an estimate is between the tiers.
fn an_estimate_meets_a_move<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    for i in 0..20u8 {
        bed.put(&[i], b"one");
    }
    let tree = bed.tree.clone();
    at(Point::Estimating, move || {
        (0..8).for_each(|_| assert!(tree.sweep_once().unwrap()));
    });
    let estimate = bed.tree.estimate().unwrap();
    hook(None);
    assert_eq!(estimate.records, 20);
    assert!(
        estimate.hot + estimate.cold >= 20,
        "{estimate:?} has records in no tier"
    );
}

/// Reading hot records leaves their pages clean.
fn reading_changes_no_page<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    for i in 0..20u8 {
        bed.put(&[i], b"one");
    }
    checkpoint(&bed.context.store);
    let written = || bed.context.store.stats().checkpoint_page_writes;
    let before = written();
    for i in 0..20u8 {
        assert!(bed.get(&[i]).is_some());
    }
    checkpoint(&bed.context.store);
    assert_eq!(written(), before, "reading made a page dirty");
}

/// A policy that admits nothing has nothing promoted.
fn the_policy_is_asked<M: Method>() {
    let policy = Arc::new(Sampled { admit_per_mille: 0 });
    let bed = Bed::<M>::new(
        AMPLE,
        TierOptions {
            policy,
            ..TierOptions::default()
        },
    );
    bed.put(b"a", b"one");
    bed.demote_all();
    assert!(bed.get(b"a").is_some() && !bed.is_hot(b"a"));
}

fn key(n: u32) -> Vec<u8> {
    format!("key-{n:08}").into_bytes()
}

fn everything_held<'a, M: Method>(
    context: &'a TierContext,
    tree: &Two<M>,
    keep_free: &[u8],
) -> Vec<RecordLock<'a>> {
    let free = context.locks.slot(tree.id(), keep_free);
    let slots = 0..context.locks.memory_bytes() / 8;
    slots
        .filter(|slot| *slot != free)
        .map(|slot| context.locks.lock(slot))
        .collect()
}

/// While all other records are locked, no other record leaves the hot tier.
fn a_locked_record_stays<M: Method>() {
    let bed = Bed::<M>::new(SMALL, M::options());
    let value = [7; 100];
    let keys: Vec<_> = (0..6000).map(key).collect();
    for key in &keys {
        bed.put(key, &value);
    }
    // Clean ones fill the hot tier.
    bed.demote_all();
    for key in keys.iter().step_by(2).chain(&keys) {
        assert!(bed.get(key).is_some());
    }
    // Of records that share the lock left free, any may go.
    let count = |bed: &Bed<M>, free: &[u8]| {
        let slot = |key: &[u8]| bed.context.locks.slot(bed.tree.id(), key);
        let locked = keys.iter().filter(|key| slot(key) != slot(free));
        locked.filter(|key| bed.is_hot(key)).count()
    };
    for n in 0..20 {
        let newcomer = format!("key-{:08}+", n * 29 % 6000).into_bytes();
        let before = count(&bed, &newcomer);
        let slot = bed.context.locks.slot(bed.tree.id(), &newcomer);
        let held = everything_held::<M>(&bed.context, &bed.tree, &newcomer);
        // All else is locked, so the newcomer may find no room but by a split, and the help that it
        // gives may move a record of its own lock, which changes the version.
        loop {
            let version = bed.context.locks.read(slot).unwrap();
            let put = Change::Put(&value);
            let done = bed
                .tree
                .write(&newcomer, put, Some(Expect::version(version)), &mut || ());
            if done.unwrap() {
                break;
            }
        }
        let after = count(&bed, &newcomer);
        assert!(after == before, "a locked record left its leaf");
        drop(held);
    }
    // The same for the sweep, which looks at one leaf in each step.
    let before = count(&bed, b"");
    let held = everything_held::<M>(&bed.context, &bed.tree, b"");
    for _ in 0..100 {
        bed.tree.sweep_once().unwrap();
    }
    let after = count(&bed, b"");
    assert!(after == before, "the sweep dropped a locked record");
    drop(held);
}

/// Random writes and reads in a memory much too small, against a map.
fn agrees_with_a_map<M: Method>() {
    let bed = Bed::<M>::new(SMALL, M::options());
    let mut map = BTreeMap::new();
    let mut rng = Rng(5);
    for step in 0..12_000u32 {
        let key = key(rng.below(5000) as u32);
        if rng.below(2) == 0 {
            let value = [&step.to_be_bytes()[..], &[1; 90]].concat();
            bed.put(&key, &value);
            map.insert(key, value);
        } else {
            assert_eq!(bed.get(&key).as_ref(), map.get(&key), "step {step}");
        }
    }
    for (key, value) in &map {
        assert_eq!(bed.get(key).as_ref(), Some(value));
    }
    bed.check();
}

/// Blind puts of keys that lie in cold pages on disk read none of them.
fn a_put_reads_nothing<M: Method>() {
    let bed = Bed::<M>::new(SMALL, M::options());
    for n in 0..6000 {
        bed.put(&key(n), &[7; 100]);
    }
    bed.demote_all();
    let before = bed.context.store.stats().page_reads;
    for n in (0..6000).step_by(300) {
        bed.put(&key(n), b"new");
    }
    let read = bed.context.store.stats().page_reads - before;
    assert_eq!(read, 0, "a blind put read a page");
}

/// A demotion that finds its page gone lets go of everything before it reads it again.
fn nobody_reads_under_locks<M: Method>() {
    let bed = Bed::<M>::new(SMALL, M::options());
    for n in 0..6000 {
        bed.put(&key(n), &[7; 100]);
    }
    bed.demote_all();
    for n in (0..6000).step_by(100) {
        bed.put(&key(n), b"new");
    }
    let (tree, locks) = (bed.tree.clone(), bed.context.locks.clone());
    let store = bed.context.store.clone();
    WATCHED.set(Some(bed.context.locks.clone()));
    CAUGHT.set(false);
    let rounds = Cell::new(0);
    at(Point::Demoting, move || {
        rounds.set(rounds.get() + 1);
        if rounds.get() % 4 == 1 {
            // Everything that is cold passes through the few frames.
            WATCHED.set(None);
            let mut window = Window::new();
            let mut from = Vec::new();
            loop {
                while let Err(i) = terrace_access::Ordered::try_window(
                    tree.cold(),
                    terrace_access::Edge::From(&from),
                    &mut window,
                ) {
                    store.settle(i).unwrap();
                }
                match window.high.take() {
                    Some(high) => from = high,
                    None => break,
                }
            }
            WATCHED.set(Some(locks.clone()));
        }
    });
    for _ in 0..40 {
        bed.tree.sweep_once().unwrap();
    }
    hook(None);
    WATCHED.set(None);
    assert!(!CAUGHT.get(), "a page was read under record locks");
}

/// A demotion passes over a record whose lock another thread holds.
fn demotion_waits_for_nobody<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    let slot = bed.context.locks.slot(bed.tree.id(), b"a");
    at(Point::Waiting, || panic!("somebody waits for a lock"));
    let held = bed.context.locks.lock(slot);
    bed.tree.sweep_once().unwrap();
    drop(held);
    hook(None);
    assert!(bed.is_hot(b"a"));
}

/// Runs `f` while the gate is closed for a cut, and `waits` if it waits there; it gets no further then,
/// because this thread would open the gate. Returns whether it came to an end.
fn at_the_closed_gate(store: &PageStore, mut waits: impl FnMut() + 'static, f: impl Fn()) -> bool {
    let mut ended = false;
    terrace_pages::hook(Some(Box::new(move |point| {
        if point == terrace_pages::Point::AtGate {
            waits();
            std::panic::panic_any("the gate is closed");
        }
    })));
    let mut at_cut = || {
        ended = catch_unwind(AssertUnwindSafe(&f)).is_ok();
        cut()
    };
    let made = store.checkpoint(terrace_pages::Pace::Fast, &mut at_cut);
    terrace_pages::hook(None);
    made.unwrap();
    ended
}

/// Whoever writes waits at the gate without the record's lock.
fn nobody_holds_a_lock_at_the_gate<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    let slot = bed.context.locks.slot(bed.tree.id(), b"a");
    let held = Rc::new(Cell::new(None));
    let (locks, seen) = (bed.context.locks.clone(), held.clone());
    let waits = move || seen.set(Some(locks.read(slot).is_none()));
    let ended = at_the_closed_gate(&bed.context.store, waits, || bed.put(b"a", b"two"));
    assert!(!ended, "a write went through a closed gate");
    assert_eq!(held.get(), Some(false), "whether the lock was held");
    bed.put(b"a", b"three");
    assert_eq!(bed.get(b"a").as_deref(), Some(b"three".as_slice()));
}

/// A read that would promote its record does without while the gate is closed.
fn a_promotion_waits_for_no_gate<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    bed.put(b"a", b"one");
    bed.demote_all();
    let read = || assert_eq!(bed.get(b"a").as_deref(), Some(b"one".as_slice()));
    assert!(at_the_closed_gate(&bed.context.store, || (), read));
    assert!(!bed.is_hot(b"a"));
    read();
    assert!(bed.is_hot(b"a"));
}

/// Chains of large values are freed once, by their owner.
fn chains_have_one_owner<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    let large = vec![9; 20_000];
    let other = vec![8; 30_000];
    // Pages of the structure against pages that exist.
    let lost = |bed: &Bed<M>| {
        let mut pages = 0;
        let verified = bed.tree.verify(&mut |_, _, _| Ok(()), &mut |_| {
            pages += 1;
            Ok(())
        });
        verified.unwrap();
        bed.context.store.live_pages() - pages
    };
    bed.put(b"z", b"small");
    let base = lost(&bed);
    for round in 0..3 {
        bed.put(b"a", &large);
        assert_eq!(bed.get(b"a").as_ref(), Some(&large));
        assert_eq!(lost(&bed), base, "round {round}, dirty");
        // Used, so it stays as a clean record.
        bed.tree.sweep_once().unwrap();
        bed.demote_one_use_left();
        assert_eq!(lost(&bed), base, "round {round}, clean");
        bed.put(b"a", if round == 1 { b"small" } else { &other });
        assert_eq!(lost(&bed), base, "round {round}, overwritten");
        bed.demote_all();
        assert_eq!(lost(&bed), base, "round {round}, demoted");
    }
}

impl<M: Method> Bed<M> {
    /// A dirty neighbour that is not used makes the sweep write its cold leaf's range; a used
    /// record of the same range becomes clean and stays.
    fn demote_one_use_left(&self) {
        for _ in 0..3 {
            self.get(b"a");
        }
        self.put(b"b", b"neighbour");
        // Puts raise nothing but their own count: the neighbour is new and has none.
        self.tree.sweep_once().unwrap();
        assert!(self.is_hot(b"a"));
    }
}

/// What a sorted run says is so, also of records that are hot: clean, dirty or deleted ones.
fn a_run_meets_hot_records<M: Method>() {
    let bed = Bed::<M>::new(AMPLE, M::options());
    let keys: Vec<_> = (0..200).map(key).collect();
    for key in keys.iter().step_by(3) {
        bed.put(key, b"old");
    }
    bed.demote_all();
    for key in keys.iter().step_by(9) {
        (0..3).for_each(|_| assert!(bed.get(key).is_some()));
    }
    for key in keys.iter().skip(1).step_by(3) {
        bed.put(key, b"dirty");
    }
    let deleted = bed.tree.write(&keys[4], Change::Delete, None, &mut || ());
    assert!(deleted.unwrap() && bed.is_hot(&keys[1]) && bed.is_hot(&keys[9]));
    // All of them by one run, and far apart from each other by another.
    for (new, apart) in [(&b"new"[..], 1), (b"newer", 37)] {
        let chosen = keys.iter().step_by(apart);
        let records = chosen.clone().map(|key| (&key[..], new));
        put_run(&bed.context, &*bed.tree, records);
        for key in chosen {
            assert!(!bed.is_hot(key));
            assert_eq!(bed.get(key).as_deref(), Some(new));
        }
    }
    bed.demote_all();
    assert_eq!(bed.get(&keys[1]).as_deref(), Some(&b"new"[..]));
    bed.check();
}

/// A queue and a stack: whoever takes the first record, or the last, does not walk over those before it.
fn what_was_taken_is_walked_over_once<M: Method>() {
    for up in [true, false] {
        let bed = Bed::<M>::new(AMPLE, M::options());
        for n in 0..1200 {
            bed.put(&key(n), &[7; 20]);
        }
        bed.demote_all();
        for n in 1200..2400 {
            bed.put(&key(n), &[7; 20]);
        }
        assert!(take(&*bed.tree, up, 2000) < 2 * 2000);
        assert_eq!(scanned::<M>(&bed.tree).len(), 400);
        bed.check();
    }
}

fn scenario<M: Method>(fault: Fault) -> fn() {
    match fault {
        Fault::HotAskedLast
        | Fault::DirtyForgotten
        | Fault::TombstoneForgotten
        | Fault::DemotionInserts => plain_life::<M>,
        Fault::PromotionWithoutLock => promotion::meets_a_write::<M>,
        Fault::PromotionUnchecked => promotion::comes_late::<M>,
        Fault::ChainTwice => promotion::a_large_value_is_not_written_twice::<M>,
        Fault::CopyBeforeLock => demotion_meets_a_write::<M>,
        Fault::EraseBeforeCopy | Fault::DropBeforeWrite => a_moving_record_is_seen::<M>,
        Fault::ScanUnvalidated | Fault::ScanColdFirst => a_scan_meets_a_move::<M>,
        Fault::EstimateUnvalidated => an_estimate_meets_a_move::<M>,
        Fault::HintDirties => reading_changes_no_page::<M>,
        Fault::PolicyIgnored => the_policy_is_asked::<M>,
        Fault::VictimWithoutLock | Fault::SweepWithoutLock => a_locked_record_stays::<M>,
        Fault::DirtyVictim | Fault::SweepDropsDirty | Fault::RunMiscounted => {
            agrees_with_a_map::<M>
        }
        Fault::PutReadsCold => a_put_reads_nothing::<M>,
        Fault::WaitUnderLock => nobody_reads_under_locks::<M>,
        Fault::WaitForLock => demotion_waits_for_nobody::<M>,
        Fault::LockBeforeGate => nobody_holds_a_lock_at_the_gate::<M>,
        Fault::PromotionWaits => a_promotion_waits_for_no_gate::<M>,
        Fault::ChainFreedByClean | Fault::ChainKept => chains_have_one_owner::<M>,
        Fault::RunPassesOverHot => a_run_meets_hot_records::<M>,
        Fault::NoMarkBefore => watched::watchers_are_told::<M>,
        Fault::ClaimIgnored => watched::claims_hold_writers_up::<M>,
        Fault::DeadLeftBehind | Fault::MoveUnseen => what_was_taken_is_walked_over_once::<M>,
        // Found where leases are known: by the tests of crate `terrace`.
        Fault::ExpiredDirtyDropped | Fault::CoarseRoundedDown => unreachable!("not among all"),
        // Found where there is a log: there, too.
        Fault::SaverSkipsDirty
        | Fault::SaverSkipsTombstones
        | Fault::StaleSavedStays
        | Fault::SavedForgotten
        | Fault::HotBeforeLoaded
        | Fault::LoadedEarly
        | Fault::UnloadedSaved
        | Fault::UnreadableForgotten
        | Fault::ScanPastLoaded => unreachable!("not among all"),
    }
}

fn passes(fault: Option<Fault>, scenario: fn()) -> bool {
    plant(fault);
    let passed = catch_unwind(AssertUnwindSafe(scenario)).is_ok();
    plant(None);
    hook(None);
    terrace_pages::hook(None);
    WATCHED.set(None);
    passed
}

fn every_scenario_passes<M: Method>() {
    let mut tried: Vec<fn()> = Vec::new();
    let mut failed = Vec::new();
    for fault in Fault::ALL {
        let scenario = scenario::<M>(fault);
        if !tried.iter().any(|t| std::ptr::fn_addr_eq(*t, scenario)) {
            tried.push(scenario);
            if !passes(None, scenario) {
                failed.push(fault);
            }
        }
    }
    assert!(failed.is_empty(), "scenarios of {failed:?}");
}

#[test]
fn every_scenario_passes_without_a_fault() {
    if !terrace_sim::alone!() {
        return;
    }
    every_scenario_passes::<BTree>();
    every_scenario_passes::<HashTable>();
    every_scenario_passes::<Heap>();
    every_scenario_passes::<Rows>();
}

fn all_found<M: Method>() {
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        if passes(Some(fault), scenario::<M>(fault)) {
            missed.push(fault);
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}

#[test]
fn every_fault_is_found() {
    if !terrace_sim::alone!() {
        return;
    }
    all_found::<BTree>();
    all_found::<HashTable>();
    all_found::<Heap>();
    all_found::<Rows>();
}
