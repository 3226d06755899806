//! What is run: every store over every workload with the same memory, and the page of it. Of ours each run has a
//! process of its own and loads anew; others load once, as they take longer, and run one workload after the other.
//!
//! Invariant: a store is named on the page with what it was opened with, and whoever is fastest stands first.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use terrace_papers::html::{Bar, bars, escape, page, short};
use terrace_papers::results::{Progress, Results, Stored, machine, objects, output_of};

use crate::group::{BESIDE, Group};
use crate::stores::ALL;

/// What is run of Terrace: its name, what it is, and the arguments of `terrace bench`.
const OURS: [(&str, &str, &str); 2] = [
    (
        "terrace tree",
        "two tiers of trees; direct I/O; log written, not synced",
        "--structure tree --log buffered",
    ),
    (
        "terrace hash",
        "two tiers of hash tables; direct I/O; log written, not synced; no order of keys",
        "--structure hash --log buffered",
    ),
];

/// What our program may have beside its number: its text has 17 MiB, as all commands are in it.
const OURS_BESIDE: u64 = 32 << 20;

/// How large, how long, where.
pub struct Plan {
    /// Records of 8 and 120 bytes.
    pub records: u64,
    /// Bytes of memory of each store.
    pub memory: u64,
    /// Seconds of warming up, and of measuring.
    pub seconds: f64,
    /// Threads.
    pub threads: usize,
    /// Letters of the workloads.
    pub workloads: Vec<String>,
    /// Names of distributions.
    pub distributions: Vec<String>,
    /// Names of stores; all if there is none.
    pub stores: Vec<String>,
    /// Results.
    pub results: Results,
    /// Where databases are made and deleted again.
    pub scratch: PathBuf,
    /// The program `terrace`.
    pub terrace: PathBuf,
    /// Where groups may be made whose memory, the system's cache in it, is bounded.
    pub groups: Option<PathBuf>,
}

/// One run.
struct Run {
    store: String,
    workload: String,
    distribution: String,
}

/// Bytes of a key and a value.
const RECORD_BYTES: u64 = 128;

/// Names of all stores, ours first.
pub fn names() -> Vec<&'static str> {
    let ours = OURS.iter().map(|(name, ..)| *name);
    ours.chain(ALL.iter().map(|known| known.name)).collect()
}

fn is_ours(store: &str) -> bool {
    OURS.iter().any(|(name, ..)| *name == store)
}

impl Plan {
    fn runs(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        for distribution in &self.distributions {
            for workload in &self.workloads {
                for store in names() {
                    let asked = self.stores.is_empty() || self.stores.iter().any(|s| s == store);
                    // A hash table keeps no order, so it cannot scan.
                    let can = workload != "e" || !matches!(store, "terrace hash" | "f2");
                    if asked && can {
                        runs.push(Run {
                            store: store.into(),
                            workload: workload.clone(),
                            distribution: distribution.clone(),
                        });
                    }
                }
            }
        }
        runs
    }

    /// The arguments of a run, or of a store's runs over several workloads, `{db}` for the folder.
    fn args(&self, run: &Run, workloads: &str) -> Vec<String> {
        let (records, memory, threads) = (self.records, self.memory, self.threads);
        let seconds = self.seconds;
        let common = format!(
            "--workload {workloads} --distribution {} --records {records} --memory {memory} --threads {threads} --seconds {seconds}",
            run.distribution
        );
        let text = match OURS.iter().find(|(name, ..)| *name == run.store) {
            Some((_, _, args)) => {
                format!("bench {{db}} {args} {common} --warmup {seconds} --remove --json")
            }
            None => format!("one {} {{db}} {common}", run.store),
        };
        text.split(' ').map(Into::into).collect()
    }

    /// The command, for people; what was bounded is another one than what was not.
    fn command(&self, run: &Run) -> String {
        let program = if is_ours(&run.store) {
            "terrace"
        } else {
            "terrace-peers"
        };
        let bounded = if self.groups.is_some() {
            " (in a bounded group)"
        } else {
            ""
        };
        let args = self.args(run, &run.workload).join(" ");
        format!("{program} {args}{bounded}")
    }

    fn stored(&self, run: &Run) -> Option<Value> {
        let stored = self.results.find(&self.command(run))?;
        stored.rows.into_iter().next()
    }

