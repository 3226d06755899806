//! Cold pages stay full when what a load has left in the hot tier goes down while others read and update:
//! how full they are, how long the data file is, and that it costs no page reads or writes. What is hot comes
//! up soon, after a load and when it has moved elsewhere. All of it is counted, by one thread.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use crate::common::{BTree, HashTable, Method, Rng, Rows, checkpoint, new_context, two_tiers};
use terrace_pages::{Pace, StoreStats};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

const RECORDS: u64 = 60_000;
const PAGE_BYTES: u64 = 4096;
const USER_BYTES: u64 = 8 + 120;
/// Four tenths of the bytes of keys and values.
const MEMORY: u64 = RECORDS * USER_BYTES * 4 / 10;

struct Zipf {
    sums: Vec<f64>,
}

impl Zipf {
    fn new(records: u64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=records)
            .map(|rank| {
                sum += (rank as f64).powf(-0.9);
                sum
            })
            .collect();
        Zipf { sums }
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let all = self.sums[self.sums.len() - 1];
        let at = (rng.next() >> 11) as f64 / (1u64 << 53) as f64 * all;
        self.sums.partition_point(|sum| *sum <= at) as u64
    }
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// What was counted until a phase ended, for each of its operations.
struct Figures {
    reads: f64,
    writes: f64,
    /// Stored bytes of all records over those of the cold pages.
    fill: f64,
    /// Bytes of the data file over those of keys and values.
    file: f64,
}

struct Run<M: Method> {
    context: Arc<TierContext>,
    of: Arc<crate::common::Two<M>>,
    zipf: Zipf,
    rng: Rng,
    ops: u64,
    value: &'static [u8],
}

impl<M: Method> Run<M> {
    fn new() -> Self {
        Self::with(MEMORY, &[7; 120])
    }

    fn with(memory: u64, value: &'static [u8]) -> Self {
        let context = new_context(&SimDisk::new(9), memory, PAGE_BYTES as usize);
        context.seed(7);
        let of = two_tiers::<M>(&context, &TierOptions::default());
        Run {
            context,
            of,
            zipf: Zipf::new(RECORDS),
            rng: Rng(5),
            ops: 0,
            value,
        }
    }

    /// What the threads in the background do.
    fn tend(&mut self) {
        self.ops += 1;
        if self.ops.is_multiple_of(16) {
            self.context.tend().unwrap();
            if self.context.store.wants_checkpoint() {
                checkpoint(&self.context.store);
                self.context.store.relocate_some().unwrap();
            }
        }
    }

    fn put(&self, i: u64) {
        let put = Change::Put(self.value);
        self.of.write(&key(i), put, None, &mut || ()).unwrap();
    }

    fn counted(&mut self, stored: u64, phase: impl FnOnce(&mut Self)) -> Figures {
        let (before, ops) = (self.context.store.stats(), self.ops);
        phase(self);
        let now = self.context.store.stats();
        let each = |now: u64, before: u64| (now - before) as f64 / (self.ops - ops) as f64;
        let cold = now.live_pages - now.hot_frames;
        Figures {
            reads: each(now.page_reads, before.page_reads),
            writes: each(now.page_writes, before.page_writes),
            fill: (RECORDS * stored) as f64 / (cold * PAGE_BYTES) as f64,
            file: (now.slots.total * PAGE_BYTES) as f64 / (RECORDS * USER_BYTES) as f64,
        }
    }

    /// All records, in any order, and a checkpoint.
    fn load(&mut self) {
        for i in 0..RECORDS {
            self.put(i);
            self.tend();
        }
        checkpoint(&self.context.store);
    }

    /// Four times as many reads as there are records, with an update after some.
    fn use_them(&mut self, update: impl Fn(u64) -> bool) {
        let mut value = Vec::new();
        for n in 0..4 * RECORDS {
            let i = self.zipf.draw(&mut self.rng);
            assert!(self.of.get(&key(i), &mut value).unwrap());
            if update(n) {
                self.put(i);
            }
            self.tend();
        }
    }
}

/// Loads, reads until nothing new goes down, reads and updates.
fn phases<M: Method>(name: &str, stored: u64) -> [Figures; 4] {
    let mut run = Run::<M>::new();
    let phases = [
        run.counted(stored, Run::load),
        run.counted(stored, |run| run.use_them(|_| false)),
        run.counted(stored, |run| run.use_them(|_| false)),
        run.counted(stored, |run| run.use_them(|n| n % 2 == 0)),
    ];
    for (f, phase) in phases.iter().zip(["load", "C", "C", "F"]) {
        eprintln!(
            "{name} {phase}: fill {:.3}, file {:.2}, reads {:.4}, writes {:.4}",
            f.fill, f.file, f.reads, f.writes
        );
    }
    phases
}

