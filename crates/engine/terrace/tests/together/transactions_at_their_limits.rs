//! Transactions that are large, that ask for what cannot be, or that read without looking again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use crate::common::tiny;
use terrace::{
    Database, Durability, Error, Index, KeySource, Map, MapOptions, Merge, TableOptions,
    TransactionOptions, encode,
};
use terrace_sim::SimDisk;

fn open() -> Database {
    Database::open_on(SimDisk::new(1).shared(), tiny(1).memory(4 << 20)).unwrap()
}

fn begin(db: &Database) -> terrace::Transaction {
    db.begin(TransactionOptions::new())
}

fn invalid<T: std::fmt::Debug>(result: Result<T, Error>, text: &str) {
    match result {
        Err(Error::Invalid { what }) => assert!(what.contains(text), "{what}"),
        other => panic!("{text}: {other:?}"),
    }
}

/// Rows and entries rest on the versions of locks that others share. While another thread writes elsewhere,
/// which here it does whenever the key of a row is looked for, a transaction over very many rows goes through
/// at its first attempt.
#[test]
fn very_many_rows_with_an_index_are_changed_among_writers() {
    const ROWS: u32 = 2000;
    let options = tiny(1)
        .memory(4 << 20)
        .log_limit(4 << 20)
        .log_segment(256 << 10);
    let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
    let elsewhere = db.tree("elsewhere").unwrap();
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answered) = mpsc::channel::<()>();
    let writer = std::thread::spawn(move || {
        let mut n = 0u32;
        while asked.recv().is_ok() {
            for _ in 0..20 {
                n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                elsewhere.put((n >> 8).to_be_bytes(), [7; 20]).unwrap();
            }
            if answer.send(()).is_err() {
                return;
            }
        }
    });
    let others = Arc::new(Mutex::new(Some((ask, answered))));
    let (on, calls) = (others.clone(), AtomicU64::new(0));
    let by_round = Index::by("round", move |row: &[u8]| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        if call.is_multiple_of(20)
            && let Some((ask, answered)) = &*on.lock().unwrap()
        {
            ask.send(()).unwrap();
            answered.recv().unwrap();
        }
        Ok(row.get(8..9).map(<[u8]>::to_vec))
    });
    let by_number = Index::on("number", KeySource::bytes(0..8)).unique();
    let table = TableOptions::new().index(by_number).index(by_round);
    let rows = db.table_with("rows", table).unwrap();
    let row = |n: u32, round: u8| {
        let mut row = encode::u64(u64::from(n)).to_vec();
        row.push(round);
        row
    };
    for round in 1..=3u8 {
        let once = TransactionOptions::new().attempts(1);
        db.transaction_with(once, |t| {
            for n in 0..ROWS {
                if round > 1 {
                    assert_eq!(t.get(&rows, n.to_be_bytes())?, Some(row(n, round - 1)));
                }
                t.put(&rows, n.to_be_bytes(), row(n, round))?;
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    }
    drop(others.lock().unwrap().take());
    writer.join().unwrap();
    assert_eq!(rows.iter().unwrap().count(), ROWS as usize);
    let last = rows.index("round").unwrap().get([3]).unwrap().count();
    assert_eq!(last, ROWS as usize);
    assert_eq!(db.verify().unwrap().problems, Vec::<String>::new());
    assert_eq!(db.stats().transactions.given_up, 0);
}

/// The table is closed for it, and what it has read there is looked at all the same.
#[test]
fn a_large_transaction_is_refused_when_a_row_that_it_has_read_has_changed() {
    let db = open();
    let table = TableOptions::new().index(Index::on("first", KeySource::bytes(0..1)));
    let rows = db.table_with("rows", table).unwrap();
    rows.put("read", "old").unwrap();
    let mut t = begin(&db);
    assert!(t.get(&rows, "read").unwrap().is_some());
    for n in 0..500u32 {
        t.put(&rows, n.to_be_bytes(), "new").unwrap();
    }
    rows.put("read", "other").unwrap();
    match t.commit() {
        Err(Error::Conflict { structure, key, .. }) => {
            assert_eq!((structure.as_str(), &key[..]), ("rows", &b"read"[..]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(rows.iter().unwrap().count(), 1);
}

#[test]
fn what_is_not_looked_at_again_is_no_conflict() {
    let db = open();
    let tree = db.tree("t").unwrap();
    for key in ["a", "b", "c"] {
        tree.put(key, key).unwrap();
    }
    let mut t = begin(&db);
    t.put(&tree, "bb", "own").unwrap();
    t.delete(&tree, "c").unwrap();
    t.merge(&tree, "n", Merge::Add(2)).unwrap();
    assert_eq!(
        t.get_unchecked(&tree, "a").unwrap().as_deref(),
        Some(&b"a"[..])
    );
    // With its own changes, which merges are, too.
    assert_eq!(
        t.get_unchecked(&tree, "bb").unwrap().as_deref(),
        Some(&b"own"[..])
    );
    assert_eq!(t.get_unchecked(&tree, "c").unwrap(), None);
    assert_eq!(
        t.get_unchecked(&tree, "n").unwrap(),
        Some(encode::i64(2).to_vec())
    );
    let keys: Vec<_> = t
        .range_unchecked(&tree, "a".."m")
        .unwrap()
        .map(|record| record.unwrap().0)
        .collect();
    assert_eq!(keys, [&b"a"[..], b"b", b"bb"]);
    tree.put("a", "changed").unwrap();
    tree.put("aa", "new").unwrap();
    t.commit().unwrap();

    // The same looked at.
    let mut t = begin(&db);
    assert!(t.contains_key(&tree, "a").unwrap() && !t.contains_key(&tree, "z").unwrap());
    assert_eq!(t.prefix(&tree, "a").unwrap().count(), 2);
    assert_eq!(t.remove(&tree, "b").unwrap().as_deref(), Some(&b"b"[..]));
    assert_eq!(t.remove(&tree, "b").unwrap(), None);
    tree.put("ab", "new").unwrap();
    assert!(matches!(t.commit(), Err(Error::Conflict { .. })));
    assert!(tree.contains_key("b").unwrap());
}

#[test]
fn structures_without_log_take_part_alone() {
    let db = open();
    let options = MapOptions::new().logged(false);
    let unlogged = db.tree_with("unlogged", options).unwrap();
    let logged = db.tree("logged").unwrap();
    let sequence = db
        .transaction(|t| {
            let n = t.get(&unlogged, "n")?.map_or(0, |n| n.len());
            t.get(&logged, "n")?;
            t.put(&unlogged, "n", vec![7; n + 1])
        })
        .and_then(|()| db.sequence());
    assert_eq!(unlogged.get("n").unwrap(), Some(vec![7]));
    let mut t = begin(&db);
    t.get(&unlogged, "n").unwrap();
    unlogged.put("n", "changed").unwrap();
    t.put(&unlogged, "n", "lost").ok();
    assert!(matches!(t.commit(), Err(Error::Conflict { .. })));
    let mut t = begin(&db);
    t.put(&unlogged, "n", "1").unwrap();
    t.put(&logged, "n", "1").unwrap();
    invalid(t.commit(), "with and without log");
    let sync = TransactionOptions::new().durability(Durability::Sync);
    let synced = db.transaction_with(sync, |t| t.put(&unlogged, "n", "1"));
    invalid(synced, "without log");
    assert_eq!(db.sequence().unwrap(), sequence.unwrap());
    assert_eq!(logged.get("n").unwrap(), None);
}

#[test]
fn a_structure_that_is_dropped_meanwhile_is_named() {
    let db = open();
    let (tree, other) = (db.tree("t").unwrap(), db.tree("other").unwrap());
    let mut t = begin(&db);
    t.get(&tree, "a").unwrap();
    t.put(&other, "a", "1").unwrap();
    db.drop_structure("t").unwrap();
    match t.commit() {
        Err(Error::Conflict { structure, .. }) => assert_eq!(structure, "t"),
        Err(Error::NoSuchStructure { name }) => assert_eq!(name, "t"),
        other => panic!("{other:?}"),
    }
    let runs = AtomicU64::new(0);
    let result = db.transaction(|t| {
        runs.fetch_add(1, Ordering::Relaxed);
        t.put(&tree, "a", "1")
    });
    assert!(
        matches!(result, Err(Error::NoSuchStructure { .. })),
        "{result:?}"
    );
    assert_eq!(runs.into_inner(), 1);
    assert_eq!(other.get("a").unwrap(), None);
}

#[test]
fn a_full_disk_at_the_commit_changes_nothing() {
    let disk = SimDisk::new(1);
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    tree.put("before", "1").unwrap();
    db.checkpoint().unwrap();
    disk.set_capacity(Some(disk.used_bytes()));
    let mut written = BTreeMap::new();
    let mut full = 0;
    for n in 0..20_000u32 {
        let key = n.to_be_bytes();
        let done = db.transaction(|t| {
            t.get(&tree, "before")?;
            t.put(&tree, key, [7; 500])?;
            t.put(&tree, [&key[..], b"b"].concat(), [7; 500])
        });
        match done {
            Ok(()) => drop(written.insert(key, ())),
            Err(e) if e.is_disk_full() => full += 1,
            Err(e) => panic!("{e}"),
        }
        if full == 20 {
            break;
        }
    }
    assert_eq!(full, 20, "the disk never filled up");
    assert_eq!(tree.iter().unwrap().count(), 1 + 2 * written.len());
    disk.set_capacity(None);
    db.transaction(|t| t.put(&tree, "after", "1")).unwrap();
    assert!(tree.contains_key("after").unwrap());
}

/// A closure waits for a thread that waits for what it has read: that thread gets on after a while, and no thread waits
/// for ever. What a transaction writes itself, past itself, never waits.
#[test]
fn a_turn_that_waits_for_who_it_holds_up_comes_to_an_end() {
    let db = open();
    let tree = db.tree("t").unwrap();
    tree.put("a", "0").unwrap();
    let mut runs = 0u64;
    let done = db.transaction_with(TransactionOptions::new().attempts(10), |t| {
        runs += 1;
        t.get(&tree, "a")?;
        let value = encode::u64(runs);
        std::thread::scope(|threads| {
            let put = threads.spawn(|| tree.put("a", value));
            put.join().unwrap()
        })?;
        t.put(&tree, "b", "1")
    });
    assert!(
        matches!(done, Err(Error::Conflict { attempts: 10, .. })),
        "{done:?}"
    );
    let mut runs = 0u64;
    let done = db.transaction_with(TransactionOptions::new().attempts(20), |t| {
        runs += 1;
        t.get(&tree, "a")?;
        tree.put("a", encode::u64(runs))?;
        db.transaction(|inner| inner.put(&tree, "c", "1"))?;
        t.put(&tree, "b", "1")
    });
    assert!(
        matches!(done, Err(Error::Conflict { attempts: 20, .. })),
        "{done:?}"
    );
    tree.put("a", "1").unwrap();
    assert_eq!(tree.get("b").unwrap(), None);
}

/// Eight take from one queue what one adds to it: each record is taken once.
#[test]
fn a_queue_is_taken_by_eight() {
    const EACH: u32 = 40;
    let db = open();
    let (queue, taken) = (db.tree("queue").unwrap(), db.hash("taken").unwrap());
    std::thread::scope(|threads| {
        for worker in 0..8u32 {
            let (db, queue, taken) = (&db, &queue, &taken);
            threads.spawn(move || {
                for _ in 0..EACH {
                    while !db
                        .transaction(|t| {
                            let Some((key, _)) = t.pop_first(queue)? else {
                                return Ok(false);
                            };
                            assert!(t.insert(taken, key, worker.to_be_bytes())?);
                            Ok::<_, Error>(true)
                        })
                        .unwrap()
                    {
                        std::thread::yield_now();
                    }
                }
            });
        }
        for n in 0..8 * EACH {
            queue.put(n.to_be_bytes(), [7; 20]).unwrap();
        }
    });
    assert!(queue.is_empty().unwrap());
    assert_eq!(taken.iter().unwrap().count(), 8 * EACH as usize);
    // A stack, with what the transaction has put there itself.
    queue.put("a", "1").unwrap();
    db.transaction(|t| {
        t.put(&queue, "b", "2")?;
        assert_eq!(t.pop_last(&queue)?.unwrap().0, b"b");
        assert_eq!(t.pop_last(&queue)?.unwrap().0, b"a");
        assert_eq!(t.pop_first(&queue)?, None);
        Ok::<_, Error>(())
    })
    .unwrap();
    assert!(queue.is_empty().unwrap());
    invalid(db.transaction(|t| t.pop_first(&taken)), "no order of keys");
}

/// A transaction that has become too large is told so by the change that is too much.
#[test]
fn what_becomes_too_large_is_told_at_once() {
    let db = open();
    let tree = db.tree("t").unwrap();
    let mut put = 0u64;
    let done = db.transaction(|t| {
        for n in 0..1_000_000u64 {
            put = n;
            t.put(&tree, n.to_be_bytes(), [7; 20])?;
        }
        Ok::<_, Error>(())
    });
    invalid(done, "is the most");
    // Half of 4 MiB, a tenth of that too late at most.
    assert!(put < (2 << 20) * 11 / 10 / (8 + 20 + 16), "{put}");
    assert!(tree.is_empty().unwrap());
}

/// Merges of a key are found without looking at all others, and what a range gives of the transaction's own
/// changes without going through all of them: one transaction of very many takes about as long as ten of a
/// tenth.
#[test]
fn many_merges_and_changes_of_its_own_are_no_burden() {
    let db = open();
    let map: Map = (*db.tree("t").unwrap()).clone();
    let work = |n: u32| {
        let mut t = begin(&db);
        for i in 0..n {
            t.merge(&map, i.to_be_bytes(), Merge::Add(1)).unwrap();
            t.merge(&map, "one", Merge::Add(1)).unwrap();
        }
        assert_eq!(t.range::<&[u8]>(&map, ..).unwrap().count(), n as usize + 1);
        let one = encode::i64(i64::from(n)).to_vec();
        assert_eq!(t.get(&map, "one").unwrap(), Some(one));
        // A little of it again and again.
        for i in 0..n {
            let mut range = t.range(&map, i.to_be_bytes()..).unwrap();
            assert_eq!(range.next().unwrap().unwrap().0, i.to_be_bytes());
            assert_eq!(range.next_back().unwrap().unwrap().0, b"one");
        }
    };
    let began = ticks();
    (0..50).for_each(|_| work(400));
    let between = ticks();
    (0..5).for_each(|_| work(4000));
    let (few, many) = (between - began, ticks() - between);
    assert!(many < 4 * few + 20, "ten times 400: {few}, 4000: {many}");
}

/// Hundredths of a second that this thread has run, whatever else the machine does.
fn ticks() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut times = fields.split_whitespace().skip(11).take(2);
    let mut next = || times.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}
