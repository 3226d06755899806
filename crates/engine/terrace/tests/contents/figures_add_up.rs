//! Statistics: the memory's parts add up to the limit, counts follow what was done, the log costs
//! little more than what it keeps, and everything prints and serialises.

use crate::common::{SHAPES, Shape, create, named, tiny};
use terrace::{Database, MapOptions, Options, Stats, Tiers, TreeOptions};
use terrace_sim::{Rng, SimDisk};

#[test]
fn the_memory_of_many_structures_is_counted_and_frames_make_room_for_it() {
    let disk = SimDisk::new(2);
    let limit = 4 << 20;
    let options = || Options::new().memory(limit).page_size(4096);
    let many = 400u64;
    let wait_until = |what: &str, done: &dyn Fn() -> bool| {
        // Only so that a failure ends; how long it takes does not matter.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !done() {
            assert!(std::time::Instant::now() < end, "{what}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    };
    let check = |db: &Database| {
        let each = db.stats().memory.structures / many;
        assert!((1000..2500).contains(&each), "{each} bytes for each");
        let used = || db.stats().memory.used();
        wait_until("frames make no room", &|| used() <= limit);
    };
    let db = Database::open_on(disk.shared(), options()).unwrap();
    for i in 0..many {
        let tree = db.tree(&format!("t{i}")).unwrap();
        for k in 0..30u32 {
            tree.put(k.to_be_bytes(), [1; 100]).unwrap();
        }
    }
    check(&db);
    db.close().unwrap();
    let db = Database::open_on(disk.shared(), options()).unwrap();
    for i in 0..many {
        let tree = db.tree(&format!("t{i}")).unwrap();
        assert_eq!(tree.iter().unwrap().count(), 30);
    }
    check(&db);
    for i in 0..many {
        db.drop_structure(&format!("t{i}")).unwrap();
    }
    wait_until("what is dropped is still counted", &|| {
        db.stats().memory.structures == 0
    });
}

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
    assert_eq!((of("one").writes, of("two").writes), (1, records));
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
        "gate drained in",
        "gate closed for",
        "bytes of hot pages rewritten per byte logged",
    ] {
        assert!(table.contains(word), "{word} is missing in\n{table}");
    }
    let last = stats.checkpoints.last.unwrap();
    let of_the_last = format!(
        "the last, number {}: {} pages, {} of them hot, in ",
        last.generation, last.pages, last.hot_pages
    );
    assert!(table.contains(&of_the_last), "{table}");
    let json = serde_json::to_value(&stats).unwrap();
    assert_eq!(json["structures"][0]["name"], "two");
    assert_eq!(json["memory"]["limit"], 4 << 20);
}

#[test]
fn writes_are_counted_however_they_come() {
    for tiers in [Tiers::One, Tiers::Two] {
        let disk = SimDisk::new(3);
        let options = Options::new().memory(4 << 20).page_size(4096);
        let db = Database::open_on(disk.shared(), options).unwrap();
        let tree = db
            .create_tree("t", TreeOptions::new().tiers(tiers))
            .unwrap();
        let writes = || db.stats().structures[0].writes;
        tree.put("a", "1").unwrap();
        assert!(!tree.insert("a", "2").unwrap());
        assert_eq!(writes(), 1, "what was there is not written");
        tree.update("a", |_| Some(b"3".to_vec())).unwrap();
        tree.delete("a").unwrap();
        assert_eq!(writes(), 3);
        let mut batch = db.batch();
        batch
            .put(&tree, "b", "1")
            .put(&tree, "c", "1")
            .delete(&tree, "b");
        db.write(batch, terrace::Durability::Buffered).unwrap();
        // What a batch does to one key is one change.
        assert_eq!(writes(), 5);
        db.transaction(|t| t.put(&tree, "d", "1")).unwrap();
        assert_eq!(writes(), 6);
        let mut loader = tree.loader().unwrap();
        for i in 0..5_000u32 {
            loader.put(i.to_be_bytes(), [1; 20]).unwrap();
        }
        loader.finish().unwrap();
        assert_eq!(writes(), 5_006);
    }
}

