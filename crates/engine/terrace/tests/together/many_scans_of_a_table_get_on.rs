//! Scans whose rows lie each on a page of its own need many pages at once; many of them together more than
//! there are frames. They must not take each other's pages away for ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace::{Database, MapOptions, Options, TableOptions, Tiers};
use terrace_sim::{Call, HookedDisk, SimDisk};

/// Many times what fits into memory.
const ROWS: u32 = 40_000;
/// As many as would need all frames several times over with windows of a whole leaf each.
const SCANS: usize = 24;
/// Rows that each is to see.
const WANTED: usize = 300;

fn key(i: u32) -> [u8; 4] {
    i.to_be_bytes()
}

#[test]
fn scans_of_rows_in_random_order_end_however_many_there_are() {
    for tiers in [Tiers::One, Tiers::Two] {
        let options = Options::new().memory(4 << 20).page_size(4096).seed(1);
        let disk = SimDisk::new(1);
        // Each read lets the other threads go first, as one that waits for a device does.
        let reads = Arc::new(AtomicUsize::new(0));
        let counted = reads.clone();
        let disk = HookedDisk::new(disk.shared(), move |call| {
            if let Call::Read("data") = call {
                counted.fetch_add(1, Ordering::Relaxed);
                (0..SCANS).for_each(|_| std::thread::yield_now());
            }
        });
        let db = Database::open_on(Arc::new(disk), options).unwrap();
        let table = db
            .table_with("rows", TableOptions::from(MapOptions::new().tiers(tiers)))
            .unwrap();
        // A number that has no factor in common with that of the rows: each comes once.
        for i in 0..ROWS {
            table.put(key(i * 7919 % ROWS), [5; 500]).unwrap();
        }
        let before = reads.load(Ordering::Relaxed);
        let seen = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for i in 0..SCANS {
                let (table, seen) = (table.clone(), &seen);
                scope.spawn(move || {
                    let from = i as u32 * ROWS / SCANS as u32;
                    let rows = table.range(key(from)..).unwrap().take(WANTED);
                    for (row, n) in rows.zip(from..) {
                        assert_eq!(*row.unwrap().0, key(n));
                        seen.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(seen.into_inner(), SCANS * WANTED);
        // One for each row and a few for the index; ten times as many when no scan gives way.
        let reads = reads.load(Ordering::Relaxed) - before;
        assert!(reads < 4 * SCANS * WANTED, "{reads} pages were read");
    }
}
