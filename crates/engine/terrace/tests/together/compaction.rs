//! Compaction: full pages and a short file, nothing lost, whatever ends it early and whoever writes meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{all_shapes, tiny};
use terrace::{
    Cancel, CompactOptions, CompactReport, Database, Error, Kind, Map, MapOptions, Rate, Result,
    Tiers,
};
use terrace_sim::{Fault as DiskFault, Injection, SimDisk};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn compact(db: &Database) -> Result<CompactReport> {
    db.compact(CompactOptions::new().rate(Rate::Fast))
}

fn records(map: &Map) -> Records {
    map.iter().unwrap().map(Result::unwrap).collect()
}

/// Keys in no order.
fn key(i: u32) -> Vec<u8> {
    i.wrapping_mul(2_654_435_761).to_be_bytes().repeat(2)
}

/// Most bytes of the file for each byte of the user's, 8 of a key and 120 of a value: what a compaction is to
/// reach.
const MOST: f64 = 1.25;
/// The same of a table, whose pages alone take 1.24: an index beside the rows, and 16 slots more than pages,
/// which count in so small a file.
const MOST_OF_TABLE: f64 = 1.29;

#[test]
fn data_that_came_in_any_order_takes_little_more_than_its_bytes() {
    for (kind, tiers) in [
        (Kind::Tree, Tiers::One),
        (Kind::Tree, Tiers::Two),
        (Kind::Hash, Tiers::One),
        (Kind::Hash, Tiers::Two),
        (Kind::Table, Tiers::One),
        (Kind::Table, Tiers::Two),
    ] {
        let disk = SimDisk::new(1);
        let db =
            Database::open_on(disk.shared(), tiny(1).memory(2 << 20).page_size(16384)).unwrap();
        let map = db
            .create_map("m", kind, MapOptions::new().tiers(tiers))
            .unwrap();
        let many = 60_000;
        for i in 0..many {
            map.put(key(i), [i as u8; 120]).unwrap();
        }
        let report = compact(&db).unwrap();
        let over = (report.pages_after * 16384) as f64 / (f64::from(many) * 128.0);
        println!("{kind} {tiers:?}: {over:.3} of the user's bytes, {report:?}");
        let file = report.file_bytes_after as f64 / (f64::from(many) * 128.0);
        println!("{kind} {tiers:?}: the file {file:.3}");
        let most = match kind {
            Kind::Table => MOST_OF_TABLE,
            _ => MOST,
        };
        assert!(over <= MOST && file <= most, "{over:.3}, {file:.3}");
        assert!(report.file_bytes_after <= report.file_bytes_before);
        assert!(db.verify().unwrap().is_clean());
        assert_eq!(map.iter().unwrap().count(), many as usize);
    }
}

#[test]
fn what_was_deleted_gives_the_file_back() {
    let disk = SimDisk::new(2);
    let db = Database::open_on(disk.shared(), tiny(2).memory(4 << 20)).unwrap();
    let maps = all_shapes(&db).unwrap();
    for map in &maps {
        for i in 0..4000 {
            map.put(key(i), [i as u8; 100]).unwrap();
        }
    }
    db.checkpoint().unwrap();
    for map in &maps {
        for i in (0..4000u32).filter(|i| !i.is_multiple_of(8)) {
            map.delete(key(i)).unwrap();
        }
    }
    let wanted: Vec<Records> = maps.iter().map(records).collect();
    let report = compact(&db).unwrap();
    assert!(report.pages_after < report.pages_before, "{report:?}");
    assert!(
        report.file_bytes_after * 2 < report.file_bytes_before,
        "{report:?}"
    );
    for (map, wanted) in maps.iter().zip(&wanted) {
        assert_eq!(&records(map), wanted, "{}", map.name());
    }
    assert!(db.verify().unwrap().is_clean());
    let again = compact(&db).unwrap();
    assert!(again.pages_after <= report.pages_after + 8, "{again:?}");
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), tiny(3).memory(4 << 20)).unwrap();
    for (map, wanted) in all_shapes(&db).unwrap().iter().zip(&wanted) {
        assert_eq!(&records(map), wanted, "{}", map.name());
    }
}

#[test]
fn a_power_cut_while_it_goes_on_loses_nothing() {
    let step = if crate::common::factor() > 1 { 3 } else { 37 };
    let mut at = 1;
    loop {
        let disk = SimDisk::new(at);
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let maps = all_shapes(&db).unwrap();
        for map in &maps {
            for i in 0..500 {
                map.put(key(i), [i as u8; 60]).unwrap();
            }
            for i in (0..500u32).filter(|i| !i.is_multiple_of(3)) {
                map.delete(key(i)).unwrap();
            }
        }
        db.sync().unwrap();
        let wanted: Vec<Records> = maps.iter().map(records).collect();
        disk.inject(Injection::any(at, DiskFault::PowerCut));
        let done = compact(&db);
        if disk.is_powered() {
            done.unwrap();
            break;
        }
        drop((maps, db));
        let found = disk.crash(at);
        let db = Database::open_on(found.shared(), tiny(2)).unwrap();
        for (map, wanted) in all_shapes(&db).unwrap().iter().zip(&wanted) {
            assert_eq!(&records(map), wanted, "{}, cut at call {at}", map.name());
        }
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "cut at call {at}: {report}");
        at += step;
    }
    assert!(at > 100, "only {at} calls");
}

