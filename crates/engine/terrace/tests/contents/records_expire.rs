//! Records are there until the instant at which they expire, whatever way they came in and whoever looks, in every
//! structure; and the time never goes back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::expiry::{BEGIN, Hands, at, run};
use crate::common::expiry_scenarios::SCENARIOS;
use crate::common::{SHAPES, create, factor, named, seeds, tiny};
use terrace::fault::{calm_rounds, round, store};
use terrace::{
    Database, Error, Expires, HashOptions, Index, KeySource, Kind, Map, MapOptions, Merge,
    TableOptions, Tiers, TreeOptions,
};
use terrace_sim::{Rng, SimDisk};
use terrace_tier::fault::{Point, hook};

#[test]
fn random_steps_match_a_model_in_every_structure() {
    for seed in seeds(1) {
        for shape in SHAPES {
            run(seed, shape, 1200 * factor());
        }
    }
}

#[test]
fn a_record_is_gone_from_the_instant_on() {
    for shape in SHAPES {
        let hands = Hands::new();
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        map.put_for("a", "1", Duration::from_millis(10)).unwrap();
        map.put_until("b", "2", at(BEGIN + 11)).unwrap();
        map.put("c", "3").unwrap();
        hands.pass(9);
        assert_eq!(map.iter().unwrap().count(), 3, "{shape:?}");
        assert_eq!(map.expires("a").unwrap(), Some(Expires::At(at(BEGIN + 10))));
        hands.pass(1);
        assert_eq!(map.get("a").unwrap(), None, "{shape:?}");
        assert_eq!(map.iter().unwrap().count(), 2, "{shape:?}");
        assert_eq!(map.get_many(&["a", "b", "c"]).unwrap()[0], None);
        hands.pass(1);
        assert_eq!(map.expires("b").unwrap(), None);
        assert_eq!(map.expires("c").unwrap(), Some(Expires::Never));
        // No call can have one that is gone stay.
        assert!(!map.expire_in("a", None).unwrap());
        assert!(map.insert("a", "4").unwrap());
        assert_eq!(map.expires("a").unwrap(), Some(Expires::Never));
    }
}

/// A range that was begun before, and goes on after, shows what is there then.
#[test]
fn what_expires_while_a_range_is_read_does_not_come_out() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
    tree.put("a", "1").unwrap();
    for key in ["b", "c", "d"] {
        tree.put_until(key, "2", at(BEGIN + 10)).unwrap();
    }
    let mut range = tree.iter().unwrap();
    assert_eq!(range.next().unwrap().unwrap().0, b"a");
    assert_eq!(range.expires(), Expires::Never);
    assert_eq!(range.next().unwrap().unwrap().0, b"b");
    assert_eq!(range.expires(), Expires::At(at(BEGIN + 10)));
    hands.pass(10);
    tree.put("d", "3").unwrap();
    let left: Vec<_> = range.map(Result::unwrap).collect();
    assert_eq!(left, [(b"d".to_vec(), b"3".to_vec())]);
}

#[test]
fn only_a_structure_that_is_made_for_it_has_records_that_expire() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let (plain, minute) = (db.hash("plain").unwrap(), Duration::from_secs(60));
    assert!(matches!(
        plain.put_for("a", "1", minute),
        Err(Error::Invalid { .. })
    ));
    assert!(matches!(
        plain.expire_in("a", None),
        Err(Error::Invalid { .. })
    ));
    let mut batch = db.batch();
    batch.put_for(&plain, "a", "1", minute);
    assert!(db.write(batch, None).is_err());
    assert!(
        db.hash_with("plain", HashOptions::new().expiring())
            .is_err()
    );
    let hash = db.hash_with("h", HashOptions::new().expiring()).unwrap();
    hash.put_for("a", "1", minute).unwrap();
    // What is not said is not checked.
    assert_eq!(
        db.hash("h").unwrap().get("a").unwrap().as_deref(),
        Some(&b"1"[..])
    );
    assert!(db.structures().iter().any(|s| s.name == "h" && s.expiring));
}

