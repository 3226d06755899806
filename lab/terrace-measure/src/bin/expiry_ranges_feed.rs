//! Measures records that expire, ranges that go, and the feed of changes, by counts and by ratios within one run.
//!
//! `expiry_ranges_feed FOLDER ranges|sessions|feed [RECORDS [tree|hash|lsm]]`. What it makes in FOLDER, which must not be
//! there, it deletes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use terrace::{
    ChangesOptions, Database, Kind, Map, MapOptions, Options, RemoveOptions, Result, Tiers,
    TimeSource,
};
use terrace_sim::{Call, HookedDisk, Rng, SimDisk};

const VALUE: [u8; 120] = [7; 120];
/// Turns of the two sides of a ratio; the middle one counts.
const TURNS: usize = 9;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("name a folder that is not there yet")?);
    let part = args.next().ok_or("say what: ranges, sessions or feed")?;
    let records: u64 = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let kind = match args.next().as_deref() {
        Some("hash") => Kind::Hash,
        Some("lsm") => Kind::Lsm,
        _ => Kind::Tree,
    };
    std::fs::create_dir(&folder)?;
    let done = match part.as_str() {
        "ranges" => ranges(&folder, records, kind),
        "sessions" => sessions(&folder, records, kind),
        "feed" => feed(records),
        _ => return Err("ranges, sessions or feed".into()),
    };
    std::fs::remove_dir_all(&folder)?;
    Ok(done?)
}

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

/// Half of a tree or an LSM-tree goes, at once and in steps, from a memory of a tenth of it.
fn ranges(folder: &Path, records: u64, kind: Kind) -> Result<()> {
    for tiers in [Tiers::One, Tiers::Two] {
        for at_once in [true, false] {
            let path = folder.join(format!("{tiers:?}-{at_once}"));
            let open = || Database::open(&path, Options::new().memory(records * 128 / 10));
            let tree = open()?.create_map("t", kind, MapOptions::new().tiers(tiers))?;
            // In no order, so that leaves are as full as they are in use.
            for i in 0..records {
                tree.put(key(i * 7919 % records), VALUE)?;
            }
            tree.database().clone().close()?;
            drop(tree);
            let db = open()?;
            let map = db.map("t")?;
            let Some(tree) = map.as_tree() else {
                return Err(terrace::Error::invalid(
                    "only ranges of trees and LSM-trees go",
                ));
            };
            let pages = || db.stats().pages;
            let (low, high) = (key(records / 4), key(records / 4 * 3));
            let before = pages();
            let (reads, writes) = if at_once {
                tree.delete_range(low..high)?;
                let read = pages().reads - before.reads;
                let dirty = pages().dirty;
                (read, dirty)
            } else {
                tree.remove_range(low..high, RemoveOptions::new())?;
                db.checkpoint()?;
                let after = pages();
                (after.reads - before.reads, after.writes - before.writes)
            };
            let mut live = pages().live;
            loop {
                std::thread::sleep(Duration::from_secs(2));
                if std::mem::replace(&mut live, pages().live) == live {
                    break;
                }
            }
            let gone = before.live.saturating_sub(live);
            let after = pages();
            println!(
                "{tiers:?}, {}: {reads} pages read and {writes} {}, {:.3} per page of the {gone} that went; at rest {} read in all, {} of them by the ageing and {} by demotion",
                if at_once {
                    "delete_range"
                } else {
                    "remove_range"
                },
                if at_once { "dirty" } else { "written" },
                (reads + writes) as f64 / gone.max(1) as f64,
                after.reads - before.reads,
                after.ageing_reads - before.ageing_reads,
                after.demotion_reads - before.demotion_reads
            );
            drop((tree, map));
            db.close()?;
        }
    }
    Ok(())
}

/// A clock that goes when it is told to.
#[derive(Debug)]
struct Hands(AtomicU64);

/// When it begins, in milliseconds after 1970.
const BEGIN: u64 = 1_700_000_000_000;
const HOUR: u64 = 3_600_000;

