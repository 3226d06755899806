//! The workload `replay`: a process loads and is killed, then opening replays its log.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Instant;
use terrace_bench::numbers::{bytes, count};
use terrace_bench::{Prepared, Report, resident};

use super::plan::{STRUCTURE, device, plan, policy_label, sweep};
use crate::args::{BenchArgs, KeyLayoutName, LoadOrder, LogMode};
use crate::engine::{Db, Settings};
use crate::output::{print, stdout};
use crate::paced::Pacing;
use crate::progress;

/// The log may grow so far, if nothing else is said: no checkpoint shortens what is replayed.
const LOG_LIMIT: u64 = 64 << 30;

/// Loads in another process, kills it, opens, closes, and opens again.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    if args.log == LogMode::Off {
        bail!("without a log there is nothing to replay: choose --log buffered or --log sync");
    }
    if args.skip_load {
        bail!("the workload replay loads by itself: leave --skip-load out");
    }
    if args.record_cache.is_some() {
        bail!(
            "what a killed process had in its record cache is in no log: the workload replay does \
             without --record-cache"
        );
    }
    let path = &args.open.db;
    // A senseless plan is refused here, before anything is made.
    Prepared::new(plan(args)?)?;
    let result = measure(args);
    if args.remove && path.exists() {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot delete {}; delete it by hand", path.display()))?;
    }
    let result = result?;
    if args.json {
        print(&format!("{result}\n"))?;
    } else {
        print(&text(&result))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(args: &BenchArgs) -> Result<Value> {
    let mut loader = Loader::start(args)?;
    let load = loader.finish()?;
    drop(loader);

    let spinner = progress::spinner(args.json);
    spinner.set_message("opening what a killed process has left");
    let settings = Settings {
        memory: args.open.memory.0,
        log_limit: Some(log_limit(args)),
        sweep: sweep(args.sweep),
        pessimistic: args.pessimistic_locks,
        device: device(args)?.map(|device| (device, Pacing::on())),
        ..Settings::default()
    };
    let peak_is_from_open = resident::reset_peak();
    let before = resident::now();
    let began = Instant::now();
    let db = Db::open(&args.open.db, &settings)?;
    let open_seconds = began.elapsed().as_secs_f64();
    let peak = resident::peak().filter(|_| peak_is_from_open);
    let opening = db.opening();
    let found = if args.audit {
        spinner.set_message("counting what is there");
        let entries = db.tree(Some(STRUCTURE))?.range(None, None, false)?;
        Some(
            entries
                .map(|e| e.map(drop))
                .collect::<Result<Vec<()>>>()?
                .len(),
        )
    } else {
        None
    };
    spinner.set_message("closing");
    let began = Instant::now();
    db.close()?;
    let close_seconds = began.elapsed().as_secs_f64();
    spinner.set_message("opening again");
    let began = Instant::now();
    let db = Db::open(&args.open.db, &settings)?;
    let clean_open_seconds = began.elapsed().as_secs_f64();
    let disk_bytes = db.counters().disk_bytes;
    db.close()?;
    spinner.finish_and_clear();
    Ok(json!({
        "workload": "replay",
        "structure": args.structure.name(),
        "tiers": args.tiers,
        "policy": policy_label(args),
        "durability": args.log.name(),
        "records": args.records,
        "value_bytes": args.value_bytes,
        "memory_bytes": args.open.memory.0,
        "threads": args.threads,
        "replayed_operations": opening.replayed_operations,
        "replayed_bytes": opening.replayed_bytes,
        "replay_seconds": opening.replay_seconds,
        "replayed_operations_per_second":
            opening.replayed_operations as f64 / opening.replay_seconds.max(1e-9),
        "open_seconds": open_seconds,
        "close_seconds": close_seconds,
        "clean_open_seconds": clean_open_seconds,
        "records_found": found,
        "disk_bytes": disk_bytes,
        "resident_before_open_bytes": before,
        "peak_resident_bytes": peak,
        "load": load,
    }))
}

fn text(result: &Value) -> String {
    let number = |name: &str| result[name].as_f64().unwrap_or_default();
    let whole = |name: &str| result[name].as_u64().unwrap_or_default();
    let mut text = format!(
        "replay: {} operations, {} of log, in {:.2} s ({} operations/s)\n\
         opening after the kill  {:.2} s\n\
         closing                 {:.2} s\n\
         opening after closing   {:.3} s, {} on disk\n",
        count(number("replayed_operations")),
        bytes(whole("replayed_bytes")),
        number("replay_seconds"),
        count(number("replayed_operations_per_second").round()),
        number("open_seconds"),
        number("close_seconds"),
        number("clean_open_seconds"),
        bytes(whole("disk_bytes")),
    );
    if let Some(peak) = result["peak_resident_bytes"].as_u64() {
        text += &format!("resident memory         {} at most\n", bytes(peak));
    }
    if let Some(found) = result["records_found"].as_u64() {
        text += &format!(
            "records found           {found} of {} loaded\n",
            whole("records")
        );
    }
    text
}

fn log_limit(args: &BenchArgs) -> u64 {
    args.open.log_limit.map_or(LOG_LIMIT, |size| size.0)
}

/// The process that loads and is killed.
struct Loader(Child);

impl Loader {
    fn start(args: &BenchArgs) -> Result<Self> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command = Command::new(program);
        let compress = args.compress.map(crate::args::compression_name);
        command
            .arg("bench")
            .arg(&args.open.db)
            .args(["--workload", "load", "--unclean"])
            .args(["--memory", &args.open.memory.0.to_string()])
            .args(["--structure", args.structure.name()])
            .args(["--records", &args.records.to_string()])
            .args(["--value-bytes", &args.value_bytes.to_string()])
            .args(["--value-random", &args.value_random.to_string()])
            .args(["--tiers", &args.tiers.to_string()])
            .args(["--policy", args.policy.name()])
            .args(args.hot_heap.then_some("--hot-heap"))
            .args(args.hot_in_file.then_some("--hot-in-file"))
            .args(args.exclusive.then_some("--exclusive"))
            .args(compress.iter().map(|how| format!("--compress={how}")))
            .args(["--sweep", args.sweep.name()])
            .args(["--hashes", args.hashes.name()])
            .args(["--threads", &args.threads.to_string()])
            .args(["--log", args.log.name()])
            .args(["--log-limit", &log_limit(args).to_string()])
            .args(["--seed", &args.seed.to_string()])
            .args(match args.load_order {
                LoadOrder::Random => ["--load-order", "random"],
                LoadOrder::Sorted => ["--load-order", "sorted"],
                LoadOrder::Together => ["--load-order", "together"],
            })
            .args(match args.keys {
                KeyLayoutName::Spaced => ["--keys", "spaced"],
                KeyLayoutName::Hashed => ["--keys", "hashed"],
            });
        if let Some(size) = args.page_size {
            command.args(["--page-size", &size.0.to_string()]);
        }
        if args.json {
            command.arg("--json");
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the process that loads")?;
        Ok(Loader(child))
    }

    /// Waits until everything is loaded, and kills it. What it had been told is written counts.
    fn finish(&mut self) -> Result<Value> {
        let mut line = String::new();
        if let Some(out) = self.0.stdout.take() {
            BufReader::new(out)
                .read_line(&mut line)
                .context("cannot read what the loading process says")?;
        }
        // A process that has ended by itself has said why on the standard error.
        let report = serde_json::from_str(&line).context("loading failed")?;
        self.0.kill().context("cannot kill the loading process")?;
        self.0.wait()?;
        Ok(report)
    }
}

impl Drop for Loader {
    /// Also when something went wrong on the way: the folder is wanted without it.
    fn drop(&mut self) {
        // Both fail only if it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// In the process that loads: says that all is loaded, and waits to be killed.
pub fn wait_for_the_end(report: &Report) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "{}", report.to_json())?;
    out.flush()?;
    drop(out);
    // Nothing ever comes, unless whoever started this has ended: then this ends too, unclean.
    let _ = io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(3);
}
