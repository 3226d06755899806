//! Several threads on one tiny pool, the cleaner running and one checkpoint after the other: every
//! page stays whole, every cut is consistent, and in the end everything adds up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::common::{
    RECORDS, Records, TINY, Truth, at, info, options, read, records, set_all, set_record,
};
use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::{PageId, Result};
use terrace_pages::{Attempt, Class, Cleaner, Pace, PageStore, Retry, Space, WriteGuard};
use terrace_sim::{Fault, Injection, Rng, SimDisk, Survival};

const THREADS: usize = 4;
/// Pages that all threads change.
const SHARED: u64 = 40;
/// Pages of its own that a thread has, at most.
const OWN: usize = 40;
/// What all records of the shared pages add up to, at every cut.
const SUM: u64 = SHARED * RECORDS as u64 * 1_000_000;

/// Operations of each thread: fewer under a slow checker with TERRACE_STRESS=500.
fn operations() -> u64 {
    std::env::var("TERRACE_STRESS")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(6000)
}

struct Bank {
    store: Arc<PageStore>,
    /// What each thread knows of its own pages, changed only inside the gate.
    own: Vec<Mutex<Truth>>,
    /// The same at each cut, by its stamp.
    cuts: Mutex<BTreeMap<u64, Vec<Truth>>>,
    stamp: AtomicU64,
    next_value: AtomicU64,
}

