//! Calls as futures answer as calls do, take a thread only for what memory does not answer, and may be dropped at any
//! instant.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::mpsc::{Sender, channel};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::expiry::{BEGIN, Hands, at};
use crate::common::{SHAPES, create, named, tiny};
use terrace::{
    Batch, Change, ChangesOptions, Database, Durability, Error, Expires, Kind, MapOptions, Merge,
    Tiers, aio,
};
use terrace_sim::SimDisk;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap()
}

fn database(disk: &SimDisk) -> Database {
    Database::open_on(disk.shared(), tiny(1)).unwrap()
}

/// One poll.
fn polled<F: Future>(future: F) -> Poll<F::Output> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Takes the only place for calls; no call has it any more once what this returns is dropped.
fn held(runtime: &Runtime, db: &aio::Database) -> Sender<()> {
    let (hold, until) = channel::<()>();
    let (begun, begins) = channel();
    let other = db.clone();
    runtime.spawn(async move {
        other
            .run(move |_| {
                begun.send(()).unwrap();
                let _ = until.recv();
                Ok(())
            })
            .await
    });
    begins.recv().unwrap();
    hold
}

/// Until all calls that were begun have ended.
fn at_rest(db: &aio::Database) {
    while db.free_places() == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn key(i: u32) -> Vec<u8> {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec()
}

#[test]
fn only_what_memory_does_not_answer_takes_a_thread() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    let db = database(&disk);
    let tree = db.tree("a").unwrap();
    (0..20_000).for_each(|i| tree.put(key(i), [7; 100]).unwrap());
    let cold = |i: &u32| {
        let answer = tree.get_if_resident(key(*i), &mut Vec::new());
        answer.unwrap().is_none()
    };
    let cold: Vec<u8> = key((0..20_000).find(cold).unwrap());
    let hot = key(19_999);
    tree.get(&hot).unwrap();

    let all = aio::Database::with_threads(db, 1).unwrap();
    let map = all.map(&tree);
    let hold = held(&runtime, &all);
    let Poll::Ready(value) = polled(map.get(&hot)) else {
        panic!("it waits for a thread");
    };
    assert_eq!(value.unwrap(), Some(vec![7; 100]));
    assert!(polled(map.get_many(&[&hot, &hot])).is_ready());
    assert!(polled(map.contains_key(&hot)).is_ready());
    assert!(polled(map.get(&cold)).is_pending());
    assert!(polled(map.get_many(&[&hot, &cold])).is_pending());
    drop(hold);
    let values = runtime.block_on(map.get_many(&[&cold, &hot, &b"none".to_vec()]));
    assert_eq!(
        values.unwrap(),
        [Some(vec![7; 100]), Some(vec![7; 100]), None]
    );
}

#[test]
fn who_has_no_thread_yet_has_done_nothing_and_who_had_one_all() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let _inside = runtime.enter();
    let db = database(&disk);
    let (one, two) = (db.tree("one").unwrap(), db.hash("two").unwrap());
    let all = aio::Database::with_threads(db, 1).unwrap();
    let (a, b) = (all.map(&one), all.map(&two));

    type Calls<'c> = Vec<(&'c str, Box<dyn Fn() -> Poll<()> + 'c>)>;
    let both = |value: &str| {
        let mut batch = Batch::default();
        batch.put(&one, "k", value);
        batch.put(&two, "k", value);
        batch
    };
    let calls: Calls<'_> = vec![
        ("put", Box::new(|| polled(a.put("k", "1")).map(|_| ()))),
        ("delete", Box::new(|| polled(a.delete("k")).map(|_| ()))),
        (
            "insert",
            Box::new(|| polled(a.insert("k", "2")).map(|_| ())),
        ),
        ("remove", Box::new(|| polled(a.remove("k")).map(|_| ()))),
        (
            "merge",
            Box::new(|| polled(b.merge("k", Merge::Add(1))).map(|_| ())),
        ),
        (
            "write",
            Box::new(|| polled(all.write(both("3"), Durability::Sync)).map(|_| ())),
        ),
        (
            "transaction",
            Box::new(|| {
                let (one, two) = (one.clone(), two.clone());
                let call = all.transaction(move |t| {
                    t.put(&one, "k", "4")?;
                    t.put(&two, "k", "4")
                });
                polled(call).map(|_| ())
            }),
        ),
    ];
    let state = || (one.get("k").unwrap(), two.get("k").unwrap());
    for (name, call) in calls {
        let before = state();
        let hold = held(&runtime, &all);
        assert!(call().is_pending(), "{name}");
        drop(hold);
        at_rest(&all);
        assert_eq!(state(), before, "{name} without a thread");
        let _ = call();
        at_rest(&all);
        assert_ne!(state(), before, "{name} with one");
    }
    let four = Some(b"4".to_vec());
    assert_eq!(state(), (four.clone(), four));
}

