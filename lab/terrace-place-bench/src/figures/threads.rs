//! By the number of threads, as ratios, and by the number of entries.

use super::plans::{number, plan, row};
use crate::Setting;
use crate::contender::Contender;
use crate::row::Row;
use crate::run::{Plan, WhichTree, run};
use crate::workload::{Operation, Stream, ZIPF};
use anyhow::Result;
use std::time::Instant;
use terrace_place::{Art, BTree, Kind, Masstree, Memory, PlacedTree, Placement, Plain, Sought};

/// Threads at most: more are of use on no machine that this was tried on.
const MOST_THREADS: usize = 64;

/// Lookups by threads over two memories that are the heap, with the engine at work; then by entries.
pub fn fig16(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.2);
    let mut rows = match plan.tree {
        WhichTree::BTree => threads::<BTree>(&plan)?,
        WhichTree::Art => threads::<Art>(&plan)?,
        WhichTree::Masstree => threads::<Masstree>(&plan)?,
    };
    rows.extend(by_entries(setting)?);
    Ok(rows)
}

fn threads<T: Kind<u64, u64, Plain>>(plan: &Plan) -> Result<Vec<Row>>
where
    u64: Sought<T>,
{
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(plan.fast_share);
    let tree = PlacedTree::<u64, u64, Plain, T>::with_model(placement, Plain)?;
    (0..plan.entries).try_for_each(|i| tree.insert(i * 7919 % plan.entries, i).map(drop))?;
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let mut counts = vec![1];
    while counts.len() < 8 && counts[counts.len() - 1] * 2 <= most.min(MOST_THREADS) {
        counts.push(counts[counts.len() - 1] * 2);
    }
    // In turns: the least time of each, since others may be at work.
    let mut best = vec![f64::MAX; counts.len()];
    for _ in 0..5 {
        for (threads, best) in counts.iter().zip(&mut best) {
            let begin = Instant::now();
            std::thread::scope(|scope| {
                for t in 0..*threads {
                    let (tree, plan) = (&tree, &plan);
                    scope.spawn(move || {
                        let mut stream = Stream::new(plan.workload, plan.entries, t as u64 + 1);
                        for _ in 0..plan.operations / 10 {
                            if let Operation::Get(key) = stream.next() {
                                std::hint::black_box(tree.get(&key));
                            }
                        }
                    });
                }
            });
            *best = best.min(begin.elapsed().as_secs_f64());
        }
    }
    let one = best[0];
    let stats = tree.placement();
    let rows = counts.iter().zip(&best).map(|(threads, time)| {
        let row = Row {
            figure: "fig16",
            tree: plan.tree.name(),
            policy: "heat".into(),
            workload: plan.workload.name.into(),
            fast_share: plan.fast_share,
            missing_fast_share: stats.fast_share(),
            over_optimum: None,
            moves_per_1000: 0.0,
            more: vec![],
            series: vec![],
        };
        row.with("threads", *threads)
            .with("over_one", number(*threads as f64 * one / time))
    });
    Ok(rows.collect())
}

/// By the number of entries.
fn by_entries(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for times in [0.2, 0.5, 1.0, 2.0] {
        let mut plan = plan(setting, ZIPF, 0.2);
        plan.entries = ((plan.entries as f64 * times) as u64).max(1000);
        plan.operations = ((plan.operations as f64 * times) as u64).max(2000);
        for contender in [Contender::Heat, Contender::Interleave] {
            let plan = plan.by(contender);
            let outcome = run(&plan)?;
            let row = row("fig16", &plan, &outcome, None, setting);
            rows.push(row.with("entries", plan.entries));
        }
    }
    Ok(rows)
}
