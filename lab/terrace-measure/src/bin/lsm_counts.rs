//! What an LSM-tree below a hot tier reads and writes, by counts that do not depend on the machine: one thread,
//! a simulated disk, no clock.
//!
//! Loads records of 8 and 120 bytes in random order, then half reads and half read-modify-writes with exact Zipf
//! 0.9, then uniform updates, then scans of up to 100 records and nothing else. Prints a line for each part.
//!
//! ```sh
//! cargo run --release -p terrace-measure --bin lsm_counts -- 500000 764     # records, frames of 8 KiB
//! ```

use std::sync::Arc;

use terrace_access::Window;
use terrace_base::checksum::mix;
use terrace_base::{PageId, Result, StructureId};
use terrace_methods::{BTree, Lsm};
use terrace_pages::{CheckpointMeta, Pace, PageStore, Retry, StoreOptions};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions, Tiered};

type Tree = Tiered<BTree, Lsm>;

const PAGE: usize = 8192;
const VALUE: [u8; 120] = [7; 120];
const RECORD: u64 = 128;
/// Operations between two rounds of what threads in the background do elsewhere.
const PER_ROUND: u64 = 20;
/// Operations of which it is counted how much was merged beside them.
const PER_WINDOW: u64 = 2000;
/// Operations between two checkpoints, in parts of the records.
const PER_CHECKPOINT: f64 = 0.4;

struct Bed {
    context: Arc<TierContext>,
    tree: Arc<Tree>,
    records: u64,
    /// How many of the accesses go to this record and those before it.
    shares: Vec<f64>,
    drawn: u64,
    done: u64,
    /// Pages that were merged beside each of some operations.
    merged: Vec<u64>,
    /// The sum of all, and the changes that waited for a step.
    sums: (u64, u64),
}

fn cut() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 0,
        unlogged_from: 0,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

fn key(record: u64) -> [u8; 8] {
    mix(record, 11).to_be_bytes()
}

