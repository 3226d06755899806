//! Records that expire, beside what else a database can do: the changes are read, a hash table is gone through in
//! steps, ranges are removed, memory alone is asked, backups are made, the log is followed, and all is restored.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::common::expiry::{BEGIN, Hands, at};
use crate::common::{SHAPES, Shape, create, named, seeds, tiny};
use terrace::{
    Change, ChangesOptions, Database, Expires, HashOptions, Kind, Map, MapOptions, Merge, Options,
    RemoveOptions, RestoreOptions, Result, Tiers, restore_on,
};
use terrace_sim::{Rng, SimDisk};

fn options(seed: u64, hands: &Arc<Hands>) -> Options {
    tiny(seed).clock(hands.clone())
}

fn opened(seed: u64, hands: &Arc<Hands>) -> (SimDisk, Database) {
    let disk = SimDisk::new(seed);
    let db = Database::open_on(disk.shared(), options(seed, hands)).unwrap();
    (disk, db)
}

fn expiring(db: &Database, shape: Shape) -> Map {
    create(db, &named(shape), shape, MapOptions::new().expiring()).unwrap()
}

/// All records, and until when each is there.
fn leased(map: &Map) -> BTreeMap<Vec<u8>, (Vec<u8>, Expires)> {
    let keys = map.iter().unwrap().map(|record| record.unwrap().0);
    let found = keys.map(|key| {
        let found = map.get_with_expires(&key).unwrap().expect("a record");
        (key, found)
    });
    found.collect()
}

/// A change as a text.
fn told(change: &Change<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match change {
        Change::Put {
            key,
            value,
            expires,
            ..
        } => {
            let end = expires.map(|time| {
                let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
                since.as_millis() as u64 - BEGIN
            });
            format!("{} {} {end:?}", text(key), text(value))
        }
        Change::Delete { key, .. } => format!("{} -", text(key)),
        _ => String::new(),
    }
}

#[test]
fn changes_have_the_leases_and_tell_of_no_expiry() {
    for shape in SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(1, &hands);
        let changes = db.changes(ChangesOptions::new()).unwrap();
        let map = expiring(&db, shape);
        map.put_until("a", "1", at(BEGIN + 1000)).unwrap();
        map.put("b", "2").unwrap();
        let second = Duration::from_secs(1);
        assert!(map.expire_in("b", Some(second)).unwrap());
        let merge = Merge::Append {
            bytes: b"x".to_vec(),
            limit: 100,
        };
        map.merge("a", merge).unwrap();
        map.put("c", "0").unwrap();
        map.put_for("c", "3", Duration::ZERO).unwrap();
        let mut batch = db.batch();
        batch
            .put_for(&map, "d", "4", second)
            .put(&map, "e", "5")
            .put_for(&map, "f", "6", Duration::ZERO);
        db.write(batch, None).unwrap();
        hands.pass(1000);
        assert_eq!(map.get("a").unwrap(), None);
        terrace::fault::tend(&db).unwrap();
        map.put("end", "").unwrap();
        db.sync().unwrap();
        let mut all = Vec::new();
        for commit in changes {
            all.extend(commit.unwrap().changes().map(|change| told(&change)));
            if all.last().is_some_and(|last| last.starts_with("end")) {
                break;
            }
        }
        let mut expected = vec![
            "",
            "a 1 Some(1000)",
            "b 2 None",
            "b 2 Some(1000)",
            "a 1x Some(1000)",
            "c 0 None",
            "c -",
            "d 4 Some(1000)",
            "e 5 None",
            "f -",
        ];
        if shape.0 == Kind::Table {
            // Rows go with their entries, as any change does.
            expected.extend(["a -", "b -", "d -"]);
        }
        expected.push("end  None");
        all.dedup_by(|a, b| a.is_empty() && b.is_empty());
        assert_eq!(all, expected, "{}", named(shape));
    }
}

/// Writes that have leases of some kind.
fn write(map: &Map, rng: &mut Rng) -> Result<()> {
    let key = format!("k{:03}", rng.below(300));
    let len = if rng.percent(3) { 7000 } else { 40 };
    let value = rng.bytes(len);
    let time = Duration::from_millis(rng.below(2_000));
    match rng.below(8) {
        0 => map.delete(&key)?,
        1 | 2 => map.put(&key, &value)?,
        3 => drop(map.expire_in(&key, Some(time))?),
        4 => drop(map.expire_in(&key, None)?),
        _ => map.put_for(&key, &value, time)?,
    }
    Ok(())
}

