//! What the programs that print rows of their own are held to, by the names of experiments: `mem-bench`,
//! `place-bench`, `terrace bench --structure pm`.

use crate::experiment::{Claim, How, Metric};

/// Figures of maps in memory.
const BYTES: Metric = Metric::At("/bytes_per_entry", "bytes an entry");
const INSERTS: Metric = Metric::At("/inserts_per_second", "inserts a second of a processor");
const GETS: Metric = Metric::At("/gets_per_second", "reads a second of a processor");
const SCANS: Metric = Metric::At("/scans_per_second", "scans of 50 a second of a processor");
const LONGEST: Metric = Metric::At("/longest_insert_us", "µs of the longest insert");
const INSTRUCTIONS: Metric = Metric::At("/instructions_per_get", "instructions of a read");
const MISSES: Metric = Metric::At("/l1_misses_per_get", "misses of the first cache a read");

/// Figures of trees over two kinds of memory.
const FAST: Metric = Metric::At(
    "/missing_fast_share",
    "share of fast memory in what the cache lacks",
);
const TIME: Metric = Metric::At(
    "/time_r2",
    "time of an operation where slow is twice as slow",
);
const FULL: Metric = Metric::At("/filled", "fast memory in use, over the limit");

/// Figures of maps in persistent memory.
const FENCES: Metric = Metric::At("/fences_per_op", "fences for each operation");
const UNITS: Metric = Metric::At(
    "/units_256_per_op",
    "units of 256 bytes written for each operation",
);
const READS: Metric = Metric::At(
    "/leaf_lines_read_per_op",
    "lines of leaves read for each operation",
);
const MOST_LINES: Metric = Metric::At("/most_lines", "lines that the longest operation writes");
const TAIL: Metric = Metric::At("/p9999_lines", "lines at the 99.99th percentile");
const LOG_BYTES: Metric = Metric::At("/log_bytes", "bytes of the log that are held");
const DRAM: Metric = Metric::At("/dram_bytes_per_key", "bytes of memory a key");
const SECONDS: Metric = Metric::At("/seconds", "seconds");

/// Figures of transactions.
const RATE: Metric = Metric::At("/per_processor", "transactions a second of a processor");
const P50: Metric = Metric::At("/outcome/p50", "\u{b5}s of a transaction, half of them");
const LONGEST_TRANSACTION: Metric =
    Metric::At("/outcome/longest", "\u{b5}s of the longest transaction");
const BEFORE: Metric = Metric::At(
    "/outcome/before_eviction",
    "transactions before the first row leaves memory",
);
const INDEX_BYTES: Metric = Metric::At("/indexes", "bytes of indexes");
const INDEX_SHARE: Metric = Metric::At("/index_share", "share of indexes in the memory");
const COLD: Metric = Metric::At(
    "/misses_an_operation",
    "rows that were not in memory for each operation",
);
const READ_BYTES: Metric = Metric::At("/bytes_read_an_operation", "bytes read for each operation");

fn ratio(metric: Metric, of: &str, over: &str) -> Claim {
    Claim::ratio(metric, of, over)
}

