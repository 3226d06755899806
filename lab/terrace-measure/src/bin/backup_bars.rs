//! Measures backup, restore, snapshots and compaction, as counts and as ratios within one run:
//! `cargo run --release -p terrace-measure --bin backup_bars -- FOLDER RECORDS`. What it makes in FOLDER, which
//! must not be there, it deletes.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace::{
    BackupOptions, CompactOptions, Database, FollowOptions, Kind, MapOptions, Options, Rate,
    RestoreOptions, RestoreTo, Result, Tiers, Tree, TreeOptions, restore,
};

const MEMORY: u64 = 64 << 20;
const VALUE_BYTES: usize = 120;
const USER_BYTES: u64 = 8 + VALUE_BYTES as u64;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("name a folder that is not there yet")?);
    let records: u64 = args.next().ok_or("say how many records")?.parse()?;
    std::fs::create_dir(&folder)?;
    let done = sets(&folder, records)
        .and_then(|()| others(&folder, records))
        .and_then(|()| compactions(&folder, records));
    std::fs::remove_dir_all(&folder)?;
    Ok(done?)
}

fn options() -> Options {
    Options::new().memory(MEMORY).log_limit(1 << 30)
}

/// Keys in no order, each once.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let began = Instant::now();
    let done = work()?;
    Ok((done, began.elapsed().as_secs_f64()))
}

/// Copies this many bytes of a file as `cp` does, to another one, and makes them durable.
fn copied(from: &Path, to: &Path) -> Result<f64> {
    let io = |e| terrace::Error::io("copying", "a file", e);
    let ((), seconds) = timed(|| {
        std::fs::copy(from, to).map_err(io)?;
        let file = std::fs::File::open(to).map_err(io)?;
        file.sync_all().map_err(io)
    })?;
    std::fs::remove_file(to).map_err(io)?;
    Ok(seconds)
}

fn sets(folder: &Path, records: u64) -> Result<()> {
    let (path, set) = (folder.join("db"), folder.join("set"));
    let db = Database::open(&path, options())?;
    let tree = db.tree_with("t", TreeOptions::new().tiers(Tiers::One))?;
    let mut loader = tree.loader()?;
    for i in 0..records {
        loader.put(key(i), [i as u8; VALUE_BYTES])?;
    }
    loader.finish()?;
    db.checkpoint()?;
    let page = db.stats().pages.page_bytes;

    let count = |n: usize| assert_eq!(n as u64, records);
    let mut ratios = Vec::new();
    for _ in 0..3 {
        let (n, plain) = timed(|| Ok(tree.iter()?.count()))?;
        count(n);
        let snapshot = db.snapshot()?;
        let then = snapshot.tree("t")?;
        let (n, held) = timed(|| Ok(then.iter()?.count()))?;
        count(n);
        ratios.push(plain / held);
    }
    println!("scan of a snapshot over a plain one: {ratios:.2?}");

    let fast = || BackupOptions::new().rate(Rate::Fast);
    let (full, seconds) = timed(|| db.backup(&set, fast()))?;
    let live = full.live_pages * page;
    println!(
        "full backup: {} pages, stored bytes over live ones {:.4}",
        full.live_pages,
        full.stored_bytes as f64 / live as f64
    );
    let pages = set.join("point-1.pages");
    let mut ratios = vec![copied(&pages, &folder.join("copy"))? / seconds];
    for point in 2..4 {
        let (_, seconds) = timed(|| db.backup(&set, fast().full(true)))?;
        let pages = set.join(format!("point-{point}.pages"));
        ratios.push(copied(&pages, &folder.join("copy"))? / seconds);
    }
    println!("full backup over cp of the same bytes: {ratios:.2?}");

    // One record on each of every hundredth page, in the order of keys.
    let before = db.stats().pages.writes;
    let each = (records / full.live_pages * 100).max(1) as usize;
    let some: Vec<Vec<u8>> = tree
        .iter()?
        .step_by(each)
        .map(|record| record.map(|(key, _)| key))
        .collect::<Result<_>>()?;
    for key in &some {
        tree.put(key, [7; VALUE_BYTES])?;
    }
    let part = db.backup(&set, fast())?;
    let written = db.stats().pages.writes - before;
    println!(
        "incremental after {} pages of {} were written ({} records): read {:.3}, stored {:.3} of them",
        written,
        full.live_pages,
        some.len(),
        part.read_pages as f64 / written as f64,
        part.stored_pages as f64 / written as f64
    );

    let follower = db.follow(&set, FollowOptions::new().rate(Rate::Fast))?;
    let point = follower.status().point;
    for i in 0..records {
        tree.put(key(i), [!i as u8; VALUE_BYTES])?;
    }
    follower.stop()?;
    db.close()?;
    let again = folder.join("again");
    let mut copies = Vec::new();
    let mut replays = Vec::new();
    // With the memory of all else here the data does not fit, and what is replayed reads and writes pages.
    for memory in [MEMORY, 4 * MEMORY] {
        for to in [RestoreTo::Point(point.unwrap_or(1)), RestoreTo::Latest] {
            let options = RestoreOptions::new()
                .to(to)
                .verify(false)
                .options(options().memory(memory));
            let (done, seconds) = timed(|| restore(&set, &again, options))?;
            if done.replayed == 0 {
                let copy = copied(&again.join("data"), &folder.join("copy"))?;
                copies.push((copy / seconds, seconds));
            } else {
                let alone = copies.last().map_or(0.0, |last| last.1);
                let left = Duration::from_secs_f64((seconds - alone).max(1e-9));
                replays.push(done.replayed as f64 / left.as_secs_f64());
            }
            std::fs::remove_dir_all(&again)
                .map_err(|e| terrace::Error::io("deleting", "a folder", e))?;
        }
    }
    println!("restore of a point over cp: {:.2}", copies[0].0);
    println!(
        "replay behind it: {:.0} records a second, {:.0} with four times the memory",
        replays[0], replays[1]
    );
    Ok(())
}

