//! The data file stays within 2.2 times the live pages of all tiers under updates that never end, and while
//! checkpoints are made among them, however slowly, within three places for each page and one more for each
//! that memory holds; and what the database itself counts as memory stays within its limit meanwhile, but
//! for what has just grown, for which frames make room a moment later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{Shape, create, named};
use terrace::fault::{self, store};
use terrace::{Database, Kind, Map, MapOptions, MemoryStats, Options, Stats, Tiers};
use terrace_base::disk::Disk;
use terrace_sim::{Call, HookedDisk, Rng, SimDisk};

const MEMORY: u64 = 8 << 20;
/// As long as the log may be, pages of hot tiers are not written, and take no space but their own.
const LOG_LIMIT: u64 = 8 << 20;

fn options() -> Options {
    Options::new()
        .memory(MEMORY)
        .page_size(4096)
        .log_limit(LOG_LIMIT)
        .seed(1)
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Most of the updates go to a tenth of the records.
fn any(rng: &mut Rng, records: u64) -> u64 {
    match rng.percent(70) {
        true => rng.below(records / 10),
        false => rng.below(records),
    }
}

fn update(map: &Map, rng: &mut Rng, records: u64) {
    let i = any(rng, records);
    let value = [rng.below(256) as u8; 120];
    map.put(key(i), value).unwrap();
}

/// However small the database is, the file grows by this much at least, and as much again may be held by the
/// last checkpoint alone before the next one is due.
const ROUNDED: u64 = 2 << 20;

/// Bytes of the data file for each byte of live pages.
fn length(stats: &Stats) -> f64 {
    let p = &stats.pages;
    (p.data_file_bytes - ROUNDED) as f64 / (p.live * p.page_bytes) as f64
}

fn loaded(db: &Database, shape: Shape, records: u64) -> Map {
    let map = create(db, "map", shape, MapOptions::new()).unwrap();
    for i in 0..records {
        map.put(key(i), [0; 120]).unwrap();
        if i % 1000 == 0 {
            checkpoint_if_due(db);
        }
    }
    // What no checkpoint has is overwritten at no cost.
    db.checkpoint().unwrap();
    map
}

/// What the thread for checkpoints does where there is one.
fn checkpoint_if_due(db: &Database) {
    let log = db.stats().log;
    if store(db).wants_checkpoint() || log.bytes_since_checkpoint > log.limit {
        db.checkpoint().unwrap();
    }
}

fn stays_short(shape: Shape, records: u64, updates: u64) {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
    let map = loaded(&db, shape, records);
    let mut rng = Rng::new(2);
    let mut most: f64 = 0.0;
    let before = db.stats().checkpoints.completed;
    for i in 0..updates {
        update(&map, &mut rng, records);
        if i % 100 == 0 {
            // At its longest: a checkpoint that is due gives space back.
            if i > updates / 4 {
                most = most.max(length(&db.stats()));
            }
            checkpoint_if_due(&db);
        }
    }
    let made = db.stats().checkpoints.completed - before;
    let name = named(shape);
    eprintln!("{name}: at most {most:.2} times the live pages");
    assert!(made > 2, "{name}: only {made} checkpoints");
    assert!(most <= 2.2, "{name}: {most:.2} times the live pages");
}

#[test]
fn with_one_tier() {
    stays_short((Kind::Tree, Tiers::One, false), 100_000, 100_000);
}

#[test]
fn with_two_tiers_and_much_more_data_than_memory() {
    for kind in [Kind::Tree, Kind::Hash, Kind::Table] {
        stays_short((kind, Tiers::Two, false), 100_000, 200_000);
    }
}

#[test]
fn with_two_tiers_where_nearly_all_is_in_memory() {
    for kind in [Kind::Tree, Kind::Hash] {
        stays_short((kind, Tiers::Two, false), 40_000, 250_000);
    }
}

/// What is used is within the limit, but for what has just grown, the copies for a cut above all, which may
/// take a thirty-second of it: frames make room for that in the next round of the cleaner.
fn is_about_within_the_limit(m: &MemoryStats) {
    assert!(m.used() <= m.limit + m.limit / 16, "{m:?}");
    assert!(m.cut_copies <= m.limit / 16, "{m:?}");
}

/// While a checkpoint is made a page has a place in the last image, one in the image to come and one for what
/// it became since; one that is in memory needs another before it can give up the last of these. The file
/// grows a sixteenth ahead.
fn is_short_while_a_checkpoint_is_made(stats: &Stats, live: u64) {
    let p = &stats.pages;
    let most = (3 * live * p.page_bytes + MEMORY) / 16 * 17 + ROUNDED;
    assert!(p.data_file_bytes <= most, "{live} live pages: {p:?}");
}

/// Updates and scans on `disk` until `checkpoints` checkpoints were made.
fn among_updates_and_scans(disk: Arc<dyn Disk>, tiers: Tiers, checkpoints: u64) {
    let db = Database::open_on(disk, options()).unwrap();
    let records = 60_000;
    let map = loaded(&db, (Kind::Tree, tiers, false), records);
    let completed = || db.stats().checkpoints.completed;
    let enough = completed() + checkpoints;
    let most = std::thread::scope(|scope| {
        let (map, completed) = (&map, &completed);
        scope.spawn(move || {
            let mut rng = Rng::new(3);
            while completed() < enough {
                (0..1000).for_each(|_| update(map, &mut rng, records));
            }
        });
        scope.spawn(move || {
            while completed() < enough {
                assert_eq!(map.iter().unwrap().count() as u64, records);
            }
        });
        let (mut most, mut live) = (0.0, 0);
        while completed() < enough {
            let stats = db.stats();
            live = live.max(stats.pages.live);
            is_about_within_the_limit(&stats.memory);
            is_short_while_a_checkpoint_is_made(&stats, live);
            most = length(&stats).max(most);
        }
        most
    });
    eprintln!("at most {most:.2} times the live pages");
    // Only so that a failure ends; how long it takes does not matter.
    let end = Instant::now() + Duration::from_secs(60);
    while db.stats().memory.used() > MEMORY {
        assert!(Instant::now() < end, "{:?}", db.stats().memory);
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn while_checkpoints_are_made_among_updates_and_scans() {
    among_updates_and_scans(SimDisk::new(1).shared(), Tiers::Two, 6);
}

#[test]
fn while_checkpoints_are_made_slowly() {
    let checkpointer = || std::thread::current().name() == Some("terrace-checkpointer");
    for tiers in [Tiers::One, Tiers::Two] {
        let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
            if matches!(call, Call::Write(_)) && checkpointer() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        among_updates_and_scans(Arc::new(disk), tiers, 2);
    }
}

#[test]
fn a_long_file_is_drawn_in_while_nobody_writes() {
    for (kind, records) in [
        (Kind::Tree, 40_000),
        (Kind::Tree, 100_000),
        (Kind::Hash, 40_000),
        (Kind::Table, 40_000),
        (Kind::Lsm, 40_000),
    ] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
        let map = loaded(&db, (kind, Tiers::Two, false), records);
        let mut rng = Rng::new(2);
        // As long as it gets: what the last checkpoint alone holds, and what was free once.
        for i in 0..60_000 {
            update(&map, &mut rng, records);
            if i % 100 == 0 {
                checkpoint_if_due(&db);
            }
        }
        let before = length(&db.stats());
        let model: Vec<_> = map.iter().unwrap().map(Result::unwrap).collect();
        fault::calm_rounds(&db, 20_000).unwrap();
        let after = length(&db.stats());
        eprintln!("{kind}: {before:.2} and then {after:.2} times the live pages");
        assert!(
            after <= 1.05 && after < before,
            "{kind}: {before:.2}, {after:.2}"
        );
        assert!(map.iter().unwrap().map(Result::unwrap).eq(model));
        assert!(db.verify().unwrap().is_clean());
        // It is done, and nothing is written for it any more.
        let writes = db.stats().pages.writes;
        fault::calm_rounds(&db, 2000).unwrap();
        assert!(db.stats().pages.writes - writes < 200);
    }
}

/// It may stay closed for long.
#[test]
fn a_long_file_is_drawn_in_when_it_is_closed() {
    let mut drawn_in = 0;
    for kind in [Kind::Tree, Kind::Hash, Kind::Table, Kind::Lsm] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
        let map = loaded(&db, (kind, Tiers::Two, false), 40_000);
        let mut rng = Rng::new(2);
        for i in 0..60_000 {
            update(&map, &mut rng, 40_000);
            if i % 100 == 0 {
                checkpoint_if_due(&db);
            }
        }
        let all = |map: &Map| -> Vec<_> {
            let all = map.iter_unordered().unwrap().map(Result::unwrap);
            let mut all: Vec<_> = all.collect();
            all.sort();
            all
        };
        let model = all(&map);
        let live = db.stats().pages.live * 4096;
        let of_file = || disk.contents("data").unwrap().len() as f64 / live as f64;
        let before = of_file();
        drop(map);
        db.close().unwrap();
        let after = of_file();
        // A quarter, and 512 pages.
        let long = 1.25 + (512.0 * 4096.0) / live as f64;
        assert!(after < long, "{kind}: {before:.2}, {after:.2}");
        if before > long {
            assert!(after < 1.2, "{kind}: {before:.2}, {after:.2}");
            drawn_in += 1;
        }
        let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
        let map = db.map("map").unwrap();
        assert!(all(&map) == model);
        assert!(db.verify().unwrap().is_clean());
    }
    assert!(drawn_in > 1);
}

#[test]
fn who_compacts_is_left_alone_by_what_is_done_while_nobody_writes() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), options().foreground(true)).unwrap();
    let map = loaded(&db, (Kind::Tree, Tiers::One, false), 40_000);
    let spare = |meddled: bool| {
        update(&map, &mut Rng::new(3), 40_000);
        store(&db).cut_tightly();
        if meddled {
            fault::calm_rounds(&db, 3).unwrap();
        }
        // Both superblocks have to name the shorter file.
        for _ in 0..3 {
            db.checkpoint().unwrap();
        }
        store(&db).end_compacting();
        store(&db).space_seen().slots
    };
    let alone = spare(false);
    assert_eq!(spare(true), alone);
}
