//! Tiered-Indexing (VLDB Journal 34:45, 2025): Tables 1 to 3, Figures 12 to 21. Memory is given as a share of
//! the data: the paper's 2.5, 5, 10 and 20 GiB of 12.8.

use crate::experiment::{Claim, Experiment, How, Metric, Part};

/// Memory over data, as the paper says it, and whether a quick run leaves it out: with little memory a small
/// database is mostly page tables, and with all in memory there is little to see.
const SHARES: [(f64, &str, bool); 4] = [
    (0.195, "2.5 GiB", true),
    (0.39, "5 GiB", false),
    (0.78, "10 GiB", false),
    (1.56, "20 GiB", true),
];

/// Variants of a structure by their names in the paper, with what the benchmark is told.
type Variants = [(&'static str, &'static str)];

const TREES: &Variants = &[
    ("B+tree", "--structure tree --tiers 1"),
    ("2B+tree", "--structure tree --tiers 2"),
    (
        "as in TreeLine",
        "--structure tree --tiers 1 --record-cache=treeline",
    ),
];
const HASHES: &Variants = &[
    ("Hash", "--structure hash --tiers 1"),
    ("2Hash-S", "--structure hash --tiers 2"),
    ("2Hash-D", "--structure hash --tiers 2 --hashes own"),
    (
        "Hash, record cache",
        "--structure hash --tiers 1 --record-cache",
    ),
];
const HEAPS: &Variants = &[
    ("Heap", "--structure table --tiers 1"),
    (
        "2Heap-IHS",
        "--structure table --tiers 2 --hot-heap --sweep index",
    ),
    (
        "2Heap-HS",
        "--structure table --tiers 2 --hot-heap --sweep heap",
    ),
    (
        "Heap, record cache",
        "--structure table --tiers 1 --record-cache",
    ),
];
const LSM_TREES: &Variants = &[
    ("LSM-tree", "--structure lsm --tiers 1"),
    (
        "BiLSM-tree",
        "--structure lsm --tiers 2 --promote exp --control-period 0.05",
    ),
    ("LSM-tree, two tiers", "--structure lsm --tiers 2"),
    (
        "LSM-tree, record cache",
        "--structure lsm --tiers 1 --record-cache",
    ),
];

/// Every variant with every memory, over one workload.
fn all(variants: &Variants, workload: &str) -> Vec<Part> {
    let each = |&(memory, of, slow): &(f64, &str, bool)| {
        let parts = variants.iter().map(move |(name, args)| {
            let label = format!("{name}, {of}");
            Part::new(label, memory, &format!("{args} --workload {workload}")).slow(slow)
        });
        parts.collect::<Vec<_>>()
    };
    SHARES.iter().flat_map(each).collect()
}

/// Reads, then half updates; labels say which.
fn steady(variants: &Variants, log: &str) -> Vec<Part> {
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
        draws: vec![Metric::Allowed, Metric::Pages],
        published: Vec::new(),
        because: None,
    }
}

fn faster(of: &str, over: &str, least: f64) -> Claim {
    Claim::ratio(Metric::Allowed, of, over).at_least(least)
}

fn fewer(of: &str, over: &str, most: f64) -> Claim {
    Claim::ratio(Metric::Pages, of, over).at_most(most)
}

