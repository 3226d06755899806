//! Reads of records that are mostly on disk, by futures on one thread, a number of them in flight, against blocking
//! reads by as many threads, and by futures that have a thread each, 32 at most, as each had before.
//!
//! `reads_in_flight DIRECTORY RECORDS READS [ROUNDS]`: records of 8 and 120 bytes of a tree, with a third of their bytes
//! as memory; which record is read is uniform. The first round fills the memory. Each line: reads a second, processor
//! time of the process a read, pages read a read. The directory is kept for the next run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use terrace::{Database, Options, Result, TreeOptions, aio};

/// Futures in flight.
const FLIGHTS: [u64; 3] = [1, 16, 64];
/// Threads that read and wait.
const THREADS: [u64; 2] = [1, 16];

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Which records are read: each number once, whoever takes it.
struct Work {
    next: AtomicU64,
    end: u64,
    records: u64,
}

impl Work {
    fn new(round: u64, reads: u64, records: u64) -> Arc<Work> {
        Arc::new(Work {
            next: (round * reads).into(),
            end: (round + 1) * reads,
            records,
        })
    }

    fn next(&self) -> Option<[u8; 8]> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let mut random = n.wrapping_add(1).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        random = (random ^ (random >> 31)).wrapping_mul(0x94D0_49BB_1331_11EB);
        random ^= random >> 29;
        let i = ((u128::from(random) * u128::from(self.records)) >> 64) as u64;
        (n < self.end).then(|| key(i))
    }
}

/// Seconds of the processor that this process has had.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn in_threads(map: &terrace::Map, work: &Work, threads: u64) -> Result<()> {
    std::thread::scope(|scope| {
        let run = || -> Result<()> {
            let mut value = Vec::new();
            while let Some(key) = work.next() {
                assert!(map.get_into(key, &mut value)?);
            }
            Ok(())
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        all.into_iter()
            .try_for_each(|one| one.join().expect("a thread that reads"))
    })
}

async fn in_flight(map: &aio::Map, work: &Arc<Work>, flight: u64, by_thread: bool) -> Result<()> {
    let all: Vec<_> = (0..flight)
        .map(|_| {
            let (map, work) = (map.clone(), work.clone());
            tokio::spawn(async move {
                while let Some(key) = work.next() {
                    let found = match by_thread {
                        false => map.get(key).await?,
                        true => match map.get_ref().get_if_resident(key, &mut Vec::new())? {
                            Some(found) => found.then(Vec::new),
                            None => map.run(move |map| map.get(key)).await?,
                        },
                    };
                    assert!(found.is_some());
                }
                Result::Ok(())
            })
        })
        .collect();
    for one in all {
        one.await.expect("a task that reads")?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| args.get(i).and_then(|n| n.parse::<u64>().ok());
    let (Some(directory), Some(records), Some(reads)) = (args.first(), number(1), number(2)) else {
        eprintln!("reads_in_flight DIRECTORY RECORDS READS [ROUNDS]");
        std::process::exit(2);
    };
    let db = Database::open(directory, Options::new().memory(records * 128 / 3))?;
    let is_new = db.structures().is_empty();
    let tree = db.tree_with("records", TreeOptions::new().logged(false))?;
    if is_new {
        (0..records).try_for_each(|i| tree.put(key(i), [i as u8; 120]))?;
        db.checkpoint()?;
    }
    let all = aio::Database::with_threads(db.clone(), aio::MOST_THREADS)?;
    let map = all.map(&tree);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    let pages = || db.stats().pages.reads;
    let mut round = 0;
    let mut measured = |name: String, run: &dyn Fn(&Arc<Work>) -> Result<()>| -> Result<()> {
        let work = Work::new(round, reads, records);
        round += 1;
        let (begun, processor, before) = (Instant::now(), processor_seconds(), pages());
        run(&work)?;
        println!(
            "{name}: {:.0} reads/s, {:.1} us, {:.2} pages",
            reads as f64 / begun.elapsed().as_secs_f64(),
            (processor_seconds() - processor) * 1e6 / reads as f64,
            (pages() - before) as f64 / reads as f64
        );
        Ok(())
    };
    for _ in 0..number(3).unwrap_or(3) + 1 {
        for threads in THREADS {
            measured(format!("{threads} threads"), &|work| {
                in_threads(&tree, work, threads)
            })?;
        }
        for flight in FLIGHTS {
            measured(format!("{flight} futures"), &|work| {
                runtime.block_on(in_flight(&map, work, flight, false))
            })?;
        }
        measured("64 futures by threads".into(), &|work| {
            runtime.block_on(in_flight(&map, work, 64, true))
        })?;
        println!();
    }
    drop((map, all, tree));
    db.close()
}
