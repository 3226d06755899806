//! A real process that writes, follows its log and makes points is killed without warning, again and again,
//! on one database and one set. The child is this test binary itself.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use terrace::{
    BackupOptions, CompactOptions, Database, FollowOptions, Options, Rate, RestoreOptions,
    RestoreTo, backup_contents, encode, restore, verify_backup,
};
use terrace_sim::{Rng, again};

const CHILD: &str = "TERRACE_FOLLOW_TEST_DIRECTORY";
/// Each number overwrites the one this much before it.
const KEYS: u64 = 40;
/// Lines that the parent reads before it kills.
const LINES: u64 = 5;

fn options() -> Options {
    Options::new()
        .memory(2 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(256 << 10)
        // Whoever follows must not be too late, however slow the machine is.
        .archive_lag(1 << 40)
}

fn key(number: u64) -> [u8; 8] {
    encode::u64(number % KEYS)
}

/// The last number that was written, and whether all others are there as they were then.
fn last(db: &Database) -> u64 {
    let tree = db.tree("t").unwrap();
    let found: BTreeMap<u64, u64> = tree
        .iter()
        .unwrap()
        .map(|record| {
            let (key, value) = record.unwrap();
            let number = encode::to_u64(&value[..8]).unwrap();
            assert_eq!(key, key_of(number));
            (encode::to_u64(&key).unwrap(), number)
        })
        .collect();
    let last = found.values().copied().max().unwrap_or(0);
    let wanted = (1..=last).rev().take(KEYS as usize);
    assert_eq!(found.len() as u64, last.min(KEYS));
    for number in wanted {
        assert_eq!(
            found.get(&(number % KEYS)),
            Some(&number),
            "the last is {last}"
        );
    }
    last
}

fn key_of(number: u64) -> Vec<u8> {
    key(number).to_vec()
}

fn child(directory: &Path) {
    let db = Database::open(directory.join("db"), options()).unwrap();
    let tree = db.tree("t").unwrap();
    let mut number = last(&db);
    let every = FollowOptions::new()
        .every(Duration::from_millis(3))
        .rate(Rate::Fast);
    let follower = db.follow(directory.join("set"), every).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                number += 1;
                let mut value = encode::u64(number).to_vec();
                value.resize(100 + (number % 200) as usize, b'v');
                tree.put(key(number), value).unwrap();
            }
        });
        // Until the parent kills.
        let mut told = Ok(());
        while told.is_ok() {
            let options = BackupOptions::new().rate(Rate::Fast);
            db.backup(directory.join("set"), options).unwrap();
            let reached = follower.status().sequence;
            let line = format!("at {reached}\n");
            told = std::io::stdout().lock().write_all(line.as_bytes());
        }
    });
}

#[test]
fn a_process_that_follows_is_killed_and_both_sides_stay_whole() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut rng = Rng::new(7);
    for round in 0..4 * crate::common::factor() {
        let test = "a_process_that_follows_is_killed_and_both_sides_stay_whole";
        let mut process = again(module_path!(), test)
            .unwrap()
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines.map(Result::unwrap).filter_map(|line| {
            // The harness says things, too.
            line.strip_prefix("at ")
                .map(|number| number.parse::<u64>().unwrap())
        });
        let reached = told.take(1 + rng.below(LINES) as usize).last().unwrap();
        std::thread::sleep(Duration::from_micros(rng.below(20_000)));
        process.kill().unwrap();
        process.wait().unwrap();

        let report = verify_backup(at("set"), |_| ()).unwrap();
        assert!(report.is_clean(), "round {round}: {:?}", report.problems);
        let db = Database::open(at("db"), options()).unwrap();
        assert!(db.verify().unwrap().is_clean());
        let (now, sequence) = (last(&db), db.sequence().unwrap());
        db.close().unwrap();
        let all = backup_contents(at("set")).unwrap();
        // A checkpoint before the kill may have ended a chain: what counts is the newest.
        let chain = all.points.last().unwrap().chain;
        let of_chain = all.points.iter().find(|point| point.chain == chain);
        let first = of_chain.unwrap().sequence;
        let mut states = vec![RestoreTo::Latest];
        let stretch = reached.saturating_sub(first).max(1);
        states.extend((0..3).map(|_| RestoreTo::Sequence(first + rng.below(stretch))));
        for to in states {
            let again = at("again");
            let options = RestoreOptions::new().to(to.clone()).options(options());
            let done = restore(at("set"), &again, options).unwrap();
            assert!(done.sequence <= sequence);
            let db = Database::open(&again, self::options()).unwrap();
            assert!(last(&db) <= now, "round {round}");
            db.close().unwrap();
            std::fs::remove_dir_all(&again).unwrap();
            if to == RestoreTo::Latest {
                assert!(done.sequence >= reached, "round {round}");
            }
        }
    }
}