/// The paper's figures of a table: a row for each variant, with 2.5, 5, 10 and 20 GiB.
fn published(before: &str, rows: &[(&str, [f64; 4])]) -> Vec<(String, f64)> {
    let each = |(name, figures): &(&str, [f64; 4])| {
        let of = SHARES.iter().zip(*figures);
        let labels =
            of.map(|((_, memory, _), figure)| (format!("{before}{name}, {memory}"), figure));
        labels.collect::<Vec<_>>()
    };
    rows.iter().flat_map(each).collect()
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
            vec![
                faster("2B+tree, 5 GiB", "B+tree, 5 GiB", 3.0).paper(9.8),
                faster("2B+tree, 5 GiB", "as in TreeLine, 5 GiB", 3.0).paper(12.3),
            ],
        ),
        figure(
            "tiered/fig12b",
            "Loading in random order: hash tables",
            "With one hash function for both tiers far faster; with one for each no faster than one tier",
            load(HASHES),
            vec![faster("2Hash-S, 5 GiB", "2Hash-D, 5 GiB", 3.0)],
        ),
        figure(
            "tiered/fig12c",
            "Loading in random order: heaps with an index",
            "One tier appends and is fastest; swept in the order of the index two tiers are about as fast",
            load(HEAPS),
            vec![faster("2Heap-IHS, 5 GiB", "2Heap-HS, 5 GiB", 1.0)],
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
            "At 5 GiB a B+tree 93 and TreeLine 248, a 2B+tree 2.6; a hash table 174, 2Hash-S 3.8; an LSM-tree 5.4",
            load(&LSM_TREES[..1])
                .into_iter()
                .chain(load(TREES))
                .chain(load(HASHES))
                .chain(load(HEAPS))
                .collect(),
            vec![
                fewer("2B+tree, 5 GiB", "B+tree, 5 GiB", 0.1).paper(0.0274),
                fewer("2B+tree, 5 GiB", "as in TreeLine, 5 GiB", 0.1).paper(0.0103),
                fewer("2Hash-S, 5 GiB", "Hash, 5 GiB", 0.1).paper(0.0221),
                fewer("2Hash-S, 5 GiB", "2Hash-D, 5 GiB", 0.1).paper(0.0146),
            ],
        )
        .draws(&[Metric::Amplification])
        .published(published(
            "",
            &[
                ("LSM-tree", [5.4, 5.4, 5.4, 5.4]),
                ("B+tree", [151.04, 93.44, 29.44, 0.0]),
                ("as in TreeLine", [268.8, 248.32, 143.36, 0.0]),
                ("2B+tree", [5.12, 2.56, 1.28, 0.0]),
                ("Hash", [272.64, 174.08, 58.88, 0.0]),
                ("Hash, record cache", [336.5, 254.7, 119.0, 0.0]),
                ("2Hash-D", [352.0, 262.4, 136.96, 0.0]),
                ("2Hash-S", [7.68, 3.84, 2.56, 0.0]),
                ("Heap", [2.56, 1.28, 0.0, 0.0]),
            ],
        )),
        figure(
            "tiered/fig13a",
            "Steady state, reads and half updates: ordered trees",
            "2B+tree 3.7 (reads) and 4.5 times (updates) a B+tree at 10 GiB",
            steady(TREES, NO_LOG),
            vec![
                faster("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 2.0).paper(3.7),
                faster("F 2B+tree, 10 GiB", "F B+tree, 10 GiB", 2.0).paper(4.5),
            ],
        ),
        figure(
            "tiered/fig13b",
            "Steady state: hash tables",
            "2Hash-S 3.0 and 3.7 times one table at 5 GiB",
            steady(HASHES, NO_LOG),
            vec![faster("C 2Hash-S, 5 GiB", "C Hash, 5 GiB", 2.0).paper(3.0),
                faster("F 2Hash-S, 5 GiB", "F Hash, 5 GiB", 2.0).paper(3.7)],
        ),
        figure(
            "tiered/fig13c",
            "Steady state: heaps with an index",
            "2Heap-IHS 3.4 and 4.6 times one heap at 10 GiB",
            steady(HEAPS, NO_LOG),
            vec![faster("C 2Heap-IHS, 10 GiB", "C Heap, 10 GiB", 2.0).paper(3.4),
                faster("F 2Heap-IHS, 10 GiB", "F Heap, 10 GiB", 2.0).paper(4.6)],
        ),
        figure(
            "tiered/fig13d",
            "Steady state: LSM-trees",
            "BiLSM-tree up to 2.05 times an LSM-tree on reads; a record cache loses on updates",
            steady(LSM_TREES, NO_LOG),
            vec![
                faster("C BiLSM-tree, 10 GiB", "C LSM-tree, 10 GiB", 1.3).paper(2.05),
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
            [LSM_TREES, TREES, HASHES, HEAPS]
                .iter()
                .flat_map(|variants| steady(variants, NO_LOG))
                .collect(),
            vec![
                fewer("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 0.4).paper(0.227),
                fewer("C 2Hash-S, 10 GiB", "C Hash, 10 GiB", 0.5).paper(0.35),
                fewer("C 2Heap-IHS, 10 GiB", "C Heap, 10 GiB", 0.5).paper(0.25),
            ],
        )
        .draws(&[Metric::Pages])
        .published(
            [
                published(
                    "C ",
                    &[
                        ("LSM-tree", [0.46, 0.32, 0.1, 0.0]),
                        ("LSM-tree, record cache", [0.27, 0.19, 0.09, 0.0]),
                        ("BiLSM-tree", [0.26, 0.15, 0.05, 0.0]),
                        ("B+tree", [0.54, 0.43, 0.22, 0.0]),
                        ("as in TreeLine", [0.26, 0.17, 0.06, 0.0]),
                        ("2B+tree", [0.2, 0.13, 0.05, 0.0]),
                        ("Hash", [0.69, 0.49, 0.2, 0.0]),
                        ("Hash, record cache", [0.38, 0.24, 0.09, 0.0]),
                        ("2Hash-D", [0.32, 0.2, 0.09, 0.0]),
                        ("2Hash-S", [0.32, 0.2, 0.07, 0.0]),
                        ("Heap", [0.8, 0.53, 0.2, 0.0]),
                        ("Heap, record cache", [0.58, 0.27, 0.06, 0.0]),
                        ("2Heap-HS", [0.41, 0.3, 0.08, 0.0]),
                        ("2Heap-IHS", [0.41, 0.23, 0.05, 0.0]),
                    ],
                ),
                published(
                    "F ",
                    &[
                        ("LSM-tree", [0.3, 0.19, 0.08, 0.02]),
                        ("LSM-tree, record cache", [0.52, 0.38, 0.25, 0.18]),
                        ("BiLSM-tree", [0.32, 0.18, 0.09, 0.03]),
                        ("B+tree", [0.84, 0.68, 0.38, 0.0]),
                        ("as in TreeLine", [0.47, 0.29, 0.07, 0.0]),
                        ("2B+tree", [0.3, 0.18, 0.07, 0.0]),
                        ("Hash", [0.98, 0.74, 0.34, 0.0]),
                        ("Hash, record cache", [0.72, 0.49, 0.2, 0.0]),
                        ("2Hash-D", [0.44, 0.29, 0.12, 0.0]),
                        ("2Hash-S", [0.42, 0.26, 0.1, 0.0]),
                        ("Heap", [1.1, 0.29, 0.34, 0.0]),
                        ("Heap, record cache", [0.38, 0.21, 0.06, 0.0]),
                        ("2Heap-HS", [0.58, 0.39, 0.11, 0.0]),
                        ("2Heap-IHS", [0.5, 0.29, 0.07, 0.0]),
                    ],
                ),
            ]
            .concat(),
        ),
        figure(
            "tiered/fig14",
            "Loading in random order with a log",
            "2B+tree up to 5.8 times a B+tree",
            all(&TREES[..2], "load --log buffered"),
            vec![faster("2B+tree, 5 GiB", "B+tree, 5 GiB", 2.5).paper(5.8)],
        ),
        figure(
            "tiered/fig15",
            "Steady state with a log",
            "2B+tree up to 2.96 (reads) and 3.8 times (updates) a B+tree",
            steady(&TREES[..2], "--log buffered"),
            vec![
                faster("C 2B+tree, 10 GiB", "C B+tree, 10 GiB", 2.0).paper(2.96),
                faster("F 2B+tree, 10 GiB", "F B+tree, 10 GiB", 2.0).paper(3.8),
            ],
        ),
        figure(
            "tiered/fig16",
            "95 % scans of up to 100 records, 5 % updates",
            "2B+tree up to 50 % behind a B+tree; record caches two orders of magnitude behind",
            all(TREES, "scan --log off")
                .into_iter()
                .chain(all(LSM_TREES, "scan --log off"))
                .collect(),
            vec![
                faster("2B+tree, 5 GiB", "B+tree, 5 GiB", 0.5).paper(0.5),
                faster("2B+tree, 5 GiB", "as in TreeLine, 5 GiB", 1.5),
                faster(
                    "BiLSM-tree, 5 GiB",
                    "LSM-tree, record cache, 5 GiB",
                    1.5,
                )
                .paper(10.0),
            ],
        ),
    ];
    let ablation = [
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
        std::iter::once(Part::new(
            "LSM-tree",
            0.39,
            &format!("--structure lsm --tiers 1 --workload c {NO_LOG}"),
        ))
        .chain(ablation
            .iter()
            .map(|(label, args)| {
                let args = format!("{args} --control-period 0.05 --workload c {NO_LOG}");
                Part::new(*label, 0.39, &args)
            }))
            .collect(),
        vec![
            fewer("+ adaptive migration", "+ naive migration", 1.0),
            faster("+ adaptive migration", "LSM-tree", 1.2).paper(1.98),
        ],
    ));
    of.extend(shifts());
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
                    .slow(![56, 248, 2040].contains(&value))
                })
            })
    });
    of.push(figure(
        "tiered/fig18",
        "Records of 64 bytes to 2 KiB, the same bytes of data",
        "2B+tree 5 times a B+tree with 64 bytes, 3 times with 2 KiB",
        sized.collect(),
        vec![
            faster("C 2B+tree, 64 bytes", "C B+tree, 64 bytes", 2.0).paper(5.0),
            faster("C 2B+tree, 2048 bytes", "C B+tree, 2048 bytes", 1.2).paper(3.0),
        ],
    ));
    of.extend(skews());
    for (name, workload, shows) in [
        (
            "tiered/fig20a",
            "c",
            "Threads with everything in memory, reads: optimistic and pessimistic record locks",
        ),
        ("tiered/fig20b", "f", "The same, half updates"),
    ] {
        let kinds = [
            ("optimistic", "--tiers 2"),
            ("pessimistic", "--tiers 2 --pessimistic-locks"),
            ("B+tree", "--tiers 1"),
            ("as in TreeLine", "--tiers 1 --record-cache=treeline"),
        ];
        let parts = [1, 2, 4, 8, 16, 32].into_iter().flat_map(|threads| {
            kinds.map(|(label, args)| {
                let args = format!("--structure tree {args} --workload {workload} --zipf 0.96 --threads {threads} {NO_LOG}");
                Part::new(format!("{label}, {threads} threads"), 2.4, &args)
                    .slow(![1, 4, 32].contains(&threads))
            })
        });
        let paper = if workload == "c" { 1.78 } else { 2.2 };
        of.push(figure(
            name,
            shows,
            "With 32 threads on 20 processors optimistic locks are 1.78 (reads) and 2.2 times (updates) pessimistic ones",
            parts.collect(),
            vec![
                faster("optimistic, 32 threads", "pessimistic, 32 threads", 1.1).paper(paper),
                faster("optimistic, 4 threads", "as in TreeLine, 4 threads", 1.0),
            ],
        )
        .because("two processors: threads that wait for one another hardly meet"));
    }
    let strategies = [("inclusive", ""), ("exclusive", "--exclusive")];
    let stayed = [&TREES[1..2], &HASHES[1..2], &HEAPS[1..2]].concat();
    let both = strategies.iter().flat_map(|(strategy, extra)| {
        let mut parts = steady(&stayed, &format!("{NO_LOG} {extra}"));
        for part in &mut parts {
            part.label += &format!(", {strategy}");
        }
        parts
    });
    of.push(figure(
        "tiered/fig21",
        "Promoted records stay below (inclusive), or leave (exclusive)",
        "Inclusive tiers are up to 70, 58, 55 % faster on reads; on updates alike",
        both.collect(),
        vec![
            faster(
                "C 2B+tree, 5 GiB, inclusive",
                "C 2B+tree, 5 GiB, exclusive",
                1.0,
            )
            .paper(1.7),
            faster(
                "C 2Hash-S, 5 GiB, inclusive",
                "C 2Hash-S, 5 GiB, exclusive",
                1.0,
            )
            .paper(1.58),
            faster(
                "C 2Heap-IHS, 5 GiB, inclusive",
                "C 2Heap-IHS, 5 GiB, exclusive",
                1.0,
            )
            .paper(1.55),
        ],
    ));
    of
}

