//! Which nodes are touched most: by pages, and by levels. Counts, exact.

use super::plans::{number, plan};
use crate::Setting;
use crate::rival::{PAGE_4K, Rival, Table};
use crate::row::Row;
use crate::run::{run_by, train_all};
use crate::workload::ZIPF;
use anyhow::Result;
use terrace_place::Tier;

/// Touches of nodes within the hottest hundredth of pages: for each hundredth of these nodes, from the coldest
/// on, which part of all touches they have so far.
pub fn fig5(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.2);
    let (table, training) = train_all(&plan)?;
    let mut pages: std::collections::HashMap<u64, Vec<u64>> = Default::default();
    for number in 0..table.len() as u32 {
        if let Some(node) = table.node(number).filter(|node| !node.gone) {
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
    let mut row = empty("fig5", plan.tree.name(), "hottest 1 % of pages");
    row.series = touches_so_far(&nodes);
    Ok(vec![
        row.with("pages", pages.len())
            .with("upper_quartile_of_touches", quartile)
            .with("touches_of_the_hottest_node", number(hottest)),
    ])
}

/// For each hundredth of sorted counts, from 0 to all of them, which part of the sum they have.
fn touches_so_far(sorted: &[u64]) -> Vec<f64> {
    let all = sorted.iter().sum::<u64>().max(1) as f64;
    let sum = |n: usize| sorted[..n].iter().sum::<u64>() as f64;
    (0..=100)
        .map(|i| sum(sorted.len() * i / 100) / all)
        .collect()
}

/// Nodes and touches of inner nodes and of leaves, and what it is worth to have half of all bytes in
/// fast memory: those of the upper levels first, of the lower ones first, or one node in two.
pub fn fig6(setting: &Setting) -> Result<Vec<Row>> {
    let plan = plan(setting, ZIPF, 0.5);
    let (table, training) = train_all(&plan)?;
    let mut sums = [(0u64, 0u64); 2];
    for number in 0..table.len() as u32 {
        if let Some(node) = table.node(number).filter(|node| !node.gone) {
            let sum = &mut sums[usize::from(node.leaf)];
            *sum = (sum.0 + 1, sum.1 + training.touches(number));
        }
    }
    let all = sums[0].1 + sums[1].1;
    let mut rows = vec![];
    for (name, (nodes, touches)) in ["inner nodes", "leaves"].into_iter().zip(sums) {
        let each = touches as f64 / nodes.max(1) as f64;
        let mut row = empty("fig6", plan.tree.name(), name)
            .with("nodes", nodes)
            .with("touches_a_node", number(each));
        row.fast_share = nodes as f64 / table.len().max(1) as f64;
        row.missing_fast_share = touches as f64 / all.max(1) as f64;
        rows.push(row);
    }
    for (name, order) in [
        ("fast-slow", Halves::Upper),
        ("interleave", Halves::Alternate),
        ("slow-fast", Halves::Lower),
    ] {
        let levels = Levels {
            order,
            fast: vec![],
        };
        let outcome = run_by(&plan, Box::new(levels))?;
        let tree = plan.tree.name();
        let mut row = Row::of(
            ("fig6", tree),
            name.into(),
            ZIPF.name,
            plan.fast_share,
            &outcome,
            None,
            &setting.rs,
        );
        row.moves_per_1000 = 0.0;
        rows.push(row);
    }
    Ok(rows)
}

/// Which nodes come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halves {
    Upper,
    Alternate,
    Lower,
}

/// A placement by whether a node is an inner one, as long as there is room.
#[derive(Debug)]
struct Levels {
    order: Halves,
    fast: Vec<bool>,
}

impl Rival for Levels {
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        let mut order: Vec<(bool, u32)> = (0..table.len() as u32)
            .filter_map(|number| {
                let node = table.node(number).filter(|node| !node.gone)?;
                Some((node.leaf, number))
            })
            .collect();
        match self.order {
            // A stable order: of the same kind those that were made first.
            Halves::Upper => order.sort_by_key(|(leaf, _)| *leaf),
            Halves::Lower => order.sort_by_key(|(leaf, _)| !leaf),
            Halves::Alternate => order.sort_by_key(|(_, number)| number % 2),
        }
        self.fast = vec![false; table.len()];
        let mut left = fast_bytes;
        for (_, number) in order {
            let bytes = table.node(number).map_or(0, |node| u64::from(node.bytes));
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => break,
            }
            self.fast[number as usize] = true;
        }
    }

    fn touch(&mut self, _: &Table, _: u32, _: bool) {}

    fn tick(&mut self, _: &Table) {}

    fn tier(&self, _: &Table, node: u32) -> Tier {
        match self.fast.get(node as usize) {
            Some(true) => Tier::Fast,
            _ => Tier::Slow,
        }
    }

    fn moves(&self) -> u64 {
        0
    }
}

fn empty(figure: &'static str, tree: &'static str, policy: &str) -> Row {
    Row {
        figure,
        tree,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touches_add_up_from_the_coldest_node_on() {
        let parts = touches_so_far(&[0, 0, 1, 3]);
        assert_eq!(parts.len(), 101);
        assert_eq!(
            (parts[0], parts[50], parts[75], parts[100]),
            (0.0, 0.0, 0.25, 1.0)
        );
        assert!(touches_so_far(&[]).iter().all(|part| *part == 0.0));
    }
}
