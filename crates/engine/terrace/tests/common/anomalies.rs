//! What must not happen between transactions, each by a script of two of them by turns. Where the second one
//! has to come at an instant within the first, it comes when that one reads from the disk or waits for a
//! lock, so nothing here depends on timing.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use terrace::{
    Database, Error, Index, KeySource, Map, MapOptions, Merge, Options, TableOptions, Tiers,
    TransactionOptions, Tree, encode,
};
use terrace_sim::{Call, HookedDisk, SimDisk};

fn database() -> (Database, Tree) {
    let db = Database::open_on(SimDisk::new(1).shared(), super::tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    for key in [b"a", b"b", b"c"] {
        tree.put(key, key).unwrap();
    }
    (db, tree)
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Conflict { .. })), "{result:?}");
}

/// Two read a record, one changes it; what the other makes of it must not be kept.
pub fn lost_update() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&tree, "a").unwrap().is_some());
    tree.put("a", "second").unwrap();
    first.put(&tree, "a", "first").ok();
    refused(first.commit());
    assert_eq!(tree.get("a").unwrap().as_deref(), Some(&b"second"[..]));
}

/// Two read two records, and each changes the other one.
pub fn write_skew() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    let mut second = db.begin(TransactionOptions::new());
    for t in [&mut first, &mut second] {
        assert!(t.get(&tree, "a").unwrap().is_some());
        assert!(t.get(&tree, "b").unwrap().is_some());
    }
    first.put(&tree, "a", "x").unwrap();
    second.put(&tree, "b", "x").unwrap();
    first.commit().unwrap();
    refused(second.commit());
}

/// A record comes into a range that was read, by a put, by a batch, and by another transaction.
pub fn phantom() {
    for way in 0..3 {
        let (db, tree) = database();
        let mut first = db.begin(TransactionOptions::new());
        let count = first.range(&tree, "a".."m").unwrap().count();
        assert_eq!(count, 3);
        first.put(&tree, "x", "three").unwrap();
        match way {
            0 => tree.put("d", "new").unwrap(),
            1 => {
                let mut batch = db.batch();
                batch.put(&tree, "z", "far").put(&tree, "d", "new");
                db.write(batch, terrace::Durability::Buffered).unwrap();
            }
            _ => db.transaction(|t| t.put(&tree, "d", "new")).unwrap(),
        }
        refused(first.commit());
        // What lies outside disturbs no transaction.
        let mut first = db.begin(TransactionOptions::new());
        assert_eq!(first.range(&tree, "a".."m").unwrap().count(), 4);
        first.put(&tree, "b", "in its own range").unwrap();
        tree.put("m", "outside").unwrap();
        first.commit().unwrap();
    }
}

/// A change of what was read is told before user code computes on two states.
pub fn no_zombies() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&tree, "a").unwrap().is_some());
    db.transaction(|t| {
        t.put(&tree, "a", "new")?;
        t.put(&tree, "b", "new")
    })
    .unwrap();
    refused(first.get(&tree, "b"));
    refused(first.get(&tree, "c"));
    refused(first.commit());
}

/// The same when very many records were read, in one structure or in several, before and after the one that
/// changes.
pub fn no_zombies_among_many_reads() {
    for (before, after) in [(0, 255), (0, 300), (300, 0), (300, 300), (1000, 40)] {
        for elsewhere in [false, true] {
            let (db, tree) = database();
            let others = if elsewhere {
                db.tree("others").unwrap()
            } else {
                tree.clone()
            };
            let mut first = db.begin(TransactionOptions::new());
            let mut read = 0u32;
            let mut reads = |first: &mut terrace::Transaction, count: u32| {
                for _ in 0..count {
                    read += 1;
                    first.get(&others, read.to_be_bytes()).unwrap();
                }
            };
            reads(&mut first, before);
            assert!(first.get(&tree, "a").unwrap().is_some());
            reads(&mut first, after);
            // What it has not read disturbs it as little as before.
            others.put("elsewhere", "new").unwrap();
            assert!(first.get(&tree, "c").unwrap().is_some());
            let mut batch = db.batch();
            batch.put(&tree, "a", "new").put(&tree, "b", "new");
            db.write(batch, terrace::Durability::Buffered).unwrap();
            refused(first.get(&tree, "b"));
            refused(first.commit());
        }
    }
}