/// What has to come out.
pub fn claims(name: &str) -> Vec<Claim> {
    match name {
        "hybrid/fig5" => vec![
            // The paper: 30 to 71 % fewer.
            ratio(BYTES, "compact B+tree, random", "B+tree, random").at_most(0.75),
            ratio(BYTES, "compact ART, random", "ART, random").at_most(0.75),
            ratio(GETS, "compact B+tree, random", "B+tree, random").at_least(0.9),
        ],
        "hybrid/fig6" => vec![
            // Four sizes, each twice as large; and steps that do not grow.
            ratio(LONGEST, "B+tree, random, 4.", "B+tree, random, 1.").at_least(3.0),
            ratio(LONGEST, "Auto, in steps, random, 4.", "B+tree, random, 4.").at_most(0.2),
        ],
        "hybrid/fig7" => vec![
            // The paper: 30 to 70 % fewer.
            ratio(BYTES, "hybrid B+tree, random", "B+tree, random").at_most(0.75),
            ratio(BYTES, "hybrid ART, random", "ART, random").at_most(0.75),
            ratio(GETS, "hybrid B+tree, random", "B+tree, random").at_least(0.8),
            ratio(INSERTS, "hybrid B+tree, random", "B+tree, random").at_least(0.3),
        ],
        "hybrid/table1" => {
            // The paper: indexes take from a third to more than half.
            let shares = [("TPC-C", 0.3), ("Voter", 0.3), ("Articles", 0.2)];
            let share = |(work, least)| {
                Claim::figure(INDEX_SHARE, format!("{work}, B+tree")).at_least(least)
            };
            shares.map(share).to_vec()
        }
        "hybrid/fig8" => {
            let of = |work: &str, least: f64, paper: f64, bytes: f64| {
                let (hybrid, tree) = (
                    format!("{work}, hybrid, numbers false"),
                    format!("{work}, B+tree, numbers false"),
                );
                [
                    ratio(RATE, &hybrid, &tree).at_least(least).paper(paper),
                    ratio(INDEX_BYTES, &hybrid, &tree).at_most(bytes),
                ]
            };
            let works = [
                of("TPC-C", 0.85, 0.90, 0.60),
                of("Voter", 0.85, 0.92, 0.55),
                of("Articles", 0.90, 0.99, 0.60),
            ];
            works.concat()
        }
        "hybrid/table3" => {
            let (hybrid, tree) = (
                "TPC-C, hybrid, numbers false",
                "TPC-C, B+tree, numbers false",
            );
            vec![
                ratio(P50, hybrid, tree).at_most(1.15),
                Claim::figure(LONGEST_TRANSACTION, hybrid)
                    .at_most(611e3)
                    .paper(611e3),
            ]
        }
        "hybrid/fig9" => {
            let of = |work: &str| {
                let (hybrid, tree) = (
                    format!("{work}, anti-caching, hybrid"),
                    format!("{work}, anti-caching, B+tree"),
                );
                ratio(BEFORE, &hybrid, &tree).at_least(1.1)
            };
            vec![of("TPC-C"), of("Voter"), of("Articles")]
        }
        "two-tree/anti-caching" => {
            let of = |work: &str| {
                let (ours, rival) = (
                    format!("{work}, spill, hybrid"),
                    format!("{work}, anti-caching, hybrid"),
                );
                [
                    ratio(COLD, &ours, &rival).at_most(1.0),
                    ratio(READ_BYTES, &ours, &rival).at_most(0.5),
                ]
            };
            let works = [
                of("1024 B, 2.5 x memory, Zipf(0.9), Read"),
                of("1024 B, 5 x memory, Zipf(0.9), Read"),
            ];
            works.concat()
        }
        "hybrid/fig11" => vec![
            ratio(INSERTS, "ratio 1, random", "ratio 100, random").at_least(1.0),
            ratio(BYTES, "ratio 100, random", "ratio 1, random").at_most(1.0),
        ],
        "hybrid/fig12" => vec![
            ratio(
                GETS,
                "with filter, without cache, random",
                "without filter, without cache, random",
            )
            .at_least(1.0),
            ratio(
                GETS,
                "with filter, with cache, random",
                "with filter, without cache, random",
            )
            .at_least(1.0),
        ],
        "hybrid/fig13" => vec![
            ratio(BYTES, "hybrid B+tree, random", "B+tree, random").at_most(0.75),
            ratio(BYTES, "hybrid ART, random", "ART, random").at_most(0.75),
            ratio(GETS, "hybrid B+tree, random", "B+tree, random").at_least(0.8),
        ],
        "hybrid/merge-cold" => {
            vec![ratio(INSERTS, "merge all, random", "merge cold, random").at_least(0.9)]
        }
        "hybrid/trigger" => vec![
            ratio(INSERTS, "ratio 10, random", "a two-hundredth, random").at_least(1.0),
            ratio(BYTES, "ratio 10, random", "a twentieth, random").at_most(1.1),
        ],
        "sinlk/fig2" => vec![
            ratio(
                TIME,
                "interleave, zipf, fast share 0.0",
                "interleave, zipf, fast share 1.0",
            )
            .at_least(1.2),
        ],
        "sinlk/fig5" => vec![
            Claim::figure(
                Metric::At(
                    "/series/75",
                    "touches of the colder three quarters of nodes on the hottest pages",
                ),
                "hottest 1 % of pages, zipf",
            )
            .at_most(0.5),
        ],
        "sinlk/fig6" => vec![ratio(FAST, "fast-slow, zipf", "slow-fast, zipf").at_least(1.1)],
        "sinlk/fig8" => vec![
            ratio(
                FAST,
                "prophet, sp, fast share 0.1",
                "prophet, sp, fast share 0.01",
            )
            .at_least(1.5),
        ],
        "sinlk/fig13" => vec![
            ratio(FAST, "sinlk, sp", "memtis-4k, sp").at_least(1.1),
            ratio(FAST, "sinlk, sp", "internal-first, sp").at_least(1.1),
            ratio(FAST, "heat, sp", "sinlk, sp").at_least(1.0),
        ],
        "sinlk/fig14" => vec![
            // The paper: 31 to 84 % faster than its baseline.
            ratio(TIME, "interleave, ycsb-c", "sinlk, ycsb-c")
                .at_least(1.1)
                .paper(1.31),
            ratio(TIME, "interleave, ycsb-c", "heat, ycsb-c")
                .at_least(1.1)
                .paper(1.31),
        ],
        "sinlk/fig15a" => {
            let of = |place| Metric::At(place, "share of fast memory in one of forty periods");
            let recovers = |policy: &str| {
                ratio(of("/series/39"), policy, policy)
                    .below(of("/series/19"))
                    .at_least(0.9)
            };
            vec![recovers("sinlk, sp"), recovers("heat, sp")]
        }
        "sinlk/fig15b" => vec![
            ratio(
                FAST,
                "sinlk, sp, operations a step 4096",
                "sinlk, sp, operations a step 16",
            )
            .at_least(0.9),
        ],
        "sinlk/fig15c" => vec![
            Claim::figure(FAST, "sinlk, zipf, fast share 0.4").at_least(0.75),
            Claim::figure(FAST, "heat, zipf, fast share 0.4").at_least(0.75),
        ],
        "sinlk/fig17" => vec![
            ratio(FAST, "sinlk, zipf", "sinlk:layering, zipf").at_least(1.0),
            ratio(FAST, "sinlk, zipf", "interleave, zipf").at_least(1.1),
            ratio(FAST, "heat, zipf", "sinlk, zipf").at_least(0.98),
        ],
        "sinlk/fig18" => vec![
            ratio(FAST, "heat, 8+8 bytes", "interleave, 8+8 bytes").at_least(1.1),
            ratio(FAST, "heat, 128+8 bytes", "interleave, 128+8 bytes").at_least(1.1),
        ],
        "sinlk/fig19" => vec![
            ratio(FAST, "sinlk, ycsb-d", "separate, ycsb-d").at_least(1.0),
            ratio(FAST, "heat, ycsb-d", "sinlk, ycsb-d").at_least(1.0),
        ],
        "sinlk/fig20" => vec![
            Claim::figure(FULL, "sinlk, ycsb-d").at_most(1.0),
            Claim::figure(FULL, "heat, ycsb-d").at_most(1.0),
        ],
        "sinlk/table2" => {
            let share = Metric::At("/engine_share_of_time", "share of the workers in the time");
            vec![Claim::figure(share, "heat, zipf").at_most(0.1)]
        }
        "sinlk/fig21" | "sinlk/fig22" => vec![
            ratio(FAST, "sinlk, blocks", "memtis-4k, blocks").at_least(1.1),
            ratio(FAST, "heat, blocks", "memtis-4k, blocks").at_least(1.1),
        ],
        "lodgetree/fig1" => {
            vec![ratio(MOST_LINES, "dptree, insert", "paper, insert").at_least(5.0)]
        }
        "lodgetree/fig2" => vec![ratio(TAIL, "betree, insert", "paper, insert").at_least(2.0)],
        "lodgetree/fig11" => vec![
            ratio(UNITS, "paper, insert", "fast-fair, insert").at_most(0.8),
            ratio(UNITS, "elastic, insert", "paper, insert").at_most(1.0),
            ratio(READS, "paper, search", "fast-fair, search").at_most(1.2),
        ],
        "lodgetree/fig12" => vec![ratio(MOST_LINES, "paper, mix", "dptree, mix").at_most(0.2)],
        // The paper bounds it by a share of the leaves.
        "lodgetree/fig15" => vec![Claim::figure(LOG_BYTES, "paper, update").at_most(4e6)],
        "lodgetree/fig17" => {
            vec![ratio(UNITS, "paper, insert-skewed", "fast-fair, insert-skewed").at_most(0.8)]
        }
        "lodgetree/fig18" => vec![Claim::figure(SECONDS, "recovery").at_most(1.0)],
        "lodgetree/fig19" => vec![ratio(READS, "paper, range", "fast-fair, range").at_most(2.0)],
        _ => Vec::new(),
    }
}

