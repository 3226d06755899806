//! The experiments of the paper, each with its workloads and what it varies.

use crate::Setting;
use crate::contender::{ALL as POLICIES, Contender, PAPER};
use crate::row::{Row, round};
use crate::run::{Outcome, Plan, WhichTree, in_turns, run};
use crate::workload::{
    BLOCKS, RANGE, RANGE_INSERT, RANGE_SCAN, RANGE_UPDATE, UNIFORM, Workload, YCSB, ZIPF,
};
use anyhow::{Result, bail};
use terrace_place::{PlacedTree, Techniques};

/// All of them.
pub const ALL: [&str; 18] = [
    "fig2", "fig5", "fig6", "fig8", "fig13", "fig14", "fig15a", "fig15b", "fig15c", "fig16",
    "fig17", "fig18", "fig19", "fig20", "table2", "fig21", "records", "steps",
];

/// Runs one.
pub fn measure(name: &str, setting: &Setting) -> Result<Vec<Row>> {
    match name {
        "fig2" => fig2(setting),
        "fig5" => layers::fig5(setting),
        "fig6" => layers::fig6(setting),
        "fig8" => fig8(setting),
        "fig13" => compare(
            "fig13",
            &[RANGE, RANGE_INSERT, RANGE_UPDATE, RANGE_SCAN],
            0.1,
            setting,
        ),
        "fig14" => compare("fig14", &YCSB, 0.2, setting),
        "fig15a" => fig15a(setting),
        "fig15b" => fig15b(setting),
        "fig15c" => fig15c(setting),
        "fig16" => threads::fig16(setting),
        "fig17" => fig17(setting),
        "fig18" => sizes::fig18(setting),
        "fig19" => fig19(setting),
        "fig20" => fig20(setting),
        "table2" => table2(setting),
        "fig21" => compare("fig21", &[BLOCKS], 0.2, setting),
        "steps" => steps::steps(setting),
        "records" => records::records(setting),
        other => bail!(
            "there is no experiment `{other}`: {}, bars, all",
            ALL.join(", ")
        ),
    }
}

mod layers;
mod plans;
pub mod records;
mod sizes;
mod steps;
mod threads;

pub use plans::{OPERATIONS, optimum, plan};

use plans::row;

fn policies(setting: &Setting) -> Vec<Contender> {
    if setting.policies.is_empty() {
        POLICIES.to_vec()
    } else {
        setting.policies.clone()
    }
}

/// All policies on some workloads.
fn compare(
    figure: &'static str,
    workloads: &[Workload],
    share: f64,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for workload in workloads {
        let plan = plan(setting, *workload, share);
        let outcome = optimum(&plan)?;
        // Where nodes are made meanwhile, the best placement of those before is no bound.
        let best = (workload.insert == 0).then_some(outcome.fast_missing);
        rows.push(row(
            figure,
            &plan.by(Contender::Optimum),
            &outcome,
            best,
            setting,
        ));
        let plans: Vec<Plan> = policies(setting).iter().map(|c| plan.by(*c)).collect();
        for (plan, outcome) in plans.iter().zip(measure_all(&plans, setting)?) {
            rows.push(row(figure, plan, &outcome, best, setting));
        }
    }
    Ok(rows)
}

/// Runs plans: in turns if time is measured, else one after the other, so that one tree is held.
fn measure_all(plans: &[Plan], setting: &Setting) -> Result<Vec<Outcome>> {
    match setting.timed {
        true => in_turns(plans),
        false => plans.iter().map(run).collect(),
    }
}

