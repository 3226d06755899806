//! The same fast bytes given to nodes of a tree, and to the hot segments and hot entries of the
//! compact map whose other segments lie in slow memory.

use super::plans::plan;
use crate::Setting;
use crate::contender::Contender;
use crate::model::Cache;
use crate::random::mix;
use crate::row::{Row, round};
use crate::run::{Plan, run};
use crate::workload::{Operation, RANGE, Stream, UNIFORM, Workload, YCSB, ZIPF};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::sync::{Arc, Mutex, PoisonError};
use terrace_mem::place::{MapPlacement, Placement, Steps, Touch, Watch};
use terrace_mem::{ConcurrentHybridMap, HybridMap, Merging, Options};
use terrace_place::Sampling;

/// Fast bytes for each entry.
pub const FAST: f64 = 5.3;
/// Bytes of a processor's cache for each entry.
const CACHE: f64 = 0.5;
/// Operations from one step of the engine to the next, and what it may do.
const STEP_EACH: u64 = 64;
const STEP: usize = 256;

/// What lookups touch, as a cache of this many lines sees it.
#[derive(Debug)]
struct Lines {
    cache: Cache,
    /// Touches that the cache does not have: of fast memory, of slow.
    missing: [u64; 2],
}

#[derive(Debug)]
struct Counting(Mutex<Lines>);

impl Counting {
    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Counting {
    fn touch(&self, touch: Touch) {
        let mut lines = self.lines();
        let lines = &mut *lines;
        let mut hit = |kind: u64, line: u64| lines.cache.hit(mix(kind << 60 ^ mix(line)) as u32);
        let (missing, slow) = match touch {
            Touch::Header(line) => (!hit(1, line), false),
            Touch::Copies(line) => (!hit(2, line), false),
            // Both are asked for together: one wait.
            Touch::Segment { key, val, slow } => {
                let (key, val) = (hit(3, key), hit(4, val));
                (!(key && val), slow)
            }
            _ => (false, false),
        };
        lines.missing[usize::from(slow)] += u64::from(missing);
    }
}

/// What came of a run, of its second half.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Missing touches an operation, and slow ones of them: each is a wait.
    pub missing: f64,
    pub slow: f64,
    pub moves_per_1000: f64,
    pub bytes_an_entry: f64,
    pub placement: MapPlacement,
}

/// The map for many threads, and that for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compact {
    Shared,
    Alone,
}

/// A map that is measured.
enum Map {
    Shared(ConcurrentHybridMap<u64, u64>),
    Alone(HybridMap<u64, u64>),
}

impl Map {
    fn get(&self, key: u64) -> Option<u64> {
        match self {
            Map::Shared(map) => map.get(&key),
            Map::Alone(map) => map.get(&key).copied(),
        }
    }

    fn insert(&mut self, key: u64, val: u64) {
        match self {
            Map::Shared(map) => map.insert(&key, val),
            Map::Alone(map) => map.insert(key, val),
        };
    }

    fn scan(&self, from: u64, len: usize) {
        match self {
            Map::Shared(map) => map.range(from..).take(len).for_each(drop),
            Map::Alone(map) => {
                let read = map.range(from..).take(len).count();
                debug_assert!(read <= len);
            }
        }
    }

    fn place_step(&mut self, steps: Steps) -> bool {
        match self {
            Map::Shared(map) => map.place_step(steps),
            Map::Alone(map) => map.place_step(steps),
        }
    }

    fn placement(&self) -> MapPlacement {
        match self {
            Map::Shared(map) => map.placement(),
            Map::Alone(map) => map.placement(),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Map::Shared(map) => map.memory_usage().total(),
            Map::Alone(map) => map.memory_usage().total(),
        }
    }
}

/// Keys in order, of 64 bits, that lie anywhere.
fn key(i: u64) -> u64 {
    i << 32 | mix(i) >> 32
}