#[test]
fn of_a_tree() {
    // Slot, two lengths, what a key does not have in common with its neighbours, and the value.
    let [load, _, c, f] = phases::<BTree>("tree", 4 + 2 + 2 + 7 + 120);
    // Split in two, cold leaves came to 0.66 and 0.76, and the file to 2.94 and 3.13.
    assert!(c.fill > 0.80 && f.fill > 0.84, "{} {}", c.fill, f.fill);
    assert!(c.file < 2.75 && f.file < 2.95, "{} {}", c.file, f.file);
    // They wrote 0.0719 pages for each put, read 0.2087 under C and moved 0.2635 under F.
    assert!(load.writes < 0.0719 * 1.05, "{}", load.writes);
    assert!(c.reads < 0.2087 * 1.05, "{}", c.reads);
    assert!(f.reads + f.writes < 0.2635 * 1.05);
}

#[test]
fn of_a_hash_table() {
    let [load, _, c, f] = phases::<HashTable>("hash table", 4 + 2 + 2 + 8 + 120);
    // Split in two, buckets came to 0.69 and 0.68, and the file to 2.94 and 3.32.
    assert!(c.fill > 0.76 && f.fill > 0.78, "{} {}", c.fill, f.fill);
    assert!(c.file < 2.90 && f.file < 3.20, "{} {}", c.file, f.file);
    assert!(load.writes < 0.0657 * 1.05, "{}", load.writes);
    assert!(c.reads < 0.2180 * 1.05, "{}", c.reads);
    assert!(f.reads + f.writes < 0.2927 * 1.05);
}

/// Reads a tenth as often as there are records, which of them `which` says.
fn read_some<M: Method>(run: &mut Run<M>, mut which: impl FnMut(&mut Run<M>) -> u64) -> StoreStats {
    let before = run.context.store.stats();
    let mut value = Vec::new();
    for _ in 0..SOME {
        let i = which(run);
        assert!(run.of.get(&key(i), &mut value).unwrap());
        run.tend();
    }
    let now = run.context.store.stats();
    StoreStats {
        page_reads: now.page_reads - before.page_reads,
        demotion_reads: now.demotion_reads - before.demotion_reads,
        ageing_reads: now.ageing_reads - before.ageing_reads,
        page_writes: now.page_writes - before.page_writes,
        ..now
    }
}

const SOME: u64 = RECORDS / 10;

/// For each read.
fn each(count: u64) -> f64 {
    count as f64 / SOME as f64
}

/// What a load has left dirty goes down while others read: what that reads and writes for itself.
fn first_reads<M: Method>() {
    let mut run = Run::<M>::new();
    run.load();
    let parts: Vec<_> = (0..10)
        .map(|_| read_some(&mut run, |run| run.zipf.draw(&mut run.rng)))
        .collect();
    for part in &parts {
        let own = part.demotion_reads + part.ageing_reads;
        eprintln!(
            "for callers {:.3}, itself {:.3}, written {:.3}",
            each(part.page_reads - own),
            each(own),
            each(part.page_writes)
        );
    }
    let own = |part: &StoreStats| each(part.demotion_reads + part.ageing_reads);
    // A third of what callers read at first, and soon hardly anything.
    assert!(own(&parts[0]) < 0.25 && each(parts[0].page_writes) < 0.4);
    assert!(own(&parts[1]) < 0.10 && each(parts[1].page_writes) < 0.18);
    assert!(parts[4..].iter().all(|part| own(part) < 0.03));
    // Meanwhile what is hot comes up.
    let all: Vec<f64> = parts.iter().map(|part| each(part.page_reads)).collect();
    assert!(all[1] < 0.52 && all[4] < 0.36 && all[9] < 0.30, "{all:.3?}");
}

#[test]
fn after_a_load_a_disk_is_soon_there_for_reads_alone() {
    first_reads::<BTree>();
    first_reads::<HashTable>();
}

/// A structure that has been read until nothing changes any more, and page reads for each read then.
fn settled<M: Method>() -> (Run<M>, f64) {
    let mut run = Run::<M>::new();
    run.load();
    for _ in 0..8 {
        run.use_them(|_| false);
    }
    let steady: u64 = (0..10)
        .map(|_| read_some(&mut run, |run| run.zipf.draw(&mut run.rng)).page_reads)
        .sum();
    (run, each(steady) / 10.0)
}

