//! Workloads as the paper's: a warm-up, then as many operations, counted one by one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_pm::pm::{Count, Counts, Delay, Heap, Pm};
use terrace_pm::{Durability, Options, PmMap, Result};

use crate::rivals::{Name, Rival};

/// What is done after the warm-up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// New keys, anywhere.
    Insert,
    /// New keys, four fifths of them in a fifth of the space.
    InsertSkewed,
    /// New values for keys by Zipf .99.
    Update,
    /// Gets of keys that are there.
    Search,
    /// Inserts and gets in turns.
    Mix,
    /// A hundred pairs from a key on.
    Range,
    /// Keys that rise.
    Rise,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 7] = [
        Work::Insert,
        Work::InsertSkewed,
        Work::Update,
        Work::Search,
        Work::Mix,
        Work::Range,
        Work::Rise,
    ];

    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Work::Insert => "insert",
            Work::InsertSkewed => "insert-skewed",
            Work::Update => "update",
            Work::Search => "search",
            Work::Mix => "mix",
            Work::Range => "range",
            Work::Rise => "rise",
        }
    }
}

/// A stream of random numbers, the same each time.
pub struct Random(pub u64);

impl Random {
    /// The next one.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// The key of a number: a permutation, so that warm-up keys are all different.
pub fn key_of(number: u64) -> u64 {
    let mut x = number.wrapping_add(1);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Ranks by Zipf, as YCSB draws them.
pub struct Zipf {
    n: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    /// Of `n` ranks.
    pub fn new(n: u64) -> Zipf {
        let zeta = |n: u64| (1..=n).map(|i| (i as f64).powf(-Self::THETA)).sum::<f64>();
        let all = zeta(n);
        Zipf {
            n: n as f64,
            zeta: all,
            alpha: 1.0 / (1.0 - Self::THETA),
            eta: (1.0 - (2.0 / n as f64).powf(1.0 - Self::THETA)) / (1.0 - zeta(2) / all),
        }
    }

    /// A rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let u = (random.draw() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(Self::THETA) {
            return 1;
        }
        (self.n * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64 % self.n as u64
    }
}

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Pairs before, and operations after.
    pub records: u64,
    /// Bytes of ordinary memory for each pair at the end, for the elastic map.
    pub bytes_per_key: f64,
    /// Fences take so long: next to the last line, elsewhere.
    pub fences: Option<(Duration, Duration)>,
}

/// What came of a run.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Which structure.
    pub name: Name,
    /// Which work.
    pub work: Work,
    /// Operations.
    pub ops: u64,
    /// What was counted.
    pub counts: Counts,
    /// Pairs that went into a leaf with each write of it.
    pub pairs_per_leaf_write: f64,
    /// Bytes of ordinary memory for each key.
    pub dram_bytes_per_key: f64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Of single operations: 99.99 in 100 have no more fences, lines than this; the most lines of one.
    pub p9999_fences: u64,
    /// Lines.
    pub p9999_lines: u64,
    /// The most lines of one operation.
    pub most_lines: u64,
    /// Seconds of the clock; of no worth but beside others of the same run.
    pub seconds: f64,
}

impl Outcome {
    fn per_op(&self, count: u64) -> f64 {
        count as f64 / self.ops.max(1) as f64
    }

    /// Fences an operation.
    pub fn fences(&self) -> f64 {
        self.per_op(self.counts.fences)
    }

    /// Lines an operation.
    pub fn lines(&self) -> f64 {
        self.per_op(self.counts.lines)
    }

    /// Units of 256 bytes an operation.
    pub fn units(&self) -> f64 {
        self.per_op(self.counts.units)
    }

    /// Leaf lines read an operation.
    pub fn read(&self) -> f64 {
        self.per_op(self.counts.read)
    }

    /// One JSON object.
    pub fn json(&self) -> String {
        format!(
            "{{\"structure\":\"{}\",\"work\":\"{}\",\"ops\":{},\"fences_per_op\":{:.4},\"lines_per_op\":{:.4},\"units_256_per_op\":{:.4},\"leaf_lines_read_per_op\":{:.4},\"pairs_per_leaf_write\":{:.3},\"dram_bytes_per_key\":{:.3},\"log_bytes\":{},\"p9999_fences\":{},\"p9999_lines\":{},\"most_lines\":{},\"seconds\":{:.4},\"ops_per_second\":{:.0}}}",
            self.name.name(),
            self.work.name(),
            self.ops,
            self.fences(),
            self.lines(),
            self.units(),
            self.read(),
            self.pairs_per_leaf_write,
            self.dram_bytes_per_key,
            self.log_bytes,
            self.p9999_fences,
            self.p9999_lines,
            self.most_lines,
            self.seconds,
            self.ops as f64 / self.seconds.max(1e-9),
        )
    }
}

/// A table of outcomes.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "work           structure   fences  lines  units  read  pairs/leaf  DRAM/key  log KiB  p99.99 f/l  max l    ops/s\n",
    );
    for o in outcomes {
        text.push_str(&format!(
            "{:<14} {:<10} {:>7.2} {:>6.2} {:>6.2} {:>5.2} {:>11.2} {:>9.2} {:>8} {:>6}/{:<4} {:>6} {:>8.0}\n",
            o.work.name(),
            o.name.name(),
            o.fences(),
            o.lines(),
            o.units(),
            o.read(),
            o.pairs_per_leaf_write,
            o.dram_bytes_per_key,
            o.log_bytes >> 10,
            o.p9999_fences,
            o.p9999_lines,
            o.most_lines,
            o.ops as f64 / o.seconds.max(1e-9),
        ));
    }
    text
}