/// What was read changes while a commit works out its merges, and one of these does not fit what is there now.
pub fn errors_of_what_was_never_together_are_conflicts() {
    let (db, tree, hook) = out_of_memory();
    let hot = db
        .create_tree("hot", MapOptions::new().tiers(Tiers::One))
        .unwrap();
    hot.put("open", "1").unwrap();
    hot.put("stock", encode::u64(1)).unwrap();
    let mut first = db.begin(TransactionOptions::new());
    assert_eq!(first.get(&hot, "open").unwrap().as_deref(), Some(&b"1"[..]));
    first.put(&hot, "open", "0").unwrap();
    // The page of this one has to be read, which happens within the commit.
    let kept = Merge::SetIfAbsent(b"x".to_vec());
    first.merge(&tree, 100u32.to_be_bytes(), kept).unwrap();
    first.merge(&hot, "stock", Merge::AddUnsigned(-1)).unwrap();
    let writer = (db.clone(), hot.clone());
    let sold = move || {
        let (db, hot) = &writer;
        let mut batch = db.batch();
        batch
            .put(hot, "open", "0")
            .put(hot, "stock", encode::u64(0));
        db.write(batch, terrace::Durability::Buffered).unwrap();
    };
    assert!(hook.set(Box::new(sold)).is_ok());
    refused(first.commit());
    // What does not fit although nothing that was read has changed is an error.
    let mut second = db.begin(TransactionOptions::new());
    assert_eq!(
        second.get(&hot, "open").unwrap().as_deref(),
        Some(&b"0"[..])
    );
    second.merge(&hot, "stock", Merge::AddUnsigned(-1)).unwrap();
    assert!(matches!(second.commit(), Err(Error::Invalid { .. })));
}

/// The same, and what was read is as it was again when the commit looks: the error is of a state that the transaction
/// has not read, and it goes through.
pub fn errors_of_what_was_so_in_between_are_none() {
    let (db, tree, hook) = out_of_memory();
    let options = MapOptions::new().tiers(Tiers::One);
    let hot = db.create_tree("hot", options).unwrap();
    let write = |db: &Database, hot: &Tree, open: u64| {
        let mut batch = db.batch();
        batch
            .put(hot, "open", open.to_string())
            .put(hot, "stock", encode::u64(open));
        db.write(batch, terrace::Durability::Buffered).unwrap();
    };
    write(&db, &hot, 1);
    let slot = terrace::fault::lock_of(&hot, b"open");
    assert_ne!(slot, terrace::fault::lock_of(&hot, b"stock"));
    let mut first = db.begin(TransactionOptions::new());
    assert_eq!(first.get(&hot, "open").unwrap().as_deref(), Some(&b"1"[..]));
    first.put(&hot, "open", "0").unwrap();
    // The page of this one has to be read, which happens within the commit.
    let kept = Merge::SetIfAbsent(b"x".to_vec());
    first.merge(&tree, 100u32.to_be_bytes(), kept).unwrap();
    first.merge(&hot, "stock", Merge::AddUnsigned(-1)).unwrap();
    let (of, on) = (db.clone(), hot.clone());
    let locks = terrace::fault::shared_locks(&db);
    let shared = locks.clone();
    let sold = move || {
        write(&of, &on, 0);
        // Who looks at it again waits, and finds what comes meanwhile.
        std::mem::forget(shared.lock(slot));
    };
    assert!(hook.set(Box::new(sold)).is_ok());
    let came_back = Rc::new(RefCell::new(false));
    let (seen, of, on) = (came_back.clone(), db.clone(), hot.clone());
    terrace_tier::fault::hook(Some(Box::new(move |point| {
        if point == terrace_tier::fault::Point::Waiting && !seen.replace(true) {
            locks.release_abandoned(slot);
            write(&of, &on, 1);
        }
    })));
    let done = first.commit();
    terrace_tier::fault::hook(None);
    assert!(*came_back.borrow(), "nobody looked again: {done:?}");
    done.unwrap();
    let found = hot.get_many(&["open", "stock"]).unwrap();
    assert_eq!(found, [Some(b"0".to_vec()), Some(encode::u64(0).to_vec())]);
}

