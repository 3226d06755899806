//! What a get costs in Rust, to compare with `bench/get.c`: get FOLDER RECORDS GETS.
//!
//! Prints the processor time of a get; run with two numbers of gets under callgrind it tells the instructions.

use std::time::Duration;

use terrace_ffi::terrace::{Database, Options};

/// Processor time of this process so far.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn main() -> terrace_ffi::terrace::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |i: usize| arguments.get(i).and_then(|n| n.parse::<u64>().ok());
    let (Some(folder), Some(records), Some(gets)) = (arguments.get(1), number(2), number(3)) else {
        eprintln!("get FOLDER RECORDS GETS");
        std::process::exit(2);
    };
    let db = Database::open(folder, Options::new().memory(256 << 20))?;
    let tree = db.tree("t")?;
    for i in 0..records {
        tree.put(format!("{i:016}"), [b'v'; 100])?;
    }
    let keys: Vec<String> = (0..4096u64)
        .map(|i| format!("{:016}", i * 2_654_435_761 % records))
        .collect();
    let mut value = Vec::new();
    let mut best = Duration::MAX;
    let mut found = 0;
    for _ in 0..5 {
        let began = processor();
        for i in 0..gets {
            tree.get_into(&keys[i as usize & 4095], &mut value)?;
            found += value.len() as u64;
        }
        best = best.min(processor() - began);
    }
    println!("{:.1} ns ({found})", best.as_nanos() as f64 / gets as f64);
    Ok(())
}