    /// Runs one of ours, or several workloads of another store.
    fn run(&self, runs: &[&Run]) -> Result<()> {
        let Some(&first) = runs.first() else {
            return Ok(());
        };
        std::fs::create_dir_all(&self.scratch)
            .with_context(|| format!("cannot make {}", self.scratch.display()))?;
        let db = self.scratch.join("db");
        let program = match is_ours(&first.store) {
            true => self.terrace.clone(),
            false => std::env::current_exe()?,
        };
        let letters: Vec<&str> = runs.iter().map(|run| run.workload.as_str()).collect();
        let letters = letters.join(",");
        let name = format!("{} {letters}", first.store);
        let attempt = |beside: Option<u64>| -> Result<_> {
            if db.exists() {
                // Of a run that was cut off.
                std::fs::remove_dir_all(&db)?;
            }
            let args = self.args(first, &letters);
            let args = args.into_iter().map(|arg| match arg.as_str() {
                "{db}" => db.clone().into_os_string(),
                _ => arg.into(),
            });
            if let (Some(parent), Some(beside)) = (&self.groups, beside) {
                let group = Group::new(parent, self.memory + beside)?;
                return output_of(group.command(&program, args), &name);
            }
            let mut command = Command::new(&program);
            command.args(args);
            output_of(command, &name)
        };
        // A store that takes more than its number is ended by the system, and is given more until it is not.
        let known = ALL.iter().find(|known| known.name == first.store);
        let least = known.map_or(OURS_BESIDE, |known| known.beside);
        let more = BESIDE.iter().copied().filter(|more| *more > least);
        let mut allowed = std::iter::once(least)
            .chain(more)
            .filter(|_| self.groups.is_some());
        let mut beside = allowed.next();
        let (printed, took) = loop {
            match attempt(beside) {
                Ok(done) => break done,
                Err(error) => match allowed.next() {
                    Some(more) => beside = Some(more),
                    None => return Err(error),
                },
            }
        };
        if db.exists() {
            std::fs::remove_dir_all(&db)?;
        }
        let rows = objects(&printed)?;
        if rows.len() != runs.len() {
            bail!(
                "{name}: it has printed {} objects, not {}",
                rows.len(),
                runs.len()
            );
        }
        for (run, mut row) in runs.iter().zip(rows) {
            if let (Some(beside), Some(row)) = (beside, row.as_object_mut()) {
                row.insert("bytes_beside_memory".into(), beside.into());
            }
            self.results.keep(&Stored {
                command: self.command(run),
                took: took.as_secs_f64() / runs.len() as f64,
                rows: vec![row],
                text: String::new(),
            })?;
        }
        Ok(())
    }

    /// Runs what was not run yet; whether all ended well.
    pub fn run_all(&self) -> bool {
        let runs = self.runs();
        let missing: Vec<&Run> = runs
            .iter()
            .filter(|run| self.stored(run).is_none())
            .collect();
        // One of ours, or all of a store with the same distribution, in the order of the workloads.
        let mut together: Vec<Vec<&Run>> = Vec::new();
        for run in missing {
            let alike = |other: &Run| {
                !is_ours(&run.store)
                    && (&other.store, &other.distribution) == (&run.store, &run.distribution)
            };
            match together.iter_mut().find(|others| alike(others[0])) {
                Some(others) => others.push(run),
                None => together.push(vec![run]),
            }
        }
        let (mut progress, mut failed) = (Progress::new(together.len()), 0);
        for runs in &together {
            let letters: Vec<&str> = runs.iter().map(|run| run.workload.as_str()).collect();
            let first = runs[0];
            let name = format!(
                "{} {} {}",
                first.distribution,
                first.store,
                letters.join(",")
            );
            if let Err(error) = self.run(runs) {
                // The others are run all the same.
                eprintln!("{name}: {error:#}");
                failed += 1;
            }
            progress.step(&name, true);
        }
        eprintln!("{:.0} s; {failed} runs failed", progress.seconds());
        failed == 0
    }

