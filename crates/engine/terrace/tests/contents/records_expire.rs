//! Records are there until the instant at which they expire, whatever way they came in and whoever looks, in every
//! structure; and the time never goes back.

use std::time::Duration;

use crate::common::expiry::{BEGIN, Hands, at, run};
use crate::common::expiry_scenarios::SCENARIOS;
use crate::common::{SHAPES, create, factor, named, seeds, tiny};
use terrace::fault::{calm_rounds, round, store};
use terrace::{Database, Error, Expires, HashOptions, Kind, Map, MapOptions, Tiers};
use terrace_sim::{Rng, SimDisk};

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
        // Nobody can have one that is gone stay.
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