/// Takes over what a database has changed, up to now.
fn take_over(db: &Database, other: &Map, place: &mut Option<terrace::Place>) {
    let options = ChangesOptions::new().until_now();
    let options = match *place {
        Some(place) => options.from(place),
        None => options,
    };
    for commit in db.changes(options).unwrap() {
        let commit = commit.unwrap();
        let mut batch = other.database().batch();
        for change in commit.changes() {
            match change {
                Change::Put {
                    key,
                    value,
                    expires,
                    ..
                } => {
                    let expires = expires.map_or(Expires::Never, Expires::At);
                    batch.put_expiring(other, key, value, expires);
                }
                Change::Delete { key, .. } => {
                    batch.delete(other, key);
                }
                _ => {}
            }
        }
        other.database().write(batch, None).unwrap();
        *place = Some(commit.place());
    }
}

#[test]
fn a_database_that_is_fed_by_the_changes_expires_with_the_first() {
    for seed in seeds(1) {
        for shape in SHAPES {
            let (hands, mut rng) = (Hands::new(), Rng::new(seed));
            let ((_disk, db), (_other_disk, other_db)) = (opened(seed, &hands), opened(9, &hands));
            let options = ChangesOptions::new();
            let (begin, mut place) = (db.changes(options).unwrap(), None);
            let (map, other) = (expiring(&db, shape), expiring(&other_db, shape));
            for commit in begin.take(1) {
                place = Some(commit.unwrap().place());
            }
            for _ in 0..12 {
                for _ in 0..40 {
                    write(&map, &mut rng).unwrap();
                }
                take_over(&db, &other, &mut place);
                assert!(leased(&map) == leased(&other), "{}", named(shape));
                hands.pass(rng.below(400));
                if rng.percent(50) {
                    terrace::fault::tend(&other_db).unwrap();
                }
                assert!(leased(&map) == leased(&other), "{}", named(shape));
            }
        }
    }
}

#[test]
fn a_scan_in_steps_passes_over_what_has_expired() {
    for tiers in [Tiers::One, Tiers::Two] {
        let hands = Hands::new();
        let (_disk, db) = opened(1, &hands);
        let options = HashOptions::new().tiers(tiers).expiring();
        let hash = db.hash_with("h", options).unwrap();
        let stays = |i: u32| i.is_multiple_of(3);
        for i in 0..1500u32 {
            // Some in pages of their own, of which a step has the key alone.
            let value = vec![b'v'; if i % 50 < 2 { 6000 } else { 100 }];
            match stays(i) {
                true => hash.put(i.to_be_bytes(), value).unwrap(),
                false => hash
                    .put_until(i.to_be_bytes(), value, at(BEGIN + 1000))
                    .unwrap(),
            }
        }
        let (mut from, mut steps, mut seen) = (Some(0), 0, Vec::new());
        while let Some(place) = from {
            if steps == 6 {
                hands.pass(1000);
            }
            let step = hash.scan(place, 50).unwrap();
            for (key, value) in step.records {
                let i = u32::from_be_bytes(key.try_into().unwrap());
                assert!(stays(i) || steps < 6, "{i} has expired");
                assert_eq!(value.is_none(), i % 50 < 2, "{i}");
                assert!(value.is_none_or(|value| value == [b'v'; 100]));
                seen.push(i);
            }
            (from, steps) = (step.next, steps + 1);
        }
        assert!(steps > 8, "{steps}");
        let expired = seen.iter().filter(|i| !stays(**i)).count();
        assert!(expired > 100, "{expired}");
        seen.retain(|i| stays(*i));
        seen.sort_unstable();
        assert!(seen.into_iter().eq((0..1500).filter(|i| stays(*i))));
    }
}

