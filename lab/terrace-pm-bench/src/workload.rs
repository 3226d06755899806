//! Workloads as the paper's: a warm-up, then as many operations, counted one by one.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use terrace_pm::pm::{Count, Counts, Delay, Heap, Pm};
use terrace_pm::{Durability, Error, Options, PmMap, Result};

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
    /// New keys, 32 with one call.
    Batch,
    /// New values for keys by Zipf .99, 32 with one call.
    BatchUpdate,
    /// Gets of keys that are there.
    Search,
    /// Inserts and gets in turns.
    Mix,
    /// An insert, then two gets.
    MixOneTwo,
    /// Four inserts, then a get.
    MixFourOne,
    /// A hundred pairs from a key on.
    Range,
    /// Keys that rise.
    Rise,
}

impl Work {
    /// All of them.
    pub const ALL: [Work; 11] = [
        Work::Insert,
        Work::InsertSkewed,
        Work::Update,
        Work::Batch,
        Work::BatchUpdate,
        Work::Search,
        Work::Mix,
        Work::MixOneTwo,
        Work::MixFourOne,
        Work::Range,
        Work::Rise,
    ];

    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Work::Insert => "insert",
            Work::InsertSkewed => "insert-skewed",
            Work::Update => "update",
            Work::Batch => "batch",
            Work::BatchUpdate => "batch-update",
            Work::Search => "search",
            Work::Mix => "mix",
            Work::MixOneTwo => "mix-1-2",
            Work::MixFourOne => "mix-80-20",
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
    /// Fences take so long: next to the last line, elsewhere. Where both take no time, nothing but the
    /// structure itself is left, for a profiler to count.
    pub fences: Option<(Duration, Duration)>,
    /// In the paper's mode, whether nodes always split in two, not in more when they are hot.
    pub is_hotness_off: bool,
}

/// Pairs of a batch.
const BATCH: u64 = 32;

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
    /// Seconds of the processor, waiting for fences included; of no worth but beside others of the same run.
    pub seconds: f64,
    /// How much longer it took than the first one of those that took turns.
    pub ratio: f64,
    /// Whether fences, lines and reads were counted; who is timed is not.
    pub is_counted: bool,
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
            "{{\"structure\":\"{}\",\"work\":\"{}\",\"ops\":{},\"fences_per_op\":{:.4},\"lines_per_op\":{:.4},\"units_256_per_op\":{:.4},\"leaf_lines_read_per_op\":{:.4},\"pairs_per_leaf_write\":{:.3},\"dram_bytes_per_key\":{:.3},\"log_bytes\":{},\"p9999_fences\":{},\"p9999_lines\":{},\"most_lines\":{},\"seconds\":{:.4},\"ops_per_second\":{:.0},\"times_as_long_as_the_first\":{:.3}}}",
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
            self.ratio,
        )
    }
}

/// A table of outcomes.
pub fn table(outcomes: &[Outcome]) -> String {
    let mut text = String::from(
        "work           structure   fences  lines  units  read  pairs/leaf  DRAM/key  log KiB  p99.99 f/l  max l    ops/s  as long\n",
    );
    for o in outcomes {
        let counted = |shown: String| {
            if o.is_counted { shown } else { "-".to_owned() }
        };
        text.push_str(&format!(
            "{:<14} {:<10} {:>7} {:>6} {:>6} {:>5} {:>11.2} {:>9.2} {:>8} {:>11} {:>6} {:>8.0} {:>8.2}\n",
            o.work.name(),
            o.name.name(),
            counted(format!("{:.2}", o.fences())),
            counted(format!("{:.2}", o.lines())),
            counted(format!("{:.2}", o.units())),
            counted(format!("{:.2}", o.read())),
            o.pairs_per_leaf_write,
            o.dram_bytes_per_key,
            o.log_bytes >> 10,
            counted(format!("{}/{}", o.p9999_fences, o.p9999_lines)),
            counted(format!("{}", o.most_lines)),
            o.ops as f64 / o.seconds.max(1e-9),
            o.ratio,
        ));
    }
    text
}

