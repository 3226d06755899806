//! By the size of values: what a larger leaf does to the same share of fast memory.

use super::{number, plan};
use crate::Setting;
use crate::model::{Count, State};
use crate::random::Random;
use crate::report::Row;
use crate::run::Plan;
use crate::workload::{Operation, Stream, ZIPF};
use anyhow::Result;
use terrace_place::{Births, Fixed, HeatPolicy, Memory, PlacedTree, Placement, Sampling, Steps};

/// Values of 8 to 256 bytes.
pub fn fig18(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.2);
    let mut rows = vec![];
    for heat in [true, false] {
        rows.push(of_size::<8>(&plan, heat)?);
        rows.push(of_size::<64>(&plan, heat)?);
        rows.push(of_size::<256>(&plan, heat)?);
    }
    Ok(rows)
}

fn of_size<const N: usize>(plan: &Plan, heat: bool) -> Result<Row> {
    Sampling::restart();
    let two = Placement::two(Memory::Heap, Memory::Heap).fast_share(plan.fast_share);
    let placement = if heat {
        two.policy(HeatPolicy::default())
    } else {
        two.policy(Fixed(Births::Weighted(plan.fast_share)))
    };
    let count = Count::with(State::default());
    let tree = PlacedTree::<u64, [u8; N], Count>::with_model(placement.manual(), count.clone())?;
    let entries = plan.entries / 2;
    let mut random = Random::new(99);
    for _ in 0..entries {
        tree.insert(random.below(entries), [1; N])?;
    }
    let nodes: u64 = tree.nodes().iter().flatten().sum();
    count.begin((nodes as f64 * plan.cache) as u64, None);
    let mut stream = Stream::new(plan.workload, entries, 123);
    let operations = plan.operations / 2;
    let mut before = crate::model::Touches::default();
    for i in 0..operations {
        if i == operations / 2 {
            before = count.state().touches;
        }
        if let Operation::Get(key) = stream.next() {
            std::hint::black_box(tree.get(&key));
        }
        if i.is_multiple_of(64) {
            tree.place_step(Steps::nodes(256));
        }
    }
    let after = count.state().touches;
    let [fast, slow] = [0, 1].map(|i| after.missing[i] - before.missing[i]);
    let [leaf, _] = PlacedTree::<u64, [u8; N], Count>::node_bytes();
    Ok(Row {
        figure: "fig18",
        tree: "b+tree",
        policy: if heat { "heat" } else { "interleave" }.into(),
        workload: format!("values of {N}"),
        fast_share: plan.fast_share,
        missing_fast_share: fast as f64 / (fast + slow).max(1) as f64,
        over_optimum: None,
        moves_per_1000: 0.0,
        more: vec![
            ("leaf_bytes".into(), leaf.into()),
            (
                "slow_per_op".into(),
                number(slow as f64 / (operations / 2).max(1) as f64),
            ),
        ],
        series: vec![],
    })
}
