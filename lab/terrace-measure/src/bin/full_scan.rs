//! What it takes to read a whole table with one tier whose rows came in random order: page by page,
//! and in the order of the keys.
//!
//! `full_scan DIRECTORY [ROWS [MEMORY]]`: rows of 120 bytes with keys of 8, memory in bytes, by default
//! a tenth of them.

use std::time::Instant;

use terrace::{Database, Options, TableOptions, Tiers};

fn main() -> terrace::Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(directory) = args.next() else {
        eprintln!("full_scan DIRECTORY [ROWS [MEMORY]]");
        std::process::exit(2);
    };
    let mut number = |default: u64| args.next().and_then(|n| n.parse().ok()).unwrap_or(default);
    let rows = number(1_000_000);
    let memory = number(rows * 128 / 10);
    let open = || Database::open(&directory, Options::new().memory(memory));
    let kind = TableOptions::new().tiers(Tiers::One).logged(false);
    let db = Database::open(&directory, Options::new().memory(1 << 30))?;
    let table = db.table_with("rows", kind.clone())?;
    for i in 0..rows {
        // An odd factor: each key once, in an order that looks random.
        let key = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        table.put(key, [i as u8; 120])?;
    }
    drop(table);
    db.close()?;
    for in_order in [false, true] {
        let db = open()?;
        let table = db.table_with("rows", kind.clone())?;
        let begun = Instant::now();
        let count = match in_order {
            true => table.iter()?.count(),
            false => table.iter_unordered()?.count(),
        };
        println!(
            "{}: {count} rows, {} page reads of {} bytes, {:.1} s",
            if in_order { "iter" } else { "iter_unordered" },
            db.stats().pages.reads,
            db.stats().pages.page_bytes,
            begun.elapsed().as_secs_f64()
        );
        drop(table);
        db.close()?;
    }
    Ok(())
}
