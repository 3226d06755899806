//! Backup sets: each point is the database at one instant, an incremental one costs what has changed, damage
//! is never restored, and whatever ends a backup early, the set is as it was.

mod chains;
#[path = "../common/mod.rs"]
mod common;
mod cut_off;
mod folders;
mod following;
mod killed;
mod pruned;
mod waiting;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{all_shapes, seeds, tiny};
use terrace::{
    BackupOptions, BackupReport, Cancel, Database, Disk, Error, Map, Rate, RestoreOptions,
    RestoreReport, RestoreTo, Result, Tiers, TreeOptions, list_backup_on, prune_backup_on,
    restore_on, verify_backup_on,
};
use terrace_sim::{Fault as DiskFault, Injection, SimDisk};

type Records = BTreeMap<Vec<u8>, Vec<u8>>;
type Contents = Vec<(String, Records)>;

fn fast() -> BackupOptions<'static> {
    BackupOptions::new().rate(Rate::Fast)
}

fn back_up(db: &Database, set: &SimDisk) -> Result<BackupReport> {
    db.backup_on(set.shared(), fast())
}

fn fill(map: &Map, round: u32, many: u32) -> Result<()> {
    for i in (0..many).filter(|i| !(i + round).is_multiple_of(3)) {
        let mut value = format!("{}-{i}-{round}", (b'a' + (i % 5) as u8) as char).into_bytes();
        value.resize(if i.is_multiple_of(89) { 9000 } else { 40 }, b'x');
        map.put(format!("{:03}", i * 7 % 1000), value)?;
    }
    for i in (0..many).filter(|i| (i + round).is_multiple_of(11)) {
        map.delete(format!("{:03}", i * 7 % 1000))?;
    }
    Ok(())
}

fn contents(db: &Database) -> Contents {
    let name = |info: &terrace::StructureInfo| info.name.clone();
    let names: Vec<String> = db.structures().iter().map(name).collect();
    let records = |name: String| {
        let map = db.map(&name).unwrap();
        let records = map.iter().unwrap().map(Result::unwrap).collect();
        (name, records)
    };
    names.into_iter().map(records).collect()
}

fn restored(set: &SimDisk, to: RestoreTo) -> Result<(Contents, RestoreReport)> {
    let disk = SimDisk::new(77);
    let options = RestoreOptions::new().to(to).options(tiny(771));
    let report = restore_on(set.shared(), disk.shared(), options)?;
    let db = Database::open_on(disk.shared(), tiny(772)).unwrap();
    assert!(db.verify().unwrap().is_clean());
    assert_eq!(db.stats().opening.replayed_records, 0);
    let found = contents(&db);
    // It takes writes, and is another database.
    let tree = db.tree("after restoring").unwrap();
    tree.put("a", "1").unwrap();
    let other = back_up(&db, set);
    assert!(matches!(other, Err(Error::Invalid { .. })), "{other:?}");
    Ok((found, report))
}

fn whole(set: &SimDisk, points: &[u64]) {
    let report = verify_backup_on(set.shared(), |_| ()).unwrap();
    assert!(report.is_clean(), "{:?}", report.problems);
    assert_eq!(report.whole, points);
}

#[test]
fn every_point_is_restored_as_it_was() {
    for seed in seeds(2) {
        let (disk, set) = (SimDisk::new(seed), SimDisk::new(seed + 1));
        let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
        let maps = all_shapes(&db).unwrap();
        let mut wanted = Vec::new();
        for round in 0..4 {
            maps.iter().for_each(|map| fill(map, round, 400).unwrap());
            let now = contents(&db);
            let report = back_up(&db, &set).unwrap();
            assert_eq!(report.point, u64::from(round) + 1);
            assert_eq!(report.live_pages, db.stats().pages.live);
            wanted.push(now);
            if round == 1 {
                db.drop_structure(&maps[0].name()).unwrap();
                db.tree("new").unwrap().put("k", "v").unwrap();
                db.create_map(&maps[0].name(), maps[0].kind(), Default::default())
                    .unwrap();
            }
            let maps_now = db.structures().len();
            assert!(maps_now >= maps.len());
            if round == 1 {
                break;
            }
        }
        assert_eq!(db.stats().pages.kept, 0);
        whole(&set, &[1, 2]);
        for (at, wanted) in wanted.iter().enumerate() {
            let (found, report) = restored(&set, RestoreTo::Point(at as u64 + 1)).unwrap();
            assert_eq!(&found, wanted, "point {}", at + 1);
            assert!(report.verified);
        }
        let (latest, _) = restored(&set, RestoreTo::Latest).unwrap();
        assert_eq!(Some(&latest), wanted.last());
        let listed = list_backup_on(set.shared()).unwrap();
        assert!(listed[0].sequence < listed[1].sequence);
        let none = restored(&set, RestoreTo::Point(9)).unwrap_err().to_string();
        assert!(none.contains("it has 1, 2"), "{none}");
    }
}

