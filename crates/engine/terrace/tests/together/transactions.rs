//! Transactions are serializable, in the order of the log; each anomaly by itself, and many at random.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::common::lists::{Anomaly, Bed, Op, Transaction as Listed, anomaly};
use crate::common::{anomalies, tiny, transactions as histories};
use terrace::{
    Database, Durability, Error, Index, KeySource, MapOptions, Merge, TableOptions, Tiers,
    TransactionOptions, encode,
};
use terrace_sim::{Call, Fault, HookedDisk, Injection, SimDisk};

#[test]
fn no_anomaly_happens() {
    for (name, anomaly) in anomalies::ALL {
        println!("{name}");
        anomaly();
    }
}

#[test]
fn histories_of_threads_are_those_of_the_log_order() {
    for seed in 0..2 * crate::common::factor() {
        histories::check(seed, 120).unwrap();
    }
}

/// Many short ones, in which more begins at the same time.
#[test]
fn short_histories_are_those_of_the_log_order() {
    for seed in 0..2 * crate::common::factor() {
        let mut bed = histories::Bed::new(seed);
        for history in 0..SHORT_HISTORIES {
            bed.history(seed * SHORT_HISTORIES + history, 3).unwrap();
        }
        bed.finish(seed).unwrap();
    }
}

/// Short histories of one database.
const SHORT_HISTORIES: u64 = 100;

#[test]
fn histories_of_lists_have_no_cycles() {
    for seed in 0..2 {
        let bed = Bed::new(seed);
        for history in 0..25 * crate::common::factor() {
            bed.check(history, 6).unwrap();
        }
    }
}

/// Histories in which something is wrong, each of another kind, and the same without.
#[test]
fn the_search_for_cycles_finds_each_anomaly() {
    use Op::{Append, Read};
    let when = |began, ended, ops: &[Op]| Listed {
        ops: ops.to_vec(),
        began,
        ended,
    };
    // All at the same time.
    let done = |ops: &[Op]| when(0, 9, ops);
    let last = |lists: &[(u8, &[u32])]| lists.iter().map(|(l, of)| (*l, of.to_vec())).collect();
    let both = last(&[(0, &[1, 2]), (1, &[3, 4])]);
    let crossed = last(&[(0, &[1, 2]), (1, &[4, 3])]);
    let writers = [
        done(&[Append(0, 1), Append(1, 3)]),
        done(&[Append(0, 2), Append(1, 4)]),
    ];
    assert_eq!(anomaly(&writers, &both), None);
    // G0: each has written behind the other.
    assert_eq!(anomaly(&writers, &crossed), Some(Anomaly::OfWriters));
    // G1c: each has read what the other has written.
    let one = last(&[(0, &[1]), (1, &[2])]);
    let circle = [
        done(&[Append(0, 1), Read(1, vec![2])]),
        done(&[Append(1, 2), Read(0, vec![1])]),
    ];
    assert_eq!(anomaly(&circle, &one), Some(Anomaly::OfReads));
    let line = [
        done(&[Append(0, 1), Read(1, vec![])]),
        done(&[Append(1, 2), Read(0, vec![1])]),
    ];
    assert_eq!(anomaly(&line, &one), None);
    // G2: write skew, and a lost update.
    let skew = [
        done(&[Read(1, vec![]), Append(0, 1)]),
        done(&[Read(0, vec![]), Append(1, 2)]),
    ];
    assert_eq!(anomaly(&skew, &one), Some(Anomaly::OfMissed));
    let lost = [
        done(&[Read(0, vec![]), Append(0, 1)]),
        done(&[Read(0, vec![]), Append(0, 2)]),
    ];
    let of_two = last(&[(0, &[1, 2])]);
    assert_eq!(anomaly(&lost, &of_two), Some(Anomaly::OfMissed));
    // Two readers who have seen two writers in different orders.
    let split = [
        done(&[Append(0, 1)]),
        done(&[Append(1, 2)]),
        done(&[Read(0, vec![1]), Read(1, vec![])]),
        done(&[Read(0, vec![]), Read(1, vec![2])]),
    ];
    assert_eq!(anomaly(&split, &one), Some(Anomaly::OfMissed));
    assert_eq!(anomaly(&split[..3], &one), None);
    // A transaction that began later has not seen it.
    let late = [when(0, 1, &[Append(0, 1)]), when(2, 3, &[Read(0, vec![])])];
    assert_eq!(anomaly(&late, &last(&[(0, &[1])])), Some(Anomaly::OfTime));
    // G1a and G1b: an element of no transaction, one of the middle of a transaction, and one that is gone.
    let nobodys = [done(&[Append(0, 1)]), done(&[Read(0, vec![1, 7])])];
    assert_eq!(
        anomaly(&nobodys, &last(&[(0, &[1])])),
        Some(Anomaly::Unfinished)
    );
    let middle = [
        done(&[Append(0, 1), Append(0, 2)]),
        done(&[Read(0, vec![1])]),
    ];
    assert_eq!(anomaly(&middle, &of_two), Some(Anomaly::Unfinished));
    assert_eq!(
        anomaly(&middle[..1], &last(&[(0, &[1])])),
        Some(Anomaly::NoOneOrder)
    );
    let torn = [
        done(&[Append(0, 1)]),
        done(&[Append(0, 2)]),
        done(&[Read(0, vec![2])]),
    ];
    assert_eq!(anomaly(&torn, &of_two), Some(Anomaly::NoOneOrder));
}