    /// The page.
    pub fn page(&self) -> String {
        let bounded = match &self.groups {
            Some(_) => {
                "Each ran in a group of processes that has no more than that and 16 MiB (RocksDB 64, F2 32, as their programs need them), the system's cache in it; one that took more and was ended by the system was run again with 32, 96 and 288 MiB beside its number"
            }
            None => {
                "The system's cache was not bounded: stores that read through it (marked *) had as much memory beside that as they wanted, the whole file"
            }
        };
        let below = format!(
            "{} records of 8 + 120 bytes, {} MiB of memory for each store, {} threads, {} s warming up and {} s measured; {}. {bounded}. Every value that was read was checked.",
            short(self.records as f64),
            short(self.memory as f64 / f64::from(1 << 20)),
            self.threads,
            self.seconds,
            self.seconds,
            machine()
        );
        let (mut ahead, mut behind, mut sections) = (Vec::new(), Vec::new(), String::new());
        for table in self.tables() {
            if table.rows.is_empty() {
                continue;
            }
            match table.lead() {
                Some(lead) if lead < 1.0 => ahead.push(table.told(lead)),
                Some(lead) => behind.push(table.told(lead)),
                None => {}
            }
            sections += &table.html();
        }
        let list = |heading: &str, items: &[String]| match items {
            [] => String::new(),
            _ => format!(
                "<h2>{heading}</h2><ul>{}</ul>",
                items
                    .iter()
                    .map(|item| format!("<li>{item}</li>"))
                    .collect::<String>()
            ),
        };
        let options: String = OURS
            .iter()
            .map(|(name, options, _)| (*name, *options, false))
            .chain(
                ALL.iter()
                    .map(|known| (known.name, known.options, known.cached)),
            )
            .map(|(name, options, cached)| {
                let star = if cached { " *" } else { "" };
                format!("<tr><td>{name}{star}</td><td>{}</td></tr>", escape(options))
            })
            .collect();
        let rest = format!(
            "<section>{}{}</section>{sections}<section><h2>How each is opened</h2><div class=\"wide\"><table>{options}</table></div></section>",
            list("Where another store is faster", &ahead),
            list("Where Terrace is faster", &behind),
        );
        page("Terrace beside the stores that people know", &below, &rest)
    }

    fn tables(&self) -> Vec<Table> {
        let mut tables = Vec::new();
        for distribution in &self.distributions {
            let law = match distribution.as_str() {
                "ycsb" => "YCSB's Zipf",
                "uniform" => "uniform",
                _ => "exact Zipf",
            };
            let all: Vec<(Run, Value)> = self
                .runs()
                .into_iter()
                .filter(|run| run.distribution == *distribution)
                .filter_map(|run| {
                    let report = self.stored(&run)?;
                    Some((run, report))
                })
                .collect();
            for workload in &self.workloads {
                let of = all.iter().filter(|(run, _)| run.workload == *workload);
                let rows = of
                    .map(|(run, report)| Row::of(&run.store, report))
                    .collect();
                let title = format!("YCSB {}, {law}", workload.to_uppercase());
                tables.push(Table { title, rows });
            }
            // Of each store the first run that has loaded is shown.
            if tables.iter().all(|t| t.title != LOAD) {
                let mut rows: Vec<Row> = Vec::new();
                for (run, report) in &all {
                    let is_new = rows.iter().all(|row| row.store != run.store);
                    rows.extend(is_new.then(|| Row::of_load(&run.store, report)).flatten());
                }
                tables.insert(
                    0,
                    Table {
                        title: LOAD.into(),
                        rows,
                    },
                );
            }
        }
        for table in &mut tables {
            table.rows.sort_by(|a, b| b.ops.total_cmp(&a.ops));
        }
        tables
    }
}

const LOAD: &str = "Loading, in random order";

/// A store in a table.
struct Row {
    store: String,
    ops: f64,
    /// Further figures, as in [`COLUMNS`].
    more: Vec<Option<f64>>,
}

/// What stands beside operations a second: the heading, the place in a report, what it is divided by.
const COLUMNS: [(&str, &str, f64); 8] = [
    ("p99.9, µs", "/latency_ns/p999", 1e3),
    ("processor, µs each", "/processor_us_per_op", 1.0),
    ("device bytes read each", "/bytes_read_per_op", 1.0),
    (
        "bytes written for one of the user's",
        "/disk_bytes_written_per_user_byte",
        1.0,
    ),
    ("file over data", "/file_bytes_over_user_bytes", 1.0),
    ("most resident, MiB", "/peak_resident_bytes", 1_048_576.0),
    (
        "allowed beside its number, MiB",
        "/bytes_beside_memory",
        1_048_576.0,
    ),
    ("checked reads", "/checked_reads", 1.0),
];

impl Row {
    fn of(store: &str, report: &Value) -> Row {
        let at = |place: &str| report.pointer(place).and_then(Value::as_f64);
        Row {
            store: store.into(),
            ops: at("/ops_per_second").unwrap_or(0.0),
            more: COLUMNS
                .iter()
                .map(|(_, place, by)| at(place).map(|figure| figure / by))
                .collect(),
        }
    }

    fn of_load(store: &str, report: &Value) -> Option<Row> {
        let load = report.get("load")?;
        let row = Row::of(store, load);
        Some(row)
    }