/// Buckets of latencies: sixteen to each doubling, from a nanosecond on.
const BUCKETS: usize = 16 * 64;

/// What F came to in some time.
struct Figures {
    operations: u64,
    seconds: f64,
    buckets: Vec<u64>,
}

impl Figures {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.seconds
    }

    /// What one operation in a thousand exceeds, in nanoseconds.
    fn p999(&self) -> f64 {
        let mut left = self.operations / 1000;
        for (at, count) in self.buckets.iter().enumerate().rev() {
            if *count > left {
                return 2f64.powf(at as f64 / 16.0);
            }
            left -= count;
        }
        0.0
    }
}

/// Reads and changes records, a few of them often, as the law of Zipf has it, until it is told to stop.
fn f(tree: &Tree, records: u64, stop: &AtomicBool) -> Result<Figures> {
    let began = Instant::now();
    let mut figures = Figures {
        operations: 0,
        seconds: 0.0,
        buckets: vec![0; BUCKETS],
    };
    // Each run goes on where the one before it was: the same records again would all be in memory.
    static STATE: AtomicU64 = AtomicU64::new(0x1234_5678_9ABC_DEF0);
    let mut state = STATE.load(Ordering::Relaxed);
    while !stop.load(Ordering::Relaxed) {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let part = (state >> 11) as f64 / (1u64 << 53) as f64;
        let rank = ((records as f64).powf(part) as u64).min(records - 1);
        let one = Instant::now();
        match state >> 60 & 1 {
            0 => drop(tree.get(key(rank))?),
            _ => {
                tree.update(key(rank), |old| {
                    let mut value = old.map_or(vec![0; VALUE_BYTES], <[u8]>::to_vec);
                    value[0] = value[0].wrapping_add(1);
                    Some(value)
                })?;
            }
        }
        let nanos = one.elapsed().as_nanos().max(1) as f64;
        figures.buckets[((nanos.log2() * 16.0) as usize).min(BUCKETS - 1)] += 1;
        figures.operations += 1;
    }
    STATE.store(state, Ordering::Relaxed);
    figures.seconds = began.elapsed().as_secs_f64();
    Ok(figures)
}

