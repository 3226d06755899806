//! Every fault that can be planted in this crate, those of the order of a write excepted
//! (`the_order_of_a_write_is_kept.rs`), is caught by one of the scenarios that the other tests run at
//! length; without a fault the same scenarios pass.
//!
//! One test, which runs each fault and each scenario in a process of its own.

use std::panic::{AssertUnwindSafe, RefUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use crate::common::brought_over::brought_over;
use crate::common::chains::chains;
use crate::common::changes::{
    a_copy_equals_the_database, a_place_to_begin_at_outlives_a_power_cut,
    a_snapshot_begins_where_the_changes_do, what_is_unfinished_is_not_shown,
};
use crate::common::clock::clocks;
use crate::common::expiry_scenarios;
use crate::common::run::{run, survive};
use crate::common::saving::{
    bounded_rest, rotten_saved_page_is_an_error_of_its_keys, rotten_saved_page_is_made_anew,
    saving, somebody_stops_at, the_power_goes_in_a_checkpoint,
};
use crate::common::script::{Step, script};
use crate::common::slots::{
    closes_when_full, what_goes_makes_room, what_was_never_saved_finds_room,
};
use crate::common::tables::{
    a_change_within_a_change, a_key_is_asked_for_twice, a_row_between_two_keys, half_an_index,
    rows_and_readers,
};
use crate::common::unlogged::{
    a_change_waits_for_a_page, they_are_not_among_the_changes, without_log,
};
use crate::common::waiting::everybody_who_waits_is_told;
use crate::common::{SHAPES, backups, tiny};
use terrace::fault::{Fault, plant};
use terrace::{
    Database, Durability, Index, KeySource, Kind, MapOptions, Options, TableOptions, Tiers,
    TreeOptions, encode,
};
use terrace_sim::{Fault as DiskFault, Injection, SimDisk, again_for_each};
use terrace_tier::fault::Point;

/// Cuts the power at many calls of a script.
fn power_cuts() {
    for seed in [1, 2] {
        let script = script(seed, 150);
        let mut n = 20 + seed;
        loop {
            let disk = SimDisk::new(seed);
            disk.inject(Injection::any(n, DiskFault::PowerCut));
            let progress = run(&disk, &|n| tiny(seed * 1000 + n), &script);
            if disk.is_powered() {
                break;
            }
            let found = disk.crash(n);
            let options = tiny(seed * 1000 + 900);
            survive(&found, options, &script, &progress, progress.synced);
            n += 9;
        }
    }
}

/// Cuts the power right behind what was confirmed as durable: a write, and the answer that a record is
/// there already, which rests on a write that was only buffered.
fn confirmed_writes() {
    for seed in 1..6 {
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
        let tree = db.tree("t").unwrap();
        tree.put_with("a", "1", Durability::Sync).unwrap();
        tree.put_with("b", "2", Durability::Buffered).unwrap();
        assert!(!tree.insert_with("b", "3", Durability::Sync).unwrap());
        a_batch_confirms(seed);
        let found = disk.crash(seed);
        let db = Database::open_on(found.shared(), tiny(seed)).unwrap();
        let tree = db.tree("t").unwrap();
        for (key, value) in [("a", b"1"), ("b", b"2")] {
            let found = tree.get(key).unwrap();
            assert_eq!(found.as_deref(), Some(&value[..]), "{key}, seed {seed}");
        }
    }
}

/// The same of a batch that finds nothing to change: a row that is not there is not deleted, with an
/// answer that says that it is durably so.
fn a_batch_confirms(seed: u64) {
    let disk = SimDisk::new(seed);
    let open = |disk: &SimDisk| {
        let db = Database::open_on(disk.shared(), tiny(seed)).unwrap();
        let key = KeySource::bytes(0..1);
        let options = TableOptions::new().tiers(Tiers::One);
        let table = db
            .table_with("t", options.index(Index::on("i", key)))
            .unwrap();
        (db, table)
    };
    let (db, table) = open(&disk);
    table.put_with("a", "1", Durability::Sync).unwrap();
    table.delete_with("a", Durability::Buffered).unwrap();
    let mut batch = db.batch();
    batch.delete(&table, "a");
    db.write(batch, Durability::Sync).unwrap();
    let (_db, table) = open(&disk.crash(seed));
    assert_eq!(table.get("a").unwrap(), None, "seed {seed}");
}

/// Cuts the power behind two buffered batches with a sync commit between: any subset may survive.
fn torn_batches() {
    let changes = |name: &str| {
        script(3, 400)
            .into_iter()
            .filter_map(|step| match step {
                Step::Write(changes, _) if changes.len() > 20 => Some(changes),
                _ => None,
            })
            .flatten()
            .take(40)
            .map(|mut change| {
                change.structure = name.into();
                change
            })
            .collect::<Vec<_>>()
    };
    let mut script = vec![
        Step::Create("off".into(), SHAPES[1]),
        Step::Create("a".into(), SHAPES[1]),
    ];
    for round in 0..30 {
        let all = changes("a");
        script.push(Step::Write(
            all[round % 20..round % 20 + 15].to_vec(),
            round % 3 == 0,
        ));
    }
    for n in 20..120 {
        let disk = SimDisk::new(n);
        disk.inject(Injection::any(n, DiskFault::PowerCut));
        let progress = run(&disk, &|m| tiny(n * 1000 + m), &script);
        for survival in 0..3 {
            let found = disk.crash(n * 10 + survival);
            survive(
                &found,
                tiny(n * 1000 + 900),
                &script,
                &progress,
                progress.synced,
            );
        }
    }
}

fn threads() -> (SimDisk, Options) {
    let options = Options::new()
        .memory(1 << 20)
        .page_size(4096)
        .log_segment(64 << 10);
    (SimDisk::new(9), options)
}

/// Several threads count in the same record.
fn counting() {
    let (disk, options) = threads();
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db.tree("t").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..3000 {
                    let count = |old: Option<&[u8]>| old.and_then(encode::to_u64).unwrap_or(0) + 1;
                    tree.update("k", |old| Some(encode::u64(count(old)).to_vec()))
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(
        encode::to_u64(&tree.get("k").unwrap().unwrap()),
        Some(12_000)
    );
}

/// A thread counts in a record between the reading and the writing of another one, each time.
fn counting_meanwhile() {
    let (disk, options) = threads();
    let db = Database::open_on(disk.shared(), options).unwrap();
    for tiers in [Tiers::One, Tiers::Two] {
        let name = format!("{tiers:?}");
        let tree = db
            .create_tree(&name, TreeOptions::new().tiers(tiers))
            .unwrap();
        let count = |old: Option<&[u8]>| old.and_then(encode::to_u64).unwrap_or(0) + 1;
        for round in 1..=20 {
            let mut is_first = true;
            tree.update("k", |old| {
                if std::mem::take(&mut is_first) {
                    let other = || tree.update("k", |old| Some(encode::u64(count(old)).to_vec()));
                    std::thread::scope(|scope| scope.spawn(other).join())
                        .unwrap()
                        .unwrap();
                }
                Some(encode::u64(count(old)).to_vec())
            })
            .unwrap();
            let found = tree.get("k").unwrap();
            assert_eq!(
                found.as_deref().and_then(encode::to_u64),
                Some(2 * round),
                "{name}"
            );
        }
    }
}

/// A batch overrules a change of its own, which no reader may see: another thread looks after each of its changes.
fn overruling() {
    use terrace_tier::fault::hook;
    let (disk, options) = threads();
    let db = Database::open_on(disk.shared(), options).unwrap();
    let tree = db
        .create_tree("t", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    let mut batch = db.batch();
    batch.put(&tree, "k", "hidden");
    for i in 0..5u8 {
        batch.put(&tree, [i], [i]);
    }
    batch.put(&tree, "k", "seen");
    let (seen, looked) = (Arc::new(Mutex::new(Vec::new())), tree.clone());
    let all = seen.clone();
    hook(Some(Box::new(move |point| {
        if point == Point::Applied {
            let look = || looked.get("k").unwrap();
            let found = std::thread::scope(|scope| scope.spawn(look).join());
            all.lock().unwrap().push(found.unwrap());
        }
    })));
    db.write(batch, Durability::Buffered).unwrap();
    hook(None);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    assert!(seen.len() >= 6, "{seen:?}");
    let is_hidden = |value: &Option<Vec<u8>>| value.as_deref() == Some(b"hidden");
    assert!(!seen.iter().any(is_hidden), "an overruled value was seen");
}

/// Cuts the power at many calls of the making of an index.
fn half_indexes() {
    let cuts = (1..).step_by(5);
    let ends = cuts.map_while(|cut| half_an_index(true, cut));
    assert!(ends.count() > 5);
}

/// Cuts the power while changes of an LSM-tree that were confirmed as durable are on their way down: only a
/// checkpoint takes the place of the log.
fn merged_and_cut() {
    for (seed, tiers) in [(1, Tiers::One), (2, Tiers::Two)] {
        terrace_methods::fault::keep_tops_tiny(true);
        let disk = SimDisk::new(seed);
        let db = Database::open_on(disk.shared(), threads().1.foreground(true)).unwrap();
        let options = MapOptions::new().tiers(tiers);
        let map = db.create_map("lsm", Kind::Lsm, options).unwrap();
        // More than the hot tier holds.
        let keys = || (0..8000u32).map(|n| n.wrapping_mul(2_654_435_761));
        for key in keys() {
            map.put(key.to_be_bytes(), [key as u8; 100]).unwrap();
        }
        map.put_with("last", "", Durability::Sync).unwrap();
        terrace_methods::fault::keep_tops_tiny(false);
        let steps = db.stats().structures.iter().find_map(|s| s.lsm.clone());
        assert!(steps.unwrap().steps > 0, "{tiers:?}");
        let found = disk.crash(seed);
        drop((map, db));
        let db = Database::open_on(found.shared(), threads().1.foreground(true)).unwrap();
        let map = db.map("lsm").unwrap();
        for key in keys() {
            let value = map.get(key.to_be_bytes()).unwrap();
            assert_eq!(value.as_deref(), Some(&[key as u8; 100][..]), "{tiers:?}");
        }
    }
}

/// How often each fault may go unnoticed before the tests are blamed.
const ATTEMPTS: u32 = 20;

/// What stands against the faults.
const SCENARIOS: [(&str, fn()); 23] = [
    (
        "a place to begin at",
        a_place_to_begin_at_outlives_a_power_cut,
    ),
    (
        "a snapshot to begin with",
        a_snapshot_begins_where_the_changes_do,
    ),
    ("unfinished", what_is_unfinished_is_not_shown),
    ("confirmed writes", confirmed_writes),
    ("counting meanwhile", counting_meanwhile),
    ("power cuts", power_cuts),
    ("torn batches", torn_batches),
    ("counting", counting),
    ("overruling", overruling),
    ("a key is asked for twice", a_key_is_asked_for_twice),
    ("a change within a change", a_change_within_a_change),
    ("a row between two keys", a_row_between_two_keys),
    ("half an index", half_indexes),
    ("backups", || (1..6).for_each(backups)),
    ("chains", || (1..4).for_each(|seed| chains(seed, 50))),
    ("clocks", clocks),
    ("saving", || (1..4).for_each(saving)),
    ("within a checkpoint", the_power_goes_in_a_checkpoint),
    ("logged and not applied", || {
        somebody_stops_at(Point::Applied);
    }),
    ("about to be logged", || somebody_stops_at(Point::Told)),
    ("merged and cut", merged_and_cut),
    ("rows and readers", || rows_and_readers(Tiers::Two, 2000)),
    // A power cut within a checkpoint of what no sync had made durable.
    ("a copy beside it", || a_copy_equals_the_database(8)),
];

/// What a process of its own is to run: a scenario without a fault, by its number; a fault, by its number; or
/// those of some parts.
const CHILD: &str = "TERRACE_PLANTED";
const EXPIRY: &str = "expiry";
const SAVING: &str = "saving of hot tiers";
const UNLOGGED: &str = "structures without log";
const WAITING: &str = "who waits without a thread";

/// Whether one of the scenarios finds the fault. The one that is known to find it is asked first: all others may
/// take a minute.
fn is_caught(fault: Fault) -> bool {
    plant(Some(fault));
    let (first, others): (Vec<_>, Vec<_>) = SCENARIOS
        .iter()
        .partition(|(name, _)| *name == usually_caught_by(fault));
    // Some faults show only in a race, which a busy machine may not run in every attempt.
    let caught = (0..ATTEMPTS).find_map(|_| {
        first
            .iter()
            .chain(&others)
            .find(|(_, scenario)| catch_unwind(AssertUnwindSafe(scenario)).is_err())
    });
    plant(None);
    if let Some((name, _)) = caught {
        println!("{fault:?} is caught by {name}");
    }
    caught.is_some()
}

fn usually_caught_by(fault: Fault) -> &'static str {
    match fault {
        Fault::PlaceBeforeSync | Fault::ForgottenNumber => "a place to begin at",
        Fault::CheckpointAheadOfFeed => "a copy beside it",
        Fault::UnfinishedShown => "unfinished",
        Fault::SnapshotBeforeHold => "a snapshot to begin with",
        Fault::NothingConfirmed | Fault::ReplayedPutsOnly => "confirmed writes",
        Fault::OverruledShown => "overruling",
        Fault::BlindUpdate => "counting meanwhile",
        Fault::UncheckedRow => "a change within a change",
        Fault::UncheckedUnique => "a key is asked for twice",
        Fault::StaleEntry => "a row between two keys",
        Fault::UnfinishedKept => "half an index",
        Fault::EqualPlaceIsEqual | Fault::RestoredTooFar => "backups",
        Fault::EndsWithoutPoint | Fault::ArchivedIsRestorable => "chains",
        Fault::LeapsForgotten => "clocks",
        Fault::LogGivenUpAtStep => "merged and cut",
        Fault::PieceWithoutGrace => "logged and not applied",
        Fault::SnapshotWithoutLog => "about to be logged",
        Fault::PieceCountsFromItsEnd | Fault::CatalogReplayedTwice => "saving",
        Fault::SuperblockBeforeSync => "within a checkpoint",
        _ => "power cuts",
    }
}

fn child(what: &str) {
    match what.split_once(' ') {
        Some(("scenario", n)) => SCENARIOS[n.parse::<usize>().unwrap()].1(),
        Some(("fault", n)) => {
            let fault = Fault::ANYWHERE[n.parse::<usize>().unwrap()];
            assert!(is_caught(fault), "nobody noticed {fault:?}");
        }
        _ if what == EXPIRY => faults_of_expiry(),
        _ if what == SAVING => faults_of_saving(),
        _ if what == UNLOGGED => faults_of_unlogged(),
        _ if what == WAITING => faults_of_waiting(),
        _ => panic!("{what} is nothing to run"),
    }
}

#[test]
fn planted_faults_are_caught() {
    if let Ok(what) = std::env::var(CHILD) {
        return child(&what);
    }
    let faults = (0..Fault::ANYWHERE.len()).map(|n| format!("fault {n}"));
    let scenarios = (0..SCENARIOS.len()).map(|n| format!("scenario {n}"));
    let all: Vec<String> = faults
        .chain(scenarios)
        .chain([EXPIRY, SAVING, UNLOGGED, WAITING].map(str::to_owned))
        .collect();
    let this = (module_path!(), "planted_faults_are_caught");
    let mut failed = Vec::new();
    for (what, output) in all.iter().zip(again_for_each(this, CHILD, &all).unwrap()) {
        println!("{what}: {}", String::from_utf8_lossy(&output.stdout));
        // A child that runs nothing ends well, too.
        let ran = String::from_utf8_lossy(&output.stdout).contains("1 passed");
        if !output.status.success() || !ran {
            println!("{}", String::from_utf8_lossy(&output.stderr));
            failed.push(what);
        }
    }
    assert!(failed.is_empty(), "{failed:?}: what they said stands above");
}

/// Those of the layers below that concern hot tiers in memory alone.
fn faults_of_saving() {
    use terrace_pages::Planted;
    use terrace_tier::fault::{Fault as Tier, plant};
    let is_caught = || catch_unwind(|| (1..4).for_each(saving)).is_err();
    assert!(!is_caught(), "without a fault");
    let tier = [
        Tier::SaverSkipsDirty,
        Tier::SaverSkipsTombstones,
        Tier::StaleSavedStays,
        Tier::SavedForgotten,
        Tier::HotBeforeLoaded,
        Tier::UnloadedSaved,
        Tier::ScanPastLoaded,
    ];
    for fault in tier {
        plant(Some(fault));
        assert!(is_caught(), "nobody noticed {fault:?}");
        plant(None);
    }
    let fault = |fault| move |is: bool| terrace::fault::plant(is.then_some(fault));
    noticed(
        "a pause has no end",
        bounded_rest,
        fault(Fault::EndlessPause),
    );
    let stays = || fault(Fault::UnreadableSavedStays);
    noticed(
        "a rotten page is kept",
        rotten_saved_page_is_made_anew,
        stays(),
    );
    noticed(
        "its keys are as below",
        rotten_saved_page_is_an_error_of_its_keys,
        |is: bool| plant(is.then_some(Tier::UnreadableForgotten)),
    );
    let of_pages =
        |fault| move |is: bool| terrace_pages::plant(if is { fault } else { Planted::None });
    for logged in [true, false] {
        noticed(
            "no slots are kept",
            || (1..4).for_each(|seed| closes_when_full(seed, logged)),
            of_pages(Planted::SavingUnpromised),
        );
    }
    let moves = || what_goes_makes_room(1);
    noticed("what goes stays", moves, fault(Fault::NewBeforeOld));
    let grows = || what_was_never_saved_finds_room(1);
    noticed(
        "growth is not promised",
        grows,
        of_pages(Planted::GrowthUnpromised),
    );
    let comes = || brought_over(1);
    noticed(
        "long values are brought over",
        comes,
        fault(Fault::LongBroughtOver),
    );
}

/// A scenario holds without a fault, and fails while it is planted.
fn noticed(what: &str, scenario: impl Fn() + RefUnwindSafe, plant: impl Fn(bool)) {
    let fails = || catch_unwind(&scenario).is_err();
    assert!(!fails(), "without a fault, asked whether {what}");
    plant(true);
    assert!(fails(), "nobody noticed that {what}");
    plant(false);
}

/// Those of structures without log.
fn faults_of_unlogged() {
    let is_caught = || {
        let all = || {
            (1..6).for_each(without_log);
            a_change_waits_for_a_page();
            they_are_not_among_the_changes();
        };
        catch_unwind(all).is_err()
    };
    assert!(!is_caught(), "without a fault");
    for fault in Fault::OF_UNLOGGED {
        plant(Some(fault));
        assert!(is_caught(), "nobody noticed {fault:?}");
        plant(None);
    }
}

/// Those of who waits for a page without a thread.
fn faults_of_waiting() {
    let is_caught = || catch_unwind(everybody_who_waits_is_told).is_err();
    assert!(!is_caught(), "without a fault");
    for fault in Fault::OF_WAITING {
        plant(Some(fault));
        assert!(is_caught(), "nobody noticed {fault:?}");
        plant(None);
    }
}

/// Those of records that expire, here and in the layers below; these concern this thread alone.
fn faults_of_expiry() {
    let caught = || {
        let mut scenarios = expiry_scenarios::SCENARIOS.iter();
        let found = scenarios.find(|(_, scenario)| catch_unwind(scenario).is_err());
        found.map(|(name, _)| *name)
    };
    assert_eq!(caught(), None, "without a fault");
    let mut missed = Vec::new();
    let mut tell = |fault: String, caught: Option<&str>| match caught {
        Some(name) => println!("{fault}: {name}"),
        None => missed.push(fault),
    };
    for fault in Fault::OF_EXPIRY {
        plant(Some(fault));
        tell(format!("{fault:?}"), caught());
        plant(None);
    }
    use terrace_tier::fault::Fault as Tier;
    for fault in [Tier::ExpiredDirtyDropped, Tier::CoarseRoundedDown] {
        terrace_tier::fault::plant(Some(fault));
        tell(format!("{fault:?}"), caught());
        terrace_tier::fault::plant(None);
    }
    terrace_methods::fault::plant(Some(terrace_methods::fault::Fault::ExpiredMergedAway));
    tell("ExpiredMergedAway".into(), caught());
    terrace_methods::fault::plant(None);
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
