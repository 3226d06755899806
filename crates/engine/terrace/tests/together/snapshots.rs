//! Snapshots: everything as it was at one instant, whatever is written meanwhile; their space has a limit, and
//! whoever reads one that was given up is told so.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::{SHAPES, all_shapes, tiny};
use terrace::{
    Database, Error, IndexInfo, Kind, Map, MapOptions, Result, Snapshot, SnapshotMap, Tiers,
    TreeOptions,
};
use terrace_sim::{Fault as DiskFault, Injection, Op, SimDisk, Survival};

/// All records of a structure.
type Records = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(i: u32) -> Vec<u8> {
    format!("{:03}", i * 7 % 1000).into_bytes()
}

/// A value that says of which round it is: some of them long, in pages of their own.
fn value(i: u32, round: u32) -> Vec<u8> {
    let mut value = format!("{}-{i}-{round}", (b'a' + (i % 5) as u8) as char).into_bytes();
    value.resize(if i.is_multiple_of(97) { 9000 } else { 40 }, b'x');
    value
}

fn fill(map: &Map, round: u32, many: u32) -> Result<()> {
    for i in (0..many).filter(|i| !(i + round).is_multiple_of(3)) {
        map.put(key(i), value(i, round))?;
    }
    for i in (0..many).filter(|i| (i + round).is_multiple_of(11)) {
        map.delete(key(i))?;
    }
    Ok(())
}

fn records(map: &Map) -> Records {
    map.iter().unwrap().map(Result::unwrap).collect()
}

/// Everything that can be read of it says the same.
fn check(map: &SnapshotMap, records: &Records) {
    let all = |records: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>)>>| {
        records.collect::<Result<Records>>().unwrap()
    };
    assert_eq!(&all(&mut map.iter().unwrap()), records);
    assert_eq!(&all(&mut map.iter().unwrap().rev()), records);
    assert_eq!(&all(&mut map.iter_unordered().unwrap()), records);
    assert_eq!(map.is_empty().unwrap(), records.is_empty());
    for i in 0..1000 {
        let key = format!("{i:03}");
        let wanted = records.get(key.as_bytes());
        assert_eq!(map.get(&key).unwrap().as_ref(), wanted, "{key}");
        assert_eq!(map.contains_key(&key).unwrap(), wanted.is_some());
    }
    if map.kind() == Kind::Hash {
        assert!(matches!(map.prefix("1"), Err(Error::Invalid { .. })));
        return;
    }
    let range = all(&mut map.range("200".."300").unwrap());
    let wanted = records.range(b"200".to_vec()..b"300".to_vec());
    assert!(range.iter().eq(wanted));
    let prefix = all(&mut map.prefix("77").unwrap());
    assert!(
        prefix
            .keys()
            .eq(records.keys().filter(|k| k.starts_with(b"77")))
    );
    for IndexInfo { name, .. } in map.indexes() {
        let index = map.index(&name).unwrap();
        let rows = all(&mut index.iter().unwrap());
        assert_eq!(&rows, records, "by {name}");
    }
}

fn check_all(snapshot: &Snapshot, wanted: &[(String, Records)]) {
    for (name, records) in wanted {
        check(&snapshot.map(name).unwrap(), records);
    }
    let report = snapshot.verify().unwrap();
    assert!(report.is_clean(), "{report}");
}

fn contents(maps: &[Map]) -> Vec<(String, Records)> {
    maps.iter().map(|map| (map.name(), records(map))).collect()
}