#[test]
fn one_structure_is_restored_alone() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let maps = all_shapes(&db).unwrap();
    maps.iter().for_each(|map| fill(map, 1, 200).unwrap());
    back_up(&db, &set).unwrap();
    for (name, records) in contents(&db) {
        let to = SimDisk::new(3);
        let options = RestoreOptions::new().structure(&name).options(tiny(9));
        let report = restore_on(set.shared(), to.shared(), options).unwrap();
        assert_eq!(report.structures, [name.as_str()]);
        let db = Database::open_on(to.shared(), tiny(10)).unwrap();
        assert_eq!(contents(&db), [(name, records)]);
    }
    let options = RestoreOptions::new().structure("none").options(tiny(9));
    let told = restore_on(set.shared(), SimDisk::new(4).shared(), options);
    let told = told.unwrap_err().to_string();
    assert!(
        told.contains("\"none\"") && told.contains(&maps[0].name()),
        "{told}"
    );
}

/// A tree whose pages are many and change one by one.
fn wide(db: &Database, from: u32, to: u32, round: u8) {
    let tree = db
        .tree_with("wide", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    for i in from..to {
        tree.put(format!("{i:06}"), vec![round; 400]).unwrap();
    }
}

#[test]
fn an_incremental_one_reads_and_stores_what_has_changed() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).memory(8 << 20)).unwrap();
    wide(&db, 0, 6000, 1);
    let first = back_up(&db, &set).unwrap();
    assert_eq!(first.stored_pages, first.live_pages);
    let bytes = first.live_pages * 4096;
    // Of what was stored, a hundredth says where the pages are.
    assert!(first.stored_bytes as f64 <= 1.02 * bytes as f64);
    let same = back_up(&db, &set).unwrap();
    assert!(same.read_pages <= 2 && same.stored_pages <= 2, "{same:?}");
    // Eight records lie on a page: one part in a hundred of them.
    let before = db.stats().pages.writes;
    for page in 0..7 {
        wide(&db, page * 800, page * 800 + 1, 2);
    }
    let third = back_up(&db, &set).unwrap();
    let changed = db.stats().pages.writes - before;
    assert!(
        changed >= 7 && third.read_pages <= changed,
        "{third:?}, {changed} written"
    );
    assert_eq!(third.stored_pages, third.read_pages);
    // Another process does not know what was written, and stores no more for it.
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), tiny(3).memory(8 << 20)).unwrap();
    wide(&db, 0, 1, 3);
    let fourth = back_up(&db, &set).unwrap();
    assert_eq!(fourth.read_pages, fourth.live_pages);
    assert!(fourth.stored_pages <= 3, "{fourth:?}");
    let full = db.backup_on(set.shared(), fast().full(true)).unwrap();
    assert_eq!(full.stored_pages, full.live_pages);
    whole(&set, &[1, 2, 3, 4, 5]);
    let (found, _) = restored(&set, RestoreTo::Point(4)).unwrap();
    assert_eq!(found, contents(&db));
}

#[test]
fn what_lies_where_it_lay_may_be_another_version() {
    for seed in seeds(10) {
        common::backups(seed);
    }
}

#[test]
fn a_backup_of_a_database_that_is_written_is_of_one_instant() {
    written_and_backed_up(false);
}

/// Threads write faster than what they write is saved, and a backup comes to an end nevertheless.
#[test]
fn a_backup_of_hot_tiers_in_memory_that_are_written_is_of_one_instant() {
    written_and_backed_up(true);
}

