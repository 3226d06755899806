//! Each workload on each engine, and its oracle afterwards. And that the oracles find what is wrong.

use std::time::Duration;

use terrace::Tiers;
use terrace_oltp::drive::{Course, Outcome, run};
use terrace_oltp::engines::anti::{AntiCache, Way};
use terrace_oltp::engines::rows::{Maps, Rows};
use terrace_oltp::engines::terrace::Tables;
use terrace_oltp::tpcc::{self, table};
use terrace_oltp::txn::{Engine, Span};
use terrace_oltp::work::Work;
use terrace_oltp::{articles, voter, ycsb};

fn tiny() -> tpcc::Size {
    tpcc::Size {
        warehouses: 2,
        districts: 3,
        customers: 30,
        items: 200,
    }
}

fn works() -> Vec<Work> {
    let plan = |operation, skew| {
        Work::Ycsb(ycsb::Plan {
            rows: 2000,
            bytes: 100,
            skew,
            operation,
        })
    };
    vec![
        Work::Tpcc(tiny()),
        Work::Voter(50),
        Work::Articles(articles::Size {
            articles: 60,
            users: 10,
        }),
        plan(ycsb::Operation::Change, ycsb::Skew::Zipf(0.9)),
        plan(ycsb::Operation::Range, ycsb::Skew::Hotspot(0.2)),
    ]
}

fn course(transactions: u64) -> Course {
    Course {
        clients: 2,
        time: Duration::from_secs(600),
        transactions,
        seed: 1,
        watch: false,
    }
}

/// Loads, runs, checks.
fn whole(engine: &dyn Engine, work: &Work, transactions: u64) -> Outcome {
    work.load(engine).unwrap();
    work.check(engine, 0).unwrap();
    let outcome = run(engine, work, course(transactions));
    assert_eq!(outcome.ended, None, "{}", work.name());
    assert!(outcome.done >= transactions, "{}", work.name());
    let order = 0.1 < outcome.p50 && outcome.p50 <= outcome.p99 && outcome.p99 <= outcome.longest;
    assert!(order, "{}: latencies of {outcome:?}", work.name());
    work.check(engine, outcome.changed).unwrap();
    outcome
}

#[test]
fn all_workloads_keep_their_conditions_on_tables_of_the_engine() {
    for work in works() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Tables::open(dir.path(), 32 << 20, work.schema(), Tiers::Two).unwrap();
        let engine = open();
        let outcome = whole(&engine, &work, 600);
        engine.database().clone().close().unwrap();
        drop(engine);
        // And after it was closed and opened.
        work.check(&open(), outcome.changed).unwrap();
    }
}

/// Changes a row behind the back of the workload.
fn spoil(engine: &dyn Engine, table: usize, change: &dyn Fn(&mut Vec<u8>)) {
    engine
        .transact(&[0], &mut |t| {
            t.on(0);
            let (key, mut row) = t.range(table, Span::first(&[], &[0xff; 9]))?.remove(0);
            change(&mut row);
            t.put(table, &key, &row)
        })
        .unwrap();
}

#[test]
fn the_conditions_of_tpcc_find_what_is_wrong() {
    let find = |table: usize, change: &dyn Fn(&mut Vec<u8>), wanted: &str| {
        let dir = tempfile::tempdir().unwrap();
        let engine = Tables::open(dir.path(), 32 << 20, tpcc::schema(), Tiers::Two).unwrap();
        let size = tpcc::Size {
            warehouses: 1,
            ..tiny()
        };
        tpcc::load(&engine, size).unwrap();
        spoil(&engine, table, change);
        let found = tpcc::check(&engine, size).unwrap_err().to_string();
        assert!(found.contains(wanted), "{found}");
    };
    find(
        table::WAREHOUSES,
        &|row| {
            *row = {
                let mut w = tpcc::Warehouse::of(row);
                w.ytd += 1;
                w.bytes()
            }
        },
        "condition 1 ",
    );
    find(
        table::DISTRICTS,
        &|row| {
            *row = {
                let mut d = tpcc::District::of(row);
                d.next_order += 1;
                d.bytes()
            }
        },
        "condition 2 ",
    );
    find(
        table::CUSTOMERS,
        &|row| {
            *row = {
                let mut c = tpcc::Customer::of(row);
                c.balance += 1;
                c.bytes()
            }
        },
        "condition 10 ",
    );
    find(
        table::CUSTOMERS,
        &|row| {
            *row = {
                let mut c = tpcc::Customer::of(row);
                c.ytd_payment += 1;
                c.bytes()
            }
        },
        "condition 12 ",
    );
    find(
        table::CUSTOMERS,
        &|row| {
            *row = {
                let mut c = tpcc::Customer::of(row);
                c.deliveries += 1;
                c.bytes()
            }
        },
        "condition 11 ",
    );
    find(
        table::ORDERS,
        &|row| {
            *row = {
                let mut o = tpcc::Order::of(row);
                o.carrier = 0;
                o.bytes()
            }
        },
        "condition 5 ",
    );
    find(
        table::ORDERS,
        &|row| {
            *row = {
                let mut o = tpcc::Order::of(row);
                o.lines += 1;
                o.bytes()
            }
        },
        "condition 6 ",
    );
    find(
        table::LINES,
        &|row| {
            *row = {
                let mut l = tpcc::Line::of(row);
                l.delivered = 0;
                l.bytes()
            }
        },
        "condition 7 ",
    );
    find(
        table::HISTORY,
        &|row| {
            *row = {
                let mut h = tpcc::History::of(row);
                h.amount += 1;
                h.bytes()
            }
        },
        "condition 10 ",
    );
}

