//! Whole runs on a store in memory: the numbers add up, and every kind of wrong answer is noticed.

mod common;

use common::{Fault, Memory};
use std::time::Duration;
use terrace_bench::record_cache::Eviction;
use terrace_bench::records::{KeySpace, fill_value};
use terrace_bench::{
    Distribution, Error, KeyLayout, Load, Part, Plan, Prepared, RecordCache, Report, Target,
    Warmup, Workload,
};

fn plan(workload: Workload) -> Plan {
    let mut plan = Plan::new(workload, 5_000, 5_000 * 128 / 5);
    plan.threads = 3;
    plan.duration = Duration::from_millis(150);
    plan.warmup = Warmup::Fixed(Duration::from_millis(50));
    plan.window = Duration::from_millis(20);
    plan.audit = true;
    plan
}

fn run(plan: Plan, store: &Memory) -> Result<Report, Error> {
    Prepared::new(plan)?.run(store, &mut |_| ())
}

#[test]
fn a_record_cache_answers_as_the_store_and_spares_it_reads() {
    let both = [Eviction::Lru, Eviction::Clock].into_iter();
    let all = both.flat_map(|e| [Workload::A, Workload::C, Workload::F].map(|w| (e, w)));
    for (eviction, workload) in all {
        let plan = plan(workload);
        let bytes = 1000 * 218;
        let cached = RecordCache::new(Memory::ideal(&plan_without_memory(&plan)), bytes, eviction);
        let report = Prepared::new(plan)
            .unwrap()
            .run(&cached, &mut |_| ())
            .unwrap();
        // The audit has found every update, although most were in the cache alone for a time.
        assert_eq!(report.audit.as_ref().unwrap().records, report.records);
        let counters = cached.counters().unwrap();
        assert!(counters.hot_hits > 0 && counters.cold_hits > 0);
        assert!(counters.demotions > 0, "{workload:?}: nothing ever went");
        assert!(counters.page_reads <= counters.cold_hits + report.records);
    }
}

/// The same, with memory for no record: every read of the store is a page read.
fn plan_without_memory(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.memory_bytes = 0;
    plan
}

#[test]
fn every_workload_runs_and_adds_up() {
    for workload in Workload::ALL {
        for layout in [KeyLayout::Spaced, KeyLayout::Hashed] {
            let mut plan = plan(workload);
            plan.layout = layout;
            // Inserts must not run out of room however fast the machine is.
            plan.records = if matches!(workload, Workload::D | Workload::E) {
                100_000
            } else {
                5_000
            };
            let report = run(plan, &Memory::new(Fault::None)).unwrap();
            let what = format!("{workload:?} {layout:?}");
            assert!(report.ops > 0, "{what}");
            let counted: u64 = report
                .latency_ns_by_operation
                .values()
                .map(|l| l.count)
                .sum();
            assert!(
                counted.abs_diff(report.ops) <= report.ops / 10 + 100,
                "{what}: {counted}"
            );
            assert_eq!(
                report.latency_ns_by_operation.len(),
                workload.mix().len(),
                "{what}"
            );
            assert!(report.audit.unwrap().records >= report.records, "{what}");
            let writes = workload.mix().iter().any(|m| {
                !matches!(
                    m.0,
                    terrace_bench::Operation::Read
                        | terrace_bench::Operation::Scan
                        | terrace_bench::Operation::MultiGet
                )
            });
            assert_eq!(
                report.disk_bytes_written_per_user_byte.is_some(),
                writes,
                "{what}"
            );
            assert_eq!(
                report.static_optimum_reads_per_op.is_some(),
                workload.has_static_optimum()
            );
            assert_eq!(report.load.is_some(), workload != Workload::Load, "{what}");
            let windows: u64 = report
                .windows
                .iter()
                .filter(|w| matches!(w.part, Part::Measure | Part::Moved))
                .map(|w| w.ops)
                .sum();
            if workload != Workload::Load {
                assert_eq!(windows, report.ops, "{what}");
            }
            let text = report.to_string();
            assert!(
                text.contains("throughput") && text.contains("audit"),
                "{text}"
            );
        }
    }
}

#[test]
fn an_ideal_store_is_at_the_optimum() {
    for (workload, distribution) in [
        (Workload::C, Distribution::Zipf { theta: 0.9 }),
        (Workload::F, Distribution::Zipf { theta: 0.5 }),
        (Workload::C, Distribution::Uniform),
        (
            Workload::Hotspot,
            Distribution::Hotspot {
                records: 0.3,
                accesses: 0.8,
            },
        ),
    ] {
        let mut plan = plan(workload);
        plan.distribution = distribution;
        let report = run(plan.clone(), &Memory::ideal(&plan)).unwrap();
        let over = report.reads_over_optimum.unwrap();
        assert!(
            (over - 1.0).abs() < 0.05,
            "{workload:?} {distribution:?}: {over}"
        );
    }
}

#[test]
fn a_moved_hot_set_is_seen() {
    let mut plan = plan(Workload::Shift);
    plan.duration = Duration::from_millis(600);
    let report = run(plan.clone(), &Memory::ideal(&plan)).unwrap();
    let shift = report.shift.unwrap();
    // The store holds the old hot set for ever: reads jump from the optimum to near one.
    let optimum = report.static_optimum_reads_per_op.unwrap();
    assert!(
        (shift.before_page_reads_per_op / optimum - 1.0).abs() < 0.05,
        "{shift:?}"
    );
    assert!(shift.after_page_reads_per_op > 0.6, "{shift:?}");
    assert!(report.windows.iter().any(|w| w.part == Part::Moved));
    assert_eq!(report.shifts, [shift]);
}

