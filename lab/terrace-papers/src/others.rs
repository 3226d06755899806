//! 2-Tree (CIDR 2023), hybrid indexes (SIGMOD 2016), SINLK, LodgeTree: their figures and tables.

use crate::experiment::{Claim, Experiment, How, Metric, Part};
use crate::held;

/// What is measured by programs of their own.
fn by(name: &'static str, shows: &'static str, paper: &'static str, how: How) -> Experiment {
    Experiment {
        name,
        shows,
        paper,
        holds: held::claims(name),
        draws: held::draws(name, &how),
        how,
        published: Vec::new(),
        because: None,
    }
}

/// A fifth of 20 million records of 256 bytes in memory, as on the slides.
const SLIDES: f64 = 0.2;

fn slides(
    name: &'static str,
    shows: &'static str,
    paper: &'static str,
    structure: &str,
    workload: &str,
) -> Experiment {
    let parts = [1, 2].map(|tiers| {
        let args =
            format!("--structure {structure} --tiers {tiers} --workload {workload} --log off");
        let label = if tiers == 1 { "one tier" } else { "two tiers" };
        Part::new(label, SLIDES, &args).value_bytes(248)
    });
    let least = if workload == "scan" { 0.7 } else { 1.3 };
    Experiment {
        name,
        shows,
        paper,
        how: How::Engine(parts.to_vec()),
        holds: vec![Claim::ratio(Metric::Allowed, "two tiers", "one tier").at_least(least)],
        draws: vec![Metric::Allowed, Metric::Pages],
        published: Vec::new(),
        because: None,
    }
}

fn two_tree() -> Vec<Experiment> {
    vec![
        slides(
            "two-tree/point-hotspot",
            "Reads of a hot spot",
            "Two trees far ahead while the hot spot fits",
            "tree",
            "hotspot",
        ),
        slides(
            "two-tree/point-zipf",
            "Reads by Zipf",
            "Two trees ahead at every skew",
            "tree",
            "c",
        ),
        slides(
            "two-tree/point-update",
            "Updates by Zipf",
            "Two trees ahead, more than on reads",
            "tree",
            "f",
        ),
        slides(
            "two-tree/scan",
            "Scans and updates",
            "On a par with a single tree",
            "tree",
            "scan",
        ),
        slides(
            "two-tree/lsm-point",
            "LSM-tree with upward migration, reads",
            "Ahead of an LSM-tree",
            "lsm",
            "c",
        ),
        slides(
            "two-tree/lsm-update",
            "LSM-tree with upward migration, updates",
            "Ahead of an LSM-tree",
            "lsm",
            "f",
        ),
        by(
            "two-tree/anti-caching",
            "A hot tree purely in memory above a cold one on disk, against anti-caching",
            "Fewer misses and far fewer bytes read at equal memory",
            How::Transactions("two-tree --dir {db} --seconds 3"),
        ),
    ]
}

fn hybrid() -> Vec<Experiment> {
    vec![
        by(
            "hybrid/table1",
            "Memory of tuples and indexes in TPC-C, Voter, Articles",
            "Indexes take up to 58 %",
            How::Transactions("table1"),
        ),
        by(
            "hybrid/fig5",
            "Each structure, its compact and its compressed form: reads and bytes",
            "Compact forms save 30 to 71 % and read faster, but for compressed ones",
            How::Maps("fig5"),
        ),
        by(
            "hybrid/fig6",
            "How long a merge takes, by entries",
            "Linear in the size of the static stage",
            How::Maps("fig6"),
        ),
        by(
            "hybrid/table2",
            "Instructions and cache misses of a lookup",
            "Compact forms do fewer of both",
            How::Maps("table2"),
        ),
        by(
            "hybrid/fig7",
            "Hybrid against original: inserts, reads, scans, half updates, bytes",
            "Bytes 30 to 70 % fewer; reads about alike, inserts slower where keys are unique",
            How::Maps("fig7"),
        ),
        by(
            "hybrid/fig8",
            "TPC-C, Voter, Articles in memory",
            ".90, .92, .99 of the throughput, .45 to .60 of the index's bytes",
            How::Transactions("fig8 --rounds 1"),
        ),
        by(
            "hybrid/table3",
            "Latencies of TPC-C",
            "Median and 99th percentile alike, the longest 611 ms",
            How::Transactions("table3 --rounds 1"),
        ),
        by(
            "hybrid/fig9",
            "The same with more than memory holds",
            "More transactions before the first eviction",
            How::Transactions("fig9 --dir {db}"),
        ),
        by(
            "hybrid/fig11",
            "Ratios of the merge trigger from 1 to 100",
            "10 balances reads and writes",
            How::Maps("fig11"),
        ),
        by(
            "hybrid/fig12",
            "With and without filter and node cache",
            "The filter spares lookups in the dynamic stage",
            How::Maps("fig12"),
        ),
        by(
            "hybrid/fig13",
            "Secondary indexes, ten values a key",
            "As primary ones, with more bytes saved",
            How::Maps("fig13"),
        ),
        by(
            "hybrid/merge-cold",
            "Merging all, or what was not used (5.2)",
            "Merging all is the better default",
            How::Maps("merge-cold"),
        ),
        by(
            "hybrid/trigger",
            "Merging at a ratio, or at a number (5.2)",
            "A ratio",
            How::Maps("trigger"),
        ),
    ]
}