/// Bytes of memory for so many pairs in any of the structures.
fn capacity(records: u64) -> u64 {
    (records * 2 * 120 + (64 << 20)).next_multiple_of(2 << 20)
}

/// Warms up and runs.
pub fn run(plan: &Plan, name: Name, work: Work) -> Result<Outcome> {
    let heap = Heap::new(capacity(plan.records));
    let counted: Arc<Count<Box<dyn Pm>>>;
    let below: Box<dyn Pm> = match plan.fences {
        Some((next, far)) => Box::new(Delay::new(heap, next, far)),
        None => Box::new(heap),
    };
    counted = Arc::new(Count::new(below));
    let keys = match work {
        Work::Insert | Work::InsertSkewed | Work::Rise => plan.records * 2,
        Work::Mix => plan.records + plan.records / 2,
        _ => plan.records,
    };
    let memory = (keys as f64 * plan.bytes_per_key) as u64;
    let mut rival = name.make(counted.clone(), memory)?;
    for i in 0..plan.records {
        let key = if work == Work::Rise { i } else { key_of(i) };
        rival.put(key, i)?;
    }
    rival.reset();
    counted.reset();
    let mut random = Random(88172645463325252);
    let zipf = (work == Work::Update).then(|| Zipf::new(plan.records));
    // One byte a histogram's place: operations by their fences and lines.
    let mut by_fences = vec![0u64; 64];
    let mut by_lines = vec![0u64; 4096];
    let mut most_lines = 0;
    let mut last = counted.counts();
    let began = Instant::now();
    for i in 0..plan.records {
        operate(
            &mut *rival,
            work,
            i,
            plan.records,
            &mut random,
            zipf.as_ref(),
        )?;
        let now = counted.counts();
        let lines = now.lines - last.lines;
        by_fences[((now.fences - last.fences) as usize).min(63)] += 1;
        by_lines[(lines as usize).min(4095)] += 1;
        most_lines = most_lines.max(lines);
        last = now;
    }
    let seconds = began.elapsed().as_secs_f64();
    let (pairs, writes) = rival.leaf_writes();
    Ok(Outcome {
        name,
        work,
        ops: plan.records,
        counts: last,
        pairs_per_leaf_write: pairs as f64 / writes.max(1) as f64,
        dram_bytes_per_key: rival.dram() as f64 / keys as f64,
        log_bytes: rival.log(),
        p9999_fences: quantile(&by_fences, plan.records),
        p9999_lines: quantile(&by_lines, plan.records),
        most_lines,
        seconds,
    })
}

fn quantile(histogram: &[u64], all: u64) -> u64 {
    let beyond = all / 10_000;
    let mut seen = 0;
    for (value, count) in histogram.iter().enumerate().rev() {
        seen += count;
        if seen > beyond {
            return value as u64;
        }
    }
    0
}

fn operate(
    rival: &mut dyn Rival,
    work: Work,
    i: u64,
    records: u64,
    random: &mut Random,
    zipf: Option<&Zipf>,
) -> Result<()> {
    match work {
        Work::Insert => rival.put(random.draw(), i),
        Work::InsertSkewed => {
            let fifth = u64::MAX / 5;
            let key = random.draw();
            let hot = random.draw() % 100 < 80;
            rival.put(
                if hot {
                    key % fifth
                } else {
                    fifth + key % (u64::MAX - fifth)
                },
                i,
            )
        }
        Work::Update => {
            let rank = zipf.map_or(0, |zipf| zipf.draw(random));
            rival.put(key_of(rank), i)
        }
        Work::Search => rival.get(key_of(random.draw() % records)).map(|_| ()),
        Work::Mix if i.is_multiple_of(2) => rival.put(random.draw(), i),
        Work::Mix => rival.get(key_of(random.draw() % records)).map(|_| ()),
        Work::Range => rival.range(random.draw(), 100).map(|_| ()),
        Work::Rise => rival.put(records + i, i),
    }
}

/// How long it takes to open a map of so many keys whose log holds what is buffered: keys, records replayed,
/// seconds.
pub fn recovery(records: u64, bytes_per_key: f64, threads: usize) -> Result<(u64, u64, f64)> {
    let heap = Arc::new(Heap::new(capacity(records)));
    let memory = (records as f64 * bytes_per_key) as u64 + (64 << 10);
    let options = Options::new()
        .memory(memory)
        .capacity(heap.capacity())
        .threads(threads)
        .durability(Durability::Sync);
    let map = PmMap::<u64, u64>::open_on(heap.clone(), options.clone())?;
    for i in 0..records {
        map.put(key_of(i), i)?;
    }
    map.crash();
    let began = Instant::now();
    let map = PmMap::<u64, u64>::open_on(heap, options)?;
    let seconds = began.elapsed().as_secs_f64();
    Ok((records, map.stats().replayed, seconds))
}