impl TimeSource for Hands {
    fn wall(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> u64 {
        self.wall() - BEGIN
    }
}

fn session(i: u64) -> String {
    format!("session:{i:012}")
}

const SESSION: [u8; 180] = [5; 180];

/// Rounds of as many reads as there are sessions that live, for each of which a hit rate is taken.
const ROUNDS: usize = 4;

/// Reads of the living, some far more often than others: in each round, the share that the hot tier answers.
fn hit_rates(map: &Map, living: &[u64]) -> Result<[f64; ROUNDS]> {
    let mut rng = Rng::new(9);
    let count = living.len() as u64;
    let mut rates = [0.0; ROUNDS];
    let figures = || {
        let stats = map.database().stats();
        let of_map = &stats.structures[0];
        (of_map.hot_hits, of_map.hot_hits + of_map.cold_hits)
    };
    for rate in &mut rates {
        let before = figures();
        for _ in 0..count {
            // The smallest of three: the first ones far more often than the last, spread over all of them.
            let place = rng.below(count).min(rng.below(count)).min(rng.below(count));
            map.get(session(living[(place * 7919 % count) as usize]))?;
        }
        let after = figures();
        *rate = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    }
    Ok(rates)
}

/// Sessions that expire within an hour of the clock, put for two hours, beside a store of those alone that live then.
fn sessions(folder: &Path, records: u64, kind: Kind) -> Result<()> {
    let mut rng = Rng::new(1);
    let hands = Arc::new(Hands(AtomicU64::new(BEGIN)));
    // Half of an hour's are alive at a time; a tenth of them is to be in memory.
    let memory = records / 2 * 200 / 10;
    let open = |name: &str| {
        let options = Options::new().memory(memory).clock(hands.clone());
        Database::open(folder.join(name), options)
    };
    let db = open("all")?;
    let map = db.create_map("s", kind, MapOptions::new().expiring())?;
    let mut ends = std::collections::VecDeque::new();
    let (mut longest, mut spent) = (Vec::new(), Vec::new());
    let until = |ms: u64| -> SystemTime { UNIX_EPOCH + Duration::from_millis(ms) };
    for i in 0..2 * records {
        let now = BEGIN + i * HOUR / records;
        hands.0.store(now, Ordering::SeqCst);
        let end = now + 1 + rng.below(HOUR);
        // By the clock, in which whatever else runs has its part, and by the processor time of this thread.
        let (begun, before) = (Instant::now(), processor_time());
        map.put_until(session(i), SESSION, until(end))?;
        spent.push((processor_time() - before).as_micros() as u64);
        longest.push(begun.elapsed().as_micros() as u64);
        ends.push_back((i, end));
        if ends.len() as u64 > records {
            ends.pop_front();
        }
        // Sessions are read, too: a late one.
        let (late, _) =
            ends[(ends.len() as u64 - 1 - rng.below(ends.len() as u64 / 10 + 1)) as usize];
        map.get(session(late))?;
    }
    for (what, mut times) in [("the clock", longest), ("processor time", spent)] {
        times.sort_unstable();
        let at = |share: f64| times[(times.len() as f64 * share) as usize];
        println!(
            "{kind:?}: {} puts by {what}: longest {:?} us, 99.99 % within {}, 99 % within {}",
            times.len(),
            times.iter().rev().take(5).collect::<Vec<_>>(),
            at(0.9999),
            at(0.99)
        );
    }
    let waits = db.stats().pages;
    println!(
        "puts and reads waited {} times for a frame, {} times for a checkpoint",
        waits.waits_for_frames, waits.waits_for_cut
    );
    let now = hands.wall();
    let living: Vec<(u64, u64)> = ends.into_iter().filter(|(_, end)| *end > now).collect();
    let numbers: Vec<u64> = living.iter().map(|(i, _)| *i).collect();
    let other = open("living")?;
    let alone = other.create_map("s", kind, MapOptions::new().expiring())?;
    for (i, end) in &living {
        alone.put_until(session(*i), SESSION, until(*end))?;
    }
    let rates = (hit_rates(&map, &numbers)?, hit_rates(&alone, &numbers)?);
    println!(
        "{} live; hit rates {:.4?}, of a store of the living {:.4?}",
        numbers.len(),
        rates.0,
        rates.1
    );
    let size = |db: &Database| -> Result<u64> {
        let (begun, mut least) = (Instant::now(), u64::MAX);
        while begun.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_secs(5));
            least = least.min(db.stats().pages.data_file_bytes);
        }
        Ok(least)
    };
    let sizes = std::thread::scope(|scope| {
        let one = scope.spawn(|| size(&db));
        let two = size(&other)?;
        Ok::<_, terrace::Error>((one.join().unwrap_or(Ok(0))?, two))
    })?;
    println!(
        "file at rest {} bytes, of the living {}, {:.2} times",
        sizes.0,
        sizes.1,
        sizes.0 as f64 / sizes.1 as f64
    );
    Ok(())
}

