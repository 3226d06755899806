//! Several threads on one structure in a memory much too small, with demotion, cleaning and
//! checkpoints going on: every key's history is linearizable, every scan shows each key once, in
//! order, with a value that it had at some instant of the scan; and what a power cut leaves is what
//! stood at the last cut.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::*;
use terrace_access::{Ordered, Window};
use terrace_pages::Cleaner;
use terrace_sim::{Event, Operation, Outcome, SimDisk, check_key};
use terrace_tier::policy::{LeafLocal, Policy, Sampled};
use terrace_tier::{Change, Expect, Structure, TierOptions};

/// The operations of all threads on a common clock, by key.
#[derive(Default)]
struct Log {
    clock: AtomicU64,
    events: Mutex<BTreeMap<Vec<u8>, Vec<Event>>>,
}

impl Log {
    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn note(&self, key: &[u8], operation: Operation, outcome: Outcome, span: (u64, u64)) {
        let event = Event {
            operation,
            outcome: Some(outcome),
            called: span.0,
            returned: span.1,
            thread: 0,
        };
        let mut events = self.events.lock().unwrap();
        events.entry(key.to_vec()).or_default().push(event);
    }

    fn check(&self, seed: u64) {
        for (key, events) in self.events.lock().unwrap().iter() {
            if let Err(violation) = check_key(key, events, None) {
                panic!("seed {seed}: {violation}");
            }
        }
    }
}

const KEYS: u64 = 2400;
const MEMORY: u64 = 400 << 10;

fn key(n: u64) -> Vec<u8> {
    format!("key-{n:05}").into_bytes()
}

/// A value that no other thread writes; a few of them are large.
fn value(rng: &mut Rng, number: u64) -> Vec<u8> {
    let len = match rng.below(60) {
        0 => 2000 + rng.below(8000) as usize,
        n => 40 + 4 * n as usize,
    };
    let mut value = number.to_be_bytes().to_vec();
    value.resize(len, number as u8);
    value
}

/// Most accesses go to few keys, so that threads meet.
fn pick(rng: &mut Rng) -> u64 {
    match rng.below(3) {
        0 => rng.below(12) * 199,
        1 => rng.below(150) * 16,
        _ => rng.below(KEYS),
    }
}

fn get<M: Method>(tree: &Two<M>, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    tree.get(key, &mut value).unwrap().then_some(value)
}

/// Looks first, then writes if nothing has changed since.
fn look_and_write<M: Method>(
    tree: &Two<M>,
    key: &[u8],
    change: Change<'_>,
    wants_it_there: bool,
) -> Outcome {
    let mut found = Vec::new();
    loop {
        let (there, version) = tree.get_versioned(key, &mut found).unwrap();
        if there != wants_it_there {
            return Outcome::Changed(false);
        }
        if tree
            .write(key, change, Some(Expect::version(version)), &mut || ())
            .unwrap()
        {
            return Outcome::Changed(true);
        }
    }
}

fn options(policy: Arc<dyn Policy>, inclusive: bool) -> TierOptions {
    TierOptions {
        policy,
        inclusive,
        ..TierOptions::default()
    }
}

fn histories<M: Method>(seed: u64, options: TierOptions) {
    let disk = SimDisk::new(seed);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers::<M>(&context, &options);
    let cleaner = Cleaner::start(context.store.clone()).unwrap();
    let demoter = context.start_demoter().unwrap();
    let log = Log::default();
    let number = AtomicU64::new(1);
    let stop = AtomicBool::new(false);
    // More than the memory holds, so that records move from the beginning.
    for key in (0..KEYS).map(key) {
        let new = vec![3; 300];
        let called = log.now();
        let done = tree.write(&key, Change::Put(&new), None, &mut || ());
        assert!(done.unwrap());
        log.note(
            &key,
            Operation::Put(new),
            Outcome::Done,
            (called, log.now()),
        );
    }
    std::thread::scope(|scope| {
        let (tree, log, number, stop, context) = (&tree, &log, &number, &stop, &context);
        let workers: Vec<_> = (0..3)
            .map(|thread| {
                scope.spawn(move || work::<M>(tree, log, number, &mut Rng(seed * 100 + thread)))
            })
            .collect();
        let scans = scope.spawn(move || {
            let mut rng = Rng(seed + 77);
            for _ in 0..60 {
                scan_and_note::<M>(tree, log, &mut rng);
            }
        });
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                checkpoint(&context.store);
                std::thread::yield_now();
            }
        });
        let mut results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        results.push(scans.join());
        stop.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok), "seed {seed}");
    });
    drop((demoter, cleaner));
    log.check(seed);
    let verified = tree.verify(&mut |_, _, _| Ok(()), &mut |_| Ok(()));
    verified.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    context.store.check_accounts().unwrap();
    let stats = tree.stats();
    assert!(
        stats.promotions > 0 && stats.cleaned > 0,
        "seed {seed}: nothing moved, {stats:?}"
    );
}

