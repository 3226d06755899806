//! Runs: a tree is filled, operations warm it up, and those after are measured; of several trees in
//! turns, if time is measured.

use crate::contender::Contender;
use crate::model::{Count, State};
use crate::random::Random;
use crate::rival::{Known, Rival, Table, Training};
use crate::workload::{Operation, Stream, Trace, Workload};
use anyhow::{Context, Result, ensure};
use std::time::{Duration, Instant};
use terrace_place::{
    Art, BTree, Kind, Masstree, Memory, PlacedTree, Placement, PlacementStats, Sampling, Sought,
    Steps,
};

/// Which kind of tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum WhichTree {
    /// Leaves of 16 entries
    #[value(name = "b+tree")]
    BTree,
    /// An adaptive radix tree: leaves of one entry
    Art,
    /// B+trees of eight bytes of the keys each: leaves of 16 entries
    Masstree,
}

impl WhichTree {
    pub fn name(self) -> &'static str {
        match self {
            WhichTree::BTree => "b+tree",
            WhichTree::Art => "art",
            WhichTree::Masstree => "masstree",
        }
    }
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Plan {
    pub tree: WhichTree,
    pub entries: u64,
    /// Operations; the second half is measured.
    pub operations: u64,
    pub workload: Workload,
    pub contender: Contender,
    pub fast_share: f64,
    /// Nodes that the processor's cache would hold, of all.
    pub cache: f64,
    /// What is hot moves after this many operations.
    pub shift: Option<u64>,
    /// Operations from one point of the series to the next; 0: no series.
    pub window: u64,
    /// Waiting for a missing touch of slow memory.
    pub delay: Option<Duration>,
    pub memories: (Memory, Memory),
    /// Operations from one step of the engine to the next.
    pub step_each: u64,
    /// Operations that were recorded, instead of made up.
    pub trace: Option<std::sync::Arc<Trace>>,
}

impl Plan {
    pub fn new(entries: u64, operations: u64, workload: Workload, fast_share: f64) -> Plan {
        Plan {
            tree: WhichTree::BTree,
            entries,
            operations,
            workload,
            contender: Contender::Heat,
            fast_share,
            cache: 0.02,
            shift: None,
            window: 0,
            delay: None,
            memories: (Memory::Heap, Memory::Heap),
            step_each: STEP_EACH,
            trace: None,
        }
    }

    fn stream(&self) -> Stream {
        match &self.trace {
            Some(trace) => Stream::recorded(trace.clone(), self.workload),
            None => Stream::new(self.workload, self.entries, 123),
        }
    }

    pub fn by(&self, contender: Contender) -> Plan {
        Plan {
            contender,
            ..self.clone()
        }
    }
}

/// What came of it, of the second half.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Touches of fast memory, of all, and of those that a cache does not have.
    pub fast_all: f64,
    pub fast_missing: f64,
    /// Missing touches and slow ones of them, for each operation.
    pub missing: f64,
    pub slow: f64,
    pub moves_per_1000: f64,
    /// Fast bytes in use, of those allowed, at the end.
    pub filled: f64,
    /// The most fast bytes that there were, above what is allowed.
    pub over_limit: f64,
    /// Nanoseconds an operation, with the model's own: of the middle one of the windows.
    pub nanoseconds: f64,
    /// Time in steps of the engine, of all.
    pub engine_time: f64,
    /// The longest step in microseconds.
    pub longest_step: f64,
    /// Missing touches of operations: fast and slow ones, how many had them.
    pub by_waits: Vec<((u32, u32), u64)>,
    /// Share of missing touches that were fast, by window.
    pub series: Vec<f64>,
    /// Fast bytes in use of those allowed, by window.
    pub filled_series: Vec<f64>,
    pub stats: Option<PlacementStats>,
    pub bytes_an_entry: f64,
}

impl Outcome {
    /// Time an operation in units of a fast missing touch, beside what the processor does.
    pub fn time(&self, r: f64) -> f64 {
        (self.missing - self.slow) + r * self.slow
    }

    /// The modelled waiting of the slowest operations, in units of a fast missing touch.
    pub fn quantile(&self, q: f64, r: f64) -> f64 {
        let mut waits: Vec<(f64, u64)> = self
            .by_waits
            .iter()
            .map(|((fast, slow), n)| (f64::from(*fast) + r * f64::from(*slow), *n))
            .collect();
        waits.sort_by(|a, b| a.0.total_cmp(&b.0));
        let all: u64 = waits.iter().map(|w| w.1).sum();
        let mut seen = 0;
        for (wait, n) in waits {
            seen += n;
            if seen as f64 >= q * all as f64 {
                return wait;
            }
        }
        0.0
    }
}