/// What holds of any snapshot while no thread works; `in_memory` if no page of a hot tier has a place in the file.
fn parts_make_wholes(stats: &Stats, in_memory: bool, when: &str) {
    let json = serde_json::to_value(stats).unwrap();
    let memory = json["memory"].as_object().unwrap();
    // Every consumer that is shown, so that none is forgotten in the sum.
    let all: u64 = memory.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    let limit = stats.memory.limit;
    assert_eq!(all, 2 * limit, "{when}: {:?}", stats.memory);
    assert_eq!(stats.memory.used() + stats.memory.unused, limit, "{when}");
    let p = &stats.pages;
    assert!(in_memory || p.hot <= p.live, "{when}: {p:?}");
    assert_eq!(p.hot * p.page_bytes, stats.memory.hot_pages, "{when}");
    assert!(p.data_file_bytes >= p.page_bytes, "{when}: {p:?}");
    let c = &stats.checkpoints;
    assert!(
        c.hot_pages <= c.pages && c.pages <= p.writes,
        "{when}: {c:?}"
    );
    assert!(!in_memory || c.hot_pages == 0, "{when}: {c:?}");
    let l = &stats.log;
    assert!(l.record_bytes <= l.bytes && l.bytes_since_checkpoint <= l.bytes);
    assert!(l.sync_commits >= l.syncs || l.records == 0, "{when}: {l:?}");
    for s in &stats.structures {
        let reads = s.hot_hits + s.cold_hits + s.misses;
        let rate = (reads > 0).then(|| s.hot_hits as f64 / reads as f64);
        assert_eq!(s.hot_hit_rate, rate, "{when}: {}", s.info.name);
        assert!(s.hot_fill.is_none_or(|fill| (0.0..=1.0).contains(&fill)));
    }
}

#[test]
fn what_is_counted_is_what_was_done() {
    let forms = |shape: Shape| match shape.1 {
        // One that is a heap has its pages in the file.
        _ if shape.2 => vec![(shape, false)],
        Tiers::One => vec![(shape, false)],
        Tiers::Two => vec![(shape, false), (shape, true)],
    };
    for (shape, in_memory) in SHAPES.into_iter().flat_map(forms) {
        let name = format!("{}, in memory {in_memory}", named(shape));
        let disk = SimDisk::new(3);
        // Of such long segments the heads are a small part of what is written.
        let options = tiny(3).log_segment(256 << 10).log_limit(1 << 20);
        let db = Database::open_on(disk.shared(), options).unwrap();
        let made = MapOptions::new().hot_in_memory(in_memory);
        let map = create(&db, "map", shape, made).unwrap();
        let mut rng = Rng::new(3);
        let of = |stats: &Stats| stats.structures[0].clone();
        let before = db.stats();
        let written = disk.bytes_written();
        let (mut puts, mut bytes, mut lookups, mut found) = (0, 0, 0, 0);
        for round in 0..8u64 {
            for _ in 0..1500 {
                let key = (rng.below(5000) as u32).to_be_bytes();
                if rng.percent(60) {
                    map.put(key, [round as u8; 200]).unwrap();
                    puts += 1;
                    bytes += 204;
                } else {
                    found += u64::from(map.get(key).unwrap().is_some());
                    lookups += 1;
                }
            }
            parts_make_wholes(&db.stats(), in_memory, &format!("{name}, round {round}"));
            db.checkpoint().unwrap();
            let when = format!("{name}, checkpoint {round}");
            parts_make_wholes(&db.stats(), in_memory, &when);
        }
        let after = db.stats();
        // A table with indexes reads its rows to write them, too.
        let s = of(&after);
        let reads = s.hot_hits + s.cold_hits + s.misses;
        if s.by_index.is_empty() {
            assert_eq!(reads, lookups, "{name}");
            assert_eq!(s.hot_hits + s.cold_hits, found, "{name}");
        }
        assert!(reads >= lookups, "{name}");
        assert_eq!(after.log.records - before.log.records, puts, "{name}");
        assert!(after.log.record_bytes - before.log.record_bytes >= bytes);
        assert_eq!(
            after.checkpoints.completed - before.checkpoints.completed,
            8
        );
        assert!(after.pages.evictions > 0 && after.pages.reads > 0, "{name}");
        // The disk counts the same bytes, and superblocks besides.
        let said = after.disk_bytes_written() - before.disk_bytes_written();
        let written = disk.bytes_written() - written;
        assert!(
            said <= written && written < said + said / 20,
            "{name}: {said}, {written}"
        );
        let file = disk.contents("data").unwrap().len() as u64;
        assert_eq!(after.pages.data_file_bytes, file, "{name}");
        let report = db.verify().unwrap();
        // Those that lie in memory alone are verified, too.
        let alone = if in_memory { after.pages.hot } else { 0 };
        assert_eq!(report.live_pages, after.pages.live + alone, "{name}");
        let owned: u64 = report.structures.iter().map(|s| s.pages).sum();
        assert_eq!(owned + report.catalog_pages, report.live_pages, "{name}");
    }
}
