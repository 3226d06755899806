//! The paper's own policy for LSM-trees, and the rows of its Table 3.

use anyhow::{Result, bail};
use serde::Serialize;
use std::process::ExitCode;
use std::time::Duration;
use terrace_bench::Report;
use terrace_bench::numbers::count;

use crate::args::paper_name_of;
use crate::args::{BenchArgs, KindName, LogMode, Switch, WorkloadName};
use crate::engine::{BiLsmOptions, Law, Rates};
use crate::output::{print, tell};

/// Longest period of the control, in seconds.
const LONGEST_PERIOD: f64 = 3600.0;

/// Refuses what makes no sense.
pub fn check(args: &BenchArgs) -> Result<()> {
    let paper = &args.paper;
    if paper.promote.is_none() && !paper.table3 {
        if paper.control_period.is_some() {
            bail!("--control-period needs --promote or --table3");
        }
        return Ok(());
    }
    let option = if paper.table3 {
        "--table3"
    } else {
        "--promote"
    };
    if args.structure != KindName::Lsm || args.tiers == 1 || args.record_cache.is_some() {
        bail!(
            "only an LSM-tree with two tiers has the paper's policy for LSM-trees: {option} needs \
             --structure lsm --tiers 2"
        );
    }
    if args.workload == WorkloadName::Replay {
        bail!("the workload replay reads nothing that could be promoted: {option} needs another");
    }
    if paper.table3 && args.workload != WorkloadName::C {
        bail!("Table 3 is about lookups: --table3 needs --workload c");
    }
    let period = paper.control_period.unwrap_or(1.0);
    if !(0.001..=LONGEST_PERIOD).contains(&period) {
        bail!(
            "--control-period takes a number of seconds from 0.001 to {LONGEST_PERIOD}, not {period}"
        );
    }
    Ok(())
}

/// The policy that is asked for.
pub fn policy(args: &BenchArgs) -> Option<BiLsmOptions> {
    let paper = &args.paper;
    let on = |switch| switch == Switch::On;
    Some(BiLsmOptions {
        rates: paper.promote?,
        early: on(paper.early),
        control: on(paper.control).then(Law::default),
        period: Duration::from_secs_f64(paper.control_period.unwrap_or(1.0)),
        working_set: true,
    })
}

/// How a report says it.
pub fn label(args: &BenchArgs) -> Option<String> {
    let paper = &args.paper;
    Some(format!(
        "paper, promote {}, early {}, control {}",
        paper_name_of(paper.promote?),
        paper.early.name(),
        paper.control.name()
    ))
}

/// A row of Table 3: what the paper calls it, what is on, its bytes for each lookup, and its lookups a second.
struct Row {
    name: &'static str,
    rates: Rates,
    early: Switch,
    control: Switch,
    papers: (f64, f64),
}

const ROWS: [Row; 6] = [
    row("LSM-tree", Rates::Never, false, false, (0.0, 190e3)),
    row("+ naive migration", Rates::All, false, false, (67.0, 185e3)),
    row(
        "+ constant sampling",
        Rates::Constant(0.3),
        false,
        false,
        (21.0, 297e3),
    ),
    row(
        "+ exponential sampling",
        Rates::Exponential,
        false,
        false,
        (8.0, 308e3),
    ),
    row(
        "+ early migration",
        Rates::Exponential,
        true,
        false,
        (7.9, 353e3),
    ),
    row(
        "+ adaptive migration",
        Rates::Exponential,
        true,
        true,
        (3.8, 376e3),
    ),
];

const fn row(
    name: &'static str,
    rates: Rates,
    early: bool,
    control: bool,
    papers: (f64, f64),
) -> Row {
    Row {
        name,
        rates,
        early: if early { Switch::On } else { Switch::Off },
        control: if control { Switch::On } else { Switch::Off },
        papers,
    }
}

/// What was measured of a row.
#[derive(Serialize)]
struct Measured {
    row: &'static str,
    promote: String,
    early: &'static str,
    control: &'static str,
    /// Bytes of records that were written down from the memtable, for each lookup.
    migrated_bytes_per_lookup: f64,
    /// Bytes of pages that merging has made, for each lookup.
    merge_bytes_per_lookup: f64,
    /// All bytes written to disk, for each lookup.
    disk_bytes_per_lookup: f64,
    page_reads_per_lookup: f64,
    promotions_per_lookup: f64,
    lookups_per_second: f64,
    /// What the paper says.
    papers_bytes_per_lookup: f64,
    papers_lookups_per_second: f64,
    report: Report,
}

impl Measured {
    fn of(row: &Row, report: Report) -> Measured {
        let each = |n: u64| n as f64 / report.ops.max(1) as f64;
        let counters = &report.counters;
        Measured {
            row: row.name,
            promote: paper_name_of(row.rates),
            early: row.early.name(),
            control: row.control.name(),
            migrated_bytes_per_lookup: each(counters.merge_arrived_bytes),
            merge_bytes_per_lookup: each(counters.merge_bytes),
            disk_bytes_per_lookup: each(counters.disk_bytes_written),
            page_reads_per_lookup: report.page_reads_per_op,
            promotions_per_lookup: each(counters.promotions),
            lookups_per_second: report.ops_per_second,
            papers_bytes_per_lookup: row.papers.0,
            papers_lookups_per_second: row.papers.1,
            report,
        }
    }
}

/// Runs the six rows, each by `one`, and prints them.
pub fn table3(args: &BenchArgs, one: impl Fn(&BenchArgs) -> Result<Report>) -> Result<ExitCode> {
    let mut all = Vec::new();
    for row in &ROWS {
        let mut args = args.clone();
        args.paper.table3 = false;
        args.paper.promote = Some(row.rates);
        args.paper.early = row.early;
        args.paper.control = row.control;
        args.remove = true;
        if args.log != LogMode::Off {
            // As the paper's runs; loading would leave a log to be written off.
            args.log = LogMode::Off;
        }
        if !args.json {
            tell(row.name);
        }
        all.push(Measured::of(row, one(&args)?));
    }
    if args.json {
        print(&format!("{}\n", serde_json::to_string(&all)?))?;
    } else {
        print(&text(&all))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(all: &[Measured]) -> String {
    let mut text = format!(
        "{:<24} {:>9} {:>9} {:>9} {:>9} {:>9} {:>11}   {}\n",
        "for each lookup",
        "promoted",
        "migrated",
        "merged",
        "to disk",
        "reads",
        "lookups/s",
        "paper"
    );
    for m in all {
        text += &format!(
            "{:<24} {:>9.4} {:>7.1} B {:>7.1} B {:>7.1} B {:>9.4} {:>11}   {} B, {}/s\n",
            m.row,
            m.promotions_per_lookup,
            m.migrated_bytes_per_lookup,
            m.merge_bytes_per_lookup,
            m.disk_bytes_per_lookup,
            m.page_reads_per_lookup,
            count(m.lookups_per_second.round()),
            m.papers_bytes_per_lookup,
            count(m.papers_lookups_per_second),
        );
    }
    text
}