#[test]
fn others_read_and_write_meanwhile() {
    let disk = SimDisk::new(4);
    let db = Database::open_on(disk.shared(), tiny(4).memory(8 << 20).foreground(false)).unwrap();
    let maps = all_shapes(&db).unwrap();
    for map in &maps {
        for i in 0..2000 {
            map.put(key(i), [1; 80]).unwrap();
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (n, map) in maps.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                for i in (0..2000).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match (i + n as u32) % 3 {
                        0 => map.delete(key(i)).unwrap(),
                        1 => map.put(key(i), [2; 300]).unwrap(),
                        _ => drop(map.get(key(i)).unwrap()),
                    }
                }
            });
        }
        for _ in 0..3 {
            compact(&db).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
}

#[test]
fn it_is_ended_early_and_takes_no_impossible_fill() {
    let disk = SimDisk::new(5);
    let db = Database::open_on(disk.shared(), tiny(5)).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..2000 {
        tree.put(key(i), [1; 80]).unwrap();
    }
    let cancel = Cancel::new();
    let options = CompactOptions::new()
        .rate(Rate::Fast)
        .cancel(&cancel)
        .progress(|_| cancel.cancel());
    let told = db.compact(options).unwrap_err();
    assert!(matches!(told, Error::Cancelled { .. }), "{told}");
    for fill in [0.2, 1.5, f64::NAN] {
        let told = db.compact(CompactOptions::new().fill(fill)).unwrap_err();
        assert!(matches!(told, Error::Invalid { .. }), "{told}");
    }
    assert_eq!(tree.iter().unwrap().count(), 2000);
    assert!(db.verify().unwrap().is_clean());
}

/// Large values behind a few leaves: the walk over leaves is short, and much has to be moved.
fn much_to_move(disk: &SimDisk) -> Database {
    let db = Database::open_on(disk.shared(), tiny(6).memory(2 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..300u32 {
        tree.put(i.to_be_bytes(), vec![i as u8; 9000]).unwrap();
    }
    db.checkpoint().unwrap();
    for i in 0..150u32 {
        tree.delete(i.to_be_bytes()).unwrap();
    }
    db.checkpoint().unwrap();
    db
}

#[test]
fn the_rate_holds_while_pages_are_moved() {
    let disk = SimDisk::new(6);
    let db = much_to_move(&disk);
    let told = db.compact(CompactOptions::new().rate(Rate::BytesPerSecond(0)));
    assert!(matches!(told, Err(Error::Invalid { .. })), "{told:?}");
    let mut moved = 0;
    let rate = 2 << 20;
    let began = Instant::now();
    let options = CompactOptions::new()
        .rate(Rate::BytesPerSecond(rate))
        .progress(|progress| {
            if progress.work == terrace::Work::Move && progress.done < progress.total {
                moved = progress.done;
            }
        });
    let report = db.compact(options).unwrap();
    let least = Duration::from_secs_f64((moved * 4096) as f64 / rate as f64);
    assert!(moved > 200, "only {moved} pages were moved: {report:?}");
    assert!(
        began.elapsed() >= least,
        "{moved} pages in {:?}",
        began.elapsed()
    );
    assert!(report.file_bytes_after < report.file_bytes_before);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn it_is_ended_early_however_slowly_it_goes() {
    let disk = SimDisk::new(6);
    let db = much_to_move(&disk);
    // From the beginning, from the middle of the leaves, and while pages are moved.
    for (rate, work) in [
        (1, None),
        (1 << 20, Some(terrace::Work::Compact)),
        (1 << 20, Some(terrace::Work::Move)),
    ] {
        let cancel = Cancel::new();
        let began = Instant::now();
        let told = std::thread::scope(|scope| {
            let options = CompactOptions::new()
                .rate(Rate::BytesPerSecond(rate))
                .cancel(&cancel)
                .progress(|progress| {
                    if work == Some(progress.work) {
                        cancel.cancel();
                    }
                });
            if work.is_none() {
                let cancel = cancel.clone();
                scope.spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    cancel.cancel();
                });
            }
            db.compact(options)
        });
        assert!(matches!(told, Err(Error::Cancelled { .. })), "{told:?}");
        assert!(began.elapsed() < Duration::from_secs(60), "{work:?}");
    }
    assert!(db.verify().unwrap().is_clean());
}