/// A mark has what the wall clock said, which may be wrong by years: it ends no leases after a crash.
#[test]
fn a_mark_far_ahead_is_not_believed() {
    // The system's time, which marks have, is years ahead of the hands.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let now = now.as_millis() as u64;
    for (wall, believed) in [(BEGIN, false), (now - 600_000, true)] {
        let hands = Hands::new();
        hands.set(wall);
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
        let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
        tree.put_until("a", "1", at(wall + 10)).unwrap();
        db.mark("m").unwrap();
        let copy = disk.copy();
        drop((tree, db));
        let db = Database::open_on(copy.shared(), tiny(2).clock(hands.clone())).unwrap();
        let tree = db.open_tree("t", MapOptions::new().expiring()).unwrap();
        let found = tree.get("a").unwrap();
        assert_eq!(found.is_none(), believed);
        let time = db.time();
        assert_eq!(time, at(terrace::fault::now(&db)));
        assert_eq!(time == at(wall), !believed);
    }
}

/// Where a row goes with entries, too: who would lengthen a lease that ends meanwhile finds nothing.
#[test]
fn a_lease_that_ends_while_it_is_lengthened_has_ended() {
    for shape in SHAPES {
        let hands = Hands::new();
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
        let map = create(&db, &named(shape), shape, MapOptions::new().expiring()).unwrap();
        map.put_until("a", "some", at(BEGIN + 10)).unwrap();
        let mut seen = Vec::new();
        let later = Expires::At(at(BEGIN + 1000));
        let was = map.update_expiring("a", |old| {
            seen.push(old.is_some());
            hands.pass(10);
            old.map(|(value, _)| (value.to_vec(), later))
        });
        assert!(!was.unwrap(), "{shape:?}");
        assert_eq!(seen, [true, false], "{shape:?}");
        assert_eq!(map.get("a").unwrap(), None);
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn a_lease_that_ends_behind_the_look_at_who_watches_has_ended() {
    for tiers in [Tiers::One, Tiers::Two] {
        let hands = Hands::new();
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
        let options = TreeOptions::new().tiers(tiers).expiring();
        let tree = db.tree_with("t", options).unwrap();
        tree.put_until("a", "some", at(BEGIN + 10)).unwrap();
        let (clock, mut first) = (hands.clone(), true);
        hook(Some(Box::new(move |point| {
            if point == Point::Told && std::mem::take(&mut first) {
                clock.pass(10);
            }
        })));
        let lengthened = tree.expire_at("a", at(BEGIN + 1000));
        hook(None);
        assert!(!lengthened.unwrap(), "{tiers:?}");
        assert_eq!(tree.get("a").unwrap(), None);
    }
}

#[test]
fn a_key_of_an_index_names_the_row_that_has_it_now() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let first = Index::on("first", KeySource::bytes(0..1)).unique();
    let options = TableOptions::new().expiring().index(first);
    let table = db.table_with("t", options).unwrap();
    table.put("1", "a").unwrap();
    table.put_until("2", "b", at(BEGIN + 10)).unwrap();
    table.put_until("3", "c", at(BEGIN + 10)).unwrap();
    let pair = |key: &str, primary: &str| (key.as_bytes().to_vec(), primary.as_bytes().to_vec());
    let mut keys = table.index("first").unwrap().keys::<&[u8]>(..).unwrap();
    assert_eq!(keys.next().unwrap().unwrap(), pair("a", "1"));
    hands.pass(10);
    table.put("4", "b").unwrap();
    let left: Vec<_> = keys.map(Result::unwrap).collect();
    assert_eq!(left, [pair("b", "4")]);
}

#[test]
fn a_time_past_all_numbers_is_far_away() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let hash = db.hash_with("h", HashOptions::new().expiring()).unwrap();
    // This many seconds are in milliseconds 384 more than a number has room for.
    let far = UNIX_EPOCH + Duration::from_secs(18_446_744_073_709_552);
    hash.put_until("a", "1", far).unwrap();
    hash.put("b", "2").unwrap();
    assert!(hash.expire_at("b", far).unwrap());
    hash.put_for("c", "3", Duration::MAX).unwrap();
    hands.pass(1_000_000_000);
    let last = Expires::At(at((1 << 48) - 1));
    for key in ["a", "b", "c"] {
        assert_eq!(hash.expires(key).unwrap(), Some(last), "{key}");
    }
}