fn written_and_backed_up(in_memory: bool) {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let options = tiny(1)
        .memory(4 << 20)
        .foreground(false)
        .snapshot_space(1 << 30);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let made = TreeOptions::new().hot_in_memory(in_memory);
    let a = db.create_tree("a", made).unwrap();
    let b = db.create_hash("b", made).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..2u32 {
            let (db, a, b, stop) = (&db, &a, &b, &stop);
            scope.spawn(move || {
                let mut i = 0u32;
                while !stop.load(Ordering::Relaxed) {
                    let key = format!("{thread}-{:04}", i % 2000);
                    let value = i.to_be_bytes();
                    let mut batch = db.batch();
                    batch.put(a, &key, value).put(b, &key, value);
                    db.write(batch, terrace::Durability::Buffered).unwrap();
                    i += 1;
                }
            });
        }
        for _ in 0..4 {
            back_up(&db, &set).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    whole(&set, &[1, 2, 3, 4]);
    for point in 1..5 {
        let (found, _) = restored(&set, RestoreTo::Point(point)).unwrap();
        assert_eq!(
            found[0].1, found[1].1,
            "a batch is there whole or not at all"
        );
    }
    db.close().unwrap();
}

#[test]
fn a_set_whose_backup_is_cut_off_is_as_it_was() {
    let mut at = 1;
    let step = if common::factor() > 1 { 1 } else { 3 };
    loop {
        let (disk, set) = (SimDisk::new(at), SimDisk::new(at + 1));
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let tree = db.tree("t").unwrap();
        fill(&tree, 1, 300).unwrap();
        let first = contents(&db);
        back_up(&db, &set).unwrap();
        fill(&tree, 2, 300).unwrap();
        let second = contents(&db);
        set.inject(Injection::any(at, DiskFault::PowerCut));
        let made = back_up(&db, &set);
        if set.is_powered() {
            made.unwrap();
            break;
        }
        let found = set.crash(at);
        let report = verify_backup_on(found.shared(), |_| ()).unwrap();
        assert!(report.is_clean(), "cut at call {at}: {:?}", report.problems);
        assert!(
            report.whole == [1] || report.whole == [1, 2],
            "cut at call {at}"
        );
        assert!(made.is_err() || report.whole == [1, 2], "cut at call {at}");
        assert_eq!(restored(&found, RestoreTo::Point(1)).unwrap().0, first);
        // The same database, in the same process, adds to it; also what the failed one had read.
        let again = back_up(&db, &found).unwrap();
        assert_eq!(
            restored(&found, RestoreTo::Point(again.point)).unwrap().0,
            second
        );
        let report = verify_backup_on(found.shared(), |_| ()).unwrap();
        assert!(
            report.is_clean() && report.leftovers.is_empty(),
            "{report:?}"
        );
        assert_eq!(db.stats().pages.kept, 0);
        at += step;
    }
    assert!(at > 20, "only {at} calls");
}

#[test]
fn a_full_disk_on_the_side_of_the_database_changes_nothing() {
    let (mut full, mut made) = (0, 0);
    for room in [0, 1000, 20_000, 100_000, 1 << 20] {
        let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        let tree = db.tree("t").unwrap();
        fill(&tree, 1, 400).unwrap();
        let first = contents(&db);
        back_up(&db, &set).unwrap();
        fill(&tree, 2, 900).unwrap();
        let second = contents(&db);
        disk.set_capacity(Some(disk.used_bytes() + room));
        // The checkpoint that a point is may have no room any more for what it writes anew.
        match back_up(&db, &set) {
            Ok(report) => {
                made += 1;
                whole(&set, &[1, report.point]);
            }
            Err(e) => {
                assert!(e.is_disk_full(), "{room} bytes of room: {e}");
                full += 1;
                whole(&set, &[1]);
            }
        }
        assert_eq!(contents(&db), second);
        assert_eq!(restored(&set, RestoreTo::Point(1)).unwrap().0, first);
        // With room it goes on, without a new opening.
        disk.set_capacity(None);
        tree.put("more", "1").unwrap();
        let point = back_up(&db, &set).unwrap().point;
        let (found, _) = restored(&set, RestoreTo::Point(point)).unwrap();
        assert_eq!(found, contents(&db));
        assert!(db.verify().unwrap().is_clean());
    }
    assert!(made > 0, "{full} were refused");
}

#[test]
fn a_full_disk_on_the_side_of_the_set_changes_nothing() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    fill(&tree, 1, 400).unwrap();
    back_up(&db, &set).unwrap();
    let used = set.used_bytes();
    for room in [0, 100, 5000, 40_000] {
        fill(&tree, 2 + room as u32, 900).unwrap();
        set.set_capacity(Some(used + room));
        let told = back_up(&db, &set).unwrap_err();
        assert!(told.is_disk_full(), "{told}");
        assert_eq!(set.used_bytes(), used, "with {room} bytes");
        tree.put("goes on", "1").unwrap();
        whole(&set, &[1]);
    }
    set.set_capacity(None);
    back_up(&db, &set).unwrap();
    whole(&set, &[1, 2]);
    assert_eq!(restored(&set, RestoreTo::Latest).unwrap().0, contents(&db));
}

