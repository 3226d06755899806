//! What bindings rely on: handles that were closed, batches whole or not at all, windows without gaps, panics
//! and failures on their way out.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use terrace::{MapOptions, Merge, Options, TransactionOptions};
use terrace_ffi::encoding::{BatchWriter, record_at};
use terrace_ffi::fault::{Fault, plant};
use terrace_ffi::{
    Failure, Kind, Result, backup, batch, cursor, database, load, map, snapshot, terrace,
    transaction,
};

#[path = "border/feed.rs"]
mod feed;

fn options() -> Options {
    Options::new().memory(16 << 20)
}

/// A database with a tree.
struct Home {
    dir: tempfile::TempDir,
    db: u64,
    tree: u64,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let db = database::open(dir.path().join("db"), options(), false).unwrap();
    let tree = structure(db, "tree");
    Home { dir, db, tree }
}

fn structure(db: u64, name: &str) -> u64 {
    database::structure(db, terrace::Kind::Tree, name, MapOptions::new()).unwrap()
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = database::close(self.db);
    }
}

fn kind<R>(result: Result<R>) -> Option<Kind> {
    result.err().map(|failure| failure.kind)
}

/// Whether the check fails, by an assertion or an error, while the fault is planted.
fn catches(fault: Fault, check: impl Fn()) -> bool {
    check();
    plant(Some(fault));
    let caught = catch_unwind(AssertUnwindSafe(&check)).is_err();
    plant(None);
    check();
    caught
}

#[test]
fn a_handle_that_was_closed_finds_nothing_whoever_has_its_place() {
    let check = || {
        let home = home();
        let first = structure(home.db, "first");
        map::put(first, b"k", b"first", None).unwrap();
        map::close(first).unwrap();
        map::close(first).unwrap();
        // One of these has its place.
        let others: Vec<u64> = (0..4)
            .map(|i| structure(home.db, &format!("other{i}")))
            .collect();
        assert!(others.iter().all(|other| *other != first));
        for other in &others {
            map::put(*other, b"k", b"other", None).unwrap();
        }
        assert_eq!(kind(map::get(first, b"k")), Some(Kind::Closed));
        assert_eq!(kind(map::put(first, b"k", b"", None)), Some(Kind::Closed));
        map::close(first).unwrap();
        assert_eq!(map::get(others[0], b"k").unwrap().unwrap(), b"other");
    };
    assert!(catches(Fault::GenerationIgnored, check));
}