impl Bed {
    fn new(records: u64, frames: u64) -> Result<Bed> {
        let options = StoreOptions {
            page_bytes: PAGE,
            ..StoreOptions::new(frames * PAGE as u64)
        };
        let store = PageStore::create(SimDisk::new(1).shared(), options, 7, &cut())?;
        let context = TierContext::new(Arc::new(store), 1 << 14);
        context.seed(3);
        let tree = loop {
            let door = context.store.enter()?;
            let made = Tree::create(&context, StructureId(1), &door, TierOptions::default());
            drop(door);
            match made {
                Ok(tree) => break tree,
                Err(Retry::Fail(e)) => return Err(e),
                Err(interrupt) => context.store.settle(interrupt)?,
            }
        };
        let mut sum = 0.0;
        let weights = (0..records).map(|rank| 1.0 / ((rank + 1) as f64).powf(0.9));
        let shares = weights.map(|weight| {
            sum += weight;
            sum
        });
        Ok(Bed {
            shares: shares.collect(),
            context,
            tree,
            records,
            drawn: 0,
            done: 0,
            merged: Vec::new(),
            sums: (0, 0),
        })
    }

    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        mix(self.drawn, 5)
    }

    fn zipf(&mut self) -> u64 {
        let all = self.shares.last().copied().unwrap_or(1.0);
        let at = (self.draw() >> 11) as f64 / (1u64 << 53) as f64 * all;
        self.shares.partition_point(|share| *share < at) as u64
    }

    fn round(&mut self) -> Result<()> {
        self.done += 1;
        if self.done.is_multiple_of(PER_ROUND) {
            self.context.tend()?;
        }
        if self.done.is_multiple_of(PER_WINDOW) {
            let figures = self.tree.merge_figures().unwrap_or_default();
            let pages = figures.merge_bytes / PAGE as u64;
            self.merged.push(pages - self.sums.0);
            self.sums = (pages, figures.waits);
        }
        let per_checkpoint = (PER_CHECKPOINT * self.records as f64) as u64;
        if self.done.is_multiple_of(per_checkpoint.max(1)) {
            self.context.store.checkpoint(Pace::Fast, &mut cut)?;
        }
        Ok(())
    }

    fn put(&mut self, record: u64) -> Result<()> {
        let key = key(record);
        self.tree
            .write(&key, Change::Put(&VALUE), None, &mut || ())?;
        self.round()
    }

    fn get(&mut self, record: u64) -> Result<()> {
        let mut value = Vec::new();
        assert!(self.tree.get(&key(record), &mut value)?);
        self.round()
    }

    /// A scan of some records from anywhere on.
    fn scan(&mut self) -> Result<()> {
        let (mut low, most) = (self.draw().to_be_bytes().to_vec(), self.draw() % 100 + 1);
        let mut window = Window::new();
        let mut left = most as usize;
        while left > 0 {
            window.set_limit(left);
            self.tree.scan_up(&low, &mut window)?;
            left = left.saturating_sub(window.len());
            match window.high.take() {
                Some(high) => low = high,
                None => break,
            }
        }
        self.round()
    }

    /// Does something this many times, and says what that took.
    fn part(
        &mut self,
        name: &str,
        times: u64,
        mut f: impl FnMut(&mut Bed) -> Result<u64>,
    ) -> Result<f64> {
        let before = self.context.store.stats();
        let merged = self.tree.merge_figures().unwrap_or_default();
        let hot = self.tree.stats();
        let waited = self.sums.1;
        self.merged.clear();
        let mut written = 0;
        for _ in 0..times {
            written += f(self)?;
        }
        let now = self.context.store.stats();
        let figures = self.tree.merge_figures().unwrap_or_default();
        let each = |n: u64| n as f64 / times as f64;
        let of_user = |n: u64| n as f64 / (written * RECORD).max(1) as f64;
        let (reads, writes) = (
            now.page_reads - before.page_reads,
            now.page_writes - before.page_writes,
        );
        let bytes = writes * PAGE as u64 + now.map_bytes - before.map_bytes;
        let live = (now.live_pages - now.hot_frames) * PAGE as u64;
        let levels: Vec<u64> = figures.levels.iter().map(|level| level.pages).collect();
        let stats = self.tree.stats();
        let hits = (stats.hot_hits - hot.hot_hits) as f64
            / (stats.hot_hits + stats.cold_hits + stats.misses
                - hot.hot_hits
                - hot.cold_hits
                - hot.misses)
                .max(1) as f64;
        println!(
            "{name}: {:.3} reads + {:.3} writes = {:.3} an operation, {:.2} written and {:.2} merged for each byte of a user, \
             {:.2} came down, {hits:.3} hot, {:.3} live, steps {}, levels {levels:?}",
            each(reads),
            each(writes),
            each(reads + writes),
            of_user(bytes),
            of_user(figures.merge_bytes - merged.merge_bytes),
            of_user(figures.arrived_bytes - merged.arrived_bytes),
            live as f64 / (self.records * RECORD) as f64,
            figures.steps - merged.steps,
        );
        let (most, all) = (self.merged.iter().max(), self.merged.iter().sum::<u64>());
        let most = *most.unwrap_or(&0) as f64 * self.merged.len() as f64;
        println!(
            "    pages merged beside {PER_WINDOW} operations, the most over the mean: {:.2}; changes that waited for a step: {}",
            most / all.max(1) as f64,
            figures.waits - waited,
        );
        Ok(each(reads))
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|a| a.parse::<u64>().expect("a number"));
    let records = arguments.next().unwrap_or(100_000);
    let frames = arguments.next().unwrap_or(records / 655);
    let mut bed = Bed::new(records, frames)?;
    // Not in the order of ranks: hot records would be loaded together.
    let mut order: Vec<u64> = (0..records).collect();
    order.sort_unstable_by_key(|record| mix(*record, 77));
    let mut next = order.into_iter();
    bed.part("load", records, |bed| {
        let record = next.next().unwrap_or(0);
        bed.put(record)?;
        Ok(1)
    })?;
    let half = |bed: &mut Bed| {
        let record = bed.zipf();
        bed.get(record)?;
        if bed.draw().is_multiple_of(2) {
            bed.put(record)?;
            return Ok(1);
        }
        Ok(0)
    };
    bed.part("F, warming up", 2 * records, half)?;
    bed.part("F", records, half)?;
    bed.part("uniform updates", 2 * records, |bed| {
        let record = bed.draw() % bed.records;
        bed.put(record)?;
        Ok(1)
    })?;
    // A scan reads a page or two: this is a few for each page.
    let scans = records / 50;
    for name in ["scans", "scans, then", "scans, then", "scans, then"] {
        bed.part(name, scans, |bed| bed.scan().map(|()| 0))?;
    }
    let mut from = Some(Vec::new());
    while let Some(next) = from {
        from = bed.tree.compact_step(&next, 1.0)?;
    }
    bed.part("scans of one packed level", scans, |bed| {
        bed.scan().map(|()| 0)
    })?;
    Ok(())
}
