//! Statistics: the memory's parts add up to the limit, counts follow what was done, the log costs
//! little more than what it keeps, and everything prints and serialises.

mod common;

use terrace::{Database, Options, Tiers, TreeOptions};
use terrace_sim::SimDisk;

#[test]
fn figures_add_up() {
    let disk = SimDisk::new(1);
    let options = Options::new()
        .memory(4 << 20)
        .page_size(4096)
        .log_limit(4 << 20);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let two = db.create_tree("two", TreeOptions::new()).unwrap();
    let one = db
        .create_tree("one", TreeOptions::new().tiers(Tiers::One))
        .unwrap();
    let records = 20_000u64;
    for i in 0..records {
        // Eight bytes of key and 120 of value, as in the benchmarks.
        two.put(
            i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes(),
            [i as u8; 120],
        )
        .unwrap();
    }
    let stats = db.stats();
    let user_bytes = (records * 128) as f64;
    assert!(
        stats.log.bytes as f64 <= 1.2 * user_bytes,
        "{} for {user_bytes}",
        stats.log.bytes
    );
    one.put("k", "v").unwrap();
    for _ in 0..5 {
        one.get("k").unwrap();
        one.get("nothing").unwrap();
    }
    db.checkpoint().unwrap();
    let stats = db.stats();
    let m = &stats.memory;
    assert_eq!(m.limit, 4 << 20);
    assert!(m.used() <= m.limit, "{m:?}");
    assert_eq!(m.used() + m.unused, m.limit);
    assert!(m.hot_pages > m.limit / 3, "{m:?}");
    let of = |name: &str| {
        stats
            .structures
            .iter()
            .find(|s| s.info.name == name)
            .unwrap()
    };
    assert_eq!((of("one").cold_hits, of("one").misses), (5, 5));
    assert!(stats.pages.writes > 0 && stats.pages.live > 0 && stats.pages.data_file_bytes > 0);
    assert!(stats.checkpoints.completed >= 2 && stats.checkpoints.gate_closed.max_ns > 0);
    assert!(stats.checkpoints.last.unwrap().pages > 0);
    let closings: u64 = stats
        .checkpoints
        .gate_closed_buckets
        .iter()
        .map(|b| b.1)
        .sum();
    assert_eq!(closings, stats.checkpoints.completed);
    let table = stats.to_string();
    for word in [
        "two",
        "hot pages",
        "limit",
        "log",
        "checkpoints",
        "gate closed",
    ] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["structures"][0]["name"], "two");
    assert_eq!(json["memory"]["limit"], 4 << 20);
}