#[test]
fn a_full_disk_below_a_restore_is_an_error_and_the_set_stays() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    fill(&db.tree("t").unwrap(), 1, 400).unwrap();
    back_up(&db, &set).unwrap();
    for capacity in [0, 50_000, 80_000, 150_000] {
        let to = SimDisk::new(3);
        to.set_capacity(Some(capacity));
        let options = RestoreOptions::new().options(tiny(4));
        let told = restore_on(set.shared(), to.shared(), options).unwrap_err();
        assert!(told.is_disk_full(), "{told}");
    }
    whole(&set, &[1]);
}

#[test]
fn a_power_cut_below_a_restore_leaves_no_database_or_all_of_it() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    fill(&db.tree("t").unwrap(), 1, 100).unwrap();
    back_up(&db, &set).unwrap();
    let wanted = contents(&db);
    let mut at = 1;
    loop {
        let to = SimDisk::new(3);
        to.inject(Injection::any(at, DiskFault::PowerCut));
        let options = || RestoreOptions::new().options(tiny(4));
        let done = restore_on(set.shared(), to.shared(), options());
        if to.is_powered() {
            done.unwrap();
            break;
        }
        assert!(done.is_err(), "cut at call {at}");
        // Its name it would have had afterwards. What is there is all of it, or refused, or nothing.
        let left = to.crash(at);
        if let Ok(db) = Database::open_on(left.shared(), tiny(5).create(false)) {
            assert_eq!(contents(&db), wanted, "cut at call {at}");
        }
        at += 3;
    }
    assert!(at > 30, "only {at} calls");
    whole(&set, &[1]);
}

#[test]
fn a_backup_at_a_rate_takes_its_time_and_is_cancelled_at_once() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
    wide(&db, 0, 800, 1);
    let rate = |bytes| BackupOptions::new().rate(Rate::BytesPerSecond(bytes));
    let told = db.backup_on(set.shared(), rate(0)).unwrap_err();
    assert!(matches!(told, Error::Invalid { .. }), "{told}");
    let began = Instant::now();
    let report = db.backup_on(set.shared(), rate(1 << 20)).unwrap();
    let least = (report.read_pages * 4096) as f64 / f64::from(1 << 20);
    // The last batch is paused for, too; what a slow machine misses is made up for by a quarter of a second.
    assert!(began.elapsed().as_secs_f64() >= least - 0.25, "{report:?}");
    let cancel = Cancel::new();
    let began = Instant::now();
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(50));
            cancel.cancel();
        });
        db.backup_on(set.shared(), rate(1).full(true).cancel(&cancel))
    });
    assert!(matches!(told, Err(Error::Cancelled { .. })), "{told:?}");
    assert!(began.elapsed() < Duration::from_secs(60));
    whole(&set, &[1]);
}

#[test]
fn a_backup_that_is_cancelled_changes_nothing() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    fill(&tree, 1, 900).unwrap();
    let cancel = Cancel::new();
    let options = fast().cancel(&cancel).progress(|_| cancel.cancel());
    let told = db.backup_on(set.shared(), options).unwrap_err();
    assert!(matches!(told, Error::Cancelled { .. }), "{told}");
    assert!(list_backup_on(set.shared()).is_err());
    assert_eq!(set.names(), Vec::<String>::new());
    back_up(&db, &set).unwrap();
    let (mut told, total) = (Vec::new(), db.stats().pages.live);
    let options = fast()
        .full(true)
        .progress(|progress| told.push((progress.done, progress.total)));
    db.backup_on(set.shared(), options).unwrap();
    assert!(
        told.is_sorted() && told.last().unwrap().0 >= total - 2,
        "{told:?}"
    );
}