/// Weighted allocation alone, by the share of fast memory.
fn fig2(setting: &Setting) -> Result<Vec<Row>> {
    let all = run(&plan(setting, ZIPF, 1.0).by(Contender::AllFast))?;
    let mut rows = vec![];
    for share in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let plan = plan(setting, ZIPF, share).by(Contender::Interleave);
        let outcome = run(&plan)?;
        let mut row = row("fig2", &plan, &outcome, None, setting);
        for r in &setting.rs {
            let loss = 1.0 - all.time(*r) / outcome.time(*r);
            row = row.with(&format!("loss_r{r}"), round(loss));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// By the share of hot paths in fast memory.
fn fig8(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for share in [0.01, 0.02, 0.04, 0.06, 0.08, 0.1] {
        let plan = plan(setting, RANGE, share).by(Contender::Prophet);
        let outcome = run(&plan)?;
        rows.push(row("fig8", &plan, &outcome, None, setting));
    }
    Ok(rows)
}

/// What is hot moves in the middle.
fn fig15a(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    let chosen = if setting.policies.is_empty() {
        vec![
            Contender::Heat,
            Contender::Sinlk(PAPER),
            Contender::Memtis4K,
            Contender::Tpp,
        ]
    } else {
        setting.policies.clone()
    };
    for workload in [RANGE, ZIPF] {
        for contender in &chosen {
            let mut plan = plan(
                setting,
                workload,
                if workload.name == "sp" { 0.1 } else { 0.2 },
            );
            plan = plan.by(*contender);
            plan.shift = Some(plan.operations / 2);
            plan.window = (plan.operations / 40).max(1);
            let outcome = run(&plan)?;
            rows.push(row("fig15a", &plan, &outcome, None, setting));
        }
    }
    Ok(rows)
}

/// By how often the engine is woken: operations from one step to the next.
fn fig15b(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    let chosen = match setting.policies.is_empty() {
        true => vec![Contender::Heat, Contender::Sinlk(PAPER)],
        false => setting.policies.clone(),
    };
    for contender in chosen {
        for step_each in [16, 64, 256, 1024, 4096] {
            let plan = Plan {
                step_each,
                ..plan(setting, RANGE, 0.1).by(contender)
            };
            let outcome = run(&plan)?;
            let row = row("fig15b", &plan, &outcome, None, setting);
            rows.push(row.with("operations_a_step", step_each));
        }
    }
    Ok(rows)
}

/// By the share of fast memory.
fn fig15c(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for workload in [ZIPF, RANGE, UNIFORM] {
        for share in [0.1, 0.2, 0.4, 0.6, 0.8] {
            let plan = plan(setting, workload, share);
            let best = optimum(&plan)?.fast_missing;
            for contender in [
                Contender::Heat,
                Contender::Sinlk(PAPER),
                Contender::InternalFirst,
                Contender::Interleave,
            ] {
                let plan = plan.by(contender);
                let outcome = run(&plan)?;
                rows.push(row("fig15c", &plan, &outcome, Some(best), setting));
            }
        }
    }
    Ok(rows)
}

/// One technique after the other.
fn fig17(setting: &Setting) -> Result<Vec<Row>> {
    let none = Techniques {
        layering: false,
        leaf_tracking: false,
        migration: false,
        histogram: false,
        watermark: false,
    };
    let layering = Techniques {
        layering: true,
        ..none
    };
    let tracking = Techniques {
        leaf_tracking: true,
        ..layering
    };
    let migration = Techniques {
        migration: true,
        ..tracking
    };
    let histogram = Techniques {
        histogram: true,
        ..migration
    };
    let mut rows = vec![];
    for workload in [ZIPF, RANGE] {
        let share = if workload.name == "sp" { 0.1 } else { 0.2 };
        let plan = plan(setting, workload, share);
        let best = optimum(&plan)?.fast_missing;
        let steps = [none, layering, tracking, migration, histogram, PAPER];
        let contenders = steps.map(Contender::Sinlk);
        for contender in [Contender::Interleave, Contender::LayerOnly]
            .into_iter()
            .chain(contenders)
            .chain([Contender::Heat])
        {
            let plan = plan.by(contender);
            let outcome = run(&plan)?;
            rows.push(row("fig17", &plan, &outcome, Some(best), setting));
        }
    }
    Ok(rows)
}

/// The slowest operations with and without a watermark, and with leaves managed apart from inner
/// nodes, where new keys are the hot ones.
fn fig19(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    let passive = Techniques {
        watermark: false,
        ..PAPER
    };
    for contender in [
        Contender::Sinlk(passive),
        Contender::Separate,
        Contender::Sinlk(PAPER),
        Contender::Heat,
    ] {
        let plan = plan(setting, YCSB[3], 0.2).by(contender);
        let outcome = run(&plan)?;
        rows.push(row("fig19", &plan, &outcome, None, setting));
    }
    Ok(rows)
}

/// How full fast memory is over time.
fn fig20(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for contender in [Contender::Sinlk(PAPER), Contender::Heat] {
        let mut plan = plan(setting, YCSB[3], 0.2).by(contender);
        plan.window = (plan.operations / 40).max(1);
        let outcome = run(&plan)?;
        let mut row = row("fig20", &plan, &outcome, None, setting);
        row.series = outcome.filled_series.clone();
        rows.push(row);
    }
    Ok(rows)
}

/// What tracking and workers take.
fn table2(setting: &Setting) -> Result<Vec<Row>> {
    let mut rows = vec![];
    for contender in [Contender::AllFast, Contender::Heat, Contender::Sinlk(PAPER)] {
        let plan = plan(setting, ZIPF, 0.2).by(contender);
        let outcome = run(&plan)?;
        let heat = outcome.stats.as_ref().map_or(0, |s| s.heat_bytes);
        let mut row = row("table2", &plan, &outcome, None, setting)
            .with("bytes_an_entry", round(outcome.bytes_an_entry))
            .with("heat_bytes", heat);
        if plan.tree == WhichTree::BTree {
            let [leaf, inner] = PlacedTree::<u64, u64>::node_bytes();
            row = row.with("leaf_bytes", leaf).with("inner_bytes", inner);
        }
        let row = row.with("engine_share_of_time", round(outcome.engine_time));
        rows.push(row.with("longest_step_us", round(outcome.longest_step)));
    }
    Ok(rows)
}
