//! The experiments of the paper on hybrid indexes, each as a table, as JSON and as a picture.
//!
//! Named by their figures and sections. Rates are operations a second of the thread's own processor
//! time; on a busy machine only their ratios within one run say something. Bytes are counted by the
//! allocator.

use crate::alloc;
use crate::emails::Emails;
use crate::keys::{self, KeySet};
use crate::random::{Random, Zipf};
use crate::workload::processor_time;
use std::fmt::Write as _;
use std::hint::black_box;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;
use terrace_mem::{HybridMap, HybridMultiMap, IndexKey, Merging, Options, Pair, Probe};
use terrace_mem::{Stage, Trigger, What};

/// An experiment, by the figure or section of the paper that it repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Experiment {
    /// Each structure, its compact form, and the compressed one: reads and bytes.
    Fig5,
    /// How long a merge of all takes, which is the longest insert, by entries.
    Fig6,
    /// Each structure against its hybrid form: inserts, reads, scans, bytes.
    Fig7,
    /// Instructions and misses of a lookup, counted by cachegrind (valgrind must be there).
    Table2,
    /// Ratios of the merge trigger from 1 to 100.
    Fig11,
    /// With and without the filter, and with a cache of nodes or none.
    Fig12,
    /// Secondary indexes: ten values a key.
    Fig13,
    /// What is merged: all, or what was not used (section 5.2).
    MergeCold,
    /// When it is merged: at a ratio, or at a number of entries (section 5.2).
    Trigger,
    /// All of them, and a page with their pictures.
    All,
}

/// The experiments that `all` runs here; table 2 is counted by other programs.
const ALL: [Experiment; 8] = [
    Experiment::Fig5,
    Experiment::Fig6,
    Experiment::Fig7,
    Experiment::Fig11,
    Experiment::Fig12,
    Experiment::Fig13,
    Experiment::MergeCold,
    Experiment::Trigger,
];

/// What was measured of one map with one key set; zero where it was not.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub figure: &'static str,
    pub pair: String,
    pub keys: &'static str,
    pub entries: usize,
    pub bytes_per_entry: f64,
    pub inserts_per_second: f64,
    pub gets_per_second: f64,
    pub scans_per_second: f64,
    pub longest_insert_us: f64,
    pub instructions_per_get: f64,
    pub l1_misses_per_get: f64,
    pub last_level_misses_per_get: f64,
}