#[test]
fn a_snapshot_shows_one_instant_of_all_structures() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(
        disk.shared(),
        tiny(1).memory(16 << 20).snapshot_space(1 << 30),
    )
    .unwrap();
    let maps = all_shapes(&db).unwrap();
    let mut held: Vec<(Snapshot, Vec<(String, Records)>)> = Vec::new();
    for round in 0..5 {
        for map in &maps {
            fill(map, round, 700).unwrap();
        }
        if round == 2 {
            // What is made later, dropped or called otherwise is not seen.
            db.tree("new").unwrap().put("a", "1").unwrap();
            db.rename_structure(&crate::common::named(SHAPES[0]), "renamed")
                .unwrap();
            assert!(held[0].0.map("renamed").is_err() && held[0].0.map("new").is_err());
            db.rename_structure("renamed", &crate::common::named(SHAPES[0]))
                .unwrap();
            db.drop_structure("new").unwrap();
        }
        let now = contents(&maps);
        let snapshot = db.snapshot().unwrap();
        assert!(snapshot.sequence() > 0);
        held.push((snapshot, now));
        for (snapshot, wanted) in &held {
            check_all(snapshot, wanted);
        }
        if round == 3 {
            held.remove(1);
        }
    }
    assert!(db.stats().memory.used() <= db.stats().memory.limit);
    assert!(db.stats().memory.snapshots > 0);
    while held.len() < 8 {
        held.push((db.snapshot().unwrap(), Vec::new()));
    }
    assert!(db.stats().memory.used() <= db.stats().memory.limit);
    drop(held);
    assert_eq!(db.stats().memory.snapshots, 0);
    assert_eq!(db.stats().pages.kept, 0);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
}

#[test]
fn a_dropped_structure_is_still_there() {
    let disk = SimDisk::new(2);
    let db = Database::open_on(disk.shared(), tiny(2).memory(2 << 20)).unwrap();
    let maps = all_shapes(&db).unwrap();
    maps.iter().for_each(|map| fill(map, 1, 300).unwrap());
    let wanted = contents(&maps);
    let snapshot = db.snapshot().unwrap();
    drop(maps);
    for (name, _) in &wanted {
        db.drop_structure(name).unwrap();
    }
    db.checkpoint().unwrap();
    let other = db.tree("other").unwrap();
    fill(&other, 2, 900).unwrap();
    db.checkpoint().unwrap();
    check_all(&snapshot, &wanted);
    assert!(matches!(
        snapshot.map("other"),
        Err(Error::NoSuchStructure { .. })
    ));
}

