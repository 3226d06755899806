//! The memory that the log names is the memory that it takes: what the process has resident beyond its
//! start stays within it, whatever is appended.

#![cfg(all(target_os = "linux", not(feature = "shuttle")))]

use std::sync::Arc;

use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_wal::{Durability, Log, LogOptions};

const BUFFER: usize = 8 << 20;
/// Stacks, the allocator's own, code touched for the first time.
const SLACK: usize = 3 << 20;

/// Resident memory that no file stands behind.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("RssAnon:")).unwrap();
    let kib = line.split_whitespace().nth(1).unwrap();
    kib.parse::<usize>().unwrap() * 1024
}

fn put(log: &Log, payload: &[u8]) {
    let mut reservation = log.reserve(payload.len()).unwrap();
    let appended = log.append(&mut reservation, &[payload]);
    log.commit(appended, Durability::Buffered).unwrap();
}

/// The only test of this file, so that nothing else is resident in its process.
#[test]
fn what_the_log_takes_is_what_it_says() {
    let directory = tempfile::tempdir().unwrap();
    let disk = Arc::new(FileDisk::open(directory.path(), DirectIo::Preferred).unwrap());
    let long = vec![5; 20 << 20];
    let start = resident();
    let options = LogOptions {
        segment_bytes: 4 << 20,
        buffer_bytes: BUFFER,
        ..LogOptions::default()
    };
    let log = Log::create(disk, options, 0).unwrap();
    let mut most = 0;
    for round in 1..=4 {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..20_000).for_each(|_| put(&log, &[7; 134])));
            }
        });
        put(&log, &long);
        most = most.max(resident().saturating_sub(start));
        log.checkpointed(log.position(), round).unwrap();
    }
    let says = log.memory_bytes();
    assert!((BUFFER..=BUFFER + 4096).contains(&says), "{says}");
    assert!(most <= says + SLACK, "{most} taken, {says} said");
}
