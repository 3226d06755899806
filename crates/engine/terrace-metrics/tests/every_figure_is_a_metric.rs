//! The names, labels and numbers of the metrics are those of a file, and no figure of a database is missing.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use terrace::{Database, Options, Stats};
use terrace_metrics::{Format, MAX_STRUCTURES, render};

/// Figures that follow from others, and names.
const NOT_SHOWN: &[&str] = &[
    "hot_hit_rate",
    "merge_bytes_per_user_byte",
    "hot_rewrite_factor",
    "last_error",
    // Rates of the summaries; the buckets, the count and the sum are there.
    "p50_ns",
    "p99_ns",
    "p999_ns",
    "max_ns",
    // In the histogram of drained and closed gates.
    "drain_seconds",
    "closed_seconds",
    "id",
    // A place, not a figure.
    "series",
    // In the timestamps, which are seconds and parts of them.
    "secs_since_epoch",
    "nanos_since_epoch",
];

/// A database with one of everything, and its figures with a number of its own for each, which follows from
/// its name alone.
fn numbered() -> Stats {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::new().memory(16 << 20)).unwrap();
    db.tree("users").unwrap().put("a", "b").unwrap();
    db.hash("visits").unwrap().put("a", "b").unwrap();
    db.lsm("events").unwrap().put("a", "b").unwrap();
    let rows = db.table("odd \"name\"\\").unwrap();
    rows.create_index("city=json:/city".parse().unwrap())
        .unwrap();
    let expiring = terrace::TreeOptions::new().expiring();
    db.tree_with("sessions", expiring).unwrap();
    db.checkpoint().unwrap();
    let mut json = serde_json::to_value(db.survey().unwrap()).unwrap();
    json["checkpoints"]["running"] =
        serde_json::json!({"work": "checkpoint", "done": 0, "total": 0});
    json["checkpoints"]["last_error"] = "none".into();
    json["opening"]["direct_io"] = true.into();
    let time = serde_json::json!({"secs_since_epoch": 0, "nanos_since_epoch": 0});
    json["last_backup"] = serde_json::json!({
        "point": 0, "time": time, "sequence": 0, "live_pages": 0, "read_pages": 0,
        "stored_pages": 0, "stored_bytes": 0, "seconds": 0,
    });
    json["following"] = serde_json::json!([{
        "set": "/backup/people", "sequence": 0, "time": time, "log_bytes": 0, "point": 0,
        "breaks": 0, "clock_leaps": 0, "error": "a full disk",
    }]);
    for s in json["structures"].as_array_mut().unwrap() {
        (s["hot_hit_rate"], s["hot_fill"]) = (0.into(), 0.into());
    }
    for (i, buckets) in [
        "gate_closed_buckets",
        "gate_drained_buckets",
        "total_buckets",
    ]
    .iter()
    .enumerate()
    {
        json["checkpoints"][buckets] = serde_json::json!([[20_000, 3 + i], [40_000_000, 5 + i]]);
    }
    for (i, call) in json["calls"].as_array_mut().unwrap().iter_mut().enumerate() {
        call["buckets"] = serde_json::json!([[800, 2 + i], [30_000, 4 + i]]);
    }
    number(&mut json, "");
    serde_json::from_value(json).unwrap()
}

fn number(json: &mut Value, path: &str) {
    if ["buckets", "/id", "/series"]
        .iter()
        .any(|end| path.ends_with(end))
    {
        return;
    }
    match json {
        Value::Object(object) => {
            for (name, value) in object {
                number(value, &format!("{path}/{name}"));
            }
        }
        Value::Array(array) => {
            for (i, value) in array.iter_mut().enumerate() {
                number(value, &format!("{path}/{i}"));
            }
        }
        Value::Number(_) => *json = value_of(path).into(),
        _ => {}
    }
}

/// A number that no other figure has.
fn value_of(path: &str) -> u64 {
    let hash = path.bytes().fold(17u64, |hash, byte| {
        (hash.wrapping_mul(0x100_0000_01b3)) ^ u64::from(byte)
    });
    100_000 + hash % 1_000_003
}

