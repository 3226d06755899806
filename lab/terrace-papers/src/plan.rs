//! How an experiment is run: its programs one after the other, and which rows what they print has.
//!
//! Invariant: labels of the rows of one experiment are unique.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;
use terrace_papers::results::{Results, Stored, objects, output_of};

use crate::experiment::{DEVICE_PAGES, Experiment, How, Measured, Part};

/// How large, how long, where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Over ten million records.
    pub scale: f64,
    /// Seconds of measuring, and of warming up.
    pub seconds: f64,
    /// Without the parts that take long and are held to nothing.
    pub quick: bool,
    /// Where results lie.
    pub results: Results,
    /// Where databases are made and deleted again.
    pub scratch: PathBuf,
    /// Where the programs are.
    pub programs: PathBuf,
}

/// One program to be run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The label of a part, or the experiment's name.
    pub label: String,
    program: &'static str,
    args: Vec<String>,
    prints: Prints,
}

/// What a program leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prints {
    /// A report of this label.
    Report,
    /// Rows, in a file.
    File,
    /// Rows.
    Rows,
    /// Text.
    Text,
}

/// Records of the full size, each with 128 bytes.
const RECORDS: f64 = 10e6;
const DATA_BYTES: f64 = RECORDS * 128.0;
/// Least memory of a database: below, page tables and buffers are most of it.
const LEAST_MEMORY: f64 = 4e6;

impl Step {
    /// The command, for people.
    pub fn command(&self) -> String {
        format!("{} {}", self.program, self.args.join(" "))
    }
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().map(Into::into)
}

impl Plan {
    /// The steps of an experiment, in order; none of one that is not there.
    pub fn steps(&self, of: &Experiment) -> Vec<Step> {
        let one = |program, args: String, prints| {
            vec![Step {
                label: of.name.into(),
                program,
                args: words(&args).collect(),
                prints,
            }]
        };
        match &of.how {
            How::Engine(parts) => {
                let runs = parts.iter().filter(|part| !(self.quick && part.slow));
                runs.map(|part| self.bench(part)).collect()
            }
            How::Maps(figure) => {
                let entries = ((RECORDS * self.scale) as u64).max(10_000);
                let args = format!("paper {figure} --entries {entries} --json {{file}}");
                one("mem-bench", args, Prints::File)
            }
            How::Places(figure) => {
                let args = format!("{figure} --scale {} --json {{file}}", self.scale / 2.0);
                one("place-bench", args, Prints::File)
            }
            How::Transactions(command) => {
                // That program has two sizes: the paper's, and a tenth of it.
                let size = if self.scale < 1.0 { "--quick " } else { "" };
                one(
                    "oltp-bench",
                    format!("{command} {size}--json"),
                    Prints::Rows,
                )
            }
            How::Persistent(work) => {
                let records = ((RECORDS * self.scale / 10.0) as u64).max(10_000);
                let args = format!(
                    "bench - --structure pm --device count --records {records} --rival all --work {work} --json"
                );
                one("terrace", args, Prints::Rows)
            }
            How::Prints(args) => one("terrace", args.join(" "), Prints::Text),
            How::Missing(_) => Vec::new(),
        }
    }

    fn bench(&self, part: &Part) -> Step {
        let data = DATA_BYTES * self.scale;
        let records = (data / (part.value_bytes + 8) as f64) as u64;
        let memory = (data * part.memory).max(LEAST_MEMORY) as u64;
        let has = |name: &str| part.args.iter().any(|arg| arg == name);
        // Where it is measured how something comes to be steady, it begins with the load.
        let (warmup, from) = match (has("load"), has("shift")) {
            (true, _) => (0.0, "load"),
            (_, true) => (0.0, "warmup"),
            _ => (self.seconds, "measure"),
        };
        let seconds = self.seconds * part.times;
        let value_bytes = part.value_bytes;
        let mut args: Vec<String> = words("bench {db}").collect();
        args.extend(part.args.iter().cloned());
        args.extend(words(&format!(
            "--records {records} --value-bytes {value_bytes} --memory {memory} --seconds {seconds} --warmup {warmup} --device-iops {DEVICE_PAGES} --device-from {from} --remove --json"
        )));
        Step {
            label: part.label.clone(),
            program: "terrace",
            args,
            prints: Prints::Report,
        }
    }

