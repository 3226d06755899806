//! What comes out: the fields of the JSON object, and plots that are well-formed.

mod common;

use common::Memory;
use std::time::Duration;
use terrace_bench::plot::{Curve, Point, against_optimum, course};
use terrace_bench::{Plan, Prepared, Report, Warmup, Workload};

fn report(workload: Workload) -> Report {
    let mut plan = Plan::new(workload, 2_000, 2_000 * 128 / 5);
    plan.threads = 2;
    plan.duration = Duration::from_millis(200);
    plan.warmup = Warmup::Fixed(Duration::from_millis(50));
    plan.window = Duration::from_millis(10);
    let store = Memory::ideal(&plan);
    Prepared::new(plan)
        .unwrap()
        .run(&store, &mut |_| ())
        .unwrap()
}

#[test]
fn json_has_the_promised_fields() {
    let json: serde_json::Value = serde_json::from_str(&report(Workload::A).to_json()).unwrap();
    let fields = "workload distribution structure tiers policy records value_bytes zipf \
        memory_bytes threads seconds ops ops_per_second latency_ns latency_histogram_ns page_bytes page_reads_per_op \
        page_writes_per_op static_optimum_reads_per_op hot_fill disk_bytes_written_per_user_byte \
        log_bytes_per_user_byte peak_resident_bytes gate_closed_us";
    let object = json.as_object().unwrap();
    for field in fields.split_whitespace() {
        assert!(object.contains_key(field), "{field}");
    }
    for field in ["p50", "p99", "p999", "max"] {
        assert!(json["latency_ns"][field].is_u64(), "{field}");
    }
    let pairs = |buckets: &serde_json::Value| -> Vec<(u64, u64)> {
        serde_json::from_value(buckets.clone()).unwrap()
    };
    let buckets = pairs(&json["latency_histogram_ns"]);
    assert!(buckets.iter().all(|bucket| bucket.1 > 0), "{buckets:?}");
    assert!(buckets.is_sorted_by(|a, b| a.0 < b.0), "{buckets:?}");
    let counted: u64 = buckets.iter().map(|bucket| bucket.1).sum();
    assert_eq!(json["latency_ns"]["count"], counted);
    for field in ["p999", "max"] {
        assert!(json["gate_closed_us"].get(field).is_some(), "{field}");
    }
    assert_eq!(json["workload"], "a");
    assert_eq!(json["zipf"], 0.9);
    assert!(json["windows"].as_array().is_some_and(|w| !w.is_empty()));
}

#[test]
fn the_table_keeps_names_and_figures_apart() {
    let table = report(Workload::F).to_string();
    for name in ["latency of read ", "latency of read-modify-write "] {
        assert!(table.contains(name), "{table}");
    }
}

#[test]
fn plots_are_written() {
    let dir = std::env::temp_dir().join(format!("terrace-bench-plots-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let shift = report(Workload::Shift);
    let runs = [("two tiers", &shift), ("one <tier> & more", &shift)];
    let points = [
        Point {
            memory_bytes: 1 << 28,
            reads_per_op: 0.4,
            optimum: 0.3,
        },
        Point {
            memory_bytes: 1 << 29,
            reads_per_op: 0.2,
            optimum: 0.1,
        },
    ];
    let svg = |name: &str| std::fs::read_to_string(dir.join(name)).unwrap();
    course(&dir.join("speed.svg"), "Speed", Curve::Throughput, &runs).unwrap();
    course(&dir.join("reads.svg"), "Reads", Curve::Reads, &runs).unwrap();
    course(&dir.join("none.svg"), "Nothing", Curve::Reads, &[]).unwrap();
    against_optimum(
        &dir.join("optimum.svg"),
        "Optimum",
        &[("two tiers", &points)],
    )
    .unwrap();
    assert!(svg("speed.svg").contains("two tiers") && svg("speed.svg").contains("&lt;tier&gt;"));
    assert!(svg("reads.svg").contains("static optimum"));
    assert!(svg("optimum.svg").trim_end().ends_with("</svg>"));
    let error = course(&dir.join("no/such.svg"), "x", Curve::Reads, &runs).unwrap_err();
    assert!(error.to_string().contains("folder"), "{error}");
    std::fs::remove_dir_all(&dir).unwrap();
}
