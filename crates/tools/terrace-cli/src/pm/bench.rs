//! `terrace bench --structure pm`: the map in persistent memory and its rivals, counted.

use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terrace_pm::pm::{DeviceKind, open_device};
use terrace_pm::{Durability, Options, PmMap};
use terrace_pm_bench::experiments::{self, Opened};
use terrace_pm_bench::picture::svg;
use terrace_pm_bench::rivals::Name;
use terrace_pm_bench::workload::{
    Outcome, Plan, Work, key_of, run as measure, run_in_turns, table,
};

use crate::args::{BenchArgs, PmDevice};
use crate::output::print;

/// Turns of those that are timed: enough for a median, long enough to be timed.
const TURNS: u64 = 40;
/// Bytes that are mapped to see what a file lies on.
const SMALLEST: u64 = 1 << 20;
/// Bytes of memory a key for the elastic map, if nothing is said.
const BYTES_PER_KEY: f64 = 3.5;

/// Runs what was asked for.
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let pm = &args.pm;
    if matches!(pm.device, PmDevice::File | PmDevice::Dax) {
        let is_counted = pm.rival.is_some() || pm.work.is_some() || pm.fence_ns.is_some();
        let is_more = pm.always_two || pm.recovery || pm.experiments || args.plot.is_some();
        if is_counted || is_more {
            bail!(
                "--rival, --work, --fence-ns, --always-two, --recovery, --experiments and --plot are for --device count: on a file puts and gets are timed"
            );
        }
        return on_a_file(args);
    }
    let names: Vec<Name> = match pm.rival.as_deref() {
        None => vec![Name::Elastic],
        Some("all") => Name::ALL.to_vec(),
        Some(name) => match Name::ALL.into_iter().find(|known| known.name() == name) {
            Some(name) => vec![Name::Elastic, name],
            None => bail!("there is no rival named {name:?}"),
        },
    };
    let works: Vec<Work> = match pm.work.as_deref() {
        None => vec![Work::Insert],
        Some("all") => Work::ALL.to_vec(),
        Some(name) => match Work::ALL.into_iter().find(|known| known.name() == name) {
            Some(work) => vec![work],
            None => bail!("there is no work named {name:?}"),
        },
    };
    let plan = Plan {
        records: args.records,
        bytes_per_key: pm.bytes_per_key.unwrap_or(BYTES_PER_KEY),
        fences: fences(pm.fence_ns.as_deref())?,
        is_hotness_off: pm.always_two,
    };
    if pm.experiments {
        let (outcomes, opened) = experiments::all(&plan, &[1, args.threads.max(2)])?;
        return show(args, &outcomes, &opened);
    }
    let mut outcomes = Vec::new();
    for work in works {
        if plan.fences.is_some() {
            outcomes.extend(run_in_turns(&plan, &names, work, TURNS)?);
            continue;
        }
        for name in &names {
            outcomes.push(measure(&plan, *name, work)?);
        }
    }
    let opened = match pm.recovery {
        true => vec![Opened::measured(&plan, args.threads)?],
        false => Vec::new(),
    };
    show(args, &outcomes, &opened)
}

/// A picture, if one is asked for, and a table or an object a line.
fn show(args: &BenchArgs, outcomes: &[Outcome], opened: &[Opened]) -> Result<ExitCode> {
    if let Some(path) = &args.plot {
        std::fs::write(path, svg(outcomes, opened))?;
    }
    let lines: Vec<String> = match args.json {
        true => {
            let objects = outcomes.iter().map(Outcome::json);
            objects.chain(opened.iter().map(Opened::json)).collect()
        }
        false => {
            let shown = table(outcomes).trim_end().to_owned();
            let shown = std::iter::once(shown);
            shown.chain(opened.iter().map(Opened::line)).collect()
        }
    };
    print(&(lines.join("\n") + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Nanoseconds of a fence, next to the last line and elsewhere: `130,254`.
fn fences(text: Option<&str>) -> Result<Option<(Duration, Duration)>> {
    let Some(text) = text else {
        return Ok(None);
    };
    let parsed = text.split_once(',').and_then(|(next, far)| {
        let nanos = |text: &str| text.trim().parse().ok().map(Duration::from_nanos);
        Some((nanos(next)?, nanos(far)?))
    });
    match parsed {
        Some(both) => Ok(Some(both)),
        None => bail!("--fence-ns takes two numbers, such as 130,254"),
    }
}

/// Puts and gets of a map in a file, by the clock, with as many threads as asked for.
fn on_a_file(args: &BenchArgs) -> Result<ExitCode> {
    let path = &args.open.db;
    if path.is_file() {
        bail!("{} is there already: give a new file", path.display());
    }
    let mut options = Options::new()
        .memory(args.open.memory.0)
        .capacity((args.records * 200).next_multiple_of(2 << 20) + (256 << 20));
    if args.pm.device == PmDevice::Dax {
        options = options.durability(Durability::Sync);
    }
    if args.pm.device == PmDevice::Dax {
        // Before anything is timed under that name.
        let (device, _) = open_device(path, SMALLEST, None, true)?;
        let is_dax = matches!(device.kind(), DeviceKind::Dax(_));
        drop(device);
        if !is_dax {
            if path.is_file() {
                std::fs::remove_file(path)?;
            }
            bail!(
                "{} is on no persistent memory (DAX); --device file times any file",
                path.display()
            );
        }
    }
    let map = PmMap::<u64, u64>::open(path, options)?;
    let threads = args.threads.max(1) as u64;
    let each = args.records / threads;
    let timed = |get: bool| -> Result<f64> {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|t| {
                    let map = map.clone();
                    scope.spawn(move || -> terrace_pm::Result<()> {
                        for i in t * each..(t + 1) * each {
                            if get {
                                map.get(key_of(i))?;
                            } else {
                                map.put(key_of(i), i)?;
                            }
                        }
                        Ok(())
                    })
                })
                .collect();
            for worker in workers {
                match worker.join() {
                    Ok(done) => done?,
                    Err(_) => bail!("a thread has ended early"),
                }
            }
            Ok(())
        })?;
        Ok(began.elapsed().as_secs_f64())
    };
    let (put, get) = (timed(false)?, timed(true)?);
    let stats = map.stats();
    map.close()?;
    if args.remove {
        std::fs::remove_file(path)?;
    }
    let micros = |seconds: f64| seconds * 1e6 * threads as f64 / args.records.max(1) as f64;
    print(&if args.json {
        format!(
            "{{\"device\":\"{}\",\"ops\":{},\"threads\":{threads},\"put_us\":{:.3},\"get_us\":{:.3},\"pairs_per_leaf_write\":{:.3},\"dram_bytes_per_key\":{:.3},\"log_bytes\":{}}}\n",
            path.display(),
            args.records,
            micros(put),
            micros(get),
            stats.pairs_per_leaf_write(),
            stats.memory_bytes as f64 / args.records.max(1) as f64,
            stats.log_bytes,
        )
    } else {
        format!(
            "{} keys, {threads} threads: put {:.3} µs, get {:.3} µs a thread; {:.2} pairs a leaf write\n",
            args.records,
            micros(put),
            micros(get),
            stats.pairs_per_leaf_write(),
        )
    })?;
    Ok(ExitCode::SUCCESS)
}