#[test]
fn a_transaction_by_itself_matches_a_model() {
    let mut duplicates = 0;
    for seed in 0..6 * crate::common::factor() {
        duplicates += histories::check_alone(seed, 150).unwrap();
    }
    assert!(duplicates > 0, "no row wanted the key of another one");
}

#[test]
fn closures_that_fail_or_panic_leave_nothing() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let mut runs = 0;
    let failed = db.transaction(|t| {
        runs += 1;
        t.put(&tree, "a", "1")?;
        Err::<(), _>(Error::invalid("no"))
    });
    assert!(matches!(failed, Err(Error::Invalid { .. })) && runs == 1);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.transaction(|t| {
            assert_eq!(t.range(&tree, "a"..)?.count(), 0);
            t.put(&tree, "a", "1")?;
            if runs == 1 {
                panic!("as a program may");
            }
            Ok::<_, Error>(())
        })
    }));
    assert!(panicked.is_err());
    drop({
        let mut t = db.begin(TransactionOptions::new());
        t.put(&tree, "a", "1").unwrap();
        t
    });
    assert!(tree.is_empty().unwrap());
    // The watch of the one that panicked is gone: the list of them never fills.
    for _ in 0..200 {
        db.read(|r| r.range(&tree, "a"..).map(|range| range.count()))
            .unwrap();
    }
    tree.put("b", "2").unwrap();
    // What belongs elsewhere, or does not fit, is said before anything happens.
    let other = Database::open_on(SimDisk::new(2).shared(), tiny(2)).unwrap();
    let foreign = other.tree("t").unwrap();
    let mut t = db.begin(TransactionOptions::new());
    assert!(matches!(t.get(&foreign, "a"), Err(Error::Invalid { .. })));
    assert!(matches!(
        t.put(&tree, [0; 100_000], ""),
        Err(Error::KeyTooLong { .. })
    ));
    let hash = db.hash("h").unwrap();
    assert!(matches!(
        t.range(&hash, "a".."b"),
        Err(Error::Invalid { .. })
    ));
    t.commit().unwrap();
    let none = db.begin(TransactionOptions::new()).commit().unwrap();
    assert_eq!(none.sequence, None);
}

#[test]
fn a_transaction_that_is_always_too_late_is_given_up() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let tree = db.tree("t").unwrap();
    let mut runs = 0u64;
    let options = TransactionOptions::new().attempts(5).label("late");
    let result = db.transaction_with(options, |t| {
        runs += 1;
        t.get(&tree, "a")?;
        tree.put("a", encode::u64(runs))?;
        t.put(&tree, "b", "1")
    });
    let Err(Error::Conflict {
        structure,
        key,
        attempts,
    }) = result
    else {
        panic!("{result:?}");
    };
    assert_eq!(
        (structure.as_str(), &key[..], attempts, runs),
        ("t", &b"a"[..], 5, 5)
    );
    let stats = db.stats().transactions;
    assert_eq!((stats.conflicts, stats.given_up), (5, 1));
    assert_eq!(stats.last_conflicts[0].label, "late");
    assert_eq!(tree.get("b").unwrap(), None);
}