#[test]
fn the_set_of_another_database_and_a_folder_with_other_files_are_refused() {
    let set = SimDisk::new(2);
    let one = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let other = Database::open_on(SimDisk::new(1).shared(), tiny(2)).unwrap();
    back_up(&one, &set).unwrap();
    let told = back_up(&other, &set).unwrap_err().to_string();
    assert!(told.contains("another database"), "{told}");
    whole(&set, &[1]);
    let foreign = SimDisk::new(3);
    foreign.place("letter.txt", b"dear".to_vec());
    let told = back_up(&one, &foreign).unwrap_err().to_string();
    assert!(told.contains("letter.txt"), "{told}");
    assert_eq!(foreign.names(), ["letter.txt"]);
    let empty: Arc<dyn Disk> = SimDisk::new(4).shared();
    let told = list_backup_on(empty).unwrap_err().to_string();
    assert!(told.contains("manifest.json is missing"), "{told}");
}

#[test]
fn a_rotten_page_is_not_backed_up() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    wide(&db, 0, 3000, 1);
    back_up(&db, &set).unwrap();
    let mut data = disk.contents("data").unwrap();
    let at = data
        .windows(64)
        .rposition(|bytes| bytes == [1; 64])
        .unwrap();
    data[at] ^= 1;
    disk.place("data", data);
    // Only what is in no frame is read from there, and a backup reads it all the same.
    let told = db.backup_on(set.shared(), fast().full(true)).unwrap_err();
    let Error::Corrupt { file, what, .. } = &told else {
        panic!("{told}");
    };
    assert!(file == "data" && what.contains("page"), "{told}");
    whole(&set, &[1]);
}

/// A set of two points, and a little log behind them, that is as small as can be.
fn small() -> (SimDisk, Vec<Contents>) {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db
        .tree_with("t", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    tree.put("a", "1").unwrap();
    back_up(&db, &set).unwrap();
    let first = contents(&db);
    tree.put("b", "2").unwrap();
    let follower = db.follow_on(set.shared(), Default::default()).unwrap();
    let second = contents(&db);
    tree.put("c", "3").unwrap();
    db.mark("m").unwrap();
    follower.stop().unwrap();
    (set, vec![first, second, contents(&db)])
}

#[test]
fn each_flipped_byte_is_found_and_never_restored_as_something_else() {
    let (set, wanted) = small();
    let mut harmless = 0;
    for name in set.names() {
        let good = set.contents(&name).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            set.place(&name, bad);
            let report = verify_backup_on(set.shared(), |_| ());
            if report.is_ok_and(|report| report.is_clean()) {
                harmless += 1;
                let (found, _) = restored(&set, RestoreTo::Latest).unwrap();
                assert_eq!(found, wanted[2], "{name}, byte {at}");
            } else if at.is_multiple_of(211) {
                let to = [
                    RestoreTo::Point(1),
                    RestoreTo::Point(2),
                    RestoreTo::Mark("m".into()),
                ];
                for (to, wanted) in to.into_iter().zip(&wanted) {
                    if let Ok((found, _)) = restored(&set, to) {
                        assert_eq!(&found, wanted, "{name}, byte {at}");
                    }
                }
            }
        }
        set.place(&name, good);
    }
    assert!(harmless <= 2, "{harmless} bytes mean nothing");
    whole(&set, &[1, 2]);
}

#[test]
fn each_missing_or_short_file_is_named_with_its_points() {
    let (set, wanted) = small();
    for name in set.names() {
        let broken = set.copy();
        broken.shared().delete(&name).unwrap();
        if name == "manifest.json" {
            assert!(verify_backup_on(broken.shared(), |_| ()).is_err());
            continue;
        }
        let report = verify_backup_on(broken.shared(), |_| ()).unwrap();
        let told = &report.problems[0];
        let what = match name.starts_with("log") {
            true => "changes",
            false => "point",
        };
        assert!(told.contains(&name) && told.contains(what), "{told}");
        for point in report.damaged {
            let told = restored(&broken, RestoreTo::Point(point))
                .unwrap_err()
                .to_string();
            assert!(told.contains(&name), "{told}");
        }
        for point in report.whole {
            let (found, _) = restored(&broken, RestoreTo::Point(point)).unwrap();
            assert_eq!(found, wanted[point as usize - 1]);
        }
        let good = set.contents(&name).unwrap();
        broken.place(&name, good[..good.len() - 1].to_vec());
        assert!(
            !verify_backup_on(broken.shared(), |_| ())
                .unwrap()
                .is_clean()
        );
    }
}