/// Keys lie this far from each other, so that others fit between.
const GAP: u64 = 1 << 10;
/// Operations from one step of the engine to the next, and its nodes.
const STEP_EACH: u64 = 64;
const STEP_NODES: usize = 256;

/// Windows of a run in turns: what else the machine does meets all of them alike.
const TURNS: u64 = 50;

type Placed<T> = PlacedTree<u64, u64, Count, T>;

fn fill<T: Kind<u64, u64, Count>>(tree: &Placed<T>, entries: u64) -> Result<()> {
    // A permutation of the keys: leaves are as full as random insertion makes them.
    let mut order: Vec<u32> = (0..entries as u32).collect();
    let mut random = Random::new(99);
    for i in (1..order.len()).rev() {
        order.swap(i, random.below(i as u64 + 1) as usize);
    }
    for i in order {
        tree.insert(u64::from(i) * GAP, u64::from(i))?;
    }
    Ok(())
}

/// Runs a plan. What knows the future runs twice.
pub fn run(plan: &Plan) -> Result<Outcome> {
    let mut outcomes = in_turns(std::slice::from_ref(plan))?;
    outcomes.pop().context("a run has an outcome")
}

/// Runs plans of the same size and kind of tree: all are warmed up, then they are measured in turns.
pub fn in_turns(plans: &[Plan]) -> Result<Vec<Outcome>> {
    match plans.first().map(|plan| plan.tree) {
        Some(WhichTree::BTree) => turns::<BTree>(plans),
        Some(WhichTree::Art) => turns::<Art>(plans),
        Some(WhichTree::Masstree) => turns::<Masstree>(plans),
        None => Ok(vec![]),
    }
}

fn turns<T: Kind<u64, u64, Count>>(plans: &[Plan]) -> Result<Vec<Outcome>>
where
    u64: Sought<T>,
{
    let mut all = vec![];
    for plan in plans {
        let training = match plan.contender.needs_training() {
            true => Some(train::<T>(plan)?),
            false => None,
        };
        let rival: Option<Box<dyn Rival>> = match (plan.contender, training) {
            (Contender::Prophet, Some(known)) => Some(Box::new(Known::prophet(known))),
            (_, Some(known)) => Some(Box::new(Known::optimum(known))),
            (contender, None) => contender.rival(plan.entries / 4),
        };
        let mut running = Running::<T>::new(plan, rival, None)?;
        running.advance(plan.operations / 2)?;
        all.push(running);
    }
    let turns = if plans.len() > 1 { TURNS } else { 1 };
    for turn in 0..turns {
        for running in &mut all {
            let half = running.plan.operations - running.plan.operations / 2;
            running.advance(half * (turn + 1) / turns - half * turn / turns)?;
        }
    }
    Ok(all.into_iter().map(|running| running.end().0).collect())
}

/// The touches of every node in the measured half.
fn train<T: Kind<u64, u64, Count>>(plan: &Plan) -> Result<Training>
where
    u64: Sought<T>,
{
    let bound = plan.contender == Contender::Bound;
    let plan = Plan {
        delay: None,
        ..plan.clone()
    };
    let mut running = Running::<T>::new(&plan, None, Some(bound))?;
    running.advance(plan.operations)?;
    Ok(running.end().1.unwrap_or_default())
}

/// A tree under a plan, as far as it has come.
struct Running<'p, T: Kind<u64, u64, Count>> {
    plan: &'p Plan,
    tree: Placed<T>,
    count: Count,
    stream: Stream,
    fresh: Random,
    measured: Measured,
    /// Operations so far.
    done: u64,
    trains: bool,
}