#[test]
fn a_range_is_removed_with_what_has_expired_in_it() {
    for shape in SHAPES.into_iter().filter(|shape| shape.0 != Kind::Hash) {
        let hands = Hands::new();
        let (disk, db) = opened(1, &hands);
        let map = expiring(&db, shape);
        let key = |i: u64| format!("{i:04}");
        for i in 0..1200u64 {
            let end = [BEGIN + 1000, BEGIN + 5000][(i % 2) as usize];
            map.put_until(key(i), "aa some value", at(end)).unwrap();
        }
        hands.pass(1000);
        let remove = |low: u64, high: u64| {
            let (range, options) = (key(low)..key(high), RemoveOptions::new());
            match (map.as_tree(), map.as_table()) {
                (Some(tree), _) => tree.remove_range(range, options).unwrap(),
                (_, Some(table)) => table.remove_range(range, options).unwrap(),
                _ => unreachable!("a structure without an order"),
            }
        };
        // Told is what a reader could see.
        assert_eq!(remove(100, 300), 100, "{}", named(shape));
        assert_eq!(remove(100, 300), 0);
        let left: Vec<_> = map.iter().unwrap().map(|r| r.unwrap().0).collect();
        let expected = (0..1200).filter(|i| i % 2 == 1 && !(100..300).contains(i));
        assert!(left.into_iter().eq(expected.map(|i| key(i).into_bytes())));
        assert!(db.verify().unwrap().is_clean());
        drop((map, db));
        let found = disk.restart(1);
        let db = Database::open_on(found.shared(), options(2, &hands)).unwrap();
        let map = db.map(&named(shape)).unwrap();
        assert_eq!(map.iter().unwrap().count(), 500);
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn memory_alone_tells_that_a_record_has_expired() {
    for shape in SHAPES {
        let hands = Hands::new();
        let (_disk, db) = opened(1, &hands);
        let map = expiring(&db, shape);
        map.put_until("a", "1", at(BEGIN + 10)).unwrap();
        let mut value = b"before".to_vec();
        let asked = map.get_if_resident("a", &mut value).unwrap();
        assert_eq!((asked, &value[..]), (Some(true), &b"1"[..]));
        hands.pass(10);
        let asked = map.get_if_resident("a", &mut value).unwrap();
        assert_eq!(asked, Some(false), "{}", named(shape));
        assert!(db.stats().expiry.hidden > 0);
    }
}

#[test]
fn what_is_restored_has_its_leases_and_it_is_said_how_much_has_expired() {
    for shape in SHAPES {
        let hands = Hands::new();
        // Points and marks have the system's time, which this one is ahead of.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let begin = now.unwrap().as_millis() as u64 + 3_600_000;
        hands.set(begin);
        let (_disk, db) = opened(1, &hands);
        let map = expiring(&db, shape);
        for i in 0..60u64 {
            // Large ones too: what their references say of the end is copied with the pages.
            let value = vec![b'v'; if i % 20 == 0 { 6000 } else { 40 }];
            map.put(format!("s{i:02}"), &value).unwrap();
            let end = at(begin + 1000 + i / 30 * 600_000);
            map.put_until(format!("k{i:02}"), &value, end).unwrap();
        }
        let set = SimDisk::new(2);
        db.backup_on(set.shared(), Default::default()).unwrap();
        // The log behind it has leases too.
        let follower = db.follow_on(set.shared(), Default::default()).unwrap();
        map.put_until("k99", "2", at(begin + 2000)).unwrap();
        assert!(map.expire_at("k59", at(begin + 3000)).unwrap());
        follower.stop().unwrap();
        let before = leased(&map);
        assert_eq!(before.len(), 121);
        let restored = |seed: u64| {
            let to = SimDisk::new(seed);
            let how = RestoreOptions::new().options(options(seed, &hands));
            let report = restore_on(set.shared(), to.shared(), how).unwrap();
            let db = Database::open_on(to.shared(), options(seed + 1, &hands)).unwrap();
            let found = leased(&db.map(&named(shape)).unwrap());
            assert!(db.verify().unwrap().is_clean());
            (report.expired, found)
        };
        let (expired, found) = restored(3);
        assert!(expired.is_empty() && found == before, "{}", named(shape));
        // A day later all but what stays is gone; that can be said of a large value, too.
        hands.set(begin + 86_400_000);
        let (expired, found) = restored(5);
        assert_eq!(found.len(), 60, "{}", named(shape));
        let [part] = &expired[..] else {
            panic!("{expired:?}")
        };
        assert_eq!(part.structure, named(shape));
        assert_eq!(part.part, 61.0 / 121.0, "{}", named(shape));
        // The first has the time that it had, until the leap has stood for ten minutes.
        assert!(leased(&map) == before);
    }
}