/// Runs an attempt inside the gate until it succeeds; `None` if there is no room for hot pages.
fn inside<T>(
    store: &PageStore,
    mut f: impl FnMut(&WriteGuard<'_>) -> Attempt<T>,
) -> Result<Option<T>> {
    loop {
        let door = store.enter_for(Space::Ordinary)?;
        let interrupt = match f(&door) {
            Ok(value) => return Ok(Some(value)),
            Err(Retry::HotFull) => return Ok(None),
            Err(e) => e,
        };
        drop(door);
        store.settle(interrupt)?;
    }
}

/// Reads a page optimistically; `None` if it was free.
fn peek(store: &PageStore, pid: PageId) -> Result<Option<Records>> {
    loop {
        let interrupt = match store.optimistic(pid) {
            Ok(page) => {
                let found = records(pid, page.view());
                match page.validate() {
                    Ok(()) => return Ok(Some(found.expect("a validated page is whole"))),
                    Err(e) => e,
                }
            }
            Err(Retry::Conflict) if store.shared(pid).is_ok() => continue,
            Err(e) => e,
        };
        store.settle(interrupt)?;
    }
}

impl Bank {
    fn value(&self) -> u64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    /// Moves an amount from one shared page to another, in one stay inside the gate.
    fn transfer(&self, rng: &mut Rng) -> Result<()> {
        let (a, b) = (rng.below(SHARED), rng.below(SHARED));
        let (from, to) = (PageId(a.min(b)), PageId(a.max(b)));
        let (i, j) = (
            rng.below(RECORDS as u64) as usize,
            rng.below(RECORDS as u64) as usize,
        );
        let amount = rng.below(1000);
        if from == to {
            return Ok(());
        }
        let rewrite = rng.percent(10);
        inside(&self.store, |door| {
            let mut from = self.store.exclusive(from, door)?;
            let mut to = self.store.try_exclusive(to, door)?;
            let (left, right) = (
                from.view().u64(at(i)).expect("inside"),
                to.view().u64(at(j)).expect("inside"),
            );
            if left < amount {
                return Ok(());
            }
            if rewrite {
                let mut all = records(from.pid(), from.view()).expect("whole");
                all[i] = left - amount;
                set_all(&mut from, &all);
            } else {
                set_record(&mut from, i, left - amount);
            }
            set_record(&mut to, j, right + amount);
            Ok(())
        })
        .map(|_| ())
    }

    fn allocate(&self, me: usize, class: Class) -> Result<()> {
        inside(&self.store, |door| {
            let mut page = self.store.allocate(door, class)?;
            let fresh: Records = std::array::from_fn(|_| self.value());
            set_all(&mut page, &fresh);
            let old = self.own[me].lock().unwrap().insert(page.pid().0, fresh);
            assert!(old.is_none(), "{} was given out twice", page.pid());
            Ok(())
        })
        .map(|_| ())
    }

    fn free(&self, me: usize, pid: PageId) -> Result<()> {
        inside(&self.store, |door| {
            let page = self.store.exclusive(pid, door)?;
            // Noted before: the number may be given to another thread at once.
            self.own[me].lock().unwrap().remove(&pid.0);
            page.free();
            Ok(())
        })
        .map(|_| ())
    }

    fn change(&self, me: usize, pid: PageId, record: usize) -> Result<()> {
        inside(&self.store, |door| {
            let mut page = self.store.exclusive(pid, door)?;
            let value = self.value();
            set_record(&mut page, record, value);
            let mut own = self.own[me].lock().unwrap();
            own.get_mut(&pid.0).expect("a page of mine")[record] = value;
            Ok(())
        })
        .map(|_| ())
    }

    fn work(&self, me: usize, seed: u64) -> Result<()> {
        let mut rng = Rng::new(seed);
        for _ in 0..operations() {
            let mine = {
                let own = self.own[me].lock().unwrap();
                let nth = rng.below(own.len().max(1) as u64) as usize;
                own.keys().nth(nth).map(|p| PageId(*p))
            };
            let full = self.own[me].lock().unwrap().len() >= OWN;
            match (rng.below(100), mine) {
                (0..35, _) => self.transfer(&mut rng)?,
                (35..50, _) | (_, None) if !full => {
                    let class = [Class::Cold, Class::Cold, Class::Hot, Class::Inner];
                    self.allocate(me, class[rng.below(4) as usize])?;
                }
                (35..55, Some(pid)) => self.free(me, pid)?,
                (55..75, Some(pid)) => {
                    self.change(me, pid, rng.below(RECORDS as u64) as usize)?;
                }
                (75..85, Some(pid)) => {
                    let expected = self.own[me].lock().unwrap().get(&pid.0).copied();
                    assert_eq!(peek(&self.store, pid)?, expected, "{pid}");
                }
                _ => {
                    let pid = PageId(rng.below(SHARED));
                    peek(&self.store, pid)?;
                    // Whatever this page is by now, reading it is safe.
                    let any = PageId(rng.below(SHARED + (THREADS * OWN) as u64));
                    if let Ok(page) = self.store.optimistic(any) {
                        let _ = records(any, page.view());
                    }
                }
            }
        }
        Ok(())
    }

    fn checkpoint(&self) -> Result<()> {
        let pace = if self.stamp.load(Ordering::Relaxed).is_multiple_of(2) {
            Pace::Fast
        } else {
            Pace::Gentle(&|| 0.0)
        };
        self.store
            .checkpoint(pace, &mut || {
                let stamp = self.stamp.fetch_add(1, Ordering::Relaxed) + 1;
                let truths = self.own.iter().map(|t| t.lock().unwrap().clone()).collect();
                self.cuts.lock().unwrap().insert(stamp, truths);
                info(stamp)
            })
            .map(|_| ())
    }

    /// Every page against what is known of it.
    fn verify(&self, own: &[Truth]) {
        let mut sum = 0u64;
        for pid in (0..SHARED).map(PageId) {
            sum += read(&self.store, pid)
                .unwrap()
                .expect("a shared page")
                .iter()
                .sum::<u64>();
        }
        assert_eq!(sum, SUM, "the shared pages are not of one cut");
        for (pid, expected) in own.iter().flatten() {
            assert_eq!(
                read(&self.store, PageId(*pid)).unwrap().as_ref(),
                Some(expected),
                "{pid}"
            );
        }
        let pages = SHARED as usize + own.iter().map(Truth::len).sum::<usize>();
        assert_eq!(self.store.live_pages(), pages as u64);
        self.store.check_accounts().unwrap();
    }
}

fn begin(disk: Arc<dyn Disk>, memory: u64) -> Bank {
    let store = Arc::new(PageStore::create(disk, options(memory), 9, &info(0)).unwrap());
    for _ in 0..SHARED {
        inside(&store, |door| {
            let mut page = store.allocate(door, Class::Cold)?;
            set_all(&mut page, &[1_000_000; RECORDS]);
            Ok(())
        })
        .unwrap();
    }
    let bank = Bank {
        store,
        own: (0..THREADS).map(|_| Mutex::default()).collect(),
        cuts: Mutex::default(),
        stamp: AtomicU64::new(0),
        next_value: AtomicU64::new(1),
    };
    bank.checkpoint().unwrap();
    bank
}

/// All threads at work until they are through or something fails.
fn run(bank: &Bank, seed: u64) -> Vec<Result<()>> {
    let cleaner = Cleaner::start(bank.store.clone()).unwrap();
    let done = AtomicBool::new(false);
    let results = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|me| scope.spawn(move || bank.work(me, seed * 100 + me as u64)))
            .collect();
        let checkpointer = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                bank.checkpoint()?;
                bank.store.relocate_some()?;
            }
            Ok(())
        });
        let mut results: Vec<_> = workers.into_iter().map(|w| w.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        results.push(checkpointer.join().unwrap());
        results
    });
    drop(cleaner);
    results
}