#[test]
fn a_hot_set_that_moves_twice_has_three_phases() {
    let mut plan = plan(Workload::Shift);
    (plan.duration, plan.moves) = (Duration::from_millis(900), 2);
    let report = run(plan.clone(), &Memory::ideal(&plan)).unwrap();
    let [first, second] = &report.shifts[..] else {
        panic!("{:?}", report.shifts);
    };
    assert_eq!(report.shift, Some(*second));
    assert_eq!(
        second.before_page_reads_per_op,
        first.after_page_reads_per_op
    );
    // The store holds the first hot set for ever.
    assert!(first.after_page_reads_per_op > 0.6 && second.after_page_reads_per_op > 0.6);
    assert!(report.seconds > 0.85, "{}", report.seconds);
}

#[test]
fn a_flat_store_is_found_steady() {
    let mut plan = plan(Workload::C);
    plan.warmup = Warmup::Steady {
        at_most: Duration::from_secs(60),
    };
    let report = run(plan.clone(), &Memory::ideal(&plan)).unwrap();
    assert_eq!(report.warmup.steady, Some(true));
    assert!(report.warmup.seconds < 30.0, "{:?}", report.warmup);
    assert!(report.warmup.ops >= 2 * report.records);
}

#[test]
fn sorted_loading_writes_in_order() {
    let mut plan = plan(Workload::Load);
    plan.load = Load::Sorted;
    let report = run(plan, &Memory::new(Fault::None)).unwrap();
    assert_eq!((report.ops, report.distribution), (5_000, "sorted"));
    assert_eq!(report.disk_bytes_written_per_user_byte, Some(2.0));
    assert_eq!(report.log_bytes_per_user_byte, Some(1.0));
}

#[test]
fn a_loaded_store_can_be_used_again() {
    let store = Memory::new(Fault::None);
    run(plan(Workload::Load), &store).unwrap();
    let mut again = plan(Workload::C);
    again.load = Load::Skip;
    assert!(run(again.clone(), &store).unwrap().load.is_none());
    again.records += 1000;
    let error = run(again, &store).unwrap_err().to_string();
    assert!(error.contains("same number of records"), "{error}");
}

#[test]
fn records_inserted_by_an_earlier_run_are_no_fault_of_the_store() {
    let store = Memory::new(Fault::None);
    let mut inserting = plan(Workload::D);
    inserting.records = 100_000;
    let inserted = run(inserting, &store).unwrap();
    let there = inserted.audit.unwrap().records;
    assert!(there > 100_000);
    let mut again = plan(Workload::C);
    again.records = 100_000;
    again.load = Load::Skip;
    let report = run(again, &store).unwrap();
    assert_eq!(report.audit.unwrap().records, there);
}

#[test]
fn the_sum_of_all_versions_may_be_larger_than_any_number() {
    let store = Memory::new(Fault::None);
    let plan = plan(Workload::Load);
    run(plan.clone(), &store).unwrap();
    let keys = KeySpace::new(plan.records, plan.layout, plan.seed);
    for record in 0..2 {
        let (key, mut value) = (keys.number(record), Vec::new());
        fill_value(key, u64::MAX, plan.values(), &mut value);
        store.put(&key.to_be_bytes(), &value).unwrap();
    }
    for workload in [Workload::Scan, Workload::C] {
        let mut again = plan.clone();
        again.workload = workload;
        again.load = Load::Skip;
        again.duration = Duration::from_millis(100);
        assert_eq!(run(again, &store).unwrap().audit.unwrap().changes, 0);
    }
}

#[test]
fn wrong_answers_are_noticed() {
    for (fault, workload, word) in [
        (Fault::LosesPuts, Workload::C, "missing"),
        (Fault::LosesUpdates, Workload::F, "updates were lost"),
        (Fault::LosesUpdates, Workload::Transfer, "updates were lost"),
        (
            Fault::FlipsBits,
            Workload::C,
            "not one that was ever written",
        ),
        (Fault::SkipsInScans, Workload::Scan, "is missing"),
        (Fault::SkipsInScans, Workload::E, "is missing"),
        (Fault::Fails, Workload::C, "the disk is gone"),
    ] {
        let mut plan = plan(workload);
        plan.records = 1_000;
        plan.duration = Duration::from_secs(2);
        let error = run(plan, &Memory::new(fault)).unwrap_err();
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        let error = format!("{error}: {}", cause.unwrap_or_default());
        assert!(error.contains(word), "{fault:?} {workload:?}: {error}");
    }
}

#[test]
fn a_lost_put_of_the_load_is_noticed_by_the_audit_alone() {
    let error = run(plan(Workload::Load), &Memory::new(Fault::LosesPuts)).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
}

#[test]
fn a_panic_of_the_store_ends_the_run() {
    let result = std::panic::catch_unwind(|| {
        let mut plan = plan(Workload::C);
        plan.duration = Duration::from_secs(600);
        run(plan, &Memory::new(Fault::Panics)).map(|_| ())
    });
    assert!(result.is_err());
}

#[test]
fn running_out_of_keys_says_what_to_do() {
    let mut plan = plan(Workload::D);
    plan.records = 10;
    plan.duration = Duration::from_secs(20);
    let error = run(plan, &Memory::new(Fault::None))
        .unwrap_err()
        .to_string();
    assert!(error.contains("load more records"), "{error}");
}

#[test]
fn the_benchmark_itself_is_small() {
    let Some(before) = terrace_bench::resident::now() else {
        return;
    };
    // Three hundred million records: nothing may grow with their number.
    let mut big = plan(Workload::C);
    big.records = 300_000_000;
    let prepared = Prepared::new(big).unwrap();
    drop(prepared);
    let after = terrace_bench::resident::now().unwrap();
    assert!(after < before + (64 << 20), "{before} {after}");
}