fn moved<M: Method>() {
    let (mut run, steady) = settled::<M>();
    let parts: Vec<f64> = (0..30)
        .map(|_| {
            let read = read_some(&mut run, |run| {
                (run.zipf.draw(&mut run.rng) + RECORDS / 2) % RECORDS * 7919 % RECORDS
            });
            each(read.page_reads)
        })
        .collect();
    eprintln!("steady {steady:.3}, moved {parts:.3?}");
    // When what was hot was forgotten by and by it took 60 tenths to come to 1.25 times the steady state.
    assert!(parts[8] < 1.7 * steady, "{parts:.3?}");
    let late = parts[20..].iter().sum::<f64>() / 10.0;
    assert!(late < 1.25 * steady, "{late:.3} of {steady:.3}");
}

#[test]
fn a_hot_set_that_moves_is_followed_at_once() {
    moved::<BTree>();
    moved::<HashTable>();
}

fn once<M: Method>() {
    let (mut run, steady) = settled::<M>();
    let mut next = 0;
    for _ in 0..RECORDS / SOME {
        read_some(&mut run, |_| {
            next += 1;
            next * 7919 % RECORDS
        });
    }
    let after: Vec<f64> = (0..5)
        .map(|_| each(read_some(&mut run, |run| run.zipf.draw(&mut run.rng)).page_reads))
        .collect();
    eprintln!("steady {steady:.3}, after all were read once {after:.3?}");
    assert!(after[0] < 1.15 * steady, "{after:.3?} of {steady:.3}");
}

#[test]
fn who_reads_everything_once_lets_nothing_be_forgotten() {
    once::<BTree>();
    once::<HashTable>();
}

#[test]
fn of_a_heap() {
    // The row with its slot, and the record of the index: slot, two lengths, key, and location.
    let [_, _, c, f] = phases::<Rows>("rows", 4 + 4 + 8 + 120 + 4 + 2 + 2 + 7 + 7);
    assert!(c.fill > 0.90 && f.fill > 0.90, "{} {}", c.fill, f.fill);
}

/// Hot pages during a checkpoint that is made while others read, of those before it, and the most bytes that were
/// held at once for what is saved for it.
fn hot_pages_kept(pace: for<'a> fn(&'a dyn Fn() -> f64) -> Pace<'a>) -> (f64, u64) {
    let memory = RECORDS * 800 * 4 / 10;
    let mut run = Run::<BTree>::with(memory, &[7; 800]);
    run.load();
    run.use_them(|_| false);
    let store = run.context.store.clone();
    // Hot pages make room, little by little, for what is lent without a checkpoint.
    loop {
        let before = store.hot_cap();
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(20));
            store.rebalance();
        }
        if store.hot_cap() == before {
            break;
        }
    }
    while store.hot_frames() > store.hot_cap() {
        run.of.sweep_once().unwrap();
    }
    let before = store.hot_frames();
    let (run, most, least) = (RefCell::new(run), Cell::new(0), Cell::new(before));
    let meanwhile = || {
        let run = &mut *run.borrow_mut();
        let mut value = Vec::new();
        for _ in 0..20 {
            // Others become hot, so that there is much to be moved up.
            let i = RECORDS - 1 - run.zipf.draw(&mut run.rng);
            assert!(run.of.get(&key(i), &mut value).unwrap());
            store.rebalance();
            // Who makes room where all is saved that may be waits for the checkpoint, and that would wait for us.
            if store.stats().undo_bytes < memory / 32 {
                run.context.tend().unwrap();
            }
        }
        let stats = store.stats();
        most.set(most.get().max(stats.undo_bytes));
        least.set(least.get().min(stats.hot_frames));
        // Without a pause: nothing here goes by the clock.
        0.95
    };
    let mut info = crate::common::cut;
    store.checkpoint(pace(&meanwhile), &mut info).unwrap();
    (least.get() as f64 / before as f64, most.get())
}

#[test]
fn a_sparing_checkpoint_takes_no_frames_from_hot_pages() {
    let (kept, saved) = hot_pages_kept(|known| Pace::Sparing(known));
    let (gentle_kept, gentle_saved) = hot_pages_kept(|known| Pace::Gentle(known));
    eprintln!("sparing: {kept:.3}, {saved} bytes; gentle: {gentle_kept:.3}, {gentle_saved} bytes");
    assert!(kept > 0.99, "{kept}");
    assert!(gentle_kept < 0.975, "{gentle_kept}");
    assert!(saved * 4 < gentle_saved, "{saved} {gentle_saved}");
}