/// Section 7.7: a fresh load, then reads whose hot set moves twice.
fn shifts() -> Vec<Experiment> {
    const BEFORE: Metric = Metric::At(
        "/shifts/0/before_page_reads_per_op",
        "page reads for each operation in the first phase",
    );
    const MOST: Metric = Metric::At(
        "/shift/most_page_reads_per_op",
        "page reads for each operation in the worst second after the second move",
    );
    const LATE: Metric = Metric::At(
        "/shift/after_page_reads_per_op",
        "page reads for each operation at the end of the third phase",
    );
    let figures = [
        (
            "tiered/fig17a",
            "The hot set moves twice: ordered trees",
            TREES,
        ),
        (
            "tiered/fig17b",
            "The hot set moves twice: hash tables",
            HASHES,
        ),
        ("tiered/fig17c", "The hot set moves twice: heaps", HEAPS),
        (
            "tiered/fig17d",
            "The hot set moves twice: LSM-trees",
            LSM_TREES,
        ),
    ];
    figures
        .map(|(name, shows, variants)| {
            let parts = variants.iter().map(|(label, args)| {
                let args = format!("{args} --workload shift --moves 2 {NO_LOG}");
                Part::new(*label, 0.39, &args).times(8.0)
            });
            let (one, two) = (variants[0].0, variants[1].0);
            let late = Claim::ratio(LATE, two, one).at_most(1.0);
            let drops = Claim::ratio(MOST, two, two).below(LATE).at_least(1.1);
            figure(
                name,
                shows,
                "One tier is soon as fast as it gets; two tiers drop with each move, as they are exchanged record by record, and are ahead again later (an LSM-tree 1.8 times)",
                parts.collect(),
                vec![late, drops],
            )
            .draws(&[LATE, MOST, BEFORE])
        })
        .to_vec()
}

