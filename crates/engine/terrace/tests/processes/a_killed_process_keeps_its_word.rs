//! A real process under load is killed without warning, again and again on one directory. A parent
//! keeps a journal of what it acknowledged; all of it is there afterwards, batches whole.
//!
//! The child is this test binary itself, told by an environment variable what to be. Its threads
//! write to a key range each and print every acknowledged number.
//!
//! The same of two processes, of which one keeps a second database by the changes of the first's: whichever is
//! killed, the second equals the first in the end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::common::all_shapes;
use crate::common::expiry::at;
use terrace::{
    Batch, Change, ChangeLine, ChangesOptions, CommitLine, Control, Database, Durability, Error,
    Expires, HashOptions, Index, KeySource, Map, Options, TableOptions, encode,
};
use terrace_sim::{Rng, again};

const CHILD: &str = "TERRACE_KILL_TEST_DIRECTORY";
/// Whether none of its threads asks for a sync. (After each sync the log goes through the calls of
/// the operating system for a while.)
const BUFFERED: &str = "TERRACE_KILL_TEST_BUFFERED";
const THREADS: u64 = 3;
/// Each number overwrites the one this much before it.
const KEYS: u64 = 3000;

fn options() -> Options {
    Options::new()
        .memory(2 << 20)
        .page_size(4096)
        .log_segment(128 << 10)
        .log_limit(512 << 10)
}

fn key(thread: u64, number: u64) -> [u8; 9] {
    let mut key = [thread as u8; 9];
    key[1..].copy_from_slice(&encode::u64(number % KEYS));
    key
}

/// The value of a number: the number and bytes that follow from it.
fn value(thread: u64, number: u64) -> Vec<u8> {
    let mut rng = Rng::new(thread << 40 | number);
    let len = if rng.percent(2) {
        5000
    } else {
        rng.below(300) as usize
    };
    let mut value = encode::u64(number).to_vec();
    value.extend(rng.bytes(len));
    value
}

fn child(directory: &Path) {
    let db = Database::open(directory, options()).unwrap();
    let trees = all_shapes(&db).unwrap();
    let buffered = std::env::var_os(BUFFERED).is_some_and(|only| only == "1");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, trees) = (&db, &trees);
            scope.spawn(move || {
                let last = trees[0].get([thread as u8]).unwrap();
                let mut number = last.map_or(0, |last| encode::to_u64(&last).unwrap());
                loop {
                    number += 1;
                    // One batch: all structures, and the number itself.
                    let mut batch = db.batch();
                    let value = value(thread, number);
                    for tree in trees {
                        batch.put(tree, key(thread, number), &value);
                    }
                    batch.put(&trees[0], [thread as u8], encode::u64(number));
                    let durability = if thread == 0 && !buffered {
                        Durability::Sync
                    } else {
                        Durability::Buffered
                    };
                    db.write(batch, durability).unwrap();
                    // One write call a line, so that lines of threads do not mix.
                    let line = format!("{thread} {number}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
            });
        }
    });
}

