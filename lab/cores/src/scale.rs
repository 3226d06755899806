//! Threads beside one: operations a second in memory, of our structures, and of two that others build.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use crossbeam_skiplist::SkipMap;
use serde::Serialize;

use crate::operation::{Operation, Scratch, Store, Structure, key};

/// Shards of the map that is compared with: more than any number of threads that is likely.
const SHARDS: usize = 256;

/// One call in this many is timed.
const TIMED: u64 = 16;

/// One run.
#[derive(Serialize)]
struct Line {
    what: String,
    operation: String,
    threads: usize,
    /// Operations a second.
    rate: f64,
    /// Over that with the first number of threads.
    over_first: f64,
    /// Nanoseconds.
    p50: u64,
    p999: u64,
    longest: u64,
}

/// Runs everything and prints it.
pub fn run(threads: &[usize], seconds: f64, records: u64, folder: &Path, json: bool) -> Result<()> {
    let mut lines = Vec::new();
    let mut all = |what: &str,
                   operation: &str,
                   call: &(dyn Fn(u64, &mut Scratch) -> Result<()> + Sync)| {
        let mut first = None;
        for &threads in threads {
            let mut line = measure(threads, seconds, records, call)?;
            line.what = what.into();
            line.operation = operation.into();
            line.over_first = line.rate / *first.get_or_insert(line.rate);
            eprintln!(
                "{what:9} {operation:12} {threads:4} threads {:12.0} a second, {:6.2} x, p50 {:6} p99.9 {:8} longest {:9} ns",
                line.rate, line.over_first, line.p50, line.p999, line.longest
            );
            lines.push(line);
        }
        anyhow::Ok(())
    };
    for structure in Structure::value_variants() {
        let folder = folder.join(format!("cores-scale-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        let store = Store::new(*structure, &folder, records, true)?;
        let what = format!("{structure:?}").to_lowercase();
        for operation in Operation::value_variants() {
            if Store::knows(*structure, *operation) {
                let call = |i, scratch: &mut Scratch| store.call(*operation, i, scratch);
                all(&what, &operation.name(), &call)?;
            }
        }
        store.close()?;
        std::fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    let shards: Vec<Mutex<BTreeMap<[u8; 8], Vec<u8>>>> =
        (0..SHARDS).map(|_| Mutex::default()).collect();
    let shard = |i: u64| &shards[(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize];
    let skips = SkipMap::new();
    for i in 0..records {
        shard(i)
            .lock()
            .expect("no panic")
            .insert(key(i), vec![1; 100]);
        skips.insert(key(i), vec![1u8; 100]);
    }
    all("shards", "get", &|i, scratch| {
        let shard = shard(i).lock().expect("no panic");
        scratch.value.clear();
        scratch.value.extend_from_slice(&shard[&key(i)]);
        Ok(())
    })?;
    all("shards", "put", &|i, _| {
        shard(i)
            .lock()
            .expect("no panic")
            .insert(key(i), vec![2; 100]);
        Ok(())
    })?;
    all("skip list", "get", &|i, scratch| {
        let entry = skips.get(&key(i)).context("gone")?;
        scratch.value.clear();
        scratch.value.extend_from_slice(entry.value());
        Ok(())
    })?;
    all("skip list", "put", &|i, _| {
        skips.insert(key(i), vec![2; 100]);
        Ok(())
    })?;
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
    }
    Ok(())
}

fn measure(
    threads: usize,
    seconds: f64,
    records: u64,
    call: &(dyn Fn(u64, &mut Scratch) -> Result<()> + Sync),
) -> Result<Line> {
    let (end, ready) = (AtomicBool::new(false), Barrier::new(threads + 1));
    // What one thread counts: operations, and the nanoseconds of those that were timed.
    let ran = std::thread::scope(|scope| -> Result<Vec<(u64, f64, Vec<u64>)>> {
        let workers: Vec<_> = (0..threads)
            .map(|who| {
                let (end, ready) = (&end, &ready);
                scope.spawn(move || -> Result<(u64, f64, Vec<u64>)> {
                    let (mut done, mut times) = (0u64, Vec::new());
                    let mut scratch = Scratch::default();
                    let mut random = who as u64 + 1;
                    ready.wait();
                    let began = Instant::now();
                    while !end.load(Ordering::Relaxed) {
                        // Knuth's numbers: of the upper bits all records are as likely.
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        // Neighbours are asked for, too.
                        let i = (random >> 33) % (records - 32);
                        if done.is_multiple_of(TIMED) {
                            let before = Instant::now();
                            call(i, &mut scratch)?;
                            times.push(before.elapsed().as_nanos() as u64);
                        } else {
                            call(i, &mut scratch)?;
                        }
                        done += 1;
                    }
                    Ok((done, began.elapsed().as_secs_f64(), times))
                })
            })
            .collect();
        ready.wait();
        std::thread::sleep(Duration::from_secs_f64(seconds));
        end.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a thread panicked"))
            .collect()
    })?;
    let rate = ran
        .iter()
        .map(|(done, seconds, _)| *done as f64 / seconds)
        .sum();
    let mut times: Vec<u64> = ran.into_iter().flat_map(|(_, _, times)| times).collect();
    times.sort_unstable();
    let at = |share: f64| times.get(((times.len() as f64 * share) as usize).min(times.len() - 1));
    Ok(Line {
        what: String::new(),
        operation: String::new(),
        threads,
        rate,
        over_first: 1.0,
        p50: at(0.5).copied().unwrap_or(0),
        p999: at(0.999).copied().unwrap_or(0),
        longest: times.last().copied().unwrap_or(0),
    })
}
