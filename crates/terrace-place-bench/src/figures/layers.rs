//! Which nodes are touched most: by pages, and by levels. Counts, exact.

use super::{number, plan};
use crate::Setting;
use crate::report::Row;
use crate::run::train_all;
use crate::workload::ZIPF;
use anyhow::Result;
use terrace_place::rival::PAGE_4K;

/// Touches of nodes within the hottest hundredth of pages.
pub fn fig5(setting: &Setting) -> Result<Vec<Row>> {
    let (table, training) = train_all(&plan(setting, ZIPF, 0.2))?;
    let mut pages: std::collections::HashMap<u64, Vec<u64>> = Default::default();
    for number in 0..table.len() as u32 {
        if let Some(node) = table.node(number) {
            let page = pages.entry(node.address / PAGE_4K).or_default();
            page.push(training.touches(number));
        }
    }
    let mut pages: Vec<Vec<u64>> = pages.into_values().collect();
    pages.sort_by_key(|nodes| std::cmp::Reverse(nodes.iter().sum::<u64>()));
    pages.truncate((pages.len() / 100).max(1));
    let mut nodes: Vec<u64> = pages.iter().flatten().copied().collect();
    nodes.sort_unstable();
    let quartile = nodes.get(nodes.len() * 3 / 4).copied().unwrap_or(0);
    let hottest: f64 = pages
        .iter()
        .map(|nodes| {
            let most = nodes.iter().max().copied().unwrap_or(0);
            most as f64 / nodes.iter().sum::<u64>().max(1) as f64
        })
        .sum::<f64>()
        / pages.len() as f64;
    Ok(vec![
        empty("fig5", "hottest 1 % of pages")
            .with("pages", pages.len())
            .with("upper_quartile_of_touches", quartile)
            .with("touches_of_the_hottest_node", number(hottest)),
    ])
}

/// Nodes and touches of each level, and what whole levels in fast memory would be worth.
pub fn fig6(setting: &Setting) -> Result<Vec<Row>> {
    let (table, training) = train_all(&plan(setting, ZIPF, 0.2))?;
    let mut sums = [(0u64, 0u64); 2];
    for number in 0..table.len() as u32 {
        if let Some(node) = table.node(number) {
            let sum = &mut sums[usize::from(node.leaf)];
            *sum = (sum.0 + 1, sum.1 + training.touches(number));
        }
    }
    let all = sums[0].1 + sums[1].1;
    let mut rows = vec![];
    for (name, (nodes, touches)) in ["inner nodes", "leaves"].into_iter().zip(sums) {
        let each = touches as f64 / nodes.max(1) as f64;
        let mut row = empty("fig6", name)
            .with("nodes", nodes)
            .with("touches_a_node", number(each));
        row.fast_share = nodes as f64 / table.len().max(1) as f64;
        row.missing_fast_share = touches as f64 / all.max(1) as f64;
        rows.push(row);
    }
    Ok(rows)
}

fn empty(figure: &'static str, policy: &str) -> Row {
    Row {
        figure,
        tree: "b+tree",
        policy: policy.into(),
        workload: ZIPF.name.into(),
        fast_share: 0.0,
        missing_fast_share: 0.0,
        over_optimum: None,
        moves_per_1000: 0.0,
        more: vec![],
        series: vec![],
    }
}
