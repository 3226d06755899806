//! What the experiments share: plans of a setting's size, the best of them, and rows.

use crate::Setting;
use crate::contender::Contender;
use crate::row::{Row, round};
use crate::run::{Outcome, Plan, WhichTree, run};
use crate::workload::{BLOCKS, Workload};
use anyhow::Result;
use serde_json::json;

/// Entries and operations of a run of full size.
const ENTRIES: f64 = 2_000_000.0;

pub const OPERATIONS: f64 = 20_000_000.0;

/// A plan of this setting's size.
pub fn plan(setting: &Setting, workload: Workload, fast_share: f64) -> Plan {
    let entries = ((ENTRIES * setting.scale) as u64).max(1000);
    // Ranges touch many leaves each.
    let scans = if workload.scan > 0 { 10.0 } else { 1.0 };
    // A leaf of a radix tree has one entry, not eleven: as many lookups for each leaf.
    let leaves = if setting.tree == WhichTree::Art {
        10.0
    } else {
        1.0
    };
    let operations = ((OPERATIONS * setting.scale * leaves / scans) as u64).max(2000);
    // Only blocks of a device can be recorded.
    let trace = setting
        .trace
        .clone()
        .filter(|_| workload.name == BLOCKS.name);
    let entries = trace.as_ref().map_or(entries, |trace| trace.entries);
    Plan {
        tree: setting.tree,
        trace,
        cache: setting.cache,
        delay: setting.delay,
        memories: setting.memories.clone(),
        ..Plan::new(entries, operations, workload, fast_share)
    }
}

/// The row of an outcome, with its time where that is measured.
pub fn row(
    figure: &'static str,
    plan: &Plan,
    outcome: &Outcome,
    best: Option<f64>,
    setting: &Setting,
) -> Row {
    let row = Row::of(
        (figure, plan.tree.name()),
        plan.contender.name(),
        plan.workload.name,
        plan.fast_share,
        outcome,
        best,
        &setting.rs,
    );
    if setting.timed {
        return row.with("ns_per_op", round(outcome.nanoseconds));
    }
    row
}

/// What the best placement of nodes reaches.
pub fn optimum(plan: &Plan) -> Result<Outcome> {
    run(&Plan {
        delay: None,
        ..plan.by(Contender::Optimum)
    })
}

/// A number for a row's further figures.
pub fn number(value: f64) -> serde_json::Value {
    json!(round(value))
}