/// What is drawn.
pub fn draws(name: &str, how: &How) -> Vec<Metric> {
    let of: &[Metric] = match (name, how) {
        ("hybrid/fig6" | "hybrid/merge-cold" | "hybrid/trigger", _) => &[LONGEST, INSERTS, GETS],
        ("hybrid/table2", _) => &[INSTRUCTIONS, MISSES],
        ("hybrid/fig7", _) => &[BYTES, INSERTS, GETS, SCANS],
        ("sinlk/fig20", _) => &[FULL],
        ("lodgetree/fig1", _) => &[MOST_LINES, UNITS],
        ("lodgetree/fig2" | "lodgetree/fig12", _) => &[TAIL, MOST_LINES],
        ("lodgetree/fig15", _) => &[LOG_BYTES],
        ("lodgetree/fig18", _) => &[SECONDS, DRAM],
        ("lodgetree/fig19", _) => &[READS],
        (_, How::Maps(_)) => &[BYTES, INSERTS, GETS],
        ("hybrid/table1", _) => &[INDEX_SHARE],
        ("hybrid/fig9", _) => &[BEFORE],
        ("two-tree/anti-caching", _) => &[READ_BYTES, COLD],
        (_, How::Transactions(_)) => &[RATE, INDEX_BYTES],
        (_, How::Places(_)) => &[FAST, TIME],
        (_, How::Persistent(_)) => &[UNITS, FENCES],
        _ => &[],
    };
    of.to_vec()
}