fn compare(text: &str, file: &str) {
    let path = format!("{}/tests/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("TERRACE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    for (got, wanted) in text.lines().zip(golden.lines()) {
        assert_eq!(
            got, wanted,
            "{file}: names and labels of metrics are frozen: people's alarms rest on them. New ones may be \
             added: TERRACE_WRITE_GOLDEN=1 cargo test -p terrace-metrics writes the file"
        );
    }
    assert_eq!(text.lines().count(), golden.lines().count(), "{file}");
}

#[test]
fn the_texts_are_those_of_the_files() {
    let stats = numbered();
    compare(&render(&stats, Format::Prometheus), "golden.prom");
    compare(&render(&stats, Format::OpenMetrics), "golden.openmetrics");
}

#[test]
fn no_figure_is_missing() {
    let json = serde_json::to_value(numbered()).unwrap();
    let text = render(&numbered(), Format::Prometheus);
    let numbers: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(_, number)| number)
        .collect();
    let mut leaves = BTreeMap::new();
    flatten(&json, String::new(), &mut leaves);
    let number = |path: &str| leaves.get(path).copied().unwrap_or_default();
    let mut looked_at = 0;
    for (path, value) in &leaves {
        let name = path.rsplit('/').next().unwrap();
        if NOT_SHOWN.contains(&name) || path.contains("buckets") || path.contains("by_hits") {
            continue;
        }
        looked_at += 1;
        let expected = match name {
            // What is shown as the part that the other is not.
            "pages" if path.ends_with("checkpoints/pages") || path.ends_with("last/pages") => {
                let hot = number(&path.replace("pages", "hot_pages"));
                value.saturating_sub(hot)
            }
            "swept_fill_thousandths" => {
                let shown = (*value as f64 / 1000.0).to_string();
                assert!(numbers.contains(&shown.as_str()), "{path}");
                continue;
            }
            "hot_fill" => {
                let part = |name| number(&path.replace("hot_fill", name)) as f64;
                let shown = part("swept_fill_thousandths") / 1000.0 / part("swept_leaves");
                assert!(numbers.contains(&shown.to_string().as_str()), "{path}");
                continue;
            }
            "mean_ns" => {
                let count = number(&path.replace("mean_ns", "count")) as f64;
                let shown = *value as f64 * count / 1e9;
                assert!(numbers.contains(&shown.to_string().as_str()), "{path}");
                continue;
            }
            "done" | "total" if path.contains("running") => continue,
            _ => *value,
        };
        assert!(
            numbers.contains(&expected.to_string().as_str()),
            "{path} is not among the metrics: add it to families.rs, or say in NOT_SHOWN why not"
        );
    }
    assert!(looked_at > 80, "{looked_at}");
}

fn flatten(json: &Value, path: String, leaves: &mut BTreeMap<String, u64>) {
    match json {
        Value::Object(object) => object
            .iter()
            .for_each(|(name, value)| flatten(value, format!("{path}/{name}"), leaves)),
        Value::Array(array) => array
            .iter()
            .enumerate()
            .for_each(|(i, value)| flatten(value, format!("{path}/{i}"), leaves)),
        Value::Number(number) => {
            leaves.insert(path, number.as_f64().unwrap() as u64);
        }
        _ => {}
    }
}

#[test]
fn figures_add_up_and_many_structures_are_summed() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::new().memory(32 << 20)).unwrap();
    for i in 0..MAX_STRUCTURES + 20 {
        let tree = db.tree(&format!("t{i}")).unwrap();
        tree.put("k", "v").unwrap();
        assert!(tree.get("k").unwrap().is_some());
        assert!(tree.get("no").unwrap().is_none());
    }
    let stats = db.survey().unwrap();
    let text = render(&stats, Format::Prometheus);
    let all = |name: &str, with: &str| -> Vec<u64> {
        text.lines()
            .filter(|line| {
                line.strip_prefix(name)
                    .is_some_and(|rest| rest.starts_with(['{', ' ']))
            })
            .filter(|line| line.contains(with))
            .map(|line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
            .collect()
    };
    let sum = |name, with| all(name, with).into_iter().sum::<u64>();
    let parts = stats.memory.used() + stats.memory.unused;
    assert_eq!(sum("terrace_memory_bytes", ""), parts);
    assert_eq!(sum("terrace_memory_limit_bytes", ""), 32 << 20);
    let reads = all("terrace_reads_total", "tier=\"none\"");
    assert_eq!(reads.len(), MAX_STRUCTURES + 1);
    assert_eq!(reads.iter().sum::<u64>(), MAX_STRUCTURES as u64 + 20);
    assert_eq!(
        all("terrace_reads_total", "structure=\"_other\",tier=\"none\""),
        [20]
    );
    assert_eq!(
        sum("terrace_records", "tier=\"all\""),
        MAX_STRUCTURES as u64 + 20
    );
    assert_eq!(sum("terrace_structures", ""), MAX_STRUCTURES as u64 + 20);
}