fn own(bank: &Bank) -> Vec<Truth> {
    bank.own.iter().map(|t| t.lock().unwrap().clone()).collect()
}

/// Opens what is on the disk and compares it with the cut that it says it is.
fn reopen(disk: Arc<dyn Disk>, bank: &Bank, memory: u64) {
    let store = Arc::new(PageStore::open(disk, options(memory)).unwrap());
    let stamp = store.superblock().next_sequence;
    let truths = bank
        .cuts
        .lock()
        .unwrap()
        .get(&stamp)
        .cloned()
        .expect("a cut");
    let opened = Bank {
        store,
        own: Vec::new(),
        cuts: Mutex::default(),
        stamp: AtomicU64::new(stamp),
        next_value: AtomicU64::new(0),
    };
    opened.verify(&truths);
}

#[test]
fn threads_on_a_simulated_disk_then_a_crash() {
    for seed in 0..3 {
        let disk = SimDisk::new(seed);
        let memory = TINY + seed * 100_000;
        let bank = begin(disk.shared(), memory);
        for result in run(&bank, seed) {
            result.unwrap();
        }
        bank.verify(&own(&bank));
        let stats = bank.store.stats();
        assert!(
            stats.evictions > 0 && stats.page_reads > 0,
            "the pool is too large: {stats:?}"
        );
        for survival in [Survival::Nothing, Survival::Some(seed)] {
            reopen(disk.crash_keeping(survival).shared(), &bank, memory);
        }
    }
}

#[test]
fn power_cut_under_all_threads() {
    let disk = SimDisk::new(0);
    let bank = begin(disk.shared(), TINY);
    let before = disk.calls();
    run(&bank, 0);
    let calls = disk.calls() - before;
    for seed in 1..=operations().div_ceil(600) {
        let disk = SimDisk::new(seed);
        let bank = begin(disk.shared(), TINY);
        disk.inject(Injection::any(
            1 + Rng::new(seed).below(calls),
            Fault::PowerCut,
        ));
        run(&bank, seed);
        reopen(disk.crash(seed).shared(), &bank, TINY);
    }
}

#[test]
fn threads_on_a_real_file() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> =
        Arc::new(FileDisk::open(directory.path(), DirectIo::Preferred).unwrap());
    let bank = begin(disk.clone(), 2 * TINY);
    for result in run(&bank, 5) {
        result.unwrap();
    }
    bank.verify(&own(&bank));
    bank.checkpoint().unwrap();
    bank.verify(&own(&bank));
    let Bank {
        store, own, cuts, ..
    } = bank;
    drop(store);
    let bank = Bank {
        store: Arc::new(PageStore::open(disk.clone(), options(2 * TINY)).unwrap()),
        own,
        cuts,
        stamp: AtomicU64::new(0),
        next_value: AtomicU64::new(0),
    };
    let own = bank
        .own
        .iter()
        .map(|t| t.lock().unwrap().clone())
        .collect::<Vec<_>>();
    bank.verify(&own);
}