impl<'p, T: Kind<u64, u64, Count>> Running<'p, T>
where
    u64: Sought<T>,
{
    fn new(plan: &'p Plan, rival: Option<Box<dyn Rival>>, train: Option<bool>) -> Result<Self> {
        ensure!(
            (1000..1 << 31).contains(&plan.entries),
            "entries must be from a thousand to two thousand million, not {}",
            plan.entries
        );
        Sampling::restart();
        let by_table = rival.is_some() || train.is_some();
        let two = Placement::two(plan.memories.0.clone(), plan.memories.1.clone());
        let placement = if by_table {
            Placement::uniform()
        } else {
            let policy = plan.contender.placement(two, plan.fast_share);
            policy.unwrap_or_else(Placement::uniform)
        };
        let count = Count::with(State {
            table: by_table.then(Table::default),
            rival,
            train_missing: train == Some(true),
            ..State::default()
        });
        let tree = Placed::<T>::with_model(placement.manual(), count.clone())?;
        fill(&tree, plan.entries)?;
        let nodes: u64 = tree.nodes().iter().flatten().sum();
        {
            let mut state = count.state();
            let state = &mut *state;
            if let (Some(table), Some(rival)) = (&state.table, &mut state.rival) {
                let bytes = (table.bytes() as f64 * plan.fast_share) as u64;
                rival.settle(table, bytes);
            }
        }
        count.begin((nodes as f64 * plan.cache) as u64, plan.delay);
        Ok(Running {
            plan,
            tree,
            count,
            stream: plan.stream(),
            fresh: Random::new(7),
            measured: Measured::default(),
            done: 0,
            trains: train.is_some(),
        })
    }

    fn advance(&mut self, operations: u64) -> Result<()> {
        let (plan, tree, count) = (self.plan, &self.tree, &self.count);
        let half = plan.operations / 2;
        let mut begun = Instant::now();
        for i in self.done..self.done + operations {
            if plan.shift == Some(i) {
                self.stream.shift();
            }
            if i == half {
                self.measured.begin(tree, count, self.trains);
                begun = Instant::now();
            }
            count.state().start();
            operate(tree, self.stream.next(), i, &mut self.fresh)?;
            let mut state = count.state();
            state.end();
            if i >= half {
                self.measured.operation(state.operation);
            }
            drop(state);
            if i.is_multiple_of(plan.step_each) {
                let begin = Instant::now();
                tree.place_step(Steps::nodes(STEP_NODES));
                self.measured.step(begin.elapsed());
            }
            if plan.window > 0 && (i + 1).is_multiple_of(plan.window) {
                self.measured.window(tree, count);
            }
        }
        self.done += operations;
        if self.measured.begun {
            let elapsed = begun.elapsed();
            self.measured.elapsed += elapsed;
            let each = elapsed.as_nanos() as f64 / operations.max(1) as f64;
            self.measured.windows.push(each);
        }
        Ok(())
    }

    fn end(self) -> (Outcome, Option<Training>) {
        let operations = self.plan.operations - self.plan.operations / 2;
        let outcome = self.measured.end(&self.tree, &self.count, operations);
        let training = self.count.state().training.take();
        (outcome, training)
    }
}

fn operate<T: Kind<u64, u64, Count>>(
    tree: &Placed<T>,
    operation: Operation,
    i: u64,
    fresh: &mut Random,
) -> Result<()>
where
    u64: Sought<T>,
{
    match operation {
        Operation::Get(key) => {
            ensure!(tree.get(&(key * GAP)).is_some(), "key {key} is lost");
        }
        Operation::Update(key) => {
            tree.insert(key * GAP, i)?;
        }
        Operation::Modify(key) => {
            let old = tree.get(&(key * GAP));
            let old = old.with_context(|| format!("key {key} is lost"))?;
            tree.insert(key * GAP, old.wrapping_add(i))?;
        }
        Operation::Insert(key) => {
            tree.insert(key * GAP + 1 + fresh.below(GAP - 1), i)?;
        }
        Operation::Scan(key, entries) => {
            tree.range(key * GAP..).take(entries).for_each(drop);
        }
    }
    Ok(())
}

#[derive(Default)]
struct Measured {
    begun: bool,
    elapsed: Duration,
    /// Nanoseconds an operation, by window of a run in turns.
    windows: Vec<f64>,
    touches: crate::model::Touches,
    last: [u64; 2],
    moves: u64,
    waits: std::collections::HashMap<(u32, u32), u64>,
    engine: Duration,
    longest: Duration,
    outcome: Outcome,
}

fn moves<T: Kind<u64, u64, Count>>(tree: &Placed<T>, count: &Count) -> u64 {
    let stats = tree.placement();
    let rival = count.state().rival.as_ref().map_or(0, |r| r.moves());
    stats.promoted + stats.demoted + rival
}

impl Measured {
    fn begin<T: Kind<u64, u64, Count>>(&mut self, tree: &Placed<T>, count: &Count, train: bool) {
        self.moves = moves(tree, count);
        let mut state = count.state();
        self.touches = state.touches;
        if train {
            state.training = Some(Training::default());
        }
        self.begun = true;
    }

    fn operation(&mut self, [fast, slow]: [u32; 2]) {
        *self.waits.entry((fast, slow)).or_default() += 1;
    }