type Column = (&'static str, fn(&Row) -> f64);

const COLUMNS: [Column; 8] = [
    ("bytes_per_entry", |row| row.bytes_per_entry),
    ("inserts_per_second", |row| row.inserts_per_second),
    ("gets_per_second", |row| row.gets_per_second),
    ("scans_per_second", |row| row.scans_per_second),
    ("longest_insert_us", |row| row.longest_insert_us),
    ("instructions_per_get", |row| row.instructions_per_get),
    ("l1_misses_per_get", |row| row.l1_misses_per_get),
    ("last_level_misses_per_get", |row| {
        row.last_level_misses_per_get
    }),
];

/// The paper's four structures.
pub const PAIRS: [(Pair, &str); 4] = [
    (Pair::BTree, "B+tree"),
    (Pair::SkipList, "skip list"),
    (Pair::Masstree, "Masstree"),
    (Pair::Art, "ART"),
];

/// What to do with a map beside the load.
#[derive(Clone, Copy)]
struct Work {
    /// All is merged before the reads.
    compact: bool,
    scans: bool,
    /// The longest insert is looked for.
    pauses: bool,
}

/// Entries of a scan.
const SCAN: usize = 50;

fn seconds(run: impl FnOnce()) -> f64 {
    let start = processor_time();
    run();
    (processor_time() - start).as_secs_f64().max(1e-9)
}

/// The seconds of the longest of `n` steps. Each is timed: a merge of all comes in a single one of them.
fn longest(n: usize, mut step: impl FnMut(usize)) -> f64 {
    let mut most = Duration::ZERO;
    let mut before = processor_time();
    for i in 0..n {
        step(i);
        let now = processor_time();
        most = most.max(now - before);
        before = now;
    }
    most.as_secs_f64()
}

/// Loads a map and reads it; `n` entries of the set. Pauses are those of a load of their own.
fn measure<K, S>(set: &S, n: usize, options: Options, work: Work) -> Row
where
    K: IndexKey,
    S: KeySet,
    S::Key: Probe<K>,
{
    let before = alloc::now();
    let empty = || HybridMap::<K, u64>::with_options(options.clone());
    let mut map = empty().expect("options that go together");
    // No clock is read meanwhile: it takes as long as some inserts do.
    let load = seconds(|| {
        for i in 0..n {
            map.insert_ref(set.get(i), i as u64);
        }
    });
    if work.compact {
        map.merge_all();
    }
    let bytes = alloc::now().saturating_sub(before);
    let (mut random, zipf) = (Random(3), Zipf::new(n, 0.99));
    let ops = (n / 2).clamp(1000, 2_000_000);
    let places: Vec<usize> = (0..ops).map(|_| zipf.next(&mut random)).collect();
    let probes = set.pick(&places);
    let reads = seconds(|| {
        for i in 0..ops {
            assert!(map.get(probes.get(i)).is_some(), "a key is lost");
        }
    });
    let scans = if work.scans { (ops / 20).max(100) } else { 0 };
    let scanning = seconds(|| {
        for i in 0..scans {
            let from = Bound::Included(probes.get(i));
            let mut cursor = map.cursor::<S::Key, _>((from, Bound::Unbounded));
            for _ in 0..SCAN {
                let Some((_, val)) = cursor.next() else { break };
                black_box(*val);
            }
        }
    });
    drop(map);
    let longest = if work.pauses {
        let mut map = empty().expect("options that go together");
        longest(n, |i| {
            map.insert_ref(set.get(i), i as u64);
        })
    } else {
        0.0
    };
    Row {
        entries: n,
        bytes_per_entry: bytes as f64 / n as f64,
        inserts_per_second: n as f64 / load,
        gets_per_second: ops as f64 / reads,
        scans_per_second: if scans > 0 {
            scans as f64 / scanning
        } else {
            0.0
        },
        longest_insert_us: longest * 1e6,
        ..Row::default()
    }
}

/// Does the same with each of the paper's key sets.
fn each_set(n: usize, mut act: impl FnMut(&'static str, &dyn Fn(Options, Work) -> Row)) {
    let random = keys::random(n);
    act("random", &|o, w| measure::<u64, _>(&random, n, o, w));
    drop(random);
    let monotonic = keys::monotonic(n);
    act("monotonic", &|o, w| measure::<u64, _>(&monotonic, n, o, w));
    drop(monotonic);
    let emails = Emails::generate(n);
    act("email", &|o, w| measure::<Vec<u8>, _>(&emails, n, o, w));
}

/// The dynamic structure of a pair alone.
pub fn alone(pair: Pair) -> Options {
    Options {
        pair,
        ..Options::dynamic_only()
    }
}

const READ: Work = Work {
    compact: false,
    scans: false,
    pauses: false,
};
const COMPACT: Work = Work {
    compact: true,
    ..READ
};
const PAUSES: Work = Work {
    pauses: true,
    ..READ
};
const SCANS: Work = Work {
    scans: true,
    ..PAUSES
};

/// Runs one experiment.
fn run(experiment: Experiment, n: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |figure, keys, pair: String, row: Row| {
        eprintln!("{figure}: {pair}, {keys}");
        rows.push(Row {
            figure,
            pair,
            keys,
            ..row
        });
    };
    match experiment {
        Experiment::Fig5 => each_set(n, |keys, run| {
            for (pair, name) in PAIRS {
                add("fig5", keys, name.into(), run(alone(pair), READ));
                add(
                    "fig5",
                    keys,
                    format!("compact {name}"),
                    run(alone(pair), COMPACT),
                );
            }
            let packed = Options {
                stage: Stage::Compressed,
                ..alone(Pair::BTree)
            };
            add(
                "fig5",
                keys,
                "compressed B+tree".into(),
                run(packed, COMPACT),
            );
        }),
        Experiment::Fig6 => {
            for size in [n / 8, n / 4, n / 2, n] {
                each_set(size, |keys, run| {
                    for (pair, name) in PAIRS {
                        add("fig6", keys, name.into(), run(Options::paper(pair), PAUSES));
                    }
                    let steps = run(Options::default(), PAUSES);
                    add("fig6", keys, "Auto, in steps".into(), steps);
                });
            }
        }
        Experiment::Fig7 => each_set(n, |keys, run| {
            for (pair, name) in PAIRS {
                let hybrid = Options {
                    pair,
                    ..Options::default()
                };
                add("fig7", keys, name.into(), run(alone(pair), SCANS));
                add("fig7", keys, format!("hybrid {name}"), run(hybrid, SCANS));
            }
            let packed = Options {
                stage: Stage::Compressed,
                ..Options::default()
            };
            add(
                "fig7",
                keys,
                "hybrid compressed B+tree".into(),
                run(packed, SCANS),
            );
            add("fig7", keys, "Auto".into(), run(Options::default(), SCANS));
        }),
        Experiment::Fig11 => each_set(n, |keys, run| {
            for ratio in [1, 2, 5, 10, 20, 50, 100] {
                let options = Options {
                    trigger: Trigger::Ratio(ratio),
                    ..Options::paper(Pair::BTree)
                };
                add(
                    "fig11",
                    keys,
                    format!("ratio {ratio}"),
                    run(options, PAUSES),
                );
            }
        }),
        Experiment::Fig12 => each_set(n, |keys, run| {
            for filter in [true, false] {
                for cache_nodes in [0, 1024] {
                    let options = Options {
                        filter,
                        cache_nodes,
                        stage: Stage::Compressed,
                        ..Options::paper(Pair::BTree)
                    };
                    let with = |on| if on { "with" } else { "without" };
                    let name = format!("{} filter, {} cache", with(filter), with(cache_nodes > 0));
                    add("fig12", keys, name, run(options, READ));
                }
            }
        }),
        Experiment::Fig13 => {
            for (pair, name) in PAIRS {
                for (options, kind) in [
                    (alone(pair), ""),
                    (
                        Options {
                            pair,
                            ..Options::default()
                        },
                        "hybrid ",
                    ),
                ] {
                    add(
                        "fig13",
                        "random",
                        format!("{kind}{name}"),
                        secondary(n, options),
                    );
                }
            }
        }
        Experiment::MergeCold => each_set(n, |keys, run| {
            for (what, name) in [(What::All, "merge all"), (What::Cold, "merge cold")] {
                let options = Options {
                    what,
                    ..Options::paper(Pair::BTree)
                };
                add("merge-cold", keys, name.into(), run(options, PAUSES));
            }
        }),
        Experiment::Trigger => each_set(n, |keys, run| {
            for (trigger, name) in [
                (Trigger::Ratio(10), "ratio 10".to_string()),
                (Trigger::Constant(n / 20), "a twentieth".to_string()),
                (Trigger::Constant(n / 200), "a two-hundredth".to_string()),
            ] {
                let options = Options {
                    trigger,
                    merging: Merging::Blocking,
                    ..Options::paper(Pair::BTree)
                };
                add("trigger", keys, name, run(options, PAUSES));
            }
        }),
        // Counted by other programs, which may not be there.
        Experiment::Table2 => {}
        Experiment::All => {
            for one in ALL {
                rows.extend(run_one(one, n));
            }
        }
    }
    rows
}

/// [`run`], named for its recursion of one level.
fn run_one(one: Experiment, n: usize) -> Vec<Row> {
    run(one, n)
}

/// Ten values a key, in random order; reads give all values of a key.
fn secondary(n: usize, options: Options) -> Row {
    let keys = keys::random(n / 10);
    let before = alloc::now();
    let mut map = HybridMultiMap::<u64, u64>::with_options(options).expect("good options");
    let load = seconds(|| {
        for value in 0..10 {
            for &key in &keys {
                map.insert(key, value);
            }
        }
    });
    let bytes = alloc::now().saturating_sub(before);
    let zipf = Zipf::new(keys.len(), 0.99);
    let (mut random, ops) = (Random(3), (n / 10).clamp(1000, 1_000_000));
    let places: Vec<usize> = (0..ops).map(|_| zipf.next(&mut random)).collect();
    let reads = seconds(|| {
        for &at in &places {
            assert_eq!(map.get(&keys[at]).len(), 10);
        }
    });
    Row {
        entries: keys.len() * 10,
        bytes_per_entry: bytes as f64 / (keys.len() * 10) as f64,
        inserts_per_second: (keys.len() * 10) as f64 / load,
        gets_per_second: ops as f64 / reads,
        ..Row::default()
    }
}

fn table(rows: &[Row]) -> String {
    let mut out = String::from("| figure | keys | entries | pair |");
    COLUMNS.iter().for_each(|(name, _)| {
        let _ = write!(out, " {} |", name.replace('_', " "));
    });
    out.push_str("\n| --- | --- | ---: | --- |");
    out.push_str(&" ---: |".repeat(COLUMNS.len()));
    for row in rows {
        let _ = write!(
            out,
            "\n| {} | {} | {} | {} |",
            row.figure, row.keys, row.entries, row.pair
        );
        for (_, figure) in COLUMNS {
            let _ = match figure(row) {
                0.0 => write!(out, " |"),
                x if x < 1000.0 => write!(out, " {x:.2} |"),
                x => write!(out, " {x:.0} |"),
            };
        }
    }
    out.push('\n');
    out
}

fn json(rows: &[Row]) -> String {
    let mut out = String::from("[");
    for (i, row) in rows.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let _ = write!(
            out,
            "{comma}\n  {{\"figure\": \"{}\", \"pair\": \"{}\", \"keys\": \"{}\", \"entries\": {}",
            row.figure, row.pair, row.keys, row.entries
        );
        for (name, figure) in COLUMNS {
            let _ = write!(out, ", \"{name}\": {:.3}", figure(row));
        }
        out.push('}');
    }
    out.push_str("\n]\n");
    out
}

/// Bars of one column, a group for each key set.
fn svg(title: &str, rows: &[&Row], figure: fn(&Row) -> f64) -> String {
    let most = rows.iter().map(|row| figure(row)).fold(1e-9, f64::max);
    let height = 50 + rows.len() * 18;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"10\" y=\"22\" font-size=\"15\">{title}</text>\n"
    );
    for (i, row) in rows.iter().enumerate() {
        let y = 40 + i * 18;
        let width = 380.0 * figure(row) / most;
        let color = match row.keys {
            "random" => "#357",
            "monotonic" => "#593",
            _ => "#c63",
        };
        let _ = writeln!(
            out,
            "<text x=\"10\" y=\"{}\">{} {} ({})</text>\
             <rect x=\"280\" y=\"{y}\" width=\"{width:.1}\" height=\"13\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{}\">{:.2}</text>",
            y + 11,
            row.pair,
            row.entries,
            row.keys,
            286.0 + width,
            y + 11,
            figure(row)
        );
    }
    out.push_str("</svg>\n");
    out
}