#[test]
fn streams_give_each_record_once_whoever_drops_their_futures() {
    let runtime = runtime();
    for shape in SHAPES {
        let (disk, name) = (SimDisk::new(1), named(shape));
        let db = database(&disk);
        let map = create(&db, "map", shape, MapOptions::new()).unwrap();
        let mut model = BTreeMap::new();
        for i in 0..5000u32 {
            map.put(key(i), i.to_le_bytes()).unwrap();
            model.insert(key(i), i.to_le_bytes().to_vec());
        }
        let all = aio::Database::with_threads(db, 1).unwrap();
        let through = |mut records: aio::Records| {
            let mut seen = Vec::new();
            // At least the first future is dropped while it waits.
            let mut hold = Some(held(&runtime, &all));
            loop {
                let next = {
                    let _inside = runtime.enter();
                    polled(records.next())
                };
                match next {
                    Poll::Pending => {
                        hold = None;
                        std::thread::yield_now();
                    }
                    Poll::Ready(Some(record)) => seen.push(record.unwrap()),
                    Poll::Ready(None) => break,
                }
            }
            assert!(hold.is_none(), "{name}");
            seen
        };
        let seen = through(all.map(&map).iter());
        assert_eq!(seen.len(), model.len(), "{name}");
        assert_eq!(BTreeMap::from_iter(seen), model, "{name}");
        let (low, high) = (vec![20], vec![30, 5]);
        let range = all.map(&map).range(low.clone()..high.clone());
        if shape.0 == Kind::Hash {
            let mut range = range;
            let error = runtime.block_on(range.next()).unwrap().unwrap_err();
            assert!(error.to_string().contains("no order"), "{error}");
            assert!(runtime.block_on(range.next()).is_none());
        } else {
            let expected = model.range(low..high);
            let expected: Vec<_> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(through(range), expected, "{name}");
            let expected = model.range(vec![77]..vec![78]);
            let expected: Vec<_> = expected.map(|(k, v)| (k.clone(), v.clone())).collect();
            assert_eq!(through(all.map(&map).prefix([77])), expected, "{name}");
        }
    }
}

/// A stream that waits for a place and is not asked any more keeps none from others, though it lives on.
#[test]
fn a_stream_that_nobody_asks_keeps_no_place() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let all = aio::Database::with_threads(database(&disk), 1).unwrap();
    let map = all.map(&all.get_ref().tree("a").unwrap());
    let mut records = map.iter();
    let hold = held(&runtime, &all);
    {
        let _inside = runtime.enter();
        assert!(polled(records.next()).is_pending());
    }
    drop(hold);
    // It would wait for ever behind the stream.
    runtime.block_on(map.put("k", "v")).unwrap();
    assert!(all.get_ref().tree("a").unwrap().get("k").unwrap().is_some());
    drop(records);
}

/// A verification stops all calls, and tells how far it is on its own thread: there a read that waited would never end.
#[test]
fn a_read_of_memory_does_not_wait_for_a_verification() {
    let disk = SimDisk::new(1);
    let db = database(&disk);
    let tree = db.tree("a").unwrap();
    (0..500).for_each(|i| tree.put(key(i), [7; 100]).unwrap());
    let resident = || {
        let answer = tree.get_if_resident(key(499), &mut Vec::new());
        answer.unwrap()
    };
    assert_eq!(resident(), Some(true));
    let mut told = 0;
    let report = db.verify_with(|_| {
        told += 1;
        assert_eq!(resident(), None);
    });
    assert!(report.unwrap().is_clean() && told > 0);
    assert_eq!(resident(), Some(true));
}