/// A write of the same value, or of another record that shares the lock, and a record that moves between the
/// tiers, are no conflicts.
pub fn others_do_not_disturb() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&tree, "a").unwrap().is_some());
    tree.put("a", "a").unwrap();
    // The smallest table of locks is shared by all of these.
    for i in 0..5000u32 {
        tree.put(i.to_be_bytes(), b"other").unwrap();
    }
    first.put(&tree, "b", "x").unwrap();
    first.commit().unwrap();
    assert!(db.stats().transactions.refreshed > 0);
    assert_eq!(db.stats().transactions.conflicts, 0);
}

/// A transaction writes what it has read, and its own lock is no hindrance.
pub fn reads_what_it_writes() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&tree, "a").unwrap().is_some());
    assert_eq!(first.range(&tree, "a"..="b").unwrap().count(), 2);
    first.put(&tree, "a", "x").unwrap();
    assert!(first.commit().unwrap().sequence.is_some());
}

/// A writer that holds its lock may be in the log already: it is waited for.
pub fn held_locks_are_waited_for() {
    let (db, tree) = database();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&tree, "a").unwrap().is_some());
    first.put(&tree, "x", "1").unwrap();
    let locks = terrace::fault::locks(&db);
    let slot = terrace::fault::lock_of(&tree, b"a");
    // Let go of by the hook below, when a thread waits for it.
    std::mem::forget(locks.lock(slot));
    let waited = Rc::new(RefCell::new(false));
    let seen = waited.clone();
    let shared = terrace::fault::shared_locks(&db);
    terrace_tier::fault::hook(Some(Box::new(move |point| {
        if point == terrace_tier::fault::Point::Waiting && !*seen.borrow() {
            *seen.borrow_mut() = true;
            shared.release_abandoned(slot);
        }
    })));
    let result = first.commit();
    terrace_tier::fault::hook(None);
    if !*waited.borrow() {
        locks.release_abandoned(slot);
    }
    assert!(*waited.borrow(), "nobody waited: {result:?}");
    result.unwrap();
}

/// A record is read under its lock: a writer that is in the log, and has not changed it yet, is waited for.
pub fn reads_wait_for_writers() {
    let (db, tree) = database();
    // In the hot tier, where plain reads look at no lock.
    assert!(tree.get("a").unwrap().is_some());
    let locks = terrace::fault::shared_locks(&db);
    let slot = terrace::fault::lock_of(&tree, b"a");
    std::mem::forget(locks.lock(slot));
    let done = Rc::new(RefCell::new(false));
    let seen = done.clone();
    let (writer, shared) = (tree.clone(), locks.clone());
    terrace_tier::fault::hook(Some(Box::new(move |point| {
        if point == terrace_tier::fault::Point::Waiting && !*seen.borrow() {
            *seen.borrow_mut() = true;
            shared.release_abandoned(slot);
            writer.put("a", "new").unwrap();
        }
    })));
    let mut first = db.begin(TransactionOptions::new());
    let value = first.get(&tree, "a");
    terrace_tier::fault::hook(None);
    if !*done.borrow() {
        locks.release_abandoned(slot);
    }
    assert!(*done.borrow(), "nobody waited");
    first.put(&tree, "x", "1").ok();
    let value = value.unwrap();
    assert!(value.as_deref() == Some(b"new") || first.commit().is_err());
}