/// Section 7.9: reads and half updates from hardly any skew to much.
fn skews() -> Vec<Experiment> {
    let figures = [
        (
            "tiered/fig19a",
            "Skew from .1 to 1.1: ordered trees",
            "Alike at .1; at 1.1 half updates are 4.5 times as fast as in a B+tree, 1.5 times as in TreeLine",
            TREES,
            [None, Some(4.5)],
        ),
        (
            "tiered/fig19b",
            "Skew from .1 to 1.1: hash tables",
            "Alike at .1; at 1.1 reads are 4.3 and half updates 5 times as fast",
            &HASHES[..2],
            [Some(4.34), Some(4.98)],
        ),
        (
            "tiered/fig19c",
            "Skew from .1 to 1.1: heaps",
            "Alike at .1; far ahead at .9 and 1.1",
            &HEAPS[..2],
            [None, None],
        ),
        (
            "tiered/fig19d",
            "Skew from .1 to 1.1: LSM-trees",
            "Reads 2.9 times as fast at 1.1",
            &LSM_TREES[..2],
            [Some(2.9), None],
        ),
    ];
    figures
        .map(|(name, shows, paper, variants, most)| {
            let parts = ["c", "f"].into_iter().flat_map(|workload| {
                [0.1, 0.3, 0.5, 0.7, 0.9, 1.1]
                    .into_iter()
                    .flat_map(move |skew| {
                        variants.iter().map(move |(name, args)| {
                            let label = format!("{} {name}, skew {skew}", workload.to_uppercase());
                            let args =
                                format!("{args} --workload {workload} --zipf {skew} {NO_LOG}");
                            Part::new(label, 0.39, &args).slow(![0.1, 1.1].contains(&skew))
                        })
                    })
            });
            let (one, two) = (variants[0].0, variants[1].0);
            let claim = |workload: &str, skew: f64, least: f64, paper: Option<f64>| {
                let label = |name: &str| format!("{workload} {name}, skew {skew}");
                let claim = faster(&label(two), &label(one), least);
                paper.map_or(claim.clone(), |paper| claim.paper(paper))
            };
            let lsm = name.ends_with('d');
            let mut holds = vec![
                claim("C", 0.1, 0.8, None),
                claim("C", 1.1, if lsm { 1.3 } else { 2.0 }, most[0]),
            ];
            if !lsm {
                holds.push(claim("F", 1.1, 2.0, most[1]));
            }
            figure(name, shows, paper, parts.collect(), holds)
        })
        .to_vec()
}
