//! The log on real files: the same behaviour, long records, and its cost in bytes.

use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_sim::SimDisk;

use super::basics::put;
use crate::{Durability, Log, LogOptions};

fn disk(directory: &tempfile::TempDir) -> Arc<dyn Disk> {
    Arc::new(FileDisk::open(directory.path(), DirectIo::Preferred).unwrap())
}

#[test]
fn long_records_stream_over_segments() {
    let directory = tempfile::tempdir().unwrap();
    let options = LogOptions {
        segment_bytes: 1 << 20,
        buffer_bytes: 64 << 10,
        ..LogOptions::default()
    };
    let log = Log::create(disk(&directory), options.clone(), 0).unwrap();
    let from = log.position();
    let long: Vec<u8> = (0..5_000_000u32).map(|i| (i ^ i >> 8) as u8).collect();
    put(&log, b"before", Durability::Buffered).unwrap();
    put(&log, &long, Durability::Sync).unwrap();
    put(&log, b"after", Durability::Buffered).unwrap();
    assert!(log.bytes_since(from) < long.len() as u64 * 101 / 100 + 4096);
    // Leaves without closing: what was handed to the operating system is there.
    drop(log);
    let mut found = Vec::new();
    let (log, report) = Log::recover(disk(&directory), options, from, 0, &mut |_, bytes| {
        found.push(bytes.to_vec());
        Ok(())
    })
    .unwrap();
    assert!(found == [b"before".to_vec(), long, b"after".to_vec()]);
    assert_eq!(report.records, 3);
    let cut = log.position();
    log.checkpointed(cut, 1).unwrap();
    drop(log);
    assert_eq!(disk(&directory).list().unwrap().len(), 1);
}

#[test]
fn small_records_cost_little_more_than_themselves() {
    // 8 bytes of key, 120 of value, and a few for what is done with them: committed one by one by
    // threads that share writes only as it happens, the log may take 1.2 times the 128 bytes.
    let directory = tempfile::tempdir().unwrap();
    let log = Log::create(disk(&directory), LogOptions::default(), 0).unwrap();
    let from = log.position();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..5000 {
                    put(&log, &[7; 134], Durability::Buffered).unwrap();
                }
            });
        }
    });
    let ratio = log.bytes_since(from) as f64 / (20_000.0 * 128.0);
    assert!(ratio <= 1.2, "{ratio}");
}

#[test]
fn segments_grow_with_the_writing_and_shrink_again() {
    let disk = SimDisk::new(1);
    let options = LogOptions {
        first_segment_bytes: 16 << 10,
        segment_bytes: 1 << 20,
        buffer_bytes: 256 << 10,
        seed: Some(1),
        ..LogOptions::default()
    };
    let log = Log::create(disk.shared(), options.clone(), 0).unwrap();
    assert_eq!(log.disk_bytes(), 16 << 10);
    let from = log.position();
    // Each is longer than the first segments, and goes through the buffer.
    for i in 0..60u8 {
        put(&log, &[i; 60_000], Durability::Buffered).unwrap();
    }
    let made = log.stats().segments_created;
    assert!(made <= 12, "{made} segments");
    let copy = disk.copy();
    let mut found = Vec::new();
    let mut apply = |_: u64, bytes: &[u8]| {
        found.push(bytes.to_vec());
        Ok(())
    };
    Log::recover(copy.shared(), options, from, 0, &mut apply).unwrap();
    assert!(found.into_iter().eq((0..60u8).map(|i| vec![i; 60_000])));
    // Checkpoints that find little written.
    for generation in 1..12 {
        log.checkpointed(log.position(), generation).unwrap();
    }
    let before = log.stats().segments_created;
    while log.stats().segments_created == before {
        put(&log, &[1; 1000], Durability::Buffered).unwrap();
    }
    let last = disk.names().into_iter().max().unwrap();
    assert_eq!(disk.contents(&last).unwrap().len(), 16 << 10);
}