/// The samples of a text: names with labels, each of which must be there once.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, number) = line.rsplit_once(' ').unwrap();
        let before = all.insert(name.to_owned(), number.parse().unwrap());
        assert!(before.is_none(), "{name} is there twice");
    }
    all
}

#[test]
fn a_structure_that_is_called_like_the_sum_has_a_series_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::new().memory(32 << 20)).unwrap();
    for name in ["_other", "__other", "other"] {
        db.tree(name).unwrap().put(name, "v").unwrap();
    }
    for i in 0..MAX_STRUCTURES {
        db.tree(&format!("t{i}")).unwrap().put("k", "v").unwrap();
    }
    let all = samples(&render(&db.stats(), Format::Prometheus));
    let writes = |name: &str| all.get(&format!("terrace_writes_total{{structure=\"{name}\"}}"));
    for name in ["__other", "___other", "other"] {
        assert_eq!(writes(name), Some(&1.0), "{name}");
    }
    assert_eq!(writes("_other"), Some(&3.0));
}

#[test]
fn no_count_goes_back_when_structures_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), Options::new().memory(32 << 20)).unwrap();
    let put = |i: usize, times: usize| {
        let tree = db.tree(&format!("t{i}")).unwrap();
        (0..times).for_each(|n| tree.put(n.to_string(), "v").unwrap());
    };
    let look = || samples(&render(&db.stats(), Format::Prometheus));
    let sum = |all: &BTreeMap<String, f64>| -> f64 {
        let writes = all
            .iter()
            .filter(|(name, _)| name.starts_with("terrace_writes_total{"));
        writes.map(|(_, number)| number).sum()
    };
    // Those in the sum have more than those before them.
    (0..MAX_STRUCTURES + 40).for_each(|i| put(i, 1 + i / MAX_STRUCTURES * 5));
    let mut before = look();
    let mut check = |again: &dyn Fn(&str) -> bool, context: &str| {
        let now = look();
        for (name, was) in before.iter().filter(|(name, _)| name.contains("_total")) {
            if let Some(is) = now.get(name).filter(|_| !again(name)) {
                assert!(is >= was, "{context}: {name} was {was}, and is {is}");
            }
        }
        assert!(sum(&now) >= sum(&before), "{context}");
        before = now;
    };
    let never = |_: &str| false;
    for i in (0..MAX_STRUCTURES + 40).step_by(3) {
        db.drop_structure(&format!("t{i}")).unwrap();
    }
    check(&never, "a third is dropped");
    // One that is made again begins anew: that is how collectors know a restart.
    (0..MAX_STRUCTURES + 40).step_by(3).for_each(|i| put(i, 1));
    check(&|name| !name.contains("_other"), "made again");
    db.rename_structure("t1", "renamed").unwrap();
    check(&never, "renamed");
    for i in (0..MAX_STRUCTURES + 40).filter(|i| i % 3 == 2) {
        db.drop_structure(&format!("t{i}")).unwrap();
    }
    check(&never, "another third is dropped");
}

/// The table for people has each metric, and none that is not there.
#[test]
fn the_table_in_the_documentation_has_all_names() {
    let golden = include_str!("golden.prom");
    let names = |text: &'static str| -> BTreeSet<&str> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("terrace_")).collect()
    };
    let types = golden
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let there: BTreeSet<&str> = types.filter_map(|line| line.split(' ').next()).collect();
    let table = include_str!("../../../../docs/metrics.md")
        .split_once("| name | labels | what |")
        .and_then(|(_, rest)| rest.split_once("\n\n"))
        .map(|(table, _)| names(table))
        .unwrap();
    let missing: Vec<_> = there.difference(&table).collect();
    let unknown: Vec<_> = table.difference(&there).collect();
    assert!(
        missing.is_empty() && unknown.is_empty(),
        "not in the table: {missing:?}; only in the table: {unknown:?}"
    );
}