/// A put of the batch itself that has expired by the time it is written is not there for its merges.
#[test]
fn a_merge_passes_over_what_its_batch_has_let_expire() {
    let hands = Hands::new();
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("t", MapOptions::new().expiring()).unwrap();
    let merge = Merge::Append {
        bytes: b"m".to_vec(),
        limit: 100,
    };
    for (waits, expected) in [(9, None), (10, Some(&b"m"[..]))] {
        let mut batch = db.batch();
        let end = at(hands.now() + 10);
        batch
            .put_until(&tree, "a", "1", end)
            .merge(&tree, "a", merge.clone());
        hands.pass(waits);
        db.write(batch, None).unwrap();
        let found = tree.get_with_expires("a").unwrap();
        let expected = match expected {
            Some(value) => (value.to_vec(), Expires::Never),
            None => (b"1m".to_vec(), Expires::At(end)),
        };
        assert_eq!(found, Some(expected));
    }
}

/// What is found by faults that tests plant, without them.
#[test]
fn each_scenario_ends_as_it_should() {
    for (_, scenario) in SCENARIOS {
        scenario();
    }
}

/// Sessions that are there for up to an hour, and how many of them at a time.
const HOUR_MS: u64 = 3_600_000;
const LIVING: u64 = 20_000;
const SESSION: [u8; 200] = [b's'; 200];

/// Sessions are begun all the time, two hours long. At rest the file is hardly longer than one in which only
/// those are that live.
#[test]
fn the_file_stays_short_while_sessions_come_and_go() {
    for shape in [
        (Kind::Tree, Tiers::Two, false),
        (Kind::Hash, Tiers::Two, false),
        (Kind::Lsm, Tiers::Two, false),
    ] {
        let (hands, mut rng) = (Hands::new(), Rng::new(1));
        let open = |disk: &SimDisk| {
            let options = tiny(1).log_limit(1 << 20).clock(hands.clone());
            let db = Database::open_on(disk.shared(), options).unwrap();
            let map = create(&db, "sessions", shape, MapOptions::new().expiring()).unwrap();
            (db, map)
        };
        let due = |db: &Database| {
            let log = db.stats().log;
            if store(db).wants_checkpoint() || log.bytes_since_checkpoint > log.limit / 2 {
                db.checkpoint().unwrap();
            }
        };
        let put = |(db, map): &(Database, Map), i: u64, key: u64, end: u64| {
            map.put_until(key.to_be_bytes(), SESSION, at(end)).unwrap();
            if i.is_multiple_of(200) {
                due(db);
            }
        };
        let disk = SimDisk::new(1);
        let sessions = open(&disk);
        // They live for half an hour on the average.
        let each = HOUR_MS / 2 / LIVING;
        let mut all = Vec::new();
        let mut most: f64 = 0.0;
        for i in 0..2 * HOUR_MS / each {
            let (key, end) = (rng.next_u64(), hands.now() + 1 + rng.below(HOUR_MS));
            put(&sessions, i, key, end);
            all.push((key, end));
            hands.pass(each);
            if i.is_multiple_of(60_000 / each) {
                round(&sessions.0).unwrap();
                all.retain(|(_, end)| hands.now() < *end);
            }
            if i.is_multiple_of(600_000 / each) && i > HOUR_MS / each {
                let survey = sessions.0.survey().unwrap();
                most = most.max(survey.structures[0].expired_ratio.unwrap());
            }
        }
        all.retain(|(_, end)| hands.now() < *end);
        let other_disk = SimDisk::new(2);
        let others = open(&other_disk);
        for (i, (key, end)) in all.iter().enumerate() {
            put(&others, i as u64, *key, *end);
        }
        let length = |(db, map): &(Database, Map)| {
            round(db).unwrap();
            // At rest pages are moved to the front, and the file is cut.
            calm_rounds(db, 2000).unwrap();
            // Some hundred slots are not worth a checkpoint by themselves.
            db.checkpoint().unwrap();
            assert_eq!(map.iter().unwrap().count(), all.len());
            assert!(db.verify().unwrap().is_clean());
            let pages = db.stats().pages;
            (pages.data_file_bytes, pages.live * pages.page_bytes)
        };
        let (found, alone) = (length(&sessions), length(&others));
        eprintln!("{shape:?}: {found:?} beside {alone:?}, dead at most {most}");
        assert!(found.0 as f64 <= 1.5 * alone.0 as f64, "{shape:?}");
        assert!(found.1 as f64 <= 1.5 * alone.1 as f64, "{shape:?}");
        // A quarter, and what a minute and a guess add.
        assert!(most <= 0.32, "{shape:?}: {most}");
    }
}