#[test]
fn the_sums_of_the_other_workloads_find_what_is_wrong() {
    for (work, table) in [
        (Work::Voter(50), 2),
        (
            Work::Articles(articles::Size {
                articles: 60,
                users: 10,
            }),
            1,
        ),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let engine = Tables::open(dir.path(), 32 << 20, work.schema(), Tiers::Two).unwrap();
        whole(&engine, &work, 100);
        spoil(&engine, table, &|row| {
            let at = row.len() - 4;
            row[at] ^= 1;
        });
        assert!(work.check(&engine, 0).is_err(), "{}", work.name());
    }
    assert_eq!(voter::CONTESTANTS, 6);
}

#[test]
fn all_workloads_keep_their_conditions_on_rows_in_memory_over_all_maps() {
    for work in works() {
        for maps in Maps::ALL {
            for (numbers, partitions) in [(true, 1), (false, 2)] {
                let engine = Rows::in_memory(work.schema(), maps, numbers, partitions).unwrap();
                whole(&engine, &work, 600);
                let figures = engine.figures();
                assert!(figures.rows > 0 && figures.indexes > 0, "{figures:?}");
            }
        }
    }
}

/// Rows that do not fit the memory, of two sizes of it.
fn large() -> Vec<Work> {
    let skew = ycsb::Skew::Zipf(0.9);
    let plan = |operation| {
        Work::Ycsb(ycsb::Plan {
            rows: 30_000,
            bytes: 700,
            skew: skew.clone(),
            operation,
        })
    };
    vec![
        Work::Tpcc(tpcc::Size {
            warehouses: 2,
            districts: 4,
            customers: 600,
            items: 8000,
        }),
        plan(ycsb::Operation::Change),
        plan(ycsb::Operation::Range),
        Work::Articles(articles::Size {
            articles: 12_000,
            users: 300,
        }),
    ]
}

#[test]
fn all_workloads_keep_their_conditions_where_rows_leave_memory_and_come_back() {
    for work in large() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("rows");
        let engine = Rows::spilling(&folder, 16 << 20, work.schema(), Maps::Hybrid, 2).unwrap();
        let outcome = whole(&engine, &work, 2000);
        let figures = engine.figures();
        assert!(
            figures.evicted > 0 && figures.misses > 0,
            "{}: {figures:?}",
            work.name()
        );
        assert!(outcome.figures.restarts > 0, "{}: {figures:?}", work.name());
    }
}

#[test]
fn all_workloads_keep_their_conditions_with_anti_caching() {
    for work in large() {
        for whole_block in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let way = Way {
                whole_block,
                ..Way::new(10 << 20)
            };
            let engine = AntiCache::open(dir.path(), way, work.schema(), Maps::Hybrid, 2).unwrap();
            // Each miss reads a block, and a range has many.
            whole(&engine, &work, 300);
            let figures = engine.figures();
            assert!(
                figures.evicted > 0 && figures.misses > 0,
                "{}: {figures:?}",
                work.name()
            );
        }
    }
}

#[test]
fn votes_end_anti_caching_and_not_rows_that_spill() {
    let work = Work::Voter(1 << 40);
    let dir = tempfile::tempdir().unwrap();
    let anti = AntiCache::open(
        &dir.path().join("anti"),
        Way::new(5 << 20),
        work.schema(),
        Maps::BTree,
        1,
    )
    .unwrap();
    work.load(&anti).unwrap();
    let ended = run(&anti, &work, course(1_000_000));
    assert!(
        ended
            .ended
            .as_ref()
            .is_some_and(|why| why.contains("no memory")),
        "{ended:?}"
    );
    let spill = Rows::spilling(
        &dir.path().join("spill"),
        16 << 20,
        work.schema(),
        Maps::BTree,
        1,
    )
    .unwrap();
    work.load(&spill).unwrap();
    let goes_on = run(&spill, &work, course(ended.done * 3));
    assert_eq!(goes_on.ended, None);
    assert!(spill.figures().evicted > 0, "{:?}", spill.figures());
    assert!(
        spill.store().stats().memory() <= (16 << 20) + (16 << 20) / 50,
        "{:?}",
        spill.store().stats()
    );
    work.check(&spill, 0).unwrap();
}