    /// What was stored of a step.
    pub fn stored(&self, step: &Step) -> Option<Stored> {
        self.results.find(&step.command())
    }

    /// What was measured of an experiment so far, and whether that is all.
    pub fn measured(&self, of: &Experiment) -> (Vec<Measured>, bool) {
        let steps = self.steps(of);
        let mut all = Vec::new();
        let mut whole = true;
        for step in &steps {
            let Some(stored) = self.stored(step) else {
                whole = false;
                continue;
            };
            let label = |row: &Value| match step.prints {
                Prints::Report => step.label.clone(),
                _ => label_of(row),
            };
            all.extend(stored.rows.into_iter().map(|row| Measured {
                label: label(&row),
                row,
            }));
        }
        tell_apart(&mut all);
        (all, whole)
    }

    /// Runs a step and stores what it has printed.
    pub fn run(&self, step: &Step) -> Result<()> {
        std::fs::create_dir_all(&self.scratch)
            .with_context(|| format!("cannot make {}", self.scratch.display()))?;
        let (db, file) = (self.scratch.join("db"), self.scratch.join("rows.json"));
        if db.exists() {
            // Of a run that was cut off.
            std::fs::remove_dir_all(&db)?;
        }
        let mut command = Command::new(self.programs.join(step.program));
        command.args(step.args.iter().map(|arg| match arg.as_str() {
            "{db}" => db.clone().into_os_string(),
            "{file}" => file.clone().into_os_string(),
            other => other.into(),
        }));
        let (printed, took) = output_of(command, &step.command())?;
        let (rows, text) = match step.prints {
            Prints::Report | Prints::Rows => (objects(&printed)?, String::new()),
            Prints::File => {
                let written = std::fs::read_to_string(&file);
                let rows = objects(&written.context("it has written no rows")?)?;
                std::fs::remove_file(&file)?;
                (rows, printed)
            }
            Prints::Text => (Vec::new(), printed),
        };
        self.results.keep(&Stored {
            command: step.command(),
            took: took.as_secs_f64(),
            rows,
            text,
        })
    }
}

/// What a row of another program is of.
fn label_of(row: &Value) -> String {
    let names = [
        "pair",
        "policy",
        "structure",
        "keys",
        "workload",
        "work",
        "maps",
        "engine",
    ];
    let texts = names.iter().filter_map(|name| row.get(name)?.as_str());
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    texts.join(", ")
}

/// What tells rows apart that are of the same.
const FURTHER: [&str; 6] = [
    "numbers",
    "fast_share",
    "operations_a_step",
    "threads",
    "entries",
    "tree",
];

fn tell_apart(all: &mut [Measured]) {
    let mut groups: HashMap<String, Vec<usize>> = HashMap::new();
    for (i, measured) in all.iter().enumerate() {
        groups.entry(measured.label.clone()).or_default().push(i);
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let differ = |name: &str| {
            let first = all[group[0]].row.get(name);
            group.iter().any(|&i| all[i].row.get(name) != first)
        };
        let name = FURTHER.into_iter().find(|name| differ(name));
        for (nth, &i) in group.iter().enumerate() {
            let more = match name.and_then(|name| Some((name, all[i].row.get(name)?))) {
                // By its place, not by the number, which depends on the size of the run.
                Some(("entries", _)) | None => format!(", {}.", nth + 1),
                Some((name, value)) => format!(", {} {value}", name.replace('_', " ")),
            };
            all[i].label += &more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_of_the_same_name_are_told_apart() {
        let rows = [
            json!({"policy": "heat", "workload": "zipf", "fast_share": 0.2}),
            json!({"policy": "heat", "workload": "zipf", "fast_share": 0.4}),
            json!({"policy": "sinlk", "workload": "zipf", "fast_share": 0.4}),
            json!({"pair": "ART", "keys": "random", "entries": 10}),
            json!({"pair": "ART", "keys": "random", "entries": 20}),
        ];
        let mut all = rows.map(|row| Measured {
            label: label_of(&row),
            row,
        });
        tell_apart(&mut all);
        let labels = all.map(|measured| measured.label);
        assert_eq!(
            labels,
            [
                "heat, zipf, fast share 0.2",
                "heat, zipf, fast share 0.4",
                "sinlk, zipf",
                "ART, random, 1.",
                "ART, random, 2.",
            ]
        );
    }
}
