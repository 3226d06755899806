//! Results of programs, one file each.
//!
//! Invariant: a file is there only of a run that ended well, and its name follows from the command: what was run
//! once is not run again, whoever asks for it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a run has left.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stored {
    /// The command, without the folders of this machine.
    pub command: String,
    /// How long it took, in seconds.
    pub took: f64,
    /// What it has measured: objects, in the order in which they were printed.
    #[serde(default)]
    pub rows: Vec<Value>,
    /// What it has printed for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
}

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Results {
    folder: PathBuf,
}

/// Stable over machines and versions of the compiler, as names of files are to be: FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

impl Results {
    /// Results in a folder, which need not be there yet.
    pub fn new(folder: PathBuf) -> Results {
        Results { folder }
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, command: &str) -> PathBuf {
        self.folder.join(format!("{:016x}.json", hash(command)))
    }

    /// What a command has left, if it was run.
    pub fn find(&self, command: &str) -> Option<Stored> {
        let text = std::fs::read_to_string(self.file(command)).ok()?;
        let stored: Stored = serde_json::from_str(&text).ok()?;
        (stored.command == command).then_some(stored)
    }

    /// Keeps what a command has left.
    ///
    /// # Errors
    /// What the file system says.
    pub fn keep(&self, stored: &Stored) -> Result<()> {
        std::fs::create_dir_all(&self.folder)
            .with_context(|| format!("cannot make {}", self.folder.display()))?;
        let text = serde_json::to_string_pretty(stored)?;
        write_whole(&self.file(&stored.command), &text)
    }
}

/// Runs a program to its end; what it has printed, and for how long it ran.
///
/// # Errors
/// That it cannot be run, or what it said when it failed.
pub fn output_of(mut command: Command, name: &str) -> Result<(String, Duration)> {
    let began = Instant::now();
    let program = command.get_program().to_owned();
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        bail!("{name}: {}: {}", output.status, told.trim());
    }
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((printed, began.elapsed()))
}

/// The objects of a text: an array of them, one, or one a line.
///
/// # Errors
/// That it is none of these.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    if let Ok(Value::Array(all)) = serde_json::from_str(text) {
        return Ok(all);
    }
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
        let value = value.context("what was printed is no object")?;
        // Curves are most of a report, and are not drawn.
        all.push(without_curves(value));
    }
    Ok(all)
}

fn without_curves(mut value: Value) -> Value {
    if let Some(object) = value.as_object_mut() {
        object.remove("windows");
        object.remove("latency_histogram_ns");
    }
    value
}

/// Writes a file that is there whole or not at all.
///
/// # Errors
/// What the file system says.
pub fn write_whole(path: &Path, text: &str) -> Result<()> {
    let beside = path.with_extension("part");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// What machine this is, as far as the system says.
pub fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("a processor without a name", |name| {
        name.trim_start_matches([' ', '\t', ':'])
    });
    let many = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{many} processors, {model}")
}

/// How far a sequence of runs has come, and when it will be over: a line on standard error for each.
pub struct Progress {
    began: Instant,
    of: usize,
    done: usize,
    /// Runs that took time, as others had been made before.
    ran: usize,
}

impl Progress {
    /// Of this many runs.
    pub fn new(of: usize) -> Progress {
        Progress {
            began: Instant::now(),
            of,
            done: 0,
            ran: 0,
        }
    }

    /// One has ended, which is named; `ran` says whether it took time.
    pub fn step(&mut self, name: &str, ran: bool) {
        self.done += 1;
        self.ran += usize::from(ran);
        if ran {
            eprintln!("{}", self.line(name, self.began.elapsed()));
        }
    }

    fn line(&self, name: &str, elapsed: Duration) -> String {
        let left = self.of - self.done;
        let each = elapsed.as_secs_f64() / self.ran.max(1) as f64;
        let minutes = |seconds: f64| format!("{}:{:02}", seconds as u64 / 60, seconds as u64 % 60);
        format!(
            "[{}/{}] {}, {} left: {name}",
            self.done,
            self.of,
            minutes(elapsed.as_secs_f64()),
            minutes(each * left as f64)
        )
    }

    /// How long all took.
    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_by_its_command_alone() {
        let name = format!("terrace-papers-results-{}", std::process::id());
        let results = Results::new(std::env::temp_dir().join(name));
        let stored = Stored {
            command: "a b".into(),
            took: 1.0,
            rows: objects("{\"a\": 1, \"windows\": [1]}\n{\"b\": 2}").unwrap(),
            text: String::new(),
        };
        assert!(results.find("a b").is_none());
        results.keep(&stored).unwrap();
        assert!(results.find("a c").is_none());
        let found = results.find("a b").unwrap();
        assert_eq!(
            found.rows,
            [serde_json::json!({"a": 1}), serde_json::json!({"b": 2})]
        );
        // A file that was cut off is no result.
        std::fs::write(results.file("a b"), "{\"command\": \"a b\"").unwrap();
        assert!(results.find("a b").is_none());
        std::fs::remove_dir_all(results.folder()).unwrap();
        assert_eq!(objects("[{\"a\": 1}]").unwrap().len(), 1);
        assert!(objects("no object").is_err());
    }

    #[test]
    fn time_left_is_reckoned_by_what_took_time() {
        let mut progress = Progress::new(10);
        progress.step("old", false);
        progress.done += 2;
        progress.ran += 2;
        let line = progress.line("new", Duration::from_secs(120));
        assert_eq!(line, "[3/10] 2:00, 7:00 left: new");
    }
}