/// Runs F while something is done.
fn beside(tree: &Tree, records: u64, work: impl FnOnce() -> Result<()>) -> Result<Figures> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let works = scope.spawn(|| f(tree, records, &stop));
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let figures = works
            .join()
            .map_err(|_| terrace::Error::invalid("F has panicked"))?;
        done.and(figures)
    })
}

/// What others notice: F beside a gentle backup and a gentle compaction, puts while a snapshot is held, hits of
/// the hot tier while one is scanned.
fn others(folder: &Path, records: u64) -> Result<()> {
    const ALONE: Duration = Duration::from_secs(10);
    const WARM: Duration = Duration::from_secs(60);
    let (path, set) = (folder.join("others"), folder.join("set of others"));
    let db = Database::open(&path, options())?;
    let tree = db.tree("t")?;
    let mut loader = tree.loader()?;
    for i in 0..records {
        loader.put(key(i), [i as u8; VALUE_BYTES])?;
    }
    loader.finish()?;
    let alone = |time| {
        beside(&tree, records, || {
            std::thread::sleep(time);
            Ok(())
        })
    };
    // Until it is warm, and has begun to throw records out of memory.
    alone(WARM)?;
    let hits = || {
        let stats = db.stats();
        let of = |s: &terrace::StructureStats| (s.hot_hits, s.hot_hits + s.cold_hits + s.misses);
        stats.structures.first().map_or((0, 0), of)
    };
    let rate = |from: (u64, u64), to: (u64, u64)| (to.0 - from.0) as f64 / (to.1 - from.1) as f64;
    for round in 0..3 {
        let without = alone(ALONE)?;
        let during = beside(&tree, records, || {
            db.backup(&set, BackupOptions::new().full(true)).map(|_| ())
        })?;
        let ratio = during.rate() / without.rate();
        println!(
            "F beside a gentle backup, round {round}: {ratio:.2} of the throughput, p99.9 {:.2} times",
            during.p999() / without.p999()
        );
        let without = alone(ALONE)?;
        let during = beside(&tree, records, || {
            db.compact(CompactOptions::new()).map(|_| ())
        })?;
        println!(
            "F beside a gentle compaction, round {round}: {:.2} of the throughput, p99.9 {:.2} times",
            during.rate() / without.rate(),
            during.p999() / without.p999()
        );
        let from = hits();
        alone(ALONE)?;
        let before = hits();
        let snapshot = db.snapshot()?;
        let then = snapshot.tree("t")?;
        let held = hits();
        beside(&tree, records, || {
            then.iter()?.try_for_each(|r| r.map(|_| ()))
        })?;
        println!(
            "reads that the hot tier answers: {:.4}, and while a snapshot is scanned {:.4}",
            rate(from, before),
            rate(held, hits())
        );
        drop((then, snapshot));
        let puts = || {
            timed(|| (0..records / 4).try_for_each(|i| tree.put(key(i * 4), [round; VALUE_BYTES])))
        };
        let ((), without) = puts()?;
        let snapshot = db.snapshot()?;
        let ((), held) = puts()?;
        drop(snapshot);
        println!(
            "puts while a snapshot is held over puts: {:.2}",
            without / held
        );
    }
    db.close()
}

fn compactions(folder: &Path, records: u64) -> Result<()> {
    for kind in [Kind::Tree, Kind::Hash, Kind::Table] {
        for tiers in [Tiers::One, Tiers::Two] {
            let path = folder.join("compacted");
            let db = Database::open(&path, options())?;
            let map = db.create_map("m", kind, MapOptions::new().tiers(tiers))?;
            for i in 0..records {
                map.put(key(i), [i as u8; VALUE_BYTES])?;
            }
            let report = db.compact(CompactOptions::new().rate(Rate::Fast))?;
            let user = (records * USER_BYTES) as f64;
            let page = db.stats().pages.page_bytes;
            println!(
                "{kind}, {tiers:?}: file {:.3} of the user's bytes, pages {:.3}, file before {:.3}",
                report.file_bytes_after as f64 / user,
                (report.pages_after * page) as f64 / user,
                report.file_bytes_before as f64 / user
            );
            db.close()?;
            std::fs::remove_dir_all(&path)
                .map_err(|e| terrace::Error::io("deleting", "a folder", e))?;
        }
    }
    Ok(())
}