#[test]
fn the_feed_is_a_stream_that_leaves_no_commit_out() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let all = aio::Database::with_threads(database(&disk), 1).unwrap();
    let tree = all.get_ref().tree("a").unwrap();
    let mut changes = runtime
        .block_on(all.changes(ChangesOptions::new()))
        .unwrap();
    let mut next = 0u32;
    for i in 0..200u32 {
        tree.put_with(i.to_be_bytes(), "x", Durability::Sync)
            .unwrap();
        let commit = loop {
            let next = {
                let _inside = runtime.enter();
                polled(changes.next())
            };
            match next {
                Poll::Pending => std::thread::yield_now(),
                Poll::Ready(commit) => break commit.unwrap().unwrap(),
            }
        };
        for change in commit.changes() {
            let Change::Put { key, .. } = change else {
                panic!("{change:?}");
            };
            assert_eq!(key, next.to_be_bytes());
            next += 1;
        }
        assert_eq!(changes.place(), commit.place());
    }
    assert_eq!(next, 200);
    // It takes none of the places for calls.
    assert_eq!(all.free_places(), 1);
    drop(changes);
    let ended = runtime.block_on(async {
        let options = ChangesOptions::new().until_now();
        all.changes(options).await.unwrap().next().await
    });
    assert!(ended.is_none());
}

#[test]
fn records_expire_and_ranges_go_as_by_plain_calls() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let hands = Hands::new();
    let db = Database::open_on(disk.shared(), tiny(1).clock(hands.clone())).unwrap();
    let tree = db.tree_with("a", MapOptions::new().expiring()).unwrap();
    let plain = db.hash("plain").unwrap();
    let all = aio::Database::with_threads(db, 1).unwrap();
    let (map, plain) = (all.map(&tree), all.map(&plain));
    let wait = runtime.handle().clone();
    let of = |key: &'static str| wait.block_on(map.expires(key)).unwrap();
    let minute = Duration::from_secs(60);
    wait.block_on(map.put_for("a", "1", minute)).unwrap();
    wait.block_on(map.put_until("b", "2", at(BEGIN + 5)))
        .unwrap();
    assert_eq!(of("a"), Some(Expires::At(at(BEGIN + 60_000))));
    assert_eq!(of("b"), Some(Expires::At(at(BEGIN + 5))));
    assert_eq!(of("c"), None);
    assert!(wait.block_on(map.expire_in("a", None)).unwrap());
    assert_eq!(of("a"), Some(Expires::Never));
    hands.pass(5);
    // No read sees it, by memory or by a thread, and no call can have it stay.
    assert_eq!(wait.block_on(map.get("b")).unwrap(), None);
    assert_eq!(of("b"), None);
    assert!(!wait.block_on(map.expire_in("b", Some(minute))).unwrap());
    assert!(wait.block_on(map.expire_in("a", Some(minute))).unwrap());
    hands.pass(60_000);
    assert_eq!(wait.block_on(map.get("a")).unwrap(), None);
    assert!(wait.block_on(plain.put_for("a", "1", minute)).is_err());
    // One that has no thread yet has done nothing.
    let hold = held(&runtime, &all);
    {
        let _inside = runtime.enter();
        assert!(polled(map.put_for("a", "2", minute)).is_pending());
    }
    drop(hold);
    at_rest(&all);
    assert_eq!(tree.get("a").unwrap(), None);
    (0..20u8).for_each(|n| tree.put([n], [n]).unwrap());
    wait.block_on(map.delete_range([5]..[15])).unwrap();
    assert_eq!(tree.iter().unwrap().count(), 10);
    let refused = wait.block_on(plain.delete_range([5]..[15])).unwrap_err();
    assert!(refused.to_string().contains("remove_range"), "{refused}");
}

#[test]
fn mistakes_are_errors_and_panics_are_the_callers() {
    let (runtime, disk) = (runtime(), SimDisk::new(1));
    let db = database(&disk);
    assert!(aio::Database::with_threads(db.clone(), 0).is_err());
    let map = MapOptions::new().tiers(Tiers::One);
    let map = db.create_map("a", Kind::Tree, map).unwrap();
    let all = aio::Database::with_threads(db, 1).unwrap();
    // Outside of a runtime.
    let Poll::Ready(Err(error)) = polled(all.map(&map).put("k", "v")) else {
        panic!("it has an answer");
    };
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    assert!(error.to_string().contains("Tokio"), "{error}");
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        runtime.block_on(all.run(|_| -> terrace::Result<()> { panic!("of a closure") }))
    }));
    assert_eq!(
        panic.unwrap_err().downcast_ref::<&str>(),
        Some(&"of a closure")
    );
    // The place is free again, and a call of a database that is closed is told so.
    assert_eq!(all.free_places(), 1);
    runtime.block_on(all.map(&map).put("k", "v")).unwrap();
    let tree = all.map(&map);
    drop(map);
    runtime.block_on(all.close()).unwrap();
    assert!(runtime.block_on(tree.put("k", "v")).is_err());
}
