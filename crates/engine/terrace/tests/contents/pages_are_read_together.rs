//! Who needs many pages has them read at the same time, and no page more often than it takes; who needs few reads no
//! more than these.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::tiny;
use terrace::{Database, Error, Kind, MapOptions, Tiers};
use terrace_sim::{Call, Fault, HookedDisk, Injection, Op, SimDisk};

const RECORDS: u32 = 20_000;

/// A key, in no order of `i`.
fn key(i: u32) -> [u8; 4] {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes()
}

/// The most reads of the data file that were asked for together.
#[derive(Clone, Default)]
struct Most(Arc<AtomicUsize>);

impl Most {
    /// And from now on none.
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }

    fn over(&self, disk: &SimDisk) -> HookedDisk {
        let most = self.0.clone();
        HookedDisk::new(disk.shared(), move |call| {
            if let Call::ReadTogether("data", reads) = call {
                most.fetch_max(reads, Ordering::SeqCst);
            }
        })
    }
}

/// A structure that was filled in no order, so that pages that follow each other lie apart.
fn filled(disk: &SimDisk, most: &Most, kind: Kind, tiers: Tiers) -> (Database, terrace::Map) {
    let db = Database::open_on(Arc::new(most.over(disk)), tiny(1)).unwrap();
    let options = MapOptions::new().tiers(tiers);
    let map = db.create_map("t", kind, options).unwrap();
    for i in 0..RECORDS {
        map.put(key(i), key(i).repeat(20)).unwrap();
    }
    db.checkpoint().unwrap();
    (db, map)
}

#[test]
fn a_range_over_leaves_that_lie_apart_reads_several_at_a_time_and_each_once() {
    for tiers in [Tiers::One, Tiers::Two] {
        let (disk, most) = (SimDisk::new(1), Most::default());
        let (db, map) = filled(&disk, &most, Kind::Tree, tiers);
        let tree = map.as_tree().unwrap();
        for backwards in [false, true] {
            most.take();
            let (before, live) = (db.stats().pages, db.stats().pages.live);
            let all = tree.range::<&[u8]>(..).unwrap();
            let keys: Vec<Vec<u8>> = match backwards {
                false => all.map(|record| record.unwrap().0).collect(),
                true => all.rev().map(|record| record.unwrap().0).collect(),
            };
            assert_eq!(keys.len(), RECORDS as usize);
            let after = db.stats().pages;
            let read = after.reads - before.reads;
            assert!(read <= live + live / 50, "{read} of {live}, {tiers:?}");
            assert!(after.order_reads - before.order_reads >= read * 9 / 10);
            let together = most.take();
            assert!(together >= 4, "{together}, {tiers:?}");
        }
    }
}

#[test]
fn short_ranges_read_nothing_ahead() {
    for tiers in [Tiers::One, Tiers::Two] {
        let (disk, most) = (SimDisk::new(1), Most::default());
        let (_db, map) = filled(&disk, &most, Kind::Tree, tiers);
        let tree = map.as_tree().unwrap();
        most.take();
        for i in 0..500 {
            let some = tree.range(key(i * 37)..).unwrap().take(10);
            assert!(some.map(Result::unwrap).count() > 0);
        }
        assert_eq!(most.take(), 0, "{tiers:?}");
    }
}

#[test]
fn a_verification_reads_many_pages_at_a_time_and_none_in_vain() {
    for kind in [Kind::Tree, Kind::Hash, Kind::Table, Kind::Lsm] {
        let (disk, most) = (SimDisk::new(1), Most::default());
        let (db, _map) = filled(&disk, &most, kind, Tiers::One);
        most.take();
        let before = db.stats().pages.reads;
        db.verify().unwrap().into_result().unwrap();
        let (read, live) = (db.stats().pages.reads - before, db.stats().pages.live);
        // Rows are looked for one after the other before their pages are checked, and of an LSM-tree what there is in all
        // is read once more.
        let times = match kind {
            Kind::Table => None,
            Kind::Lsm => Some(2),
            _ => Some(1),
        };
        if let Some(times) = times {
            assert!(
                read <= (live + live / 20) * times,
                "{read} of {live}, {kind:?}"
            );
        }
        let together = most.take();
        assert!(together >= 8, "{together}, {kind:?}");
    }
}

/// Calls with an error in [`a_page_that_cannot_be_read_is_the_error_of_who_asks_for_it_alone`].
const ERRORS: [u64; 4] = [1, 2, 5, 9];

/// How many of these calls read pages together before they met the error.
fn met_together(in_memory: bool) -> usize {
    terrace::fault::keep_hot_in_memory(Some(in_memory));
    let (disk, most) = (SimDisk::new(1), Most::default());
    let (db, map) = filled(&disk, &most, Kind::Tree, Tiers::Two);
    terrace::fault::keep_hot_in_memory(None);
    let keys: Vec<[u8; 4]> = (0..200).map(|i| key(i * 97)).collect();
    let mut together = 0;
    for nth in ERRORS {
        // Others push out what was read before.
        assert_eq!(map.iter().unwrap().count(), RECORDS as usize);
        most.take();
        disk.inject(Injection::at(Op::Read, nth, Fault::Eio));
        let error = map.get_many(&keys).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
        together += usize::from(most.take() >= 8);
        let values = map.get_many(&keys).unwrap();
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value, Some(key.repeat(20)));
        }
    }
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
    together
}

#[test]
fn a_page_that_cannot_be_read_is_the_error_of_who_asks_for_it_alone() {
    assert_eq!(met_together(false), ERRORS.len());
    // With hot tiers in memory the first reads may be of inner pages, one at a time.
    assert!(met_together(true) >= 2);
}

/// A batch that is under way when the database is closed is answered as a whole, or told that it is closed.
#[test]
fn a_database_is_closed_while_many_records_are_read() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let path = dir.path().join(round.to_string());
        let db = Database::open(&path, tiny(1).foreground(false)).unwrap();
        let tree = db.tree("t").unwrap();
        for i in 0..RECORDS {
            tree.put(key(i), key(i).repeat(20)).unwrap();
        }
        let begun = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (tree, begun) = (&tree, &begun);
                scope.spawn(move || {
                    for i in 0.. {
                        let keys: Vec<[u8; 4]> = (0..300)
                            .map(|n| key((n * 61 + i * 7 + thread) % RECORDS))
                            .collect();
                        begun.fetch_add(1, Ordering::SeqCst);
                        match tree.get_many(&keys) {
                            Ok(values) => {
                                for (key, value) in keys.iter().zip(values) {
                                    assert_eq!(value, Some(key.repeat(20)));
                                }
                            }
                            Err(e) if e.to_string().contains("has been closed") => return,
                            Err(e) => panic!("{e}"),
                        }
                    }
                });
            }
            while begun.load(Ordering::SeqCst) < 6 {
                std::thread::yield_now();
            }
            db.clone().close().unwrap();
        });
        drop((tree, db));
        let again = Database::open(&path, tiny(1)).unwrap();
        assert!(again.verify().unwrap().is_clean());
    }
}