/// Writes a picture for each figure and column, and a page with all of them and the table.
fn pictures(rows: &[Row], dir: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(dir)?;
    let mut figures: Vec<&str> = rows.iter().map(|row| row.figure).collect();
    figures.dedup();
    let mut page = String::from(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Hybrid indexes</title>\
         </head><body style=\"font-family:sans-serif;max-width:60em;margin:auto\">\
         <h1>Hybrid indexes: the paper's experiments</h1>\n",
    );
    for figure in figures {
        let of: Vec<&Row> = rows.iter().filter(|row| row.figure == figure).collect();
        let _ = writeln!(page, "<h2>{figure}</h2>");
        for (name, column) in COLUMNS {
            if of.iter().all(|row| column(row) == 0.0) {
                continue;
            }
            let picture = svg(
                &format!("{figure}: {}", name.replace('_', " ")),
                &of,
                column,
            );
            std::fs::write(dir.join(format!("{figure}-{name}.svg")), &picture)?;
            page.push_str(&picture);
        }
    }
    let _ = writeln!(page, "<pre>{}</pre></body></html>", table(rows));
    std::fs::write(dir.join("index.html"), page)
}

/// Runs an experiment and writes what was asked for; `counted` gives the rows of table 2.
pub fn main(
    experiment: Experiment,
    entries: usize,
    counted: impl FnOnce(usize) -> std::io::Result<Vec<Row>>,
    files: (Option<&Path>, Option<&Path>),
) -> std::io::Result<()> {
    let mut rows = run(experiment, entries);
    if matches!(experiment, Experiment::Table2 | Experiment::All) {
        match counted(entries) {
            Ok(counted) => rows.extend(counted),
            Err(error) if experiment == Experiment::All => eprintln!("table2: {error}"),
            Err(error) => return Err(error),
        }
    }
    println!("{}", table(&rows));
    if let Some(file) = files.0 {
        std::fs::write(file, json(&rows))?;
    }
    if let Some(dir) = files.1 {
        pictures(&rows, dir)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_runs_and_measures() {
        let rows = run(Experiment::All, 4000);
        for one in [
            "fig5",
            "fig6",
            "fig7",
            "fig11",
            "fig12",
            "fig13",
            "merge-cold",
            "trigger",
        ] {
            let of: Vec<&Row> = rows.iter().filter(|row| row.figure == one).collect();
            assert!(!of.is_empty(), "{one}");
            for row in of {
                // Bytes are those of the whole process, in which other tests run meanwhile.
                assert!(row.gets_per_second > 0.0, "{row:?}");
                assert!(row.inserts_per_second > 0.0, "{row:?}");
                let pauses = matches!(one, "fig6" | "fig7" | "fig11" | "merge-cold" | "trigger");
                assert_eq!(row.longest_insert_us > 0.0, pauses, "{row:?}");
            }
        }
        let lines = json(&rows)
            .lines()
            .filter(|line| line.contains("\"pair\""))
            .count();
        assert_eq!(lines, rows.len());
        let row: Vec<&Row> = rows.iter().take(3).collect();
        assert_eq!(
            svg("t", &row, |row| row.bytes_per_entry)
                .matches("<rect")
                .count(),
            4
        );
    }

    /// Keys of which one takes some milliseconds to come.
    struct OneIsLong(usize);

    const LONG: Duration = Duration::from_millis(5);

    impl KeySet for OneIsLong {
        type Key = u64;
        fn len(&self) -> usize {
            1000
        }
        fn bytes(&self) -> usize {
            8000
        }
        fn get(&self, i: usize) -> &u64 {
            static KEYS: [u64; 1000] = {
                let mut keys = [0; 1000];
                let mut i = 0;
                while i < keys.len() {
                    keys[i] = i as u64;
                    i += 1;
                }
                keys
            };
            let begin = processor_time();
            while i == self.0 && processor_time() - begin < LONG {}
            &KEYS[i]
        }
        fn pick(&self, _: &[usize]) -> Self {
            OneIsLong(usize::MAX)
        }
    }

    #[test]
    fn the_longest_insert_is_found_whichever_it_is() {
        for at in [0, 7, 16, 999] {
            let row = measure::<u64, _>(&OneIsLong(at), 1000, Options::default(), PAUSES);
            assert!(row.longest_insert_us >= 5000.0, "{at}: {row:?}");
        }
    }
}