    fn step(&mut self, time: Duration) {
        if self.begun {
            self.engine += time;
            self.longest = self.longest.max(time);
        }
    }

    fn window<T: Kind<u64, u64, Count>>(&mut self, tree: &Placed<T>, count: &Count) {
        let now = count.state().touches.missing;
        let [fast, slow] = [now[0] - self.last[0], now[1] - self.last[1]];
        self.last = now;
        self.outcome
            .series
            .push(fast as f64 / (fast + slow).max(1) as f64);
        let stats = tree.placement();
        let limit = stats.limit.unwrap_or(stats.fast_bytes).max(1);
        self.outcome
            .filled_series
            .push(stats.fast_bytes as f64 / limit as f64);
    }

    fn end<T: Kind<u64, u64, Count>>(
        self,
        tree: &Placed<T>,
        count: &Count,
        operations: u64,
    ) -> Outcome {
        let elapsed = self.elapsed;
        // The middle one: a window in which others had the processor does not count.
        let mut windows = self.windows;
        windows.sort_by(f64::total_cmp);
        let nanoseconds = windows.get(windows.len() / 2).copied().unwrap_or(0.0);
        let touches = count.state().touches;
        let since = |now: [u64; 2], then: [u64; 2]| [now[0] - then[0], now[1] - then[1]];
        let all = since(touches.all, self.touches.all);
        let missing = since(touches.missing, self.touches.missing);
        let share = |[fast, slow]: [u64; 2]| fast as f64 / (fast + slow).max(1) as f64;
        let n = operations.max(1) as f64;
        let stats = tree.placement();
        let limit = stats.limit.unwrap_or(stats.fast_bytes).max(1) as f64;
        let bytes = stats.fast_bytes + stats.slow_bytes + stats.heat_bytes;
        Outcome {
            fast_all: share(all),
            fast_missing: share(missing),
            missing: (missing[0] + missing[1]) as f64 / n,
            slow: missing[1] as f64 / n,
            moves_per_1000: (moves(tree, count) - self.moves) as f64 / n * 1000.0,
            filled: stats.fast_bytes as f64 / limit,
            over_limit: (stats.fast_bytes as f64 / limit - 1.0).max(0.0),
            nanoseconds,
            engine_time: self.engine.as_secs_f64() / elapsed.as_secs_f64().max(1e-9),
            longest_step: self.longest.as_secs_f64() * 1e6,
            by_waits: self.waits.into_iter().collect(),
            bytes_an_entry: bytes as f64 / tree.len().max(1) as f64,
            stats: Some(stats),
            ..self.outcome
        }
    }
}

/// Runs a plan over a placement by a table.
pub fn run_by(plan: &Plan, rival: Box<dyn Rival>) -> Result<Outcome> {
    fn by<T: Kind<u64, u64, Count>>(plan: &Plan, rival: Box<dyn Rival>) -> Result<Outcome>
    where
        u64: Sought<T>,
    {
        let mut running = Running::<T>::new(plan, Some(rival), None)?;
        running.advance(plan.operations)?;
        Ok(running.end().0)
    }
    match plan.tree {
        WhichTree::BTree => by::<BTree>(plan, rival),
        WhichTree::Art => by::<Art>(plan, rival),
        WhichTree::Masstree => by::<Masstree>(plan, rival),
    }
}

/// The touches of every node in the measured half, and the nodes.
pub fn train_all(plan: &Plan) -> Result<(Table, Training)> {
    match plan.tree {
        WhichTree::BTree => train_kind::<BTree>(plan),
        WhichTree::Art => train_kind::<Art>(plan),
        WhichTree::Masstree => train_kind::<Masstree>(plan),
    }
}

fn train_kind<T: Kind<u64, u64, Count>>(plan: &Plan) -> Result<(Table, Training)>
where
    u64: Sought<T>,
{
    let count = Count::with(State {
        table: Some(Table::default()),
        ..State::default()
    });
    let tree = Placed::<T>::with_model(Placement::uniform(), count.clone())?;
    fill(&tree, plan.entries)?;
    count.begin(1, None);
    count.state().training = Some(Training::default());
    let mut stream = plan.stream();
    let mut fresh = Random::new(7);
    for i in 0..plan.operations / 2 {
        count.state().start();
        operate(&tree, stream.next(), i, &mut fresh)?;
    }
    let mut state = count.state();
    let table = state.table.take().unwrap_or_default();
    Ok((table, state.training.take().unwrap_or_default()))
}
