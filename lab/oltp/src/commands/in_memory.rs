//! Table 1, Figure 8 and Table 3 of the paper on hybrid indexes: everything in memory, the same rows below all indexes.

use std::time::Duration;

use serde::Serialize;

use crate::drive::{Course, Outcome, run as drive};
use crate::engines::rows::{Maps, Rows};
use crate::txn::Engine;
use crate::work::Work;
use crate::{articles, tpcc};

/// Partitions, and clients: one of these machines' cores each.
const PARTITIONS: usize = 2;

/// The three workloads, each with the transactions of a run: as much as the paper's, or a tenth.
pub fn works(quick: bool) -> Vec<(Work, u64)> {
    let tpcc = match quick {
        false => tpcc::Size::standard(8),
        true => tpcc::Size {
            warehouses: 2,
            customers: 1500,
            items: 20_000,
            ..tpcc::Size::standard(2)
        },
    };
    let (part, scale) = if quick { (10, 0.1) } else { (1, 1.0) };
    let articles = articles::Size {
        users: (20_000.0 * scale) as u32,
        ..articles::Size::scaled(scale)
    };
    vec![
        (Work::Tpcc(tpcc), 1_000_000 / part),
        (Work::Voter(1 << 40), 6_000_000 / part),
        (Work::Articles(articles), 3_000_000 / part),
    ]
}

/// What a run of one workload over one kind of index came to.
#[derive(Clone, Serialize)]
pub struct Measured {
    /// The workload.
    pub work: &'static str,
    /// The indexes.
    pub maps: &'static str,
    /// Primary keys as numbers, or the same 8 bytes as byte strings.
    pub numbers: bool,
    /// Bytes of rows.
    pub rows: u64,
    /// Bytes of primary indexes.
    pub primary: u64,
    /// Bytes of all others.
    pub secondary: u64,
    /// Bytes of all indexes.
    pub indexes: u64,
    /// Their share of the memory.
    pub index_share: f64,
    /// Transactions that a processor does in a second.
    pub per_processor: f64,
    /// Of the run.
    pub outcome: Outcome,
}

/// Loads, warms up with a fifth of the transactions, runs them, checks.
///
/// # Errors
/// Those of the store, and oracles that do not hold.
pub fn measure(
    work: &Work,
    maps: Maps,
    numbers: bool,
    transactions: u64,
) -> anyhow::Result<Measured> {
    let engine = Rows::in_memory(work.schema(), maps, numbers, PARTITIONS)?;
    work.load(&engine)?;
    let time = Duration::from_secs(3600);
    let course = Course {
        clients: PARTITIONS,
        time,
        transactions,
        seed: 1,
        watch: false,
    };
    drive(
        &engine,
        work,
        Course {
            transactions: transactions / 5,
            seed: 2,
            ..course
        },
    );
    let outcome = drive(&engine, work, course);
    if let Some(why) = &outcome.ended {
        anyhow::bail!("{} over {}: {why}", work.name(), maps.name());
    }
    let stats = engine.store().stats();
    let sum = |of: fn(&terrace_rows::TableStats) -> u64| stats.tables.iter().map(of).sum();
    let (rows, primary) = (stats.row_bytes(), sum(|table| table.primary_bytes));
    let secondary = sum(|table| table.index_bytes);
    let indexes = primary + secondary;
    let measured = Measured {
        work: work.name(),
        maps: maps.name(),
        numbers,
        rows,
        primary,
        secondary,
        indexes,
        per_processor: 1e6 / outcome.processor_us.max(1e-3),
        index_share: indexes as f64 / (rows + indexes).max(1) as f64,
        outcome,
    };
    work.check(&engine as &dyn Engine, measured.outcome.changed)?;
    Ok(measured)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Table 1: what indexes take of the memory, with the B+tree.
///
/// # Errors
/// As [`measure`].
pub fn table1(quick: bool, json: bool) -> anyhow::Result<()> {
    for (work, transactions) in works(quick) {
        let m = measure(&work, Maps::BTree, false, transactions)?;
        if json {
            println!("{}", serde_json::to_string(&m)?);
            continue;
        }
        let all = (m.rows + m.indexes) as f64 / 100.0;
        println!(
            "{:9} rows {:5.1} %  primary indexes {:5.1} %  secondary indexes {:5.1} %  of {:.0} MiB",
            m.work,
            m.rows as f64 / all,
            m.primary as f64 / all,
            m.secondary as f64 / all,
            mib(m.rows + m.indexes),
        );
    }
    Ok(())
}

/// Figure 8 and Table 3: speed, memory and latencies over all kinds of indexes. The kinds take turns, `rounds` times;
/// the fastest round of each counts, as what disturbs only makes slower.
///
/// # Errors
/// As [`measure`].
pub fn fig8(
    quick: bool,
    json: bool,
    rounds: usize,
    all: bool,
    only_tpcc: bool,
    plot: Option<&std::path::Path>,
) -> anyhow::Result<()> {
    let kinds: &[Maps] = if all {
        &Maps::ALL
    } else {
        &[Maps::BTree, Maps::Hybrid, Maps::Compressed]
    };
    let mut lines = Vec::new();
    for (work, transactions) in works(quick).into_iter().take(if only_tpcc { 1 } else { 3 }) {
        for numbers in [false, true] {
            let mut best: Vec<Option<Measured>> = vec![None; kinds.len()];
            for _ in 0..rounds.max(1) {
                for (maps, best) in kinds.iter().zip(&mut best) {
                    let m = measure(&work, *maps, numbers, transactions)?;
                    if json {
                        println!("{}", serde_json::to_string(&m)?);
                    }
                    if best
                        .as_ref()
                        .is_none_or(|best| m.per_processor > best.per_processor)
                    {
                        *best = Some(m);
                    }
                }
            }
            let best: Vec<Measured> = best.into_iter().flatten().collect();
            let Some(base) = best.first().cloned() else {
                continue;
            };
            for m in &best {
                lines.push((
                    format!(
                        "{} {} {}",
                        m.work,
                        m.maps,
                        if numbers { "numbers" } else { "bytes" }
                    ),
                    m.per_processor,
                ));
            }
            if json {
                continue;
            }
            println!(
                "{}, keys as {}, over the B+tree:",
                base.work,
                if numbers { "numbers" } else { "byte strings" }
            );
            for m in &best {
                let ratio = |of: fn(&Measured) -> f64| of(m) / of(&base);
                println!(
                    "  {:20} {:8.0} a second of a processor ({:.2})  indexes {:7.1} MiB ({:.2})  all {:7.1} MiB ({:.2})  p50 {:.1} us ({:.2})  \
                     p99 {:.1} us ({:.2})  longest {:.2} ms",
                    m.maps,
                    m.per_processor,
                    ratio(|m| m.per_processor),
                    mib(m.indexes),
                    ratio(|m| m.indexes as f64),
                    mib(m.rows + m.indexes),
                    ratio(|m| (m.rows + m.indexes) as f64),
                    m.outcome.p50,
                    ratio(|m| m.outcome.p50),
                    m.outcome.p99,
                    ratio(|m| m.outcome.p99),
                    m.outcome.longest / 1e3,
                );
            }
        }
    }
    match plot {
        Some(path) => super::plot::bars(path, "Transactions a second of a processor", &lines),
        None => Ok(()),
    }
}