/// Time that the calling thread has had a processor.
fn processor_time() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = spent.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// Two writers, with one reader of the changes beside them and without, on a device that takes a millisecond for a sync.
fn feed(puts: u64) -> Result<()> {
    let disk = HookedDisk::new(SimDisk::new(1).shared(), |call| {
        if matches!(call, Call::Sync(_)) {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    let db = Database::open_on(Arc::new(disk), Options::new().memory(256 << 20))?;
    let tree = db.tree("t")?;
    for i in 0..100_000 {
        tree.put(key(i), VALUE)?;
    }
    // Processor time of the writers for a put, and time by the clock.
    let turn = |seed: u64| -> (f64, f64) {
        let begun = Instant::now();
        let spent: Duration = std::thread::scope(|scope| {
            let writers = [0, 1].map(|writer| {
                let tree = &tree;
                scope.spawn(move || {
                    let (mut rng, before) = (Rng::new(seed << 1 | writer), processor_time());
                    for _ in 0..puts / 2 {
                        if tree.put(key(rng.below(100_000)), VALUE).is_err() {
                            return Duration::ZERO;
                        }
                    }
                    processor_time() - before
                })
            });
            writers
                .into_iter()
                .map(|w| w.join().unwrap_or_default())
                .sum()
        });
        (
            spent.as_nanos() as f64 / puts as f64,
            begun.elapsed().as_nanos() as f64 / puts as f64,
        )
    };
    turn(0);
    let (mut spent, mut by_clock, mut read) = (Vec::new(), Vec::new(), 0);
    for round in 1..=TURNS as u64 {
        let none = turn(round);
        let stop = AtomicBool::new(false);
        let mut changes = db.changes(ChangesOptions::new())?;
        let one = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut commits = 0u64;
                loop {
                    match changes.next_within(Duration::from_millis(200)) {
                        Ok(Some(_)) => commits += 1,
                        // What was written last is durable, and read, too.
                        Ok(None) if stop.load(Ordering::Relaxed) => break,
                        Ok(None) => {}
                        Err(e) => {
                            println!("the reader ended: {e}");
                            break;
                        }
                    }
                }
                commits
            });
            let one = turn(round);
            db.sync()?;
            stop.store(true, Ordering::Relaxed);
            read += reader.join().unwrap_or(0);
            Ok::<_, terrace::Error>(one)
        })?;
        println!(
            "without: {:.0} ns of processor, {:.0} by the clock; with: {:.0}, {:.0}",
            none.0, none.1, one.0, one.1
        );
        spent.push(none.0 / one.0);
        by_clock.push(none.1 / one.1);
    }
    for (what, mut ratios) in [
        ("processor time of the writers", spent),
        ("the clock", by_clock),
    ] {
        ratios.sort_by(f64::total_cmp);
        println!(
            "writers with a reader over those without, by {what}: {:.3}",
            ratios[TURNS / 2]
        );
    }
    println!("{read} commits read of {}", TURNS as u64 * puts);
    Ok(())
}