#[test]
fn a_killed_process_keeps_its_word() {
    if let Some(directory) = std::env::var_os(CHILD) {
        return child(Path::new(&directory));
    }
    let rounds = std::env::var("TERRACE_TEST_FACTOR")
        .ok()
        .and_then(|f| f.parse().ok())
        .unwrap_or(1)
        * 6;
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = [0u64; THREADS as usize];
    let mut rng = Rng::new(99);
    for round in 0..rounds {
        let mut process = again(module_path!(), "a_killed_process_keeps_its_word")
            .unwrap()
            .env(CHILD, directory.path())
            .env(BUFFERED, (round % 2).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_millis(150 + rng.below(700));
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut seen = 0;
        while Instant::now() < end || seen < 50 {
            let Some(Ok(line)) = lines.next() else {
                panic!("the child ended in round {round}")
            };
            seen += note(&line, &mut acknowledged);
        }
        process.kill().unwrap();
        // What was printed before the kill counts too.
        for line in lines.map_while(Result::ok) {
            note(&line, &mut acknowledged);
        }
        process.wait().unwrap();
        check(directory.path(), &mut acknowledged, round);
    }
    assert!(acknowledged.iter().all(|&n| n > 50), "{acknowledged:?}");
}

fn note(line: &str, acknowledged: &mut [u64]) -> u64 {
    let mut words = line.split(' ').map(str::parse::<u64>);
    match (words.next(), words.next()) {
        (Some(Ok(thread)), Some(Ok(number))) if thread < THREADS => {
            acknowledged[thread as usize] = number;
            1
        }
        _ => 0,
    }
}

fn check(directory: &Path, acknowledged: &mut [u64], round: u64) {
    let db = Database::open(directory, options()).unwrap();
    let trees = all_shapes(&db).unwrap();
    for thread in 0..THREADS {
        let last = trees[0]
            .get([thread as u8])
            .unwrap()
            .map_or(0, |last| encode::to_u64(&last).unwrap());
        let least = acknowledged[thread as usize];
        assert!(
            last >= least,
            "round {round}, thread {thread}: {least} acknowledged, {last} found"
        );
        // At most the batch that was under way has come in addition.
        assert!(
            last <= least + 1,
            "round {round}, thread {thread}: {least} acknowledged, {last} found"
        );
        for number in last.saturating_sub(KEYS - 1).max(1)..=last {
            let wanted = value(thread, number);
            for tree in &trees {
                let got = tree.get(key(thread, number)).unwrap();
                assert!(
                    got.as_ref() == Some(&wanted),
                    "round {round}, thread {thread}: {number} in {}",
                    tree.name()
                );
            }
        }
        acknowledged[thread as usize] = last;
    }
    let report = db.verify().unwrap();
    assert!(report.is_clean(), "round {round}: {report}");
    if round.is_multiple_of(2) {
        drop(trees);
        db.close().unwrap();
    }
}

const FED: &str = "both_are_killed_and_the_one_that_is_fed_equals_the_other";
/// What a process of that test is, and where.
const ROLE: &str = "TERRACE_FEED_TEST_ROLE";
const PLACE: &str = "TERRACE_FEED_TEST_DIRECTORY";

fn fed_options() -> Options {
    // More than is written while the other is away.
    options().control(true).keep_changes(64 << 20)
}

/// What both databases have: a tree, a hash table whose records expire, a table with an index.
fn fed_maps(db: &Database) -> [Map; 3] {
    let hash = db.hash_with("hash", HashOptions::new().expiring());
    let index = Index::on("first", KeySource::bytes(0..1));
    let table = db.table_with("table", TableOptions::new().index(index));
    let tree: Map = (*db.tree("tree").unwrap()).clone();
    [tree, (*hash.unwrap()).clone(), (*table.unwrap()).clone()]
}

/// What is kept beside: how far it is, in the same batch as what was changed.
fn keep(db: &Database, batch: &mut Batch, sequence: u64, place: &str) {
    let kept = db.tree("kept").unwrap();
    let before = kept.get("sequence").unwrap();
    let before = before.map_or(0, |before| encode::to_u64(&before).unwrap());
    assert!(before < sequence, "{sequence} comes behind {before}");
    batch
        .put(&kept, "sequence", encode::u64(sequence))
        .put(&kept, "place", place);
}

fn kept_place(db: &Database) -> String {
    let place = db.tree("kept").unwrap().get("place").unwrap().unwrap();
    String::from_utf8(place).unwrap()
}

fn fed_writer(directory: &Path) {
    let db = Database::open(directory.join("first"), fed_options()).unwrap();
    let maps = fed_maps(&db);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    // None of them expires while the test runs.
    let later = now.unwrap().as_millis() as u64 + 1_000_000_000;
    let mut rng = Rng::new(later);
    for n in 0u64.. {
        let mut batch = db.batch();
        for _ in 0..1 + rng.below(5) {
            let map = &maps[rng.below(3) as usize];
            let key = encode::u64(rng.below(500));
            let len = if rng.percent(2) {
                5000
            } else {
                1 + rng.below(200)
            };
            let value = rng.bytes(len as usize);
            match rng.below(5) {
                0 => batch.delete(map, key),
                1 if map.name() == "hash" => {
                    batch.put_until(map, key, value, at(later + rng.below(1000)))
                }
                _ => batch.put(map, key, value),
            };
        }
        let durability = match n % 10 {
            0 => Durability::Sync,
            _ => Durability::Buffered,
        };
        db.write(batch, durability).unwrap();
        std::io::stdout().lock().write_all(b"+\n").unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Bytes that are text, or stand in hexadecimal.
fn bytes(text: &Option<String>, hex: &Option<String>) -> Vec<u8> {
    match (text, hex) {
        (Some(text), _) => text.clone().into_bytes(),
        (None, Some(hex)) => (0..hex.len() / 2)
            .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
            .collect(),
        (None, None) => panic!("neither"),
    }
}

fn take(batch: &mut Batch, maps: &[Map], change: &ChangeLine) {
    let named = |map: &&Map| change.structure.as_deref() == Some(&*map.name());
    let map = maps.iter().find(named).expect("a structure of both");
    let key = bytes(&change.key, &change.key_hex);
    match change.op.as_str() {
        "put" => {
            let value = bytes(&change.value, &change.value_hex);
            match change.expires_ms {
                Some(ms) => batch.put_until(map, key, value, at(ms)),
                None => batch.put(map, key, value),
            };
        }
        "delete" => {
            batch.delete(map, key);
        }
        other => panic!("{other}"),
    }
}

fn fed_reader(directory: &Path) {
    let db = Database::open(directory.join("second"), options()).unwrap();
    let maps = fed_maps(&db);
    let take_over = |commit: CommitLine| {
        if commit.changes.is_empty() {
            return true;
        }
        let mut batch = db.batch();
        for change in &commit.changes {
            take(&mut batch, &maps, change);
        }
        keep(&db, &mut batch, commit.sequence, &commit.place);
        db.write(batch, Durability::Buffered).unwrap();
        std::io::stdout().lock().write_all(b"+\n").unwrap();
        true
    };
    loop {
        if let Ok(mut control) = Control::connect(directory.join("first")) {
            let place = kept_place(&db);
            let ended = control.changes(Some(&place), false, take_over);
            // The other has died, or is not ready yet.
            if let Err(gone @ Error::ChangesGone { .. }) = ended {
                panic!("{gone}");
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process, and how many lines it has printed.
fn begin(role: &str, directory: &Path) -> (Child, Arc<AtomicU64>) {
    let mut process = again(module_path!(), FED)
        .unwrap()
        .env(ROLE, role)
        .env(PLACE, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let printed = Arc::new(AtomicU64::new(0));
    let count = printed.clone();
    std::thread::spawn(move || {
        let done = |line: &String| line.ends_with('+');
        for _ in lines.map_while(Result::ok).filter(done) {
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    (process, printed)
}

#[test]
fn both_are_killed_and_the_one_that_is_fed_equals_the_other() {
    if let Some(directory) = std::env::var_os(PLACE) {
        match std::env::var(ROLE).as_deref() {
            Ok("writer") => fed_writer(Path::new(&directory)),
            _ => fed_reader(Path::new(&directory)),
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (
        directory.path().join("first"),
        directory.path().join("second"),
    );
    {
        let (db, other) = (
            Database::open(&first, fed_options()).unwrap(),
            Database::open(&second, options()).unwrap(),
        );
        let maps = fed_maps(&db);
        fed_maps(&other);
        let mut changes = db.changes(ChangesOptions::new()).unwrap();
        maps[0].put_with("begin", "", Durability::Sync).unwrap();
        let commit = changes.next().unwrap().unwrap();
        let mut batch = other.batch();
        batch.put(&fed_maps(&other)[0], "begin", "");
        let place = commit.place().to_string();
        keep(&other, &mut batch, commit.sequence(), &place);
        other.write(batch, None).unwrap();
    }
    let mut rng = Rng::new(7);
    let mut both = ["writer", "reader"].map(|role| begin(role, directory.path()));
    for round in 0..6 {
        // Both get on, however often the other is killed.
        let far = both
            .each_ref()
            .map(|(_, printed)| printed.load(Ordering::SeqCst) + 20 + rng.below(100));
        let began = Instant::now();
        for ((process, printed), far) in both.iter_mut().zip(far) {
            while printed.load(Ordering::SeqCst) < far {
                let ended = process.try_wait().unwrap();
                assert!(ended.is_none(), "round {round}: {ended:?}");
                assert!(began.elapsed().as_secs() < 300, "round {round}: it stands");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        let which = match round % 3 {
            0 => vec![0],
            1 => vec![1],
            _ => vec![0, 1],
        };
        for at in which {
            both[at].0.kill().unwrap();
            both[at].0.wait().unwrap();
            both[at] = begin(["writer", "reader"][at], directory.path());
        }
    }
    for (process, _) in &mut both {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    let (db, other) = (
        Database::open(&first, fed_options()).unwrap(),
        Database::open(&second, options()).unwrap(),
    );
    let (maps, copies) = (fed_maps(&db), fed_maps(&other));
    let place = kept_place(&other).parse().unwrap();
    let rest = ChangesOptions::new().from(place).until_now();
    for commit in db.changes(rest).unwrap() {
        let commit = commit.unwrap();
        let mut batch = other.batch();
        for change in commit.changes() {
            assert!(matches!(change, Change::Put { .. } | Change::Delete { .. }));
            take(&mut batch, &copies, &ChangeLine::from(change));
        }
        keep(
            &other,
            &mut batch,
            commit.sequence(),
            &commit.place().to_string(),
        );
        other.write(batch, None).unwrap();
    }
    for (map, copy) in maps.iter().zip(&copies) {
        let all = |map: &Map| -> Vec<(Vec<u8>, Vec<u8>, Option<Expires>)> {
            let records = map.iter().unwrap().map(Result::unwrap);
            let mut all: Vec<_> = records
                .map(|(key, value)| {
                    let expires = map.expires(&key).unwrap();
                    (key, value, expires)
                })
                .collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        let found = all(map);
        assert!(found.len() > 50 && found == all(copy), "{}", map.name());
    }
    assert!(other.verify().unwrap().is_clean());
}