#[test]
fn what_is_no_handle_or_of_something_else_is_refused() {
    let home = home();
    for wrong in [0, 1, 7 << 32, u64::MAX, home.db, home.tree ^ 1 << 40] {
        assert_eq!(kind(map::get(wrong, b"k")), Some(Kind::Closed), "{wrong:x}");
        assert_eq!(
            kind(cursor::range(wrong, Unbounded, Unbounded, false)),
            Some(Kind::Closed)
        );
    }
    assert_eq!(kind(map::close(home.db)), Some(Kind::Closed));
    assert_eq!(kind(database::close(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(database::sync(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(batch::len(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(transaction::commit(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(snapshot::time(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(load::put(home.tree, b"k", b"")), Some(Kind::Closed));
    assert_eq!(kind(backup::archive(home.tree)), Some(Kind::Closed));
    assert_eq!(kind(cursor::index_get(home.tree, b"k")), Some(Kind::Closed));
    assert!(map::get(home.tree, b"k").unwrap().is_none());
}

#[test]
fn handles_of_another_database_are_refused_where_they_would_mix() {
    let (one, other) = (home(), home());
    map::put(one.tree, b"k", b"1", None).unwrap();
    let mixed = batch::begin(one.db).unwrap();
    batch::put(mixed, one.tree, b"k", b"2").unwrap();
    batch::put(mixed, other.tree, b"k", b"2").unwrap();
    assert_eq!(
        kind(batch::commit(one.db, mixed, None)),
        Some(Kind::Invalid)
    );
    let mut writer = BatchWriter::default();
    writer.put(0, b"k", b"2");
    writer.put(1, b"k", b"2");
    let maps = [one.tree, other.tree];
    let mixed = batch::write_encoded(one.db, &maps, &writer.finish(), None);
    assert_eq!(kind(mixed), Some(Kind::Invalid));
    let going = transaction::begin(one.db, TransactionOptions::new()).unwrap();
    assert_eq!(
        kind(transaction::put(going, other.tree, b"k", b"2")),
        Some(Kind::Invalid)
    );
    transaction::abort(going).unwrap();
    assert_eq!(map::get(one.tree, b"k").unwrap().unwrap(), b"1");
    assert!(map::get(other.tree, b"k").unwrap().is_none());
}

#[test]
fn a_batch_is_written_whole_or_not_at_all() {
    let check = || {
        let home = home();
        let second = structure(home.db, "second");
        map::put(second, b"gone", b"1", None).unwrap();
        let mut writer = BatchWriter::default();
        for i in 0..20u32 {
            writer.put(i % 2, format!("k{i}").as_bytes(), &i.to_le_bytes());
        }
        writer.merge(0, b"n", &Merge::Add(7)).unwrap();
        writer.delete(1, b"gone");
        let (bytes, maps) = (writer.finish(), [home.tree, second]);
        for cut in 0..bytes.len() {
            let cut = batch::write_encoded(home.db, &maps, &bytes[..cut], None);
            assert_eq!(kind(cut), Some(Kind::Invalid));
        }
        let unknown = batch::write_encoded(home.db, &maps[..1], &bytes, None);
        assert_eq!(kind(unknown), Some(Kind::Invalid));
        let closed = batch::write_encoded(home.db, &[home.tree, 3 << 32], &bytes, None);
        assert_eq!(kind(closed), Some(Kind::Closed));
        assert!(map::is_empty(home.tree).unwrap());
        batch::write_encoded(home.db, &maps, &bytes, None).unwrap();
        for i in 0..20u32 {
            let value = map::get(maps[i as usize % 2], format!("k{i}").as_bytes());
            assert_eq!(value.unwrap().unwrap(), i.to_le_bytes());
        }
        assert_eq!(
            map::get(home.tree, b"n").unwrap().unwrap(),
            terrace::encode::i64(7)
        );
        assert_eq!(map::get(second, b"gone").unwrap(), None);
    };
    assert!(catches(Fault::BatchCutShort, check));
}

type Records = Vec<(Vec<u8>, Vec<u8>)>;

fn windows(cursor: u64, most_bytes: usize) -> Result<Records> {
    let (mut all, mut window) = (Vec::new(), Vec::new());
    loop {
        let records = cursor::window(cursor, most_bytes, &mut window)?;
        assert_eq!(window[..4], (records as u32).to_le_bytes());
        assert!(records <= 1 || window.len() <= most_bytes);
        let mut at = 4;
        for _ in 0..records {
            let (key, value, next) = record_at(&window, at).unwrap();
            all.push((key.to_vec(), value.to_vec()));
            at = next;
        }
        assert_eq!(at, window.len());
        if records == 0 {
            return Ok(all);
        }
    }
}

#[test]
fn windows_have_each_record_once_whatever_fits_into_them() {
    let check = || {
        let home = home();
        let mut model = BTreeMap::new();
        for i in 0..500u32 {
            let (key, len) = (format!("{i:04}").into_bytes(), (i * 37 % 400) as usize);
            let value = vec![i as u8; if i == 250 { 5000 } else { len }];
            map::put(home.tree, &key, &value, None).unwrap();
            model.insert(key, value);
        }
        let all: Records = model.clone().into_iter().collect();
        for most_bytes in [1, 700, 4096, cursor::MOST_BYTES] {
            let forward = cursor::range(home.tree, Unbounded, Unbounded, false).unwrap();
            assert!(windows(forward, most_bytes).unwrap() == all);
            let back = cursor::range(home.tree, Unbounded, Unbounded, true).unwrap();
            let mut reversed = windows(back, most_bytes).unwrap();
            reversed.reverse();
            assert!(reversed == all);
        }
        let ends = (Included(&b"0100"[..]), Excluded(&b"0123"[..]));
        let some = cursor::range(home.tree, ends.0, ends.1, false).unwrap();
        assert!(windows(some, 4096).unwrap() == all[100..123]);
        let none = cursor::range(home.tree, ends.1.map(|k| k), ends.0, false).unwrap();
        assert!(windows(none, 4096).unwrap().is_empty());
        let tens = cursor::prefix(home.tree, b"031", true).unwrap();
        assert_eq!(windows(tens, 4096).unwrap().len(), 10);
        // Some one by one, the others in windows.
        let mixed = cursor::range(home.tree, Unbounded, Unbounded, false).unwrap();
        let mut seen = Records::new();
        for _ in 0..40 {
            let record = cursor::next(mixed, |key, value| (key.to_vec(), value.to_vec()));
            seen.extend(record.unwrap());
        }
        seen.extend(windows(mixed, 1000).unwrap());
        assert!(seen == all);
        assert_eq!(cursor::next(mixed, |_, _| ()).unwrap(), None);
        cursor::close(mixed).unwrap();
        assert_eq!(kind(cursor::next(mixed, |_, _| ())), Some(Kind::Closed));
        let mut unordered = windows(cursor::unordered(home.tree).unwrap(), 4096).unwrap();
        unordered.sort();
        assert!(unordered == all);
    };
    assert!(catches(Fault::WindowSkips, check));
}

#[test]
fn a_panic_is_a_failure_and_nobody_is_let_in_again_until_it_is_opened_anew() {
    let check = || {
        let home = home();
        map::put(home.tree, b"k", b"1", None).unwrap();
        let panicked = transaction::run(home.db, TransactionOptions::new(), |going| {
            transaction::put(going, home.tree, b"k", b"2")?;
            panic!("on purpose");
        });
        let failure = panicked.unwrap_err();
        assert_eq!(failure.kind, Kind::Defect);
        assert!(failure.text.contains("on purpose"), "{failure}");
        assert_eq!(kind(map::get(home.tree, b"k")), Some(Kind::Defect));
        assert_eq!(kind(database::sync(home.db)), Some(Kind::Defect));
        database::close(home.db).unwrap();
        // Nothing is made durable of what the panic may have left half done: the log is replayed.
        let path = home.dir.path().join("db");
        assert_eq!(
            kind(database::open(path, options(), true)),
            Some(Kind::NotClosed)
        );
        let again = database::open(home.dir.path().join("db"), options(), false).unwrap();
        let tree = structure(again, "tree");
        assert_eq!(map::get(tree, b"k").unwrap().unwrap(), b"1");
        database::close(again).unwrap();
    };
    assert!(catches(Fault::PanicCrosses, check));
}

#[test]
fn failures_keep_their_kind() {
    let check = || {
        let home = home();
        let path = home.dir.path().join("db");
        assert_eq!(
            kind(database::open(&path, options(), false)),
            Some(Kind::Locked)
        );
        assert_eq!(
            kind(database::found(home.db, "none")),
            Some(Kind::NoSuchStructure)
        );
        assert_eq!(
            kind(database::rename_structure(home.db, "none", "some")),
            Some(Kind::NoSuchStructure)
        );
        assert_eq!(
            kind(map::put(home.tree, &[0; 70_000], b"", None)),
            Some(Kind::KeyTooLong)
        );
        let small = options().memory(1);
        assert_eq!(
            kind(database::open(home.dir.path().join("small"), small, false)),
            Some(Kind::MemoryTooSmall)
        );
        let file = home.dir.path().join("file");
        std::fs::write(&file, b"").unwrap();
        let refused = database::open(file.join("db"), options(), false).unwrap_err();
        assert_eq!(refused.kind, Kind::Io);
        assert!(refused.os.is_some());
        assert_eq!(
            kind(database::structure(
                home.db,
                terrace::Kind::Hash,
                "tree",
                MapOptions::new()
            )),
            Some(Kind::Invalid)
        );
    };
    assert!(catches(Fault::ErrorKindLost, check));
}

#[test]
fn a_transaction_runs_again_and_what_is_lent_is_good_for_one_attempt() {
    let home = home();
    map::put(home.tree, b"k", b"1", None).unwrap();
    let (mut attempts, mut last) = (0, 0);
    transaction::run(home.db, TransactionOptions::new(), |going| {
        (attempts, last) = (attempts + 1, going);
        let old = transaction::get(going, home.tree, b"k")?.unwrap();
        if attempts == 1 {
            map::put(home.tree, b"k", b"7", None)?;
        }
        assert_eq!(kind(transaction::commit(going)), Some(Kind::Invalid));
        assert_eq!(kind(transaction::abort(going)), Some(Kind::Invalid));
        transaction::put(going, home.tree, b"copy", &old)
    })
    .unwrap();
    assert_eq!(attempts, 2);
    assert_eq!(map::get(home.tree, b"copy").unwrap().unwrap(), b"7");
    assert_eq!(
        kind(transaction::get(last, home.tree, b"k")),
        Some(Kind::Closed)
    );
    // A failure of the function changes nothing and is passed on.
    let failed = transaction::run(home.db, TransactionOptions::new(), |going| {
        transaction::delete(going, home.tree, b"k")?;
        Err(Failure::aborted())
    });
    assert_eq!(kind(failed), Some(Kind::Aborted));
    assert!(map::contains(home.tree, b"k").unwrap());
    // One that reads does not write.
    let written = transaction::read(home.db, TransactionOptions::new(), |going| {
        transaction::get(going, home.tree, b"k")?;
        transaction::put(going, home.tree, b"k", b"9")
    });
    assert_eq!(kind(written), Some(Kind::Invalid));
}

#[test]
fn a_transaction_by_hand_sees_itself_and_meets_conflicts() {
    let home = home();
    for i in 0..600 {
        map::put(home.tree, format!("{i:03}").as_bytes(), b"v", None).unwrap();
    }
    let begin = || transaction::begin(home.db, TransactionOptions::new()).unwrap();
    let going = begin();
    transaction::put(going, home.tree, b"0005", b"own").unwrap();
    transaction::delete(going, home.tree, b"001").unwrap();
    for reverse in [false, true] {
        let range = transaction::range(going, home.tree, Unbounded, Unbounded, reverse).unwrap();
        let mut keys: Vec<_> = windows(range, 4096)
            .unwrap()
            .into_iter()
            .map(|r| r.0)
            .collect();
        assert_eq!(keys.len(), 600);
        if reverse {
            keys.reverse();
        }
        assert!(keys.is_sorted());
        assert!(keys.contains(&b"0005".to_vec()) && !keys.contains(&b"001".to_vec()));
    }
    map::put(home.tree, b"300", b"other", None).unwrap();
    assert_eq!(kind(transaction::commit(going)), Some(Kind::Conflict));
    assert_eq!(kind(transaction::commit(going)), Some(Kind::Closed));
    transaction::abort(going).unwrap();
    let going = begin();
    let before = transaction::savepoint(going).unwrap();
    transaction::put(going, home.tree, b"x", b"1").unwrap();
    transaction::roll_back(going, &before).unwrap();
    transaction::put(going, home.tree, b"y", b"1").unwrap();
    assert!(transaction::commit(going).unwrap().is_some());
    assert!(!map::contains(home.tree, b"x").unwrap());
    assert!(map::contains(home.tree, b"y").unwrap());
    let left = begin();
    database::close(home.db).unwrap();
    assert_eq!(kind(transaction::commit(left)), Some(Kind::Closed));
}

#[test]
fn closing_ends_all_that_was_opened_through_it_and_frees_the_folder() {
    let home = home();
    map::put(home.tree, b"k", b"1", None).unwrap();
    let seen = database::snapshot(home.db, None).unwrap();
    let then = snapshot::structure(seen, "tree").unwrap();
    map::put(home.tree, b"k", b"2", None).unwrap();
    assert_eq!(map::get(then, b"k").unwrap().unwrap(), b"1");
    assert_eq!(kind(map::put(then, b"k", b"3", None)), Some(Kind::Invalid));
    let old = cursor::range(then, Unbounded, Unbounded, false).unwrap();
    snapshot::close(seen).unwrap();
    for closed in [
        kind(map::get(then, b"k")),
        kind(cursor::next(old, |_, _| ())),
        kind(snapshot::structure(seen, "tree")),
    ] {
        assert_eq!(closed, Some(Kind::Closed));
    }
    let (seen, all) = (
        database::snapshot(home.db, None).unwrap(),
        cursor::range(home.tree, Unbounded, Unbounded, false).unwrap(),
    );
    let (loading, changes) = (
        load::begin(home.tree).unwrap(),
        batch::begin(home.db).unwrap(),
    );
    let inside = transaction::run(home.db, TransactionOptions::new(), |going| {
        transaction::put(going, home.tree, b"k", b"4")?;
        // From within: nothing waits for itself.
        database::close(home.db)
    });
    assert_eq!(kind(inside), Some(Kind::Closed));
    for closed in [
        kind(map::get(home.tree, b"k")),
        kind(snapshot::time(seen)),
        kind(cursor::next(all, |_, _| ())),
        kind(load::put(loading, b"a", b"")),
        kind(batch::len(changes)),
        kind(database::structures_json(home.db)),
    ] {
        assert_eq!(closed, Some(Kind::Closed));
    }
    let again = database::open(home.dir.path().join("db"), options(), false).unwrap();
    assert_eq!(
        map::get(structure(again, "tree"), b"k").unwrap().unwrap(),
        b"2"
    );
    database::close(again).unwrap();
}

#[test]
fn closing_while_others_are_inside_is_an_error_for_them_and_nothing_else() {
    for round in 0..3 {
        let home = home();
        for i in 0..200u32 {
            map::put(home.tree, &i.to_be_bytes(), &[7; 50], None).unwrap();
        }
        let began = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..6u32 {
                let (home, began) = (&home, &began);
                scope.spawn(move || {
                    let closed = loop {
                        let key = thread.to_be_bytes();
                        let done = match thread % 3 {
                            0 => map::get(home.tree, &key).map(|_| ()),
                            1 => map::put(home.tree, &key, b"v", None),
                            _ => cursor::range(home.tree, Unbounded, Unbounded, false).and_then(
                                |all| {
                                    windows(all, 512)?;
                                    cursor::close(all)
                                },
                            ),
                        };
                        began.store(true, Ordering::SeqCst);
                        if let Err(failure) = done {
                            break failure;
                        }
                    };
                    assert_eq!(closed.kind, Kind::Closed, "{closed}");
                });
            }
            while !began.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            database::close(home.db).unwrap();
        });
        let again = database::open(home.dir.path().join("db"), options(), false);
        database::close(again.unwrap_or_else(|f| panic!("round {round}: {f}"))).unwrap();
    }
}

#[test]
fn an_update_runs_until_nobody_is_faster() {
    let home = home();
    let counts: Vec<u64> = (0..4).map(|_| home.tree).collect();
    std::thread::scope(|scope| {
        for tree in counts {
            scope.spawn(move || {
                for _ in 0..100 {
                    map::update(tree, b"n", None, |old| {
                        let old = old.and_then(terrace::encode::to_u64).unwrap_or(0);
                        Ok(Some(terrace::encode::u64(old + 1).to_vec()))
                    })
                    .unwrap();
                }
            });
        }
    });
    let count = map::get(home.tree, b"n").unwrap().unwrap();
    assert_eq!(terrace::encode::to_u64(&count), Some(400));
    let failed = map::update(home.tree, b"n", None, |_| Err(Failure::aborted()));
    assert_eq!(kind(failed), Some(Kind::Aborted));
    assert!(map::update(home.tree, b"n", None, |_| Ok(None)).unwrap());
    assert!(!map::update(home.tree, b"n", None, |_| Ok(None)).unwrap());
    assert!(!map::contains(home.tree, b"n").unwrap());
}

#[test]
fn tables_backups_and_figures_cross_too() {
    let home = home();
    let index = ["first=bytes:0..1"];
    let table = database::table(home.db, "rows", MapOptions::new(), &index).unwrap();
    for (key, row) in [("1", "apple"), ("2", "pear"), ("3", "avocado")] {
        map::put(table, key.as_bytes(), row.as_bytes(), None).unwrap();
    }
    let first = map::index(table, "first").unwrap();
    let rows = windows(cursor::index_get(first, b"a").unwrap(), 4096).unwrap();
    assert_eq!(rows.len(), 2);
    let keys = cursor::index_keys(first, Unbounded, Unbounded, true).unwrap();
    assert_eq!(windows(keys, 4096).unwrap()[0].0, b"p");
    assert!(map::indexes_json(table).unwrap().contains("first"));
    assert_eq!(kind(map::index(home.tree, "first")), Some(Kind::Invalid));
    let loading = load::begin(home.tree).unwrap();
    for i in 0..1000u32 {
        load::put(loading, &i.to_be_bytes(), b"v").unwrap();
    }
    let durability = terrace::Durability::Buffered;
    assert_eq!(load::finish(loading, durability, |_| ()).unwrap(), 1000);
    assert_eq!(kind(load::put(loading, b"k", b"")), Some(Kind::Closed));
    let set = home.dir.path().join("set");
    let mut told = 0;
    let rate = terrace::Rate::Fast;
    let mut tell = |_| {
        told += 1;
        true
    };
    backup::backup_json(home.db, &set, false, Some("here"), rate, &mut tell).unwrap();
    assert!(told > 0);
    let stopped = backup::backup_json(home.db, &set, true, None, rate, &mut |_| false);
    assert_eq!(kind(stopped), Some(Kind::Cancelled));
    assert!(backup::list_json(&set).unwrap().contains("here"));
    let to = home.dir.path().join("again");
    let latest = terrace::RestoreTo::Latest;
    backup::restore_json(&set, &to, latest, None, options(), true, &mut |_| true).unwrap();
    let again = database::open(&to, options(), false).unwrap();
    assert_eq!(
        map::get(structure(again, "tree"), &[0; 4])
            .unwrap()
            .unwrap(),
        b"v"
    );
    database::close(again).unwrap();
    let follower = backup::follow(home.db, &set, terrace::FollowOptions::new()).unwrap();
    backup::archive(follower).unwrap();
    assert!(backup::stop(follower).unwrap().is_some());
    assert!(backup::stop(follower).unwrap().is_none());
    assert!(
        database::stats_json(home.db, true)
            .unwrap()
            .contains("\"tree\"")
    );
    assert!(
        database::metrics(home.db, false, false)
            .unwrap()
            .contains("terrace_memory_limit_bytes")
    );
    assert!(
        database::verify_json(home.db, |_| ())
            .unwrap()
            .contains("problems")
    );
    database::compact_json(home.db, rate, &mut |_| true).unwrap();
}
