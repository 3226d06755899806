//! What a hot tier that lies in memory alone does to the data file, beside one whose pages lie in it: counted by one
//! thread, with 30,000 records of 128 bytes and memory for four tenths of them.

use terrace::fault::{self, store};
use terrace::{Database, Kind, MapOptions, Options};
use terrace_sim::{Rng, SimDisk};

use crate::common::create;

const RECORDS: u64 = 30_000;
const RECORD: u64 = 128;
const USER: u64 = RECORDS * RECORD;
const VALUE: [u8; 120] = [7; 120];

/// What came of one form.
#[derive(Debug)]
struct Counts {
    hot_pages: u64,
    /// Data pages written by reads after the idle work.
    by_reads: u64,
    /// Data file over user bytes, after reads and after half reads and half updates.
    after_c: f64,
    after_f: f64,
    /// Page reads for each read.
    page_reads: f64,
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// The weights of Zipf .9, summed up.
fn zipf() -> Vec<f64> {
    let mut sum = 0.0;
    (1..=RECORDS)
        .map(|rank| {
            sum += (rank as f64).powf(-0.9);
            sum
        })
        .collect()
}

fn counted(kind: Kind, in_memory: bool) -> Counts {
    let disk = SimDisk::new(1);
    let options = Options::new()
        .memory(USER * 4 / 10)
        .page_size(4096)
        .log_limit(4 << 20)
        .seed(1)
        .foreground(true);
    let db = Database::open_on(disk.shared(), options).unwrap();
    let of = MapOptions::new().hot_in_memory(in_memory);
    let map = create(&db, "map", (kind, terrace::Tiers::Two, false), of).unwrap();
    let due = || {
        let log = db.stats().log;
        if store(&db).wants_checkpoint() || log.bytes_since_checkpoint > log.limit {
            db.checkpoint().unwrap();
        }
    };
    for i in 0..RECORDS {
        map.put(key(i), VALUE).unwrap();
        if i % 100 == 0 {
            due();
        }
    }
    db.checkpoint().unwrap();
    let weights = zipf();
    let mut rng = Rng::new(3);
    let mut any = move || {
        let at = rng.below(1 << 53) as f64 / (1u64 << 53) as f64 * weights[RECORDS as usize - 1];
        weights.partition_point(|sum| *sum < at) as u64
    };
    let mut value = Vec::new();
    let mut read = |n: u64| {
        for _ in 0..n {
            assert!(map.get_into(key(any()), &mut value).unwrap());
        }
    };
    let length = || db.stats().pages.data_file_bytes as f64 / USER as f64;
    for _ in 0..6 * RECORDS / 100 {
        read(100);
        due();
    }
    fault::calm_rounds(&db, 20_000).unwrap();
    let after_c = length();
    let before = db.stats().pages;
    read(2 * RECORDS);
    let by_reads = db.stats().pages.writes - before.writes;
    let page_reads = (db.stats().pages.reads - before.reads) as f64 / (2 * RECORDS) as f64;
    let mut rng = Rng::new(4);
    let mut after_f: f64 = 0.0;
    for i in 0..6 * RECORDS {
        read(1);
        if i % 2 == 0 {
            let at = rng.below(1 << 53) as f64 / (1u64 << 53) as f64;
            // About the same distribution, in closed form.
            let rank = (((RECORDS as f64).powf(0.1) - 1.0) * at + 1.0).powf(10.0) as u64 - 1;
            map.put(key(rank.min(RECORDS - 1)), VALUE).unwrap();
        }
        if i % 100 == 0 {
            // At its longest.
            after_f = after_f.max(length());
            due();
        }
    }
    let stats = db.stats();
    Counts {
        hot_pages: stats.checkpoints.hot_pages,
        by_reads,
        after_c,
        after_f,
        page_reads,
    }
}

#[test]
fn with_trees_and_hash_tables() {
    for kind in [Kind::Tree, Kind::Hash] {
        let paged = counted(kind, false);
        let memory = counted(kind, true);
        eprintln!("{kind}:\n{paged:?}\n{memory:?}");
        assert_eq!((memory.hot_pages, memory.by_reads), (0, 0));
        assert!(paged.hot_pages > 0);
        assert!(memory.after_c <= paged.after_c * 1.1);
        assert!(memory.after_f <= paged.after_f * 0.9);
        assert!(memory.page_reads <= paged.page_reads * 1.03);
    }
}