#[test]
fn merges_are_worked_out_in_order_or_not_at_all() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    for name in ["tree", "hash"] {
        let map = match name {
            "tree" => db.map(db.tree(name).unwrap().name().as_str()).unwrap(),
            _ => db.map(db.hash(name).unwrap().name().as_str()).unwrap(),
        };
        map.put("old", encode::i64(10)).unwrap();
        let mut batch = db.batch();
        batch
            .merge(&map, "old", Merge::Add(1))
            .put(&map, "n", encode::i64(5))
            .merge(&map, "n", Merge::Add(2))
            .merge(&map, "gone", Merge::Add(2))
            .delete(&map, "gone")
            .merge(&map, "new", Merge::Add(3))
            .merge(&map, "new", Merge::Add(4));
        db.write(batch, Durability::Sync).unwrap();
        let number = |key: &str| map.get(key).unwrap().and_then(|v| encode::to_i64(&v));
        assert_eq!(
            ["old", "n", "gone", "new"].map(number),
            [Some(11), Some(7), None, Some(7)]
        );
        map.put("text", "abc").unwrap();
        let mut batch = db.batch();
        batch.put(&map, "x", "1").merge(&map, "text", Merge::Add(1));
        assert!(matches!(
            db.write(batch, Durability::Sync),
            Err(Error::Invalid { .. })
        ));
        assert!(matches!(
            map.merge("text", Merge::Add(1)),
            Err(Error::Invalid { .. })
        ));
        assert_eq!(
            (number("x"), map.get("text").unwrap()),
            (None, Some(b"abc".to_vec()))
        );
        assert_eq!(
            map.get_many(&["n", "none", "n", "text"]).unwrap(),
            [
                map.get("n").unwrap(),
                None,
                map.get("n").unwrap(),
                Some(b"abc".to_vec())
            ]
        );
    }
}

/// While others change its keys all the time, a batch of more merges than could ever be read and locked between
/// two of their changes goes through, and no other change is lost.
#[test]
fn a_batch_of_very_many_merges_goes_through_among_writers() {
    const KEYS: u32 = 1000;
    for (tiers, logged) in [(Tiers::Two, true), (Tiers::One, true), (Tiers::Two, false)] {
        let options = tiny(1)
            .memory(4 << 20)
            .log_limit(1 << 20)
            .log_segment(128 << 10);
        let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
        let options = MapOptions::new().tiers(tiers).logged(logged);
        let tree = db.tree_with("t", options).unwrap();
        let list = |n: u8| Merge::Append {
            bytes: vec![n],
            limit: 100_000,
        };
        let (stop, begun) = (AtomicBool::new(false), AtomicBool::new(false));
        let added: u64 = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..2)
                .map(|writer| {
                    let (tree, stop, begun) = (&tree, &stop, &begun);
                    scope.spawn(move || {
                        let mut added = 0;
                        while !stop.load(Ordering::Relaxed) {
                            for key in 0..KEYS / 2 {
                                let key = 2 * key + writer;
                                tree.merge(key.to_be_bytes(), Merge::AddUnsigned(1))
                                    .unwrap();
                                added += 1;
                            }
                            tree.merge("list", list(9)).unwrap();
                            begun.store(true, Ordering::Relaxed);
                        }
                        added
                    })
                })
                .collect();
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            for _ in 0..4 {
                let mut batch = db.batch();
                for key in 0..KEYS {
                    batch.merge(&tree, key.to_be_bytes(), Merge::AddUnsigned(1));
                }
                batch.merge(&tree, "list", list(1));
                db.write(batch, Durability::Buffered).unwrap();
                // As part of a transaction, too, which nothing that it has read refuses.
                db.transaction_with(TransactionOptions::new().attempts(1), |t| {
                    (0..KEYS).try_for_each(|key| {
                        t.merge(&tree, key.to_be_bytes(), Merge::AddUnsigned(1))
                    })
                })
                .unwrap();
            }
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().map(|w| w.join().unwrap()).sum()
        });
        let sum: u64 = (0..KEYS)
            .map(|key| encode::to_u64(&tree.get(key.to_be_bytes()).unwrap().unwrap()).unwrap())
            .sum();
        assert_eq!(sum, added + 8 * u64::from(KEYS));
        let list = tree.get("list").unwrap().unwrap();
        assert_eq!(list.iter().filter(|n| **n == 1).count(), 4);
    }
}

/// Cuts the power at each call of a short script, and at many of a longer one: each transaction moves one from
/// one of two counters to the other and says in a third which it was, so a torn one shows, and so does a gap;
/// and it gives a row the only key that another one gives up.
#[test]
fn a_power_cut_leaves_whole_transactions() {
    for seed in 0..2 {
        every_cut(seed, 8, 1, 1);
        every_cut(seed, 120, 20 + seed, 13);
    }
}