/// Bytes of memory for this many pairs in any of the structures.
fn capacity(records: u64) -> u64 {
    (records * 2 * 120 + (64 << 20)).next_multiple_of(2 << 20)
}

/// A structure that is being measured.
struct Course {
    name: Name,
    work: Work,
    records: u64,
    keys: u64,
    rival: Box<dyn Rival>,
    /// Who is timed is not counted: counting takes time for each line.
    counted: Option<Arc<Count<Heap>>>,
    random: Random,
    zipf: Option<Zipf>,
    /// Operations so far.
    done: u64,
    /// Of operations, by their fences and by their lines.
    by_fences: Vec<u64>,
    by_lines: Vec<u64>,
    most_lines: u64,
    /// Seconds of the processor in each turn.
    turns: Vec<f64>,
}

impl Course {
    /// Makes it and warms it up.
    fn new(plan: &Plan, name: Name, work: Work) -> Result<Course> {
        let heap = Heap::new(capacity(plan.records))?;
        let mut counted = None;
        let pm: Arc<dyn Pm> = match plan.fences {
            Some((Duration::ZERO, Duration::ZERO)) => Arc::new(heap),
            Some((next, far)) => Arc::new(Delay::new(heap, next, far)),
            None => counted.insert(Arc::new(Count::new(heap))).clone(),
        };
        if plan.records == 0 {
            return Err(Error::invalid("a run needs at least one record"));
        }
        let keys = match work {
            Work::Insert | Work::InsertSkewed | Work::Batch | Work::Rise => plan.records * 2,
            Work::Mix => plan.records + plan.records / 2,
            Work::MixOneTwo => plan.records + plan.records / 3,
            Work::MixFourOne => plan.records + plan.records / 5 * 4,
            _ => plan.records,
        };
        let memory = (keys as f64 * plan.bytes_per_key) as u64;
        let mut rival = name.make(pm, memory, !plan.is_hotness_off)?;
        for i in 0..plan.records {
            let key = if work == Work::Rise { i } else { key_of(i) };
            rival.put(key, i)?;
        }
        rival.reset();
        if let Some(counted) = &counted {
            counted.reset();
        }
        Ok(Course {
            name,
            work,
            records: plan.records,
            keys,
            rival,
            counted,
            random: Random(88172645463325252),
            zipf: matches!(work, Work::Update | Work::BatchUpdate).then(|| Zipf::new(plan.records)),
            done: 0,
            by_fences: vec![0; 64],
            by_lines: vec![0; 4096],
            most_lines: 0,
            turns: Vec::new(),
        })
    }

    /// The next this many operations. Profilers count what is done in here, so it stays a function.
    #[inline(never)]
    fn turn(&mut self, operations: u64) -> Result<()> {
        let mut last = self.counts();
        let began = spent();
        let mut left = operations;
        while left > 0 {
            let many = if matches!(self.work, Work::Batch | Work::BatchUpdate) {
                left.min(BATCH)
            } else {
                1
            };
            left -= many;
            operate(
                &mut *self.rival,
                self.work,
                self.done,
                self.records,
                &mut self.random,
                self.zipf.as_ref(),
                many,
            )?;
            self.done += many;
            if self.counted.is_none() {
                continue;
            }
            let now = self.counts();
            let lines = now.lines - last.lines;
            self.by_fences[((now.fences - last.fences) as usize).min(63)] += 1;
            self.by_lines[(lines as usize).min(4095)] += 1;
            self.most_lines = self.most_lines.max(lines);
            last = now;
        }
        self.turns.push(spent() - began);
        Ok(())
    }

    fn counts(&self) -> Counts {
        let counted = self.counted.as_ref();
        counted.map_or_else(Counts::default, |counted| counted.counts())
    }

    fn outcome(&self) -> Outcome {
        let (pairs, writes) = self.rival.leaf_writes();
        Outcome {
            name: self.name,
            work: self.work,
            ops: self.done,
            counts: self.counts(),
            pairs_per_leaf_write: pairs as f64 / writes.max(1) as f64,
            dram_bytes_per_key: self.rival.dram() as f64 / self.keys as f64,
            log_bytes: self.rival.log(),
            p9999_fences: quantile(&self.by_fences, self.done),
            p9999_lines: quantile(&self.by_lines, self.done),
            most_lines: self.most_lines,
            seconds: self.turns.iter().sum(),
            ratio: 1.0,
            is_counted: self.counted.is_some(),
        }
    }
}