#[test]
fn a_snapshot_that_may_be_older_is_shared() {
    let disk = SimDisk::new(3);
    let db = Database::open_on(disk.shared(), tiny(3).memory(4 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("a", "1").unwrap();
    let first = db.snapshot().unwrap();
    let checkpoints = db.stats().checkpoints.completed;
    tree.put("a", "2").unwrap();
    let hour = Duration::from_secs(3600);
    let second = db.snapshot_at_most(hour).unwrap();
    assert_eq!(db.stats().checkpoints.completed, checkpoints);
    assert_eq!(
        (first.time(), first.sequence()),
        (second.time(), second.sequence())
    );
    let taken = db.stats().memory.snapshots;
    let many: Vec<_> = (0..20)
        .map(|_| db.snapshot_at_most(hour).unwrap())
        .collect();
    assert_eq!(db.stats().memory.snapshots, taken);
    assert_eq!(many[19].tree("t").unwrap().get("a").unwrap().unwrap(), b"1");
    let third = db.snapshot_at_most(Duration::ZERO).unwrap();
    assert_eq!(third.tree("t").unwrap().get("a").unwrap().unwrap(), b"2");
    assert!(third.sequence() > second.sequence());
}

#[test]
fn too_little_memory_for_one_more_is_an_error_and_no_more() {
    let disk = SimDisk::new(11);
    let options = tiny(11).memory(2 << 20).snapshot_space(1 << 30);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    fill(&tree, 1, 500).unwrap();
    let first = db.snapshot().unwrap();
    let told = loop {
        tree.put("more", "1").unwrap();
        match db.snapshot() {
            Ok(held) => std::mem::forget(held),
            Err(e) => break e,
        }
    };
    assert!(matches!(told, Error::MemoryTooSmall { .. }), "{told}");
    let map = first.tree("t").unwrap();
    assert!(map.get("more").unwrap().is_none());
    assert!(db.stats().memory.used() <= db.stats().memory.limit);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn the_ninth_checkpoint_is_not_held_and_the_others_stay() {
    let disk = SimDisk::new(4);
    let db = Database::open_on(
        disk.shared(),
        tiny(4).memory(16 << 20).snapshot_space(1 << 30),
    )
    .unwrap();
    let tree = db.tree("t").unwrap();
    let mut held = Vec::new();
    for round in 0..8u8 {
        tree.put("a", [round]).unwrap();
        held.push(db.snapshot().unwrap());
    }
    tree.put("a", "9").unwrap();
    assert!(matches!(db.snapshot(), Err(Error::Invalid { .. })));
    for (round, snapshot) in held.iter().enumerate() {
        let found = snapshot.tree("t").unwrap().get("a").unwrap();
        assert_eq!(found, Some(vec![round as u8]));
    }
    held.remove(3);
    db.snapshot().unwrap();
}

/// Rewrites everything again and again, with a checkpoint each time; the longest that the file was, in pages,
/// and the pages that there were at first.
fn longest(hold: bool) -> (u64, u64) {
    let disk = SimDisk::new(5);
    let db = Database::open_on(disk.shared(), tiny(5).memory(2 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    fill(&tree, 0, 5000).unwrap();
    let wide: Vec<u8> = vec![7; 900];
    let rewrite = |round: u8| {
        for i in 0..2000u32 {
            let mut value = wide.clone();
            value[0] = round;
            tree.put(format!("{i:06}"), value).unwrap();
        }
        db.checkpoint().unwrap();
    };
    rewrite(0);
    rewrite(1);
    let snapshot = hold.then(|| db.snapshot().unwrap());
    let live = db.stats().pages.live;
    let mut most = 0;
    for round in 2..9 {
        rewrite(round);
        assert!(db.stats().pages.kept <= live);
        most = most.max(db.stats().pages.data_file_bytes / 4096);
    }
    if let Some(snapshot) = snapshot {
        let tree = snapshot.tree("t").unwrap();
        let firsts: Vec<u8> = tree
            .prefix("00")
            .unwrap()
            .map(|r| r.unwrap().1[0])
            .collect();
        assert_eq!(firsts, vec![1; 2000]);
    }
    (most, live)
}

#[test]
fn a_scan_of_a_snapshot_reads_each_page_once_and_throws_out_nothing() {
    let disk = SimDisk::new(12);
    let db = Database::open_on(disk.shared(), tiny(12).memory(4 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..20_000u32 {
        tree.put(format!("{i:06}"), [1; 400]).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    let (before, reads) = (db.stats().pages, disk.calls_of(Op::Read));
    assert_eq!(snapshot.tree("t").unwrap().iter().unwrap().count(), 20_000);
    let (after, read) = (db.stats().pages, disk.calls_of(Op::Read) - reads);
    assert!(
        read <= before.live + before.live / 50,
        "{read} of {}",
        before.live
    );
    // Those who use the database meanwhile find in memory what they would have found.
    assert_eq!(
        (after.reads, after.evictions),
        (before.reads, before.evictions)
    );
    let reads = disk.calls_of(Op::Read);
    assert_eq!(tree.iter().unwrap().count(), 20_000);
    let plain = disk.calls_of(Op::Read) - reads;
    println!(
        "{read} reads of {} pages, {plain} by a plain scan",
        before.live
    );
}

#[test]
fn what_is_in_memory_is_not_read_again_for_a_snapshot() {
    let disk = SimDisk::new(12);
    let db = Database::open_on(disk.shared(), tiny(12).memory(16 << 20)).unwrap();
    let tree = db
        .tree_with("t", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    for i in 0..5_000u32 {
        tree.put(format!("{i:06}"), [1; 400]).unwrap();
    }
    let snapshot = db.snapshot().unwrap();
    // A few pages are changed behind it, and are read as they were.
    for i in (0..5_000u32).step_by(500) {
        tree.put(format!("{i:06}"), [2; 400]).unwrap();
    }
    let (uses, reads) = (db.stats().pages, disk.calls_of(Op::Read));
    let mut read = snapshot.tree("t").unwrap().iter().unwrap();
    assert!(read.by_ref().all(|record| record.unwrap().1 == [1; 400]));
    let read = disk.calls_of(Op::Read) - reads;
    assert!((1..40).contains(&read), "{read} of {}", uses.live);
}

#[test]
fn the_file_grows_by_one_image_at_most() {
    let (without, _) = longest(false);
    let (with, live) = longest(true);
    // A mebibyte for growing ahead.
    assert!(
        with <= without + live + 256,
        "{with} pages with a snapshot of {live}, {without} without"
    );
}

#[test]
fn past_its_space_the_oldest_is_given_up_and_says_so() {
    let disk = SimDisk::new(6);
    let options = tiny(6).memory(8 << 20).snapshot_space(40 * 4096);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    let fill = |round: u8| {
        for i in 0..900u32 {
            tree.put(format!("{i:06}"), vec![round; 500]).unwrap();
        }
    };
    fill(1);
    let old = db.snapshot().unwrap();
    let map = old.tree("t").unwrap();
    for round in 2..12 {
        fill(round);
        db.checkpoint().unwrap();
        assert!(db.stats().pages.kept <= 40);
    }
    let young = db.snapshot().unwrap();
    assert!(matches!(old.check(), Err(Error::SnapshotGone { .. })));
    let told = map.iter().unwrap().find_map(Result::err).unwrap();
    let Error::SnapshotGone { cause, .. } = &told else {
        panic!("{told}");
    };
    assert!(cause.contains("snapshot_space"), "{cause}");
    assert!(told.to_string().contains("take another"), "{told}");
    assert!(matches!(old.verify(), Err(Error::SnapshotGone { .. })));
    young.check().unwrap();
    let young = young.tree("t").unwrap();
    let found: Records = young.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(found, records(&tree));
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_full_disk_takes_the_snapshot_and_not_the_write() {
    let disk = SimDisk::new(7);
    let db = Database::open_on(disk.shared(), tiny(7).memory(2 << 20)).unwrap();
    let tree = db.tree("t").unwrap();
    let wide = vec![7u8; 900];
    // Twice, so that all that a hot tier needs in the file is there.
    for i in (0..3000u32).chain(0..3000) {
        tree.put(format!("{i:06}"), &wide).unwrap();
    }
    db.checkpoint().unwrap();
    db.checkpoint().unwrap();
    let snapshot = db.snapshot().unwrap();
    let room = |db: &Database| db.stats().pages.live * 4096 * 3 / 2;
    disk.set_capacity(Some(disk.used_bytes() + room(&db) / 2));
    let mut gone = false;
    for round in 0..12u8 {
        for i in 0..3000u32 {
            let mut value = wide.clone();
            value[0] = round;
            if let Err(e) = tree.put(format!("{i:06}"), &value) {
                assert!(e.is_disk_full(), "{e}");
                db.checkpoint().unwrap();
                tree.put(format!("{i:06}"), &value).unwrap();
            }
        }
        gone |= snapshot.check().is_err();
    }
    assert!(gone, "the disk never was too small");
    let told = snapshot.check().unwrap_err().to_string();
    assert!(told.contains("the disk is full"), "{told}");
    assert_eq!(db.stats().pages.kept, 0);
    assert!(db.verify().unwrap().is_clean());
}

/// Writes, snapshots, checkpoints and drops of snapshots; what was acknowledged before the cut.
fn script(db: &Database, acknowledged: &mut BTreeMap<Vec<u8>, u32>) -> Result<()> {
    let mut held: Vec<(Snapshot, Records)> = Vec::new();
    let trees = [db.tree("a")?, db.tree("b")?];
    for round in 0..7u32 {
        for tree in &trees {
            for i in 0..120 {
                tree.put_with(key(i), value(i, round), terrace::Durability::Sync)?;
                if tree.name() == "a" {
                    acknowledged.insert(key(i), round);
                }
            }
        }
        let now = records(&trees[0]);
        held.push((db.snapshot()?, now));
        for (snapshot, wanted) in &held {
            let found = snapshot.tree("a")?.iter()?.collect::<Result<Records>>()?;
            assert_eq!(&found, wanted);
        }
        if round % 3 == 2 {
            held.remove(0);
        }
        db.checkpoint()?;
    }
    Ok(())
}

#[test]
fn a_power_cut_with_snapshots_held_loses_nothing_and_leaks_nothing() {
    let step = if crate::common::factor() > 1 { 1 } else { 41 };
    let mut at = 30;
    let mut cuts = 0;
    loop {
        let disk = SimDisk::new(at);
        disk.inject(Injection::any(at, DiskFault::PowerCut));
        let mut acknowledged = BTreeMap::new();
        let run = Database::open_on(disk.shared(), tiny(at).memory(8 << 20))
            .and_then(|db| script(&db, &mut acknowledged));
        if disk.is_powered() {
            run.unwrap();
            break;
        }
        cuts += 1;
        let found = disk.crash_keeping(Survival::Some(at));
        let db = Database::open_on(found.shared(), tiny(at + 1000).memory(8 << 20)).unwrap();
        let report = db.verify().unwrap();
        assert!(report.is_clean(), "cut at call {at}: {report}");
        assert_eq!(db.stats().pages.kept, 0);
        if !acknowledged.is_empty() {
            let tree = db.open_tree("a", MapOptions::new()).unwrap();
            for (key, round) in &acknowledged {
                let found = tree.get(key).unwrap().unwrap();
                let found = String::from_utf8_lossy(&found).into_owned();
                let of = found.trim_end_matches('x').rsplit('-').next().unwrap();
                assert!(of.parse::<u32>().unwrap() >= *round, "cut at call {at}");
            }
        }
        db.checkpoint().unwrap();
        let snapshot = db.snapshot().unwrap();
        assert!(snapshot.verify().unwrap().is_clean());
        at += step;
    }
    assert!(cuts > 20, "{cuts} cuts");
}

#[test]
fn readers_of_a_snapshot_see_it_whole_or_hear_that_it_is_gone() {
    let disk = SimDisk::new(9);
    let options = tiny(9)
        .memory(3 << 20)
        .foreground(false)
        .snapshot_space(200 * 4096);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    let put_all = |round: u32| {
        for i in 0..1500u32 {
            let mut value = round.to_be_bytes().to_vec();
            value.resize(400, 1);
            tree.put(format!("{i:06}"), value).unwrap();
        }
    };
    put_all(0);
    let (mut whole, mut gone) = (0, 0);
    for round in 1..8 {
        let snapshot = db.snapshot().unwrap();
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let map = snapshot.tree("t").unwrap();
                        let mut seen = 0;
                        for record in map.iter().unwrap() {
                            match record {
                                Ok((_, value)) => {
                                    let of: [u8; 4] = value[..4].try_into().unwrap();
                                    assert_eq!(u32::from_be_bytes(of), round - 1);
                                    seen += 1;
                                }
                                Err(Error::SnapshotGone { .. }) => return false,
                                Err(e) => panic!("{e}"),
                            }
                        }
                        assert_eq!(seen, 1500);
                        true
                    })
                })
                .collect();
            put_all(round);
            db.checkpoint().unwrap();
            put_all(round);
            for reader in readers {
                match reader.join().unwrap() {
                    true => whole += 1,
                    false => gone += 1,
                }
            }
        });
    }
    assert_eq!(whole + gone, 14);
    assert!(db.verify().unwrap().is_clean());
    db.close().unwrap();
}