/// Cuts the power at each `step`th call from `first` on of a script of `transactions` transactions.
fn every_cut(seed: u64, transactions: i64, first: u64, step: u64) {
    let mut n = first;
    loop {
        let disk = SimDisk::new(seed);
        disk.set_lending(n.is_multiple_of(2));
        disk.inject(Injection::any(n, Fault::PowerCut));
        let synced = transfers(&disk, seed, transactions);
        if disk.is_powered() {
            assert!(n > first && synced > 0);
            return;
        }
        let found = disk.crash(n);
        let db = Database::open_on(found.shared(), tiny(seed)).unwrap();
        let at = format!("seed {seed}, call {n} of {transactions} transactions");
        let number = |value: Option<Vec<u8>>| value.and_then(|v| encode::to_i64(&v)).unwrap_or(0);
        let (tree, hash) = (db.tree("t").unwrap(), db.hash("h").unwrap());
        let lsm = db.lsm("l").unwrap();
        let (a, b) = (
            number(tree.get("a").unwrap()),
            number(hash.get("b").unwrap()),
        );
        let done = number(tree.get("n").unwrap());
        assert_eq!((a, b), (-done, done), "{at}");
        assert_eq!(lsm.iter().unwrap().count() as i64, done, "{at}");
        assert!(done >= synced, "{at}: {done} of {synced}");
        if done > 0 {
            let rows = db.table("r").unwrap();
            let holder = encode::i64((done - 1) % 2).to_vec();
            let held: Vec<_> = rows
                .index("only")
                .unwrap()
                .get("the one")
                .unwrap()
                .collect();
            assert_eq!(held.len(), 1, "{at}");
            assert_eq!(held[0].as_ref().unwrap().0, holder, "{at}");
        }
        assert!(db.verify().unwrap().problems.is_empty(), "{at}");
        n += step;
    }
}

/// How many transactions were acknowledged as durable before the power went.
fn transfers(disk: &SimDisk, seed: u64, transactions: i64) -> i64 {
    let mut synced = 0;
    let run = || -> Result<(), Error> {
        let db = Database::open_on(disk.shared(), tiny(seed))?;
        let (tree, hash, lsm) = (db.tree("t")?, db.hash("h")?, db.lsm("l")?);
        let only = Index::on("only", KeySource::bytes(0..7)).unique();
        let rows = db.table_with("r", TableOptions::new().index(only))?;
        for i in 1..=transactions {
            let durability = if i % 3 == 0 {
                Durability::Sync
            } else {
                Durability::Buffered
            };
            let options = TransactionOptions::new().durability(durability);
            db.transaction_with(options, |t| {
                let n = t
                    .get(&tree, "n")?
                    .and_then(|v| encode::to_i64(&v))
                    .unwrap_or(0);
                t.put(&tree, "n", encode::i64(n + 1))?;
                t.merge(&tree, "a", Merge::Add(-1))?;
                t.merge(&hash, "b", Merge::Add(1))?;
                t.put(&lsm, encode::i64(n), [7; 100])?;
                t.delete(&rows, encode::i64((n + 1) % 2))?;
                t.put(&rows, encode::i64(n % 2), "the one has it")?;
                t.put(&tree, encode::i64(n), [7; 200])
            })?;
            if durability == Durability::Sync {
                synced = i;
            }
        }
        db.checkpoint()?;
        Ok(())
    };
    let mut run = run;
    let _ = run();
    synced
}

/// Many reads become a watch over their range; what then changes there is noticed.
#[test]
fn very_many_reads_are_watched_together() {
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    for map in [
        (*db.tree("t").unwrap()).clone(),
        (*db.hash("h").unwrap()).clone(),
    ] {
        let mut model = BTreeMap::new();
        for i in 0..6000u32 {
            map.put(i.to_be_bytes(), [i as u8]).unwrap();
            model.insert(i, i as u8);
        }
        let mut t = db.begin(TransactionOptions::new());
        for (key, value) in &model {
            assert_eq!(t.get(&map, key.to_be_bytes()).unwrap(), Some(vec![*value]));
        }
        map.put(17u32.to_be_bytes(), "x").unwrap();
        t.put(&map, "new", "1").ok();
        assert!(matches!(t.commit(), Err(Error::Conflict { .. })));
    }
}

#[test]
fn many_cold_records_are_read_together() {
    for tiers in [Tiers::One, Tiers::Two] {
        let most = Arc::new(AtomicUsize::new(0));
        let seen = most.clone();
        let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
            if let Call::ReadTogether("data", reads) = call {
                seen.fetch_max(reads, Ordering::SeqCst);
            }
        });
        let db = Database::open_on(Arc::new(disk), tiny(1)).unwrap();
        let options = MapOptions::new().tiers(tiers);
        let tree = db.create_tree("t", options).unwrap();
        for i in 0..20_000u32 {
            tree.put(i.to_be_bytes(), i.to_le_bytes().repeat(25))
                .unwrap();
        }
        db.checkpoint().unwrap();
        // Far from each other, in no order, twice the same, and some that are not there.
        let keys: Vec<[u8; 4]> = (0..200u32)
            .map(|i| (i % 150 * 7919 % 21_000).to_be_bytes())
            .collect();
        most.store(0, Ordering::SeqCst);
        let values = tree.get_many(&keys).unwrap();
        assert!(most.load(Ordering::SeqCst) >= 8, "{tiers:?}");
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value, tree.get(key).unwrap());
        }
    }
}