fn work<M: Method>(tree: &Two<M>, log: &Log, number: &AtomicU64, rng: &mut Rng) {
    for _ in 0..5000 {
        let key = key(pick(rng));
        let new = value(rng, number.fetch_add(1, Ordering::Relaxed));
        let put = Change::Put(&new);
        let what = rng.below(10);
        let called = log.now();
        let (operation, outcome) = match what {
            0..=4 => (Operation::Get, Outcome::Value(get::<M>(tree, &key))),
            5 | 6 => {
                assert!(tree.write(&key, put, None, &mut || ()).unwrap());
                (Operation::Put(new), Outcome::Done)
            }
            7 => {
                let deleted = tree.write(&key, Change::Delete, None, &mut || ());
                assert!(deleted.unwrap());
                (Operation::Delete, Outcome::Done)
            }
            8 => {
                let outcome = look_and_write::<M>(tree, &key, put, false);
                (Operation::Insert(new), outcome)
            }
            _ => {
                let outcome = look_and_write::<M>(tree, &key, Change::Delete, true);
                (Operation::Remove, outcome)
            }
        };
        let returned = log.now();
        log.note(&key, operation, outcome, (called, returned));
    }
}

/// Some windows of a scan in a random direction. What one shows and does not show of its range
/// counts as a get of each key of the range, called before and returned after.
fn scan_and_note<M: Method>(tree: &Two<M>, log: &Log, rng: &mut Rng) {
    let mut window = Window::new();
    let up = rng.below(2) == 0;
    let position = |key: &[u8]| tree.position(key).unwrap();
    let mut edge = position(&key(rng.below(KEYS)));
    let mut last: Option<Vec<u8>> = None;
    for i in 0..5 {
        window.set_limit([usize::MAX, 3, 40][i % 3]);
        let called = log.now();
        let (low, high) = if up {
            tree.scan_up(&edge, &mut window).unwrap();
            (edge.clone(), window.high.clone())
        } else {
            tree.scan_down(Some(&edge), &mut window).unwrap();
            (window.low.clone(), Some(edge.clone()))
        };
        let span = (called, log.now());
        let mut shown = BTreeMap::new();
        for i in 0..window.len() {
            let i = if up { i } else { window.len() - 1 - i };
            let key = window.key(i);
            assert!(key >= low.as_slice() && high.as_deref().is_none_or(|high| key < high));
            let ordered = last
                .as_deref()
                .is_none_or(|last| if up { last < key } else { key < last });
            assert!(ordered, "a key came twice or out of order");
            last = Some(key.to_vec());
            // A large value comes as a reference; its content is read later.
            let inline = window.entry(i).large.is_none();
            shown.insert(
                M::Cold::key_at(key).to_vec(),
                inline.then(|| window.value(i).to_vec()),
            );
        }
        for key in (0..KEYS).map(key) {
            let at = position(&key);
            if at < low || high.as_ref().is_some_and(|high| at >= *high) {
                continue;
            }
            match shown.remove(&key) {
                Some(None) => {}
                value => log.note(&key, Operation::Get, Outcome::Value(value.flatten()), span),
            }
        }
        assert!(shown.is_empty(), "keys that nobody wrote: {shown:?}");
        match (up, high) {
            (true, Some(high)) => edge = high,
            (false, _) if !low.is_empty() => edge = low,
            _ => return,
        }
    }
}

#[test]
fn histories_with_the_default_policy() {
    histories::<BTree>(1, options(Arc::new(LeafLocal), true));
    histories::<HashTable>(1, options(Arc::new(LeafLocal), true));
    histories::<Heap>(1, options(Arc::new(LeafLocal), true));
    histories::<Rows>(1, options(Arc::new(LeafLocal), true));
}

#[test]
fn histories_with_exclusive_tiers() {
    histories::<BTree>(2, options(Arc::new(LeafLocal), false));
    histories::<HashTable>(2, options(Arc::new(LeafLocal), false));
    histories::<Heap>(2, options(Arc::new(LeafLocal), false));
    histories::<Rows>(2, options(Arc::new(LeafLocal), false));
}

#[test]
fn histories_with_the_papers_policy() {
    histories::<BTree>(3, options(Arc::new(Sampled::default()), true));
    histories::<HashTable>(3, options(Arc::new(Sampled::default()), true));
    histories::<Heap>(3, options(Arc::new(Sampled::default()), true));
    histories::<Rows>(3, options(Arc::new(Sampled::default()), true));
    histories::<BTree>(4, options(Arc::new(Sampled::default()), false));
    histories::<HashTable>(4, options(Arc::new(Sampled::default()), false));
    histories::<Heap>(4, options(Arc::new(Sampled::default()), false));
    histories::<Rows>(4, options(Arc::new(Sampled::default()), false));
}

#[test]
fn histories_with_the_papers_policy_for_lsm_trees() {
    for (seed, early) in [(5, true), (6, false)] {
        let options = papers(BiLsmOptions {
            rates: Rates::All,
            early,
            period: std::time::Duration::from_millis(1),
            ..BiLsmOptions::default()
        });
        histories::<Lsm>(seed, options);
    }
}

