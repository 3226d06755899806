//! Measures the log alone: appends a second, log bytes per user byte, syncs, replay.
//!
//! `cargo run --release -p terrace-measure --bin log_speed -- DIRECTORY [THREADS] [RECORDS]`

use std::sync::Arc;
use std::time::Instant;

use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_wal::{Durability, Log, LogOptions};

fn main() -> terrace_base::Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().unwrap_or_else(|| "log-speed".to_owned());
    let threads: usize = args.next().and_then(|a| a.parse().ok()).unwrap_or(4);
    let records: usize = args
        .next()
        .and_then(|a| a.parse().ok())
        .unwrap_or(2_000_000);
    let disk = Arc::new(FileDisk::open_or_create(&directory, DirectIo::Preferred)?);
    let log = Log::create(disk.clone(), LogOptions::default(), 0)?;
    let start = log.position();
    for (durability, records) in [
        (Durability::Buffered, records),
        (Durability::Sync, records / 1000),
    ] {
        let before = log.stats();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let log = &log;
                scope.spawn(move || {
                    // 8 bytes of key, 120 of value, and what says so.
                    let payload = [7u8; 134];
                    for _ in 0..records / threads {
                        let mut reservation = log.reserve(payload.len()).expect("space");
                        let appended = log.append(&mut reservation, &[&payload]);
                        log.commit(appended, durability).expect("a disk that works");
                    }
                });
            }
        });
        let seconds = began.elapsed().as_secs_f64();
        let stats = log.stats();
        let done = (stats.records - before.records) as f64;
        println!(
            "{durability:?}: {:.0} records/s, {:.3} log bytes per user byte, {:.2} records a write, {:.2} commits a sync",
            done / seconds,
            (stats.log_bytes - before.log_bytes) as f64 / (done * 128.0),
            done / (stats.writes - before.writes).max(1) as f64,
            (stats.sync_commits - before.sync_commits) as f64
                / (stats.syncs - before.syncs).max(1) as f64,
        );
    }
    log.close()?;
    drop(log);
    let began = Instant::now();
    let (_, report) = Log::recover(disk, LogOptions::default(), start, 0, &mut |_, _| Ok(()))?;
    println!(
        "replay: {:.0} records/s ({} records)",
        report.records as f64 / began.elapsed().as_secs_f64(),
        report.records
    );
    std::fs::remove_dir_all(&directory)
        .map_err(|e| terrace_base::Error::io("removing", directory, e))
}