/// Warms up and runs.
pub fn run(plan: &Plan, name: Name, work: Work) -> Result<Outcome> {
    let mut course = Course::new(plan, name, work)?;
    course.turn(plan.records)?;
    Ok(course.outcome())
}

/// As [`run`], of several structures that take turns, so that what else the machine does meets all of them:
/// only so are times worth anything on a machine that is not quiet. The ratio of each is the median, over the
/// turns, of how much longer it took than the first one.
pub fn run_in_turns(plan: &Plan, names: &[Name], work: Work, turns: u64) -> Result<Vec<Outcome>> {
    let courses = names.iter().map(|name| Course::new(plan, *name, work));
    let mut courses: Vec<Course> = courses.collect::<Result<_>>()?;
    for _ in 0..turns {
        for course in &mut courses {
            course.turn((plan.records / turns).max(1))?;
        }
    }
    let Some(first) = courses.first().map(|course| course.turns.clone()) else {
        return Ok(Vec::new());
    };
    let outcomes = courses.iter().map(|course| {
        let ratios = course
            .turns
            .iter()
            .zip(&first)
            .map(|(own, first)| own / first);
        let mut ratios: Vec<f64> = ratios.collect();
        ratios.sort_by(f64::total_cmp);
        Outcome {
            ratio: ratios[ratios.len() / 2],
            ..course.outcome()
        }
    });
    Ok(outcomes.collect())
}

/// Seconds that this thread has had a processor, so that what else a machine does is counted as little as can
/// be; of the clock, where the kernel does not say it.
pub fn spent() -> f64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = told.split(' ').next().and_then(|n| n.parse::<u64>().ok());
    nanos.map_or_else(
        || BEGAN.get_or_init(Instant::now).elapsed().as_secs_f64(),
        |nanos| nanos as f64 / 1e9,
    )
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
    many: u64,
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
        Work::Batch => {
            let pairs: Vec<(u64, u64)> = (0..many).map(|n| (random.draw(), i + n)).collect();
            rival.put_all(&pairs)
        }
        Work::BatchUpdate => {
            let mut key = || key_of(zipf.map_or(0, |zipf| zipf.draw(random)));
            let pairs: Vec<(u64, u64)> = (0..many).map(|n| (key(), i + n)).collect();
            rival.put_all(&pairs)
        }
        Work::Mix if i.is_multiple_of(2) => rival.put(random.draw(), i),
        Work::MixOneTwo if i.is_multiple_of(3) => rival.put(random.draw(), i),
        Work::MixFourOne if !i.is_multiple_of(5) => rival.put(random.draw(), i),
        Work::Mix | Work::MixOneTwo | Work::MixFourOne => {
            rival.get(key_of(random.draw() % records)).map(|_| ())
        }
        Work::Range => rival.range(random.draw(), 100).map(|_| ()),
        Work::Rise => rival.put(records + i, i),
    }
}

/// How long it took to open a map.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Its keys.
    pub keys: u64,
    /// Records of the log that were replayed.
    pub replayed: u64,
    /// Seconds of the clock.
    pub seconds: f64,
    /// Seconds that the thread that opened it had a processor: with one thread, all of the work.
    pub spent: f64,
}

/// Opens a map of this many keys whose log holds what is buffered.
pub fn recovery(records: u64, bytes_per_key: f64, threads: usize) -> Result<Recovery> {
    let heap = Arc::new(Heap::new(capacity(records))?);
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
    let (began, had) = (Instant::now(), spent());
    let map = PmMap::<u64, u64>::open_on(heap, options)?;
    let (seconds, spent) = (began.elapsed().as_secs_f64(), spent() - had);
    Ok(Recovery {
        keys: records,
        replayed: map.stats().replayed,
        seconds,
        spent,
    })
}
