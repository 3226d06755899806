//! Tiered-Indexing (VLDB Journal 34:45, 2025): Tables 1 to 3, Figures 12 to 21. Memory is given as a share of
//! the data: the paper's 2.5, 5, 10 and 20 GiB of 12.8.

use crate::experiment::{Claim, Experiment, How, Metric, Part};

const SHARES: [(f64, &str); 4] = [
    (0.195, "2.5 GiB"),
    (0.39, "5 GiB"),
    (0.78, "10 GiB"),
    (1.56, "20 GiB"),
];

/// Variants of a structure by their names in the paper, with what the benchmark is told.
const TREES: &[(&str, &str)] = &[
    ("B+tree", "--structure tree --tiers 1"),
    ("2B+tree", "--structure tree --tiers 2"),
    (
        "B+tree, record cache",
        "--structure tree --tiers 1 --record-cache",
    ),
];
const HASHES: &[(&str, &str)] = &[
    ("Hash", "--structure hash --tiers 1"),
    ("2Hash-S", "--structure hash --tiers 2"),
    ("2Hash-D", "--structure hash --tiers 2 --hashes own"),
    (
        "Hash, record cache",
        "--structure hash --tiers 1 --record-cache",
    ),
];
const HEAPS: &[(&str, &str)] = &[
    ("Heap", "--structure table --tiers 1"),
    (
        "2Heap-IHS",
        "--structure table --tiers 2 --hot-heap --sweep index",
    ),
    (
        "2Heap-HS",
        "--structure table --tiers 2 --hot-heap --sweep heap",
    ),
    ("rows in a hot tree", "--structure table --tiers 2"),
];
const LSM_TREES: &[(&str, &str)] = &[
    ("LSM-tree", "--structure lsm --tiers 1"),
    ("BiLSM-tree", "--structure lsm --tiers 2 --promote exp"),
    ("LSM-tree, two tiers", "--structure lsm --tiers 2"),
    (
        "LSM-tree, record cache",
        "--structure lsm --tiers 1 --record-cache",
    ),
];

/// Every variant with every memory, over one workload.
fn all(variants: &[(&str, &str)], workload: &str) -> Vec<Part> {
    let each = |&(memory, of): &(f64, &str)| {
        let parts = variants.iter().map(move |(name, args)| {
            let label = format!("{name}, {of}");
            Part::new(label, memory, &format!("{args} --workload {workload}"))
        });
        parts.collect::<Vec<_>>()
    };
    SHARES.iter().flat_map(each).collect()
}

/// Reads, then half updates; labels say which.
fn steady(variants: &[(&str, &str)], log: &str) -> Vec<Part> {
    let both = ["c", "f"].map(|workload| {
        let mut parts = all(variants, &format!("{workload} {log}"));
        for part in &mut parts {
            part.label = format!("{} {}", workload.to_uppercase(), part.label);
        }
        parts
    });
    both.concat()
}

const NO_LOG: &str = "--log off";

fn figure(
    name: &'static str,
    shows: &'static str,
    paper: &'static str,
    parts: Vec<Part>,
    holds: Vec<Claim>,
) -> Experiment {
    Experiment {
        name,
        shows,
        paper,
        how: How::Engine(parts),
        holds,
    }
}

fn faster(of: &str, over: &str, least: f64) -> Claim {
    Claim::at_least(Metric::Operations, of, over, least)
}

fn fewer(of: &str, over: &str, most: f64) -> Claim {
    Claim::at_most(Metric::Pages, of, over, most)
}