    fn label(&self) -> String {
        let cached = ALL
            .iter()
            .any(|known| known.cached && known.name == self.store);
        format!("{}{}", self.store, if cached { " *" } else { "" })
    }
}

struct Table {
    title: String,
    /// The fastest first.
    rows: Vec<Row>,
}

impl Table {
    fn best(&self, ours: bool) -> Option<&Row> {
        self.rows.iter().find(|row| is_ours(&row.store) == ours)
    }

    /// The best of ours over the best peer.
    fn lead(&self) -> Option<f64> {
        let (ours, peer) = (self.best(true)?, self.best(false)?);
        (peer.ops > 0.0).then(|| ours.ops / peer.ops)
    }

    fn told(&self, lead: f64) -> String {
        let name = |ours| self.best(ours).map_or(String::new(), Row::label);
        let (ours, peer) = (name(true), name(false));
        match lead < 1.0 {
            true => format!("{}: {peer} {} times {ours}", self.title, short(1.0 / lead)),
            false => format!(
                "{}: {ours} {} times {peer}, the best of the others",
                self.title,
                short(lead)
            ),
        }
    }

    fn html(&self) -> String {
        let best = self.best(false).map_or(0.0, |row| row.ops);
        let drawn: Vec<Bar> = self
            .rows
            .iter()
            .map(|row| Bar {
                label: row.label(),
                figure: row.ops,
                other: None,
                note: format!(
                    "{}: {} of the best of the others",
                    row.store,
                    short(row.ops / best.max(1e-9))
                ),
            })
            .collect();
        let shown: Vec<usize> = (0..COLUMNS.len())
            .filter(|&i| self.rows.iter().any(|row| row.more[i].is_some()))
            .collect();
        let heads: String = shown
            .iter()
            .map(|&i| format!("<th class=\"number\">{}</th>", COLUMNS[i].0))
            .collect();
        let rows: String = self
            .rows
            .iter()
            .map(|row| {
                let cells: String = shown
                    .iter()
                    .map(|&i| {
                        let text = row.more[i].map_or("\u{2013}".into(), short);
                        format!("<td class=\"number\">{text}</td>")
                    })
                    .collect();
                format!(
                    "<tr><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td>{cells}</tr>",
                    row.label(),
                    short(row.ops),
                    short(row.ops / best.max(1e-9))
                )
            })
            .collect();
        format!(
            "<section><h2>{}</h2>{}<div class=\"wide\"><table><tr><th>store</th><th class=\"number\">operations a second</th><th class=\"number\">over the best peer</th>{heads}</tr>{rows}</table></div></section>",
            self.title,
            bars("operations a second", &drawn)
        )
    }
}

/// The bytes of this many records.
pub fn data_bytes(records: u64) -> u64 {
    records * RECORD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn where_a_peer_wins_the_page_says_so_first() {
        let folder =
            std::env::temp_dir().join(format!("terrace-peers-page-{}", std::process::id()));
        let plan = Plan {
            records: 1000,
            memory: 1 << 20,
            seconds: 1.0,
            threads: 1,
            workloads: vec!["a".into(), "c".into()],
            distributions: vec!["zipf".into()],
            stores: vec!["terrace tree".into(), "redb".into(), "rocksdb".into()],
            results: Results::new(folder.clone()),
            scratch: "scratch".into(),
            terrace: "terrace".into(),
            groups: None,
        };
        let ops = |run: &Run| match (run.workload.as_str(), run.store.as_str()) {
            ("a", "redb") => 300.0,
            ("a", "rocksdb") => 4321.0,
            ("a", _) => 1000.0,
            (_, "redb") => 500.0,
            (_, "rocksdb") => 250.0,
            _ => 2000.0,
        };
        for run in plan.runs() {
            let row = json!({"ops_per_second": ops(&run), "latency_ns": {"p999": 7777000}});
            let stored = Stored {
                command: plan.command(&run),
                took: 1.0,
                rows: vec![row],
                text: String::new(),
            };
            plan.results.keep(&stored).unwrap();
        }
        let html = plan.page();
        let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text}: {html}"));
        assert!(at("rocksdb 4.32 times terrace tree") < at("terrace tree 4.00 times redb *"));
        // The fastest first, and each figure as it was stored.
        assert!(at(">4321<") < at(">1000<") && at(">1000<") < at(">300<"));
        assert!(html.contains(">7777<") && html.contains(">0.23<"));
        assert!(!html.contains("<script") && !html.contains("http"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