type State = BTreeMap<Vec<u8>, Vec<u8>>;

/// Whether the power is off, which is the only error there may be.
fn went_out<T>(done: terrace_base::Result<T>, disk: &SimDisk) -> bool {
    match done {
        Ok(_) => false,
        Err(e) => {
            assert!(!disk.is_powered(), "{e}");
            true
        }
    }
}

/// The power goes at an instant when threads read and write, records move and a checkpoint may be
/// under way.
fn a_power_cut<M: Method>(seed: u64, options: TierOptions) {
    let disk = SimDisk::new(seed);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers::<M>(&context, &options);
    // What has been written, kept inside the gate by the callback of each write: what it is at a
    // cut is what the cut must have.
    let state: Mutex<State> = Mutex::default();
    let cuts: Mutex<Vec<State>> = Mutex::default();
    let complete = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    for n in 0..KEYS {
        let (key, value) = (key(n), vec![n as u8; 90]);
        let mut log = || drop(state.lock().unwrap().insert(key.clone(), value.clone()));
        assert!(
            tree.write(&key, Change::Put(&value), None, &mut log)
                .unwrap()
        );
    }
    let cleaner = Cleaner::start(context.store.clone()).unwrap();
    let demoter = context.start_demoter().unwrap();
    let (survivor, first) = std::thread::scope(|scope| {
        let (tree, state, cuts, complete) = (&tree, &state, &cuts, &complete);
        let (stop, context, disk) = (&stop, &context, &disk);
        for thread in 0..2 {
            scope.spawn(move || {
                let mut rng = Rng(seed * 1000 + thread);
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let key = key(pick(&mut rng));
                    number += 1;
                    let value = value(&mut rng, number);
                    let done = match rng.below(8) {
                        0..=3 => tree.get(&key, &mut Vec::new()),
                        4 => {
                            let mut log = || drop(state.lock().unwrap().remove(&key));
                            tree.write(&key, Change::Delete, None, &mut log)
                        }
                        _ => {
                            let mut log =
                                || drop(state.lock().unwrap().insert(key.clone(), value.clone()));
                            tree.write(&key, Change::Put(&value), None, &mut log)
                        }
                    };
                    if went_out(done, disk) {
                        return;
                    }
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let mut at_cut = || {
                    cuts.lock().unwrap().push(state.lock().unwrap().clone());
                    cut()
                };
                let done = context
                    .store
                    .checkpoint(terrace_pages::Pace::Fast, &mut at_cut);
                if went_out(done, disk) {
                    return;
                }
                complete.fetch_add(1, Ordering::SeqCst);
            }
        });
        while complete.load(Ordering::SeqCst) < 3 {
            std::thread::yield_now();
        }
        // The older ones may not come back.
        let first = complete.load(Ordering::SeqCst) - 1;
        let survivor = disk.crash(seed);
        stop.store(true, Ordering::Relaxed);
        (survivor, first as usize)
    });
    drop((demoter, cleaner));
    let roots = tree.roots();
    drop((tree, context));
    let context = reopened(&survivor, MEMORY);
    let tree = reopen::<M>(&context, roots, &options);
    let mut keys = Vec::new();
    let verified = tree.verify(
        &mut |key, _, _| {
            keys.push(key.to_vec());
            Ok(())
        },
        &mut |_| Ok(()),
    );
    verified.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let found: State = keys
        .into_iter()
        .map(|key| {
            let value = get::<M>(&tree, &key);
            (
                key,
                value.unwrap_or_else(|| panic!("seed {seed}: no value")),
            )
        })
        .collect();
    let cuts = cuts.into_inner().unwrap();
    assert!(
        cuts[first..].contains(&found),
        "seed {seed}: what is there is none of the cuts from {first} to {}",
        cuts.len()
    );
}

#[test]
fn a_power_cut_leaves_the_last_cut() {
    for seed in 0..3 {
        a_power_cut::<BTree>(seed, options(Arc::new(LeafLocal), true));
        a_power_cut::<HashTable>(seed, options(Arc::new(LeafLocal), true));
        a_power_cut::<Heap>(seed, options(Arc::new(LeafLocal), true));
        a_power_cut::<Rows>(seed, options(Arc::new(LeafLocal), true));
        a_power_cut::<BTree>(seed + 10, options(Arc::new(LeafLocal), false));
        a_power_cut::<HashTable>(seed + 10, options(Arc::new(LeafLocal), false));
        a_power_cut::<Heap>(seed + 10, options(Arc::new(LeafLocal), false));
        a_power_cut::<Rows>(seed + 10, options(Arc::new(LeafLocal), false));
        a_power_cut::<BTree>(seed + 20, options(Arc::new(Sampled::default()), true));
        a_power_cut::<HashTable>(seed + 20, options(Arc::new(Sampled::default()), true));
        a_power_cut::<Heap>(seed + 20, options(Arc::new(Sampled::default()), true));
        a_power_cut::<Rows>(seed + 20, options(Arc::new(Sampled::default()), true));
    }
}