/// A database of one tier, most of whose pages are not in memory, and a disk that runs something once when a
/// page is read.
fn out_of_memory() -> (Database, Tree, Arc<OnceLock<Box<dyn Fn() + Send + Sync>>>) {
    let hook: Arc<OnceLock<Box<dyn Fn() + Send + Sync>>> = Arc::default();
    let (called, ran) = (hook.clone(), AtomicBool::new(false));
    let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
        if let (Call::Read("data"), Some(run)) = (call, called.get())
            && !ran.swap(true, Ordering::SeqCst)
        {
            run();
        }
    });
    let options: Options = super::tiny(1);
    let db = Database::open_on(Arc::new(disk), options).unwrap();
    let options = MapOptions::new().tiers(Tiers::One);
    let tree = db.create_tree("t", options).unwrap();
    for i in 0..20_000u32 {
        tree.put(i.to_be_bytes(), [7; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    (db, tree, hook)
}

/// Something changes after a transaction has looked, and before it has its place in the log.
pub fn validated_at_the_last_instant() {
    let (db, tree, hook) = out_of_memory();
    let hot = db
        .create_tree("hot", MapOptions::new().tiers(Tiers::One))
        .unwrap();
    hot.put("a", "old").unwrap();
    let mut first = db.begin(TransactionOptions::new());
    assert!(first.get(&hot, "a").unwrap().is_some());
    // Its page has to be read first, which happens within the commit.
    first.put(&tree, 100u32.to_be_bytes(), "x").unwrap();
    let writer = hot.clone();
    let change = move || writer.put("a", "new").unwrap();
    assert!(hook.set(Box::new(change)).is_ok());
    refused(first.commit());
    assert_eq!(hot.get("a").unwrap().as_deref(), Some(&b"new"[..]));
}

/// A merge keeps a value, and the value changes before the batch has its place in the log: the batch must not be
/// what it would have been before.
pub fn kept_values_are_validated() {
    let (db, tree, hook) = out_of_memory();
    let hot = db
        .create_tree("hot", MapOptions::new().tiers(Tiers::One))
        .unwrap();
    hot.put("a", "9").unwrap();
    hot.put("b", "0").unwrap();
    let writer = (db.clone(), hot.clone());
    let change = move || {
        let (db, hot) = &writer;
        let mut batch = db.batch();
        batch.put(hot, "a", "1").put(hot, "b", "7");
        db.write(batch, terrace::Durability::Buffered).unwrap();
    };
    assert!(hook.set(Box::new(change)).is_ok());
    let mut batch = db.batch();
    // The page of the last one has to be read, which happens when the merge was worked out.
    batch
        .merge(&hot, "a", Merge::Max(b"5".to_vec()))
        .put(&hot, "b", "8")
        .put(&tree, 100u32.to_be_bytes(), "x");
    db.write(batch, terrace::Durability::Buffered).unwrap();
    let now = hot.get_many(&["a", "b"]).unwrap();
    assert_eq!(now, [Some(b"5".to_vec()), Some(b"8".to_vec())]);
}

/// A writer has looked who watches its key before a range begins to be watched, and changes it later: it is waited
/// for before anything of the range is read, so what is read after it is of the same state.
pub fn writers_under_way_are_waited_for() {
    let (db, tree) = database();
    let (inside, came) = std::sync::mpsc::channel();
    let writer = tree.clone();
    let writing = std::thread::spawn(move || {
        terrace_tier::fault::hook(Some(Box::new(move |point| {
            if point == terrace_tier::fault::Point::Told && inside.send(()).is_ok() {
                // However long it takes it is waited for; who does not wait has read by then.
                std::thread::sleep(Duration::from_millis(300));
            }
        })));
        writer.put("d", "new").unwrap();
        terrace_tier::fault::hook(None);
    });
    came.recv().unwrap();
    let mut first = db.begin(TransactionOptions::new());
    let count = first.range(&tree, "a".."m").unwrap().count();
    let found = first.get(&tree, "d").unwrap();
    writing.join().unwrap();
    assert_eq!((count, found.as_deref()), (4, Some(&b"new"[..])));
    first.put(&tree, "x", "four").unwrap();
    first.commit().unwrap();
}

/// A record comes into a range while its first record is read.
pub fn watched_before_it_is_read() {
    let (db, tree, hook) = out_of_memory();
    let writer = tree.clone();
    // Far from the first record, whose page is being read.
    let new = [&15_000u32.to_be_bytes()[..], b"new"].concat();
    let change = move || writer.put(&new, "new").unwrap();
    assert!(hook.set(Box::new(change)).is_ok());
    let mut first = db.begin(TransactionOptions::new());
    let (from, to) = (100u32.to_be_bytes(), 16_000u32.to_be_bytes());
    let record = first.range(&tree, from..to).map(|mut range| range.next());
    assert!(!matches!(record, Ok(None)));
    first.put(&tree, 100u32.to_be_bytes(), "x").ok();
    refused(first.commit());
}

/// What another thread says of a write that was asked of it: that it is done, or that it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Said {
    Done,
    Waits,
}

/// A thread that writes when it is asked to, and says what becomes of it.
fn a_writer(write: impl Fn(u32) + Send + 'static) -> (mpsc::Sender<u32>, mpsc::Receiver<Said>) {
    let (ask, asked) = mpsc::channel::<u32>();
    let (say, said) = mpsc::channel();
    std::thread::spawn(move || {
        let waits = say.clone();
        terrace_tier::fault::hook(Some(Box::new(move |point| {
            if point == terrace_tier::fault::Point::HeldUp {
                let _ = waits.send(Said::Waits);
            }
        })));
        while let Ok(n) = asked.recv() {
            write(n);
            if say.send(Said::Done).is_err() {
                return;
            }
        }
    });
    (ask, said)
}

/// Whatever it reads is written by another thread before it commits, until it has the fairness lock: then who writes
/// waits. By a put, by a batch, by a row with an index, by another transaction; of records, of a range, of very many.
pub fn who_was_often_too_late_gets_its_turn() {
    for (way, read) in [(0, 0), (1, 1), (2, 0), (3, 2), (0, 2)] {
        let (db, tree) = database();
        let index = Index::on("first", KeySource::bytes(0..1));
        let rows = db
            .table_with("rows", TableOptions::new().index(index))
            .unwrap();
        let map: Map = if way == 2 {
            (*rows).clone()
        } else {
            (*tree).clone()
        };
        let (of, on) = (db.clone(), map.clone());
        let (ask, said) = a_writer(move |n| {
            let value = encode::u64(u64::from(n));
            match way {
                0 | 2 => on.put("a", value).unwrap(),
                1 => {
                    let mut batch = of.batch();
                    batch.put(&on, "a", value).put(&on, "other", value);
                    of.write(batch, terrace::Durability::Buffered).unwrap();
                }
                _ => of.transaction(|t| t.put(&on, "a", value)).unwrap(),
            }
        });
        let (mut runs, mut held_up) = (0, false);
        db.transaction(|t| {
            runs += 1;
            match read {
                0 => drop(t.get(&map, "a")?),
                1 => drop(t.range(&map, "a".."c")?.next().transpose()?),
                _ => {
                    for n in 0..500u32 {
                        t.get(&map, n.to_be_bytes())?;
                    }
                    t.get(&map, "a")?;
                }
            }
            // What is asked while it waits is written later.
            if !held_up {
                ask.send(runs).unwrap();
                held_up = said.recv().unwrap() == Said::Waits;
            }
            t.put(&map, "sum", encode::u64(u64::from(runs)))
        })
        .unwrap();
        assert!(held_up && runs > 8, "way {way}, {runs} runs");
        assert_eq!(said.recv(), Ok(Said::Done));
        assert!(map.get("sum").unwrap().is_some());
    }
}

/// Two take the first record of a queue, the second one while the first has not ended: it waits, and both get one at
/// their first attempt.
pub fn first_records_are_taken_in_turn() {
    let (db, tree) = database();
    terrace_tier::fault::let_claims_last(true);
    let (of, on) = (db.clone(), tree.clone());
    let (ask, said) = a_writer(move |_| {
        let taken = of.transaction(|t| t.pop_first(&on)).unwrap();
        assert_eq!(taken.unwrap().0, b"b");
    });
    let taken = db
        .transaction(|t| {
            let first = t.pop_first(&tree)?;
            ask.send(0).unwrap();
            assert_eq!(said.recv(), Ok(Said::Waits));
            // Who adds behind it is in no one's way.
            tree.put("z", "new")?;
            Ok::<_, Error>(first)
        })
        .unwrap();
    terrace_tier::fault::let_claims_last(false);
    assert_eq!(taken.unwrap().0, b"a");
    assert_eq!(said.recv(), Ok(Said::Done));
    assert_eq!(db.stats().transactions.conflicts, 0);
    let left: Vec<_> = tree.iter().unwrap().map(|r| r.unwrap().0).collect();
    assert_eq!(left, [b"c", b"z"]);
}

/// Going back to a savepoint takes back what came after it, and nothing else.
pub fn savepoints() {
    let (db, tree) = database();
    let mut t = db.begin(TransactionOptions::new());
    t.put(&tree, "a", "1").unwrap();
    let outer = t.savepoint();
    t.put(&tree, "a", "2").unwrap();
    t.delete(&tree, "b").unwrap();
    let inner = t.savepoint();
    t.merge(&tree, "n", Merge::Add(5)).unwrap();
    assert_eq!(t.get(&tree, "n").unwrap(), Some(encode::i64(5).to_vec()));
    t.rollback_to(&outer).unwrap();
    assert!(t.rollback_to(&inner).is_err());
    // Also when as much has come since as there was.
    t.put(&tree, "b", [9; 300]).unwrap();
    t.put(&tree, "c", "z").unwrap();
    assert!(t.rollback_to(&inner).is_err());
    t.rollback_to(&outer).unwrap();
    assert_eq!(t.get(&tree, "a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(t.get(&tree, "b").unwrap().is_some());
    t.merge(&tree, "m", Merge::Add(2)).unwrap();
    t.commit().unwrap();
    assert_eq!(tree.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    assert!(tree.get("b").unwrap().is_some());
    assert_eq!(tree.get("n").unwrap(), None);
    assert_eq!(tree.get("m").unwrap(), Some(encode::i64(2).to_vec()));
}

/// All of them.
pub const ALL: [(&str, fn()); 18] = [
    ("lost update", lost_update),
    ("write skew", write_skew),
    ("phantom", phantom),
    ("zombies", no_zombies),
    ("zombies among many reads", no_zombies_among_many_reads),
    (
        "errors of what was never together",
        errors_of_what_was_never_together_are_conflicts,
    ),
    (
        "errors of what was so in between",
        errors_of_what_was_so_in_between_are_none,
    ),
    ("others do not disturb", others_do_not_disturb),
    ("reads what it writes", reads_what_it_writes),
    ("held locks are waited for", held_locks_are_waited_for),
    ("reads wait for writers", reads_wait_for_writers),
    (
        "validated at the last instant",
        validated_at_the_last_instant,
    ),
    ("watched before it is read", watched_before_it_is_read),
    (
        "writers under way are waited for",
        writers_under_way_are_waited_for,
    ),
    ("kept values are validated", kept_values_are_validated),
    (
        "who was often too late gets its turn",
        who_was_often_too_late_gets_its_turn,
    ),
    (
        "first records are taken in turn",
        first_records_are_taken_in_turn,
    ),
    ("savepoints", savepoints),
];