/// All of them.
pub fn experiments() -> Vec<Experiment> {
    let load = |variants| all(variants, &format!("load {NO_LOG}"));
    let mut of = vec![
        figure(
            "tiered/fig12a",
            "Loading in random order: ordered trees",
            "2B+tree loads up to 9.8 times as fast as a B+tree, and as fast as an LSM-tree from 5 GiB on",
            load(TREES)
                .into_iter()
                .chain(load(&LSM_TREES[..1]))
                .collect(),
            vec![faster("2B+tree, 5 GiB", "B+tree, 5 GiB", 3.0)],
        ),
        figure(
            "tiered/fig12b",
            "Loading in random order: hash tables",
            "With one hash function for both tiers far faster; with one for each no faster than one tier",
            load(HASHES),
            vec![faster("2Hash-S, 2.5 GiB", "2Hash-D, 2.5 GiB", 3.0)],
        ),
        figure(
            "tiered/fig12c",
            "Loading in random order: heaps with an index",
            "One tier appends and is fastest; swept in the order of the index two tiers are about as fast",
            load(HEAPS),
            vec![faster("2Heap-IHS, 2.5 GiB", "2Heap-HS, 2.5 GiB", 1.0)],
        ),
        figure(
            "tiered/fig12d",
            "Loading in random order: LSM-trees",
            "All variants load alike",
            load(LSM_TREES),
            vec![faster("LSM-tree, two tiers, 5 GiB", "LSM-tree, 5 GiB", 0.8)],
        ),
        figure(
            "tiered/table1",
            "Bytes read and written for each byte loaded",
            "B+tree 93 at 5 GiB, 2B+tree 2.6, 2Hash-S 3.8, Hash 174, LSM-tree 5.4",
            load(&TREES[..2])
                .into_iter()
                .chain(load(&HASHES[..2]))
                .chain(load(&LSM_TREES[..1]))
                .collect(),
            vec![
                fewer("2B+tree, 5 GiB", "B+tree, 5 GiB", 0.1),
                fewer("2Hash-S, 5 GiB", "Hash, 5 GiB", 0.1),
            ],
        ),
        figure(
            "tiered/fig13a",
            "Steady state, reads and half updates: ordered trees",
            "2B+tree 3.7 (reads) and 4.5 times (updates) a B+tree at 10 GiB",
            steady(TREES, NO_LOG),
            vec![
                faster("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 2.0),
                faster("F 2B+tree, 10 GiB", "F B+tree, 10 GiB", 2.0),
            ],
        ),
        figure(
            "tiered/fig13b",
            "Steady state: hash tables",
            "2Hash-S 3.0 and 3.7 times one table at 5 GiB",
            steady(HASHES, NO_LOG),
            vec![faster("C 2Hash-S, 5 GiB", "C Hash, 5 GiB", 2.0)],
        ),
        figure(
            "tiered/fig13c",
            "Steady state: heaps with an index",
            "2Heap-IHS 3.4 and 4.6 times one heap at 10 GiB",
            steady(HEAPS, NO_LOG),
            vec![faster("C 2Heap-IHS, 10 GiB", "C Heap, 10 GiB", 2.0)],
        ),
        figure(
            "tiered/fig13d",
            "Steady state: LSM-trees",
            "BiLSM-tree up to 2.05 times an LSM-tree on reads; a record cache loses on updates",
            steady(LSM_TREES, NO_LOG),
            vec![
                faster("C BiLSM-tree, 10 GiB", "C LSM-tree, 10 GiB", 1.3),
                faster(
                    "F LSM-tree, two tiers, 5 GiB",
                    "F LSM-tree, record cache, 5 GiB",
                    1.0,
                ),
            ],
        ),
        figure(
            "tiered/table2",
            "Page requests an operation in the steady state",
            "At 10 GiB under reads B+tree 0.22, 2B+tree 0.05; Hash 0.20, 2Hash-S 0.07; Heap 0.20, 2Heap-IHS 0.05",
            steady(&TREES[..2], NO_LOG)
                .into_iter()
                .chain(steady(&HASHES[..2], NO_LOG))
                .chain(steady(&HEAPS[..2], NO_LOG))
                .collect(),
            vec![
                fewer("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 0.4),
                fewer("C 2Hash-S, 10 GiB", "C Hash, 10 GiB", 0.5),
                fewer("C 2Heap-IHS, 10 GiB", "C Heap, 10 GiB", 0.5),
            ],
        ),
        figure(
            "tiered/fig14",
            "Loading in random order with a log",
            "2B+tree up to 5.8 times a B+tree",
            all(&TREES[..2], "load --log buffered"),
            vec![faster("2B+tree, 2.5 GiB", "B+tree, 2.5 GiB", 2.5)],
        ),
        figure(
            "tiered/fig15",
            "Steady state with a log",
            "2B+tree up to 2.96 (reads) and 3.8 times (updates) a B+tree",
            steady(&TREES[..2], "--log buffered"),
            vec![
                faster("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 2.0),
                faster("F 2B+tree, 10 GiB", "F B+tree, 10 GiB", 2.0),
            ],
        ),
        figure(
            "tiered/fig16",
            "95 % scans of up to 100 records, 5 % updates",
            "2B+tree up to 50 % behind a B+tree; record caches two orders of magnitude behind",
            all(TREES, "scan")
                .into_iter()
                .chain(all(LSM_TREES, "scan"))
                .collect(),
            vec![
                faster("2B+tree, 5 GiB", "B+tree, 5 GiB", 0.5),
                faster("2B+tree, 5 GiB", "B+tree, record cache, 5 GiB", 1.5),
            ],
        ),
    ];
    let ablation = [
        ("LSM-tree", "--structure lsm --tiers 1"),
        (
            "+ naive migration",
            "--structure lsm --tiers 2 --promote all --early off --control off",
        ),
        (
            "+ constant sampling",
            "--structure lsm --tiers 2 --promote const:0.3 --early off --control off",
        ),
        (
            "+ exponential sampling",
            "--structure lsm --tiers 2 --promote exp --early off --control off",
        ),
        (
            "+ early migration",
            "--structure lsm --tiers 2 --promote exp --early on --control off",
        ),
        (
            "+ adaptive migration",
            "--structure lsm --tiers 2 --promote exp --early on --control on",
        ),
    ];
    of.push(figure(
        "tiered/table3",
        "The techniques of the BiLSM-tree, one after the other, under reads",
        "Bytes written a lookup 67 (naive), 21, 8, 7.9, 3.8; throughput 190 K/s without, 376 K/s with all",
        ablation
            .iter()
            .map(|(label, args)| Part::new(*label, 0.39, &format!("{args} --workload c {NO_LOG}")))
            .collect(),
        vec![fewer("+ adaptive migration", "+ naive migration", 1.0)],
    ));
    for (name, shows, variants) in [
        ("tiered/fig17a", "The hot set moves: ordered trees", TREES),
        ("tiered/fig17b", "The hot set moves: hash tables", HASHES),
        ("tiered/fig17c", "The hot set moves: heaps", HEAPS),
        ("tiered/fig17d", "The hot set moves: LSM-trees", LSM_TREES),
    ] {
        let parts = variants.iter().map(|(label, args)| {
            Part::new(*label, 0.39, &format!("{args} --workload shift {NO_LOG}"))
        });
        of.push(figure(
            name,
            shows,
            "Two tiers drop when hot spots change, for they are replaced record by record, and are ahead again after half an hour",
            parts.collect(),
            vec![faster(variants[1].0, variants[0].0, 1.0)],
        ));
    }
    let sizes = [56, 120, 248, 504, 1016, 2040];
    let sized = sizes.iter().flat_map(|&value| {
        ["c", "f"]
            .map(|workload| (value, workload))
            .into_iter()
            .flat_map(move |(value, workload)| {
                TREES[..2].iter().map(move |(name, args)| {
                    let label = format!("{} {name}, {} bytes", workload.to_uppercase(), value + 8);
                    Part::new(
                        label,
                        0.39,
                        &format!("{args} --workload {workload} {NO_LOG}"),
                    )
                    .value_bytes(value)
                })
            })
    });
    of.push(figure(
        "tiered/fig18",
        "Records of 64 bytes to 2 KiB, the same bytes of data",
        "2B+tree 5 times a B+tree with 64 bytes, 3 times with 2 KiB",
        sized.collect(),
        vec![
            faster("C 2B+tree, 64 bytes", "C B+tree, 64 bytes", 2.0),
            faster("C 2B+tree, 2048 bytes", "C B+tree, 2048 bytes", 1.2),
        ],
    ));
    let skews = [0.1, 0.3, 0.5, 0.7, 0.9, 1.1];
    let structures = [&TREES[..2], &HASHES[..2], &HEAPS[..2], &LSM_TREES[..2]].concat();
    let skewed = skews.iter().flat_map(|skew| {
        structures.iter().map(move |(name, args)| {
            let label = format!("{name}, skew {skew}");
            Part::new(
                label,
                0.39,
                &format!("{args} --workload f --zipf {skew} {NO_LOG}"),
            )
        })
    });
    of.push(figure(
        "tiered/fig19",
        "Skew from .1 to 1.1, half updates",
        "Alike at .1; at 1.1 2B+tree 4.5 times a B+tree, 2Hash 5 times a hash table, BiLSM-tree 2.9 times on reads",
        skewed.collect(),
        vec![
            faster("2B+tree, skew 0.1", "B+tree, skew 0.1", 0.8),
            faster("2B+tree, skew 1.1", "B+tree, skew 1.1", 2.0),
        ],
    ));
    for (name, workload, shows) in [
        (
            "tiered/fig20a",
            "c",
            "Threads with everything in memory, reads: optimistic and pessimistic record locks",
        ),
        ("tiered/fig20b", "f", "The same, half updates"),
    ] {
        let parts = [1, 2, 4, 8, 16, 32].into_iter().flat_map(|threads| {
            [("optimistic", ""), ("pessimistic", "--pessimistic-locks")].map(|(label, args)| {
                Part::new(
                    format!("{label}, {threads} threads"),
                    2.4,
                    &format!("--structure tree --tiers 2 --workload {workload} --zipf 0.96 --threads {threads} {args} {NO_LOG}"),
                )
            })
        });
        of.push(figure(
            name,
            shows,
            "With 32 threads optimistic locks are 1.78 (reads) and 2.2 times (updates) pessimistic ones",
            parts.collect(),
            vec![faster("optimistic, 2 threads", "pessimistic, 2 threads", 0.95)],
        ));
    }
    let strategies = [("inclusive", ""), ("exclusive", "--exclusive")];
    let stayed = [&TREES[1..2], &HASHES[1..2], &HEAPS[1..2]].concat();
    let both = strategies.iter().flat_map(|(strategy, extra)| {
        let variants: Vec<(String, String)> = stayed
            .iter()
            .map(|(name, args)| (format!("{name}, {strategy}"), format!("{args} {extra}")))
            .collect();
        let named: Vec<(&str, &str)> = variants
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        steady(&named, NO_LOG)
    });
    of.push(figure(
        "tiered/fig21",
        "Promoted records stay below (inclusive), or leave (exclusive)",
        "Inclusive tiers are up to 70, 58, 55 % faster on reads; on updates alike",
        both.collect(),
        vec![faster(
            "C 2B+tree, inclusive, 5 GiB",
            "C 2B+tree, exclusive, 5 GiB",
            1.0,
        )],
    ));
    of
}