/// Runs a plan over the map, with this many fast bytes for each entry.
pub fn hybrid(plan: &Plan, which: Compact, fast: f64) -> Result<Outcome> {
    let n = plan.entries;
    ensure!(n < 1 << 31, "entries must be below two thousand million");
    Sampling::restart();
    let counting = Arc::new(Counting(Mutex::new(Lines {
        cache: Cache::new((CACHE * n as f64 / 64.0) as u64),
        missing: [0; 2],
    })));
    let (near, far) = plan.memories.clone();
    let placement = Placement::two(near, far)
        .fast_bytes((fast * n as f64) as u64)
        .manual();
    let mut options = Options {
        merging: Merging::Blocking,
        ..Options::default()
    }
    .placement(placement)?;
    options.memories = options.memories.watched_by(Arc::clone(&counting) as _);
    let all = (0..n).map(|i| (key(i), i));
    let mut map = match which {
        Compact::Shared => {
            let mut map = ConcurrentHybridMap::with_options(options)?;
            map.extend(all);
            Map::Shared(map)
        }
        Compact::Alone => {
            let mut map = HybridMap::with_copies(options)?;
            map.extend(all);
            Map::Alone(map)
        }
    };
    let mut stream = Stream::new(plan.workload, n, 123);
    let (half, mut before, mut moves) = (plan.operations / 2, [0; 2], 0);
    for i in 0..plan.operations {
        if i == half {
            before = counting.lines().missing;
            let now = map.placement();
            moves = now.promoted + now.demoted;
        }
        match stream.next() {
            Operation::Get(at) => ensure!(map.get(key(at)).is_some(), "key {at} is lost"),
            Operation::Update(at) => {
                map.insert(key(at), i);
            }
            Operation::Modify(at) => {
                let old = map
                    .get(key(at))
                    .with_context(|| format!("key {at} is lost"))?;
                map.insert(key(at), old.wrapping_add(i));
            }
            Operation::Insert(at) => {
                map.insert(key(at) ^ mix(i) >> 32, i);
            }
            Operation::Scan(at, len) => map.scan(key(at), len),
        }
        if i.is_multiple_of(STEP_EACH) {
            map.place_step(Steps::nodes(STEP));
        }
    }
    let lines = counting.lines().missing;
    let [fast, slow] = [0, 1].map(|i| (lines[i] - before[i]) as f64);
    let operations = (plan.operations - half) as f64;
    let placement = map.placement();
    Ok(Outcome {
        missing: (fast + slow) / operations,
        slow: slow / operations,
        moves_per_1000: (placement.promoted + placement.demoted - moves) as f64 * 1000.0
            / operations,
        bytes_an_entry: map.bytes() as f64 / n as f64,
        placement,
    })
}

/// The best placement of the nodes of a tree with as many fast bytes and the same cache.
pub fn tree(of: &Plan) -> Result<crate::run::Outcome> {
    let small = Plan {
        operations: 2,
        ..of.by(Contender::InternalFirst)
    };
    let bytes = run(&small)?.bytes_an_entry;
    run(&Plan {
        cache: CACHE / bytes,
        fast_share: FAST / bytes,
        delay: None,
        ..of.by(Contender::Bound)
    })
}

/// A plan over the map's memories.
pub fn records_plan(setting: &Setting, workload: Workload) -> Plan {
    Plan {
        tree: crate::run::WhichTree::BTree,
        ..plan(setting, workload, 0.2)
    }
}

/// Map and tree beside each other.
pub fn records(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    let all = [ZIPF, RANGE, UNIFORM, YCSB[1]];
    let wanted = |of: &Workload| {
        setting.workloads.is_empty() || setting.workloads.iter().any(|w| w == of.name)
    };
    for workload in all.into_iter().filter(wanted) {
        let plan = records_plan(setting, workload);
        let best = tree(&plan)?;
        let ours = hybrid(&plan, Compact::Shared, FAST)?;
        let alone = hybrid(&plan, Compact::Alone, FAST)?;
        let all_slow = hybrid(&plan, Compact::Shared, 0.1)?;
        let each = |bytes: u64| json!(round(bytes as f64 / plan.entries as f64));
        let row = |tree: &'static str, policy: &str, missing: f64, slow: f64, moves: f64| {
            let mut row = Row {
                figure: "records",
                tree,
                policy: policy.into(),
                workload: workload.name.into(),
                fast_share: FAST,
                missing_fast_share: 1.0 - slow / missing.max(1e-9),
                over_optimum: None,
                moves_per_1000: moves,
                more: vec![],
                series: vec![],
            }
            .with("slow_per_op", round(slow))
            .with("missing_per_op", round(missing));
            for r in &setting.rs {
                let time = missing - slow + r * slow;
                row = row.with(&format!("time_r{r}"), round(time));
            }
            row
        };
        rows.push(row("b+tree", "bound", best.missing, best.slow, 0.0));
        for (tree, of) in [("hybrid", &ours), ("hybrid, one thread", &alone)] {
            let place = &of.placement;
            rows.push(
                row(tree, "heat", of.missing, of.slow, of.moves_per_1000)
                    .with("of_tree", round(of.slow / best.slow.max(1e-9)))
                    .with("bytes_an_entry", round(of.bytes_an_entry))
                    .with("copies", each(place.copies))
                    .with("fast_segments", each(place.fast_segments))
                    .with("always_fast", each(place.always_fast))
                    .with("peak", each(place.peak)),
            );
        }
        rows.push(row(
            "hybrid",
            "all-slow",
            all_slow.missing,
            all_slow.slow,
            0.0,
        ));
    }
    Ok(rows)
}

/// The part of lookups that is for slow segments where all fast bytes go to whole segments, if all
/// are equally hot.
pub fn segments_alone(outcome: &Outcome) -> f64 {
    let place = &outcome.placement;
    let room = place.limit.unwrap_or(0).saturating_sub(place.always_fast);
    let all = place.fast_segments + place.slow_segments;
    (1.0 - room as f64 / all.max(1) as f64).max(0.0)
}