/// What a child is to do, and where.
const WORK: &str = "TERRACE_LONG_WORK_TEST";
/// Records of the database that is compacted and restored: so many that either tells many times how far it is.
const MANY: u64 = 6000;

fn long_work(work: &str, directory: &Path) {
    let tell = |_| {
        // Whoever has stopped listening is about to kill.
        let _ = std::io::stdout().lock().write_all(b"at work\n");
        std::thread::sleep(Duration::from_millis(1));
    };
    match work {
        "compact" => {
            let db = Database::open(directory.join("db"), options()).unwrap();
            let fast = CompactOptions::new().fill(0.95).rate(Rate::Fast);
            db.compact(fast.progress(tell)).unwrap();
        }
        _ => {
            let options = RestoreOptions::new().options(options()).progress(tell);
            restore(directory.join("set"), directory.join("again"), options).unwrap();
        }
    }
}

#[test]
fn a_process_that_compacts_or_restores_is_killed_and_nothing_is_lost() {
    if let Some(work) = std::env::var_os(WORK) {
        let directory = std::env::var_os(CHILD).unwrap();
        return long_work(work.to_str().unwrap(), Path::new(&directory));
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let db = Database::open(at("db"), options()).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..MANY {
        // In no order, so that pages are half full.
        let key = i * 2_654_435_761 % MANY;
        tree.put(encode::u64(key), vec![key as u8; 200]).unwrap();
    }
    db.backup(at("set"), BackupOptions::new().rate(Rate::Fast))
        .unwrap();
    drop(tree);
    db.close().unwrap();
    let whole = |name: &str| {
        let db = Database::open(at(name), options()).unwrap();
        assert!(db.verify().unwrap().is_clean());
        let mut keys = 0;
        for record in db.tree("t").unwrap().iter().unwrap() {
            let (key, value) = record.unwrap();
            assert_eq!(value[..], [encode::to_u64(&key).unwrap() as u8; 200]);
            keys += 1;
        }
        assert_eq!(keys, MANY);
        db.close().unwrap();
    };
    let mut rng = Rng::new(8);
    let mut hit = 0;
    for round in 0..8 * crate::common::factor() {
        let work = ["compact", "restore"][round as usize % 2];
        let test = "a_process_that_compacts_or_restores_is_killed_and_nothing_is_lost";
        let mut process = again(module_path!(), test)
            .unwrap()
            .env(CHILD, folder.path())
            .env(WORK, work)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let told = lines
            .map_while(Result::ok)
            .filter(|line| line.ends_with("at work"));
        let heard = told.take(1 + rng.below(LINES * 4) as usize).count();
        process.kill().unwrap();
        assert!(heard > 0, "{work} said nothing");
        hit += u64::from(!process.wait().unwrap().success());
        whole("db");
        let set = verify_backup(at("set"), |_| ()).unwrap();
        assert!(set.is_clean(), "round {round}: {:?}", set.problems);
        // What is there under its name is whole.
        if at("again").exists() {
            whole("again");
            std::fs::remove_dir_all(at("again")).unwrap();
        }
    }
    assert!(hit > 2, "only {hit} were killed at their work");
    restore(
        at("set"),
        at("again"),
        RestoreOptions::new().options(options()),
    )
    .unwrap();
    whole("again");
    assert!(!at("again.restoring").exists());
}
