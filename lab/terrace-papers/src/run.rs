//! Running an experiment: its programs, one after the other, and what they print kept in a file each.
//!
//! Invariant: a file is there only of a run that ended well, and says the command that made it; a run whose file
//! has the same command is not made again.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::experiment::{Experiment, How, Part};

/// How large, how long, where.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Over ten million records.
    pub scale: f64,
    /// Seconds of measuring and of warming up at most.
    pub seconds: f64,
    /// Where results lie.
    pub out: PathBuf,
    /// Where databases are made and deleted again.
    pub scratch: PathBuf,
    /// Where the programs are.
    pub programs: PathBuf,
}

/// What a run has left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// The command, without the folders of this machine.
    pub command: String,
    /// The label of a part.
    pub label: String,
    /// A report of `terrace bench`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<Value>,
    /// What others have printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// One program to be run.
#[derive(Clone, Debug)]
pub struct Step {
    /// The label of a part, or the experiment's name.
    pub label: String,
    program: &'static str,
    args: Vec<String>,
    is_report: bool,
}

/// Records of the full size, each with 128 bytes.
const RECORDS: f64 = 10e6;
const DATA_BYTES: f64 = RECORDS * 128.0;
/// The device that all are measured on, so that figures do not depend on the machine's own.
const DEVICE: &str = "--device-iops 20000";
/// Least memory of a database: below, page tables and logs are most of it.
const LEAST_MEMORY: f64 = 4e6;

impl Step {
    /// What it is called as a file.
    fn file(&self) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '-'
            }
        };
        self.label.chars().map(plain).collect::<String>() + ".json"
    }

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
        let one = |program, args: String, is_report| {
            vec![Step {
                label: of.name.into(),
                program,
                args: words(&args).collect(),
                is_report,
            }]
        };
        match &of.how {
            How::Engine(parts) => {
                let runs = |part: &&Part| self.memory(part) >= part.least_memory();
                parts
                    .iter()
                    .filter(runs)
                    .map(|part| self.bench(part))
                    .collect()
            }
            How::Maps(figure) => {
                let entries = ((RECORDS * self.scale) as u64).max(10_000);
                one(
                    "mem-bench",
                    format!("paper {figure} --entries {entries}"),
                    false,
                )
            }
            How::Places(figure) => one(
                "place-bench",
                format!("{figure} --scale {}", self.scale / 2.0),
                false,
            ),
            How::Persistent(work) => {
                let records = ((RECORDS * self.scale / 10.0) as u64).max(10_000);
                let all = format!(
                    "bench - --structure pm --device count --records {records} --rival all --work {work}"
                );
                one("terrace", all, false)
            }
            How::Prints(args) => one("terrace", args.join(" "), false),
            How::Missing(_) => Vec::new(),
        }
    }

    fn memory(&self, part: &Part) -> u64 {
        (DATA_BYTES * self.scale * part.memory).max(LEAST_MEMORY) as u64
    }

    fn bench(&self, part: &Part) -> Step {
        let data = DATA_BYTES * self.scale;
        let records = (data / (part.value_bytes + 8) as f64) as u64;
        let memory = self.memory(part);
        let (seconds, value_bytes) = (self.seconds, part.value_bytes);
        let mut args: Vec<String> = words("bench {db}").collect();
        args.extend(part.args.iter().cloned());
        args.extend(words(&format!(
            "--records {records} --value-bytes {value_bytes} --memory {memory} --seconds {seconds} --warmup {seconds} {DEVICE} --remove --json"
        )));
        Step {
            label: part.label.clone(),
            program: "terrace",
            args,
            is_report: true,
        }
    }

    /// The folder of an experiment's results.
    pub fn folder(&self, of: &Experiment) -> PathBuf {
        self.out.join(of.name.replace('/', "-"))
    }

    /// What was stored of a step, if it was this one.
    pub fn stored(&self, of: &Experiment, step: &Step) -> Option<Stored> {
        let text = std::fs::read_to_string(self.folder(of).join(step.file())).ok()?;
        let stored: Stored = serde_json::from_str(&text).ok()?;
        (stored.command == step.command()).then_some(stored)
    }

    /// Runs a step and stores what it has printed.
    pub fn run(&self, of: &Experiment, step: &Step) -> Result<()> {
        let folder = self.folder(of);
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        std::fs::create_dir_all(&self.scratch)
            .with_context(|| format!("cannot make {}", self.scratch.display()))?;
        let db = self.scratch.join("db");
        if db.exists() {
            // Of a run that was cut off.
            std::fs::remove_dir_all(&db)?;
        }
        let args = step.args.iter().map(|arg| match arg.as_str() {
            "{db}" => db.clone().into_os_string(),
            other => other.into(),
        });
        let program = self.programs.join(step.program);
        let output = Command::new(&program)
            .args(args)
            .output()
            .with_context(|| format!("cannot run {}", program.display()))?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            bail!("{} failed: {}", step.command(), told.trim());
        }
        let report = match step.is_report {
            true => Some(serde_json::from_str(&printed).context("what it printed is no report")?),
            false => None,
        };
        let stored = Stored {
            command: step.command(),
            label: step.label.clone(),
            text: report.is_none().then_some(printed),
            report,
        };
        write_whole(
            &folder.join(step.file()),
            &serde_json::to_string_pretty(&stored)?,
        )
    }
}

/// Writes a file that is there whole or not at all.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