/// A manifest of this body.
fn sealed(body: &str) -> Vec<u8> {
    let sum = terrace_base_sum(body);
    format!("{{\"checksum\":\"{sum:016x}\",\"manifest\":{body}}}\n").into_bytes()
}

#[test]
fn a_manifest_that_says_anything_is_an_error_or_a_set() {
    let (good, _) = small();
    let text = String::from_utf8(good.contents("manifest.json").unwrap()).unwrap();
    let from = text.find("{\"format\"").unwrap();
    let body = &text[from..text.len() - 2];
    let numbers: Vec<(usize, usize)> = {
        let is_digit = |at: &usize| body.as_bytes()[*at].is_ascii_digit();
        let begins = |at: &usize| is_digit(at) && !is_digit(&(at - 1));
        let end = |at: usize| (at..body.len()).find(|i| !is_digit(i)).unwrap();
        let all = (1..body.len()).filter(begins);
        all.map(|at| (at, end(at))).collect()
    };
    assert!(numbers.len() > 40);
    for (from, to) in numbers {
        for number in [
            "0",
            "1",
            "4097",
            "1099511627775",
            "18446744073709551615",
            "-1",
            "null",
        ] {
            let set = good.copy();
            let changed = format!("{}{number}{}", &body[..from], &body[to..]);
            set.place("manifest.json", sealed(&changed));
            let _ = terrace::backup_contents_on(set.shared());
            let _ = verify_backup_on(set.shared(), |_| ());
            for to in [
                RestoreTo::Mark("nowhere".into()),
                RestoreTo::Sequence(u64::MAX),
            ] {
                let options = RestoreOptions::new().to(to).options(tiny(9));
                let to = SimDisk::new(3);
                assert!(restore_on(set.shared(), to.shared(), options).is_err());
                assert_eq!(to.names(), Vec::<String>::new());
            }
            let _ = prune_backup_on(set.shared(), 1);
        }
    }
}

#[test]
fn a_newer_format_is_named() {
    let (set, _) = small();
    let text = String::from_utf8(set.contents("manifest.json").unwrap()).unwrap();
    let from = text.find("{\"format\"").unwrap();
    let body = text[from..text.len() - 2].replacen("\"format\":1", "\"format\":2", 1);
    set.place("manifest.json", sealed(&body));
    let told = list_backup_on(set.shared()).unwrap_err().to_string();
    assert!(told.contains("format 2"), "{told}");
}

/// As `docs/format-backup.md` has it.
fn terrace_base_sum(body: &str) -> u64 {
    terrace_base::checksum::seeded(0x5E70_FBAC_0FF5, body.as_bytes())
}

#[test]
fn points_that_are_forgotten_take_what_only_they_had() {
    let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
    let db = Database::open_on(disk.shared(), tiny(1).memory(4 << 20)).unwrap();
    let mut wanted = Vec::new();
    for round in 0..5u8 {
        wide(&db, 0, if round == 0 { 2000 } else { 500 }, round);
        back_up(&db, &set).unwrap();
        wanted.push(contents(&db));
    }
    let before = set.used_bytes();
    let report = prune_backup_on(set.shared(), 2).unwrap();
    assert_eq!(
        (&report.kept[..], &report.forgotten[..]),
        (&[4, 5][..], &[1, 2, 3][..])
    );
    assert!(report.freed_bytes > 0);
    assert!(set.used_bytes() < before);
    whole(&set, &[4, 5]);
    for point in [4, 5] {
        let (found, _) = restored(&set, RestoreTo::Point(point)).unwrap();
        assert_eq!(found, wanted[point as usize - 1]);
    }
    wide(&db, 0, 100, 9);
    let next = back_up(&db, &set).unwrap();
    assert_eq!(next.point, 6);
    whole(&set, &[4, 5, 6]);
    prune_backup_on(set.shared(), 0).unwrap();
    whole(&set, &[6]);
    assert_eq!(restored(&set, RestoreTo::Latest).unwrap().0, contents(&db));
}
