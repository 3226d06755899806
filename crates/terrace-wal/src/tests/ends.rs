//! What recovery makes of odd ends: the last number there is, files that are gone, disks that forget.

use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk};

use super::basics::{put, recover_with, small};
use crate::{Durability, Log};

#[test]
fn a_seal_whose_sync_failed_is_written_again() {
    let mut failed = 0;
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let log = Log::create(disk.shared(), small(1), 0).unwrap();
        let from = log.position();
        put(&log, b"one", Durability::Sync).unwrap();
        drop(log);
        let before = disk.calls_of(Op::Sync);
        // Of the syncs of an opening that of the seal is the last.
        let copy = disk.copy();
        let (log, ..) = recover_with(&copy, small(2), from, 0).unwrap();
        drop(log);
        let nth = copy.calls_of(Op::Sync) - before;
        disk.inject(Injection::at(Op::Sync, nth, DiskFault::Eio));
        failed += u64::from(recover_with(&disk, small(2), from, 0).is_err());
        // The cache may show the seal and take it for clean.
        let (log, ..) = recover_with(&disk, small(3), from, 0).unwrap();
        put(&log, b"two", Durability::Sync).unwrap();
        drop(log);
        let (_, _, records) = recover_with(&disk.crash(seed), small(4), from, 0).unwrap();
        assert_eq!(records.len(), 2, "seed {seed}");
    }
    assert_eq!(failed, 60);
}
