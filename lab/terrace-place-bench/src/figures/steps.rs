//! How long a step of the engine is, and what the slowest lookups take with its thread beside them,
//! over those without. Time, so it is worth what the machine is.

use super::plans::{number, plan};
use crate::Setting;
use crate::row::Row;
use crate::run::{Plan, WhichTree};
use crate::workload::{Operation, Stream, ZIPF};
use anyhow::Result;
use std::time::Instant;
use terrace_place::{
    Art, BTree, Fixed, HeatPolicy, Kind, Masstree, Memory, PlacedTree, Placement, Plain, Sought,
    Steps,
};

/// Lookups of one window, of which there are many in turns.
const WINDOW: usize = 10_000;

/// Steps by hand, then lookups with and without the thread.
pub fn steps(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.2);
    match plan.tree {
        WhichTree::BTree => of::<BTree>(&plan),
        WhichTree::Art => of::<Art>(&plan),
        WhichTree::Masstree => of::<Masstree>(&plan),
    }
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = (sorted.len() as f64 * q) as usize;
    sorted.get(at.min(sorted.len() - 1)).copied().unwrap_or(0.0)
}

fn filled<T: Kind<u64, u64, Plain>>(
    plan: &Plan,
    placement: Placement,
) -> Result<PlacedTree<u64, u64, Plain, T>> {
    let tree = PlacedTree::with_model(placement.fast_share(plan.fast_share), Plain)?;
    (0..plan.entries).try_for_each(|i| tree.insert(i * 7919 % plan.entries, i).map(drop))?;
    Ok(tree)
}

fn of<T: Kind<u64, u64, Plain>>(plan: &Plan) -> Result<Vec<Row>>
where
    u64: Sought<T>,
{
    let two = || Placement::two(Memory::Heap, Memory::Heap);
    let row = |policy: &str, fast: f64| Row {
        figure: "steps",
        tree: plan.tree.name(),
        policy: policy.into(),
        workload: plan.workload.name.into(),
        fast_share: plan.fast_share,
        missing_fast_share: fast,
        over_optimum: None,
        moves_per_1000: 0.0,
        more: vec![],
        series: vec![],
    };
    let tree = filled::<T>(plan, two().manual())?;
    let mut stream = Stream::new(plan.workload, plan.entries, 1);
    let (mut working, mut moved) = (vec![], 0);
    for i in 0..plan.operations {
        if let Operation::Get(key) = stream.next() {
            std::hint::black_box(tree.get(&key));
        }
        if i.is_multiple_of(64) {
            let begin = Instant::now();
            let more = tree.place_step(Steps::nodes(256));
            let time = begin.elapsed().as_secs_f64() * 1e6;
            if more {
                working.push(time);
            }
            moved += u64::from(more);
        }
    }
    working.sort_by(f64::total_cmp);
    let mut rows = vec![];
    if !working.is_empty() {
        let share = tree.placement().fast_share();
        let short = working.iter().filter(|us| **us <= 200.0).count();
        let within = short as f64 / working.len() as f64;
        rows.push(
            row("steps of 256", share)
                .with("steps", moved)
                .with("median_us", number(quantile(&working, 0.5)))
                .with("p90_us", number(quantile(&working, 0.9)))
                .with("part_within_200_us", number(within))
                .with("p99_us", number(quantile(&working, 0.99)))
                .with("longest_us", number(quantile(&working, 1.0))),
        );
    }
    drop(tree);
    // The same policy with and without its thread, and nodes that stay where they were made.
    let trees = [
        (
            "thread",
            filled::<T>(plan, two().policy(HeatPolicy::default()))?,
        ),
        ("no thread", filled::<T>(plan, two().manual())?),
        (
            "fixed",
            filled::<T>(plan, two().policy(Fixed(terrace_place::Births::InnerFirst)))?,
        ),
    ];
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut streams = [1, 1, 1].map(|seed| Stream::new(plan.workload, plan.entries, seed));
    let windows = (plan.operations as usize / WINDOW / 3).max(2);
    for window in 0..windows {
        for ((_, tree), (times, stream)) in trees.iter().zip(times.iter_mut().zip(&mut streams)) {
            for _ in 0..WINDOW {
                if let Operation::Get(key) = stream.next() {
                    let begin = Instant::now();
                    std::hint::black_box(tree.get(&key));
                    let time = begin.elapsed().as_secs_f64() * 1e9;
                    // The first windows fill caches.
                    if window >= windows / 4 {
                        times.push(time);
                    }
                }
            }
        }
    }
    times.iter_mut().for_each(|t| t.sort_by(f64::total_cmp));
    let without = quantile(&times[1], 0.999).max(1.0);
    for ((name, tree), times) in trees.iter().zip(&times) {
        let stats = tree.placement();
        rows.push(
            row(name, stats.fast_share())
                .with("p50_ns", number(quantile(times, 0.5)))
                .with("p99_ns", number(quantile(times, 0.99)))
                .with("p999_ns", number(quantile(times, 0.999)))
                .with(
                    "p999_over_no_thread",
                    number(quantile(times, 0.999) / without),
                )
                .with("promoted", stats.promoted),
        );
    }
    Ok(rows)
}
