//! One operation, everything in memory, one thread: rows in memory beside the engine's table. What decides whether rows
//! in memory are worth a product of their own.

use std::path::Path;

use serde::Serialize;
use terrace::Tiers;
use terrace_bench::rng::{Rng, mix};
use terrace_bench::zipf::Zipf;

use crate::engines::rows::{Maps, Rows};
use crate::engines::terrace::Tables;
use crate::work::Work;
use crate::ycsb::{Operation, Plan, Skew};

/// Nanoseconds that this thread has had of a processor: what others do there does not count.
pub(super) fn processor_time() -> anyhow::Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse()?)
}

/// Nanoseconds of an operation: the best of several rounds, as what disturbs only makes slower.
fn each(
    operations: u64,
    mut operation: impl FnMut(u64) -> anyhow::Result<()>,
    zipf: &Zipf,
    rows: u64,
) -> anyhow::Result<f64> {
    let mut best = f64::MAX;
    for round in 0..5 {
        let mut rng = Rng::new(round);
        let keys: Vec<u64> = (0..operations / 5)
            .map(|_| mix(zipf.draw(&mut rng).wrapping_add(1)) % rows)
            .collect();
        let begin = processor_time()?;
        for key in &keys {
            operation(*key)?;
        }
        best = best.min((processor_time()? - begin) as f64 / keys.len() as f64);
    }
    Ok(best)
}

#[derive(Serialize)]
struct Line {
    engine: &'static str,
    read_ns: f64,
    read_in_transaction_ns: f64,
    change_ns: f64,
    bytes_a_row: f64,
}

/// Measures both.
///
/// # Errors
/// Those of the engines.
pub fn run(dir: &Path, rows: u64, operations: u64, json: bool) -> anyhow::Result<()> {
    let plan = Plan {
        rows,
        bytes: 120,
        skew: Skew::Zipf(0.9),
        operation: Operation::Read,
    };
    let work = Work::Ycsb(plan);
    let zipf = Zipf::new(rows, 0.9);
    let mut lines = Vec::new();
    for (name, maps) in [
        ("rows, B+tree", Maps::BTree),
        ("rows, hybrid", Maps::Hybrid),
    ] {
        let engine = Rows::in_memory(work.schema(), maps, true, 1)?;
        work.load(&engine)?;
        let (store, table) = (engine.store(), engine.handle(0));
        let mut sum = 0u64;
        let read = each(
            operations,
            |key| {
                let found = store.transact(|t| {
                    Ok::<_, terrace_rows::Error>(
                        t.bytes(table, &key.to_be_bytes())?
                            .map(|row| u64::from(row[0])),
                    )
                })?;
                sum += found.unwrap_or_default();
                Ok(())
            },
            &zipf,
            rows,
        )?;
        let mut buffer = Vec::new();
        let change = each(
            operations,
            |key| {
                store.transact(|t| {
                    let key = key.to_be_bytes();
                    buffer.clear();
                    buffer.extend_from_slice(
                        t.bytes(table, &key)?.ok_or(terrace_rows::Error::Missing)?,
                    );
                    buffer[8] = buffer[8].wrapping_add(1);
                    t.put_bytes(table, &key, &buffer)
                })?;
                Ok(())
            },
            &zipf,
            rows,
        )?;
        std::hint::black_box(sum);
        let stats = store.stats();
        let bytes_a_row = stats.memory() as f64 / rows as f64;
        lines.push(Line {
            engine: name,
            read_ns: read,
            read_in_transaction_ns: read,
            change_ns: change,
            bytes_a_row,
        });
    }
    let dir = dir.join("single");
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    // Enough that nothing leaves memory.
    let memory = (rows * 120 * 4).max(256 << 20);
    let engine = Tables::open(&dir, memory, work.schema(), Tiers::Two)?;
    work.load(&engine)?;
    let (db, table) = (engine.database(), engine.table(0));
    let mut value = Vec::new();
    let read = each(
        operations,
        |key| {
            anyhow::ensure!(
                table.get_into(key.to_be_bytes(), &mut value)?,
                "row {key} is missing"
            );
            Ok(())
        },
        &zipf,
        rows,
    )?;
    let read_in_transaction = each(
        operations,
        |key| {
            let row = db.transaction(|t| t.get(table, key.to_be_bytes()))?;
            anyhow::ensure!(row.is_some(), "row {key} is missing");
            Ok(())
        },
        &zipf,
        rows,
    )?;
    let change = each(
        operations,
        |key| {
            let key = key.to_be_bytes();
            db.transaction(|t| {
                let mut row = t.get(table, key)?.unwrap_or_default();
                if let Some(byte) = row.get_mut(8) {
                    *byte = byte.wrapping_add(1);
                }
                t.put(table, key, row)
            })?;
            Ok(())
        },
        &zipf,
        rows,
    )?;
    let reads = db.stats().pages.reads;
    lines.push(Line {
        engine: "table of the engine",
        read_ns: read,
        read_in_transaction_ns: read_in_transaction,
        change_ns: change,
        bytes_a_row: 0.0,
    });
    db.clone().close()?;
    std::fs::remove_dir_all(&dir)?;
    let table = &lines[2];
    for line in &lines {
        if json {
            println!("{}", serde_json::to_string(line)?);
        } else {
            println!(
                "{:20} read {:5.0} ns ({:.1} x), in a transaction {:5.0} ns ({:.1} x), read and changed in one {:5.0} ns ({:.1} x)",
                line.engine,
                line.read_ns,
                table.read_ns / line.read_ns,
                line.read_in_transaction_ns,
                table.read_in_transaction_ns / line.read_in_transaction_ns,
                line.change_ns,
                table.change_ns / line.change_ns,
            );
        }
    }
    if !json {
        println!("pages that the engine read meanwhile: {reads}");
    }
    Ok(())
}
