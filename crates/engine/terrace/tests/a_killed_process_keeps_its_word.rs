//! A real process under load is killed without warning, again and again on one directory. A parent
//! keeps a journal of what it acknowledged; all of it is there afterwards, batches whole.
//!
//! The child is this test binary itself, told by an environment variable what to be. Its threads
//! write to a key range each and print every acknowledged number.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::all_shapes;
use terrace::{Database, Durability, Options, encode};
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