fn sinlk() -> Vec<Experiment> {
    let found = [
        (
            "sinlk/fig1",
            "What memories this machine has",
            "Slow memory has about twice the latency and three fifths of the bandwidth",
            How::Prints(&["place", "doctor"]),
        ),
        (
            "sinlk/fig2",
            "Throughput by the share of fast memory",
            "Falls as the share falls",
            How::Places("fig2"),
        ),
        (
            "sinlk/fig3",
            "SMART, PACTree and ART",
            "Both lose to ART with more fast memory",
            How::Missing("SMART and PACTree have no plain crate, and are not rebuilt here"),
        ),
        (
            "sinlk/fig4",
            "Where SMART's time goes",
            "Updates of its local cache",
            How::Missing("as fig3"),
        ),
        (
            "sinlk/fig5",
            "Accesses of nodes on pages of different heat",
            "Hot pages hold mostly cold nodes",
            How::Places("fig5"),
        ),
        (
            "sinlk/fig6",
            "Placements by layer",
            "Upper nodes in fast memory are better than lower ones",
            How::Places("fig6"),
        ),
        (
            "sinlk/fig8",
            "Shares of hot paths in fast memory",
            "Throughput rises with them",
            How::Places("fig8"),
        ),
        (
            "sinlk/fig13",
            "The policies under a skewed partition",
            "Ahead of page-based and node-based ones",
            How::Places("fig13"),
        ),
        (
            "sinlk/fig14",
            "YCSB",
            "31 to 84 % ahead of the baseline",
            How::Places("fig14"),
        ),
        (
            "sinlk/fig15a",
            "The hot region moves",
            "It recovers within seconds",
            How::Places("fig15a"),
        ),
        (
            "sinlk/fig15b",
            "How often the workers wake",
            "Hardly matters",
            How::Places("fig15b"),
        ),
        (
            "sinlk/fig15c",
            "The limit of fast memory from 10 to 80 %",
            "Close to all in fast memory from 40 % on",
            How::Places("fig15c"),
        ),
        (
            "sinlk/fig16",
            "Threads, and sizes of the data",
            "Scales as the tree does",
            How::Places("fig16"),
        ),
        (
            "sinlk/fig17",
            "The techniques one after the other",
            "Each adds",
            How::Places("fig17"),
        ),
        (
            "sinlk/fig18",
            "Key sizes",
            "The gain stays",
            How::Places("fig18"),
        ),
        (
            "sinlk/fig19",
            "Passive and separate management",
            "Both are worse than one that sees all",
            How::Places("fig19"),
        ),
        (
            "sinlk/fig20",
            "Fast memory in use over time",
            "Stays between the watermarks",
            How::Places("fig20"),
        ),
        (
            "sinlk/table2",
            "Time of the background workers",
            "A few per cent",
            How::Places("table2"),
        ),
        (
            "sinlk/fig21",
            "A trace of block devices",
            "Ahead of the compared systems; here the same shape is drawn by lot unless a trace is given",
            How::Places("fig21"),
        ),
        (
            "sinlk/fig22",
            "The same with a Masstree",
            "As fig21",
            How::Places("fig21 --tree masstree"),
        ),
    ];
    found
        .map(|(name, shows, paper, how)| by(name, shows, paper, how))
        .to_vec()
}

fn lodgetree() -> Vec<Experiment> {
    let found = [
        (
            "lodgetree/fig1",
            "Flush latency of a buffer that grows",
            "Grows with the buffer, and puts stall meanwhile",
            How::Persistent("insert"),
        ),
        (
            "lodgetree/fig2",
            "Writes over time",
            "Stalls show as gaps",
            How::Persistent("insert"),
        ),
        (
            "lodgetree/fig11",
            "Inserts, searches, skewed inserts, mixes against the others",
            "Ahead on writes, alike on reads",
            How::Persistent("all"),
        ),
        (
            "lodgetree/fig12",
            "Tail latencies",
            "No long tails, as flushes are small",
            How::Persistent("mix"),
        ),
        (
            "lodgetree/fig13",
            "Threads that write at the same time",
            "Spread evenly",
            How::Missing(
                "counts of one thread do not show it, and the machine has no persistent memory",
            ),
        ),
        (
            "lodgetree/fig15",
            "Log pages that are held",
            "Bounded",
            How::Persistent("update"),
        ),
        (
            "lodgetree/fig16",
            "Two sockets",
            "Local memory is faster",
            How::Missing(
                "needs two sockets with persistent memory; scripts/pm-qemu runs the crash tests only",
            ),
        ),
        (
            "lodgetree/fig17",
            "Distributions",
            "Skew helps it",
            How::Persistent("insert-skewed"),
        ),
        (
            "lodgetree/fig18",
            "Recovery, and memory",
            "Recovery in fractions of a second",
            How::Persistent("insert --recovery"),
        ),
        (
            "lodgetree/fig19",
            "Ranges",
            "Somewhat behind sorted leaves",
            How::Persistent("range"),
        ),
    ];
    found
        .map(|(name, shows, paper, how)| by(name, shows, paper, how))
        .to_vec()
}

/// All of them.
pub fn experiments() -> Vec<Experiment> {
    [two_tree(), hybrid(), sinlk(), lodgetree()].concat()
}
