//! TPC-C on the engine's own tables, with two tiers and with one.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use terrace::Tiers;

use crate::drive::{Course, Outcome, run as drive};
use crate::engines::terrace::Tables;
use crate::tpcc;
use crate::work::Work;

/// One of the runs.
#[derive(Serialize)]
struct Line {
    tiers: &'static str,
    outcome: Outcome,
    new_orders_a_second: f64,
    pages_read_a_transaction: f64,
    on_device: f64,
}

/// Loads, runs, checks the conditions, for each of the two.
///
/// # Errors
/// Those of the database, and conditions that do not hold.
pub fn run(
    dir: &Path,
    warehouses: u16,
    memory: u64,
    seconds: u64,
    scale: u32,
    json: bool,
) -> anyhow::Result<()> {
    let standard = tpcc::Size::standard(warehouses);
    let size = tpcc::Size {
        customers: standard.customers / scale,
        items: standard.items / scale,
        ..standard
    };
    let work = Work::Tpcc(size);
    let mut lines = Vec::new();
    for (name, tiers) in [("two", Tiers::Two), ("one", Tiers::One)] {
        let dir = dir.join(name);
        if dir.exists() {
            std::fs::remove_dir_all(&dir)?;
        }
        let engine = Tables::open(&dir, memory, work.schema(), tiers)?;
        work.load(&engine)?;
        let course = Course {
            clients: 2,
            time: Duration::from_secs(seconds),
            transactions: u64::MAX,
            seed: 1,
            watch: false,
        };
        // The first half lets the tiers settle.
        drive(
            &engine,
            &work,
            Course {
                seed: 2,
                time: course.time / 2,
                ..course
            },
        );
        let outcome = drive(&engine, &work, course);
        work.check(&engine, 0)?;
        let n = outcome.done as f64;
        let bytes = outcome.figures.read_bytes + outcome.figures.written_bytes;
        let line = Line {
            tiers: name,
            new_orders_a_second: outcome.rate * 0.45,
            pages_read_a_transaction: outcome.figures.reads as f64 / n,
            on_device: super::on_device(outcome.rate, n, bytes as f64) * 0.45,
            outcome,
        };
        if json {
            println!("{}", serde_json::to_string(&line)?);
        } else {
            println!(
                "{name} tiers: {:.0} new orders a second here, {:.0} on a device of {} pages a second; {:.2} pages read \
                 a transaction, {} restarts of {} transactions; conditions 1 to 12 hold",
                line.new_orders_a_second,
                line.on_device,
                super::DEVICE_PAGES,
                line.pages_read_a_transaction,
                line.outcome.figures.restarts,
                line.outcome.done,
            );
            if let Some(why) = &line.outcome.ended {
                println!("  it ended before its time: {why}");
            }
        }
        lines.push(line.on_device);
        engine.database().clone().close()?;
        std::fs::remove_dir_all(&dir)?;
    }
    if !json {
        println!(
            "two tiers over one, on the device: {:.2}",
            lines[0] / lines[1]
        );
    }
    Ok(())
}
