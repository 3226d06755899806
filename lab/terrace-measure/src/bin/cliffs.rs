//! What once fell off a cliff at the defaults, measured: each line is a ratio of two things that should be
//! alike, with the figures that it is made of. Work that waits for nothing is compared by processor time, of
//! all threads, which other work on the machine changes little.
//!
//! `cliffs DIRECTORY [queue|structures|reads|batch|size ...]`: all of them if none is named. The directory is
//! made, and deleted at the end. With direct I/O, so not in a file system in memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{
    Database, DirectIo, Disk, Durability, Error, FileDisk, Kind, Map, MapOptions, Options, Result,
    Tiers, Tree, encode,
};

const MIB: u64 = 1 << 20;
/// The request that the device is asked for: those of reading ahead are as large at most.
const PIECE: usize = 256 << 10;
/// Direct reads go to such addresses.
const ALIGNED: usize = 4096;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let Some(directory) = args.next() else {
        eprintln!("cliffs DIRECTORY [queue|structures|reads|batch|size ...]");
        std::process::exit(2);
    };
    let chosen: Vec<String> = args.collect();
    type Part = fn(&Place) -> Result<()>;
    let parts: [(&str, Part); 5] = [
        ("queue", queue),
        ("structures", structures),
        ("reads", reads),
        ("batch", batch),
        ("size", size),
    ];
    let place = Place(PathBuf::from(directory));
    for (name, part) in parts {
        if chosen.is_empty() || chosen.iter().any(|chosen| chosen == name) {
            println!("{name}");
            part(&place)?;
        }
    }
    Ok(())
}

/// Where the databases go; each is deleted when the next one is made.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Place {
    fn path(&self) -> &Path {
        &self.0
    }

    fn open(&self, mib: u64) -> Result<Database> {
        Database::open(&self.0, Options::new().memory(mib * MIB))
    }

    fn fresh(&self, mib: u64) -> Result<Database> {
        let _ = std::fs::remove_dir_all(&self.0);
        self.open(mib)
    }
}

fn options(tiers: Tiers) -> MapOptions {
    MapOptions::new().tiers(tiers)
}

/// A number that the system tells of this process; 0 where it tells none.
fn told(file: &str, number: impl Fn(&str) -> Option<u64>) -> u64 {
    let text = std::fs::read_to_string(Path::new("/proc/self").join(file));
    text.ok().and_then(|text| number(&text)).unwrap_or_default()
}

/// Seconds of processor time so far: in hundredths, which are what the system counts.
fn processor() -> f64 {
    let ticks = told("stat", |text| {
        let fields = text.rsplit(')').next()?.split_whitespace();
        // Behind the name: the 12th and 13th are of the program and of the system for it.
        Some(
            fields
                .skip(11)
                .take(2)
                .filter_map(|n| n.parse::<u64>().ok())
                .sum(),
        )
    });
    ticks as f64 / 100.0
}

/// Requests to read so far.
fn requests() -> u64 {
    told("io", |text| {
        let line = text.lines().find_map(|line| line.strip_prefix("syscr: "))?;
        line.parse().ok()
    })
}

/// Seconds of processor time that this takes.
fn worked(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = processor();
    work()?;
    Ok(processor() - begun)
}

/// Seconds that this takes.
fn timed(work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A key in an order that looks random: each once.
fn scattered(i: u64) -> [u8; 8] {
    encode::u64(i.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Records are taken from one end, and short ranges are read where many were.
fn queue(place: &Place) -> Result<()> {
    const RECORDS: u64 = 200_000;
    const TAKEN: u64 = 100_000;
    const RANGES: u32 = 20_000;
    let taken = |map: &Tree, first: bool, pop: bool| -> Result<()> {
        for _ in 0..TAKEN {
            match (first, pop) {
                (true, true) => drop(map.pop_first()?),
                (false, true) => drop(map.pop_last()?),
                (true, false) => map.delete(map.first()?.unwrap_or_default().0)?,
                (false, false) => map.delete(map.last()?.unwrap_or_default().0)?,
            }
        }
        Ok(())
    };
    for (what, first, pop) in [
        ("first and delete", true, false),
        ("pop_first", true, true),
        ("last and delete", false, false),
        ("pop_last", false, true),
    ] {
        let mut figures = Vec::new();
        for tiers in [Tiers::One, Tiers::Two] {
            let db = place.fresh(32)?;
            let map = db.create_tree("queue", options(tiers))?;
            let mut loader = map.loader()?;
            for i in 0..RECORDS {
                loader.put(encode::u64(i), [7; 100])?;
            }
            loader.finish()?;
            let seconds = worked(|| taken(&map, first, pop))?;
            let ranges = worked(|| {
                for _ in 0..RANGES {
                    let found = match first {
                        true => map.range(encode::u64(0)..)?.take(10).count(),
                        false => map.iter()?.rev().take(10).count(),
                    };
                    assert_eq!(found, 10);
                }
                Ok(())
            })?;
            figures.push((
                seconds * 1e6 / TAKEN as f64,
                ranges * 1e6 / f64::from(RANGES),
            ));
        }
        let [(one, one_ranges), (two, two_ranges)] = figures[..] else {
            continue;
        };
        println!(
            "  {what}: one tier {one:.1} us of processor each, two {two:.1}, {:.2} times; ranges of ten behind them {one_ranges:.1} and {two_ranges:.1}, {:.2} times",
            two / one,
            two_ranges / one_ranges
        );
    }
    Ok(())
}

/// Ten thousand small trees.
fn structures(place: &Place) -> Result<()> {
    const TREES: usize = 10_000;
    for tiers in [Tiers::One, Tiers::Two] {
        let db = place.fresh(32)?;
        let mut thousands = Vec::new();
        let mut begun = processor();
        for i in 0..TREES {
            let map = match db.create_map(&format!("tree-{i}"), Kind::Tree, options(tiers)) {
                Ok(map) => map,
                Err(error) => {
                    println!("  {tiers:?}: after {i}: {error}");
                    break;
                }
            };
            for j in 0..20u64 {
                map.put(encode::u64(j), [0; 50])?;
            }
            if (i + 1) % 1000 == 0 {
                thousands.push(processor() - begun);
                begun = processor();
            }
        }
        let first = thousands.first().copied().unwrap_or(f64::NAN);
        let worst = thousands.iter().copied().fold(0.0, f64::max);
        let last = thousands.last().copied().unwrap_or(f64::NAN);
        println!(
            "  {tiers:?}: {} thousand; ms of processor each: of the first {first:.2}, of the worst {worst:.2}, {:.2} times, of the last {last:.2}",
            thousands.len(),
            worst / first
        );
        db.close()?;
    }
    Ok(())
}

/// MiB a second that the device gives in order, in pieces of [`PIECE`].
fn of_device(place: &Place) -> Result<f64> {
    let failed = |e| Error::io("reading", "data", e);
    let disk = FileDisk::open(place.path(), DirectIo::Preferred)?;
    let file = disk.open("data").map_err(failed)?;
    let len = file.len().map_err(failed)? / PIECE as u64 * PIECE as u64;
    let mut buffer = vec![0; PIECE + ALIGNED];
    let from = buffer.as_ptr().align_offset(ALIGNED);
    let piece = &mut buffer[from..][..PIECE];
    let seconds = timed(|| {
        for at in (0..len).step_by(PIECE) {
            file.read_at(piece, at).map_err(failed)?;
        }
        Ok(())
    })?;
    Ok(len as f64 / MIB as f64 / seconds)
}

/// Large values and whole structures, read in order in a sixteenth of the memory that they take.
fn reads(place: &Place) -> Result<()> {
    const BYTES: u64 = 256 * MIB;
    type Fill = fn(&Map) -> Result<()>;
    let large: Fill = |map| {
        let value = vec![7; 4 << 20];
        (0..BYTES / (4 * MIB)).try_for_each(|i| map.put(encode::u64(i), &value))
    };
    let loaded: Fill = |map| {
        let mut loader = map.loader()?;
        for i in 0..BYTES / 256 {
            loader.put(scattered(i), [7; 248])?;
        }
        loader.finish().map(drop)
    };
    let put: Fill = |map| (0..BYTES / 256).try_for_each(|i| map.put(scattered(i), [7; 248]));
    for (what, kind, tiers, fill) in [
        ("values of 4 MiB", Kind::Tree, Tiers::Two, large),
        ("a tree that was loaded", Kind::Tree, Tiers::Two, loaded),
        ("a table that was loaded", Kind::Table, Tiers::Two, loaded),
        ("a tree of single puts", Kind::Tree, Tiers::Two, put),
        ("the same with one tier", Kind::Tree, Tiers::One, put),
    ] {
        let db = place.fresh(64)?;
        fill(&db.create_map("map", kind, options(tiers))?)?;
        db.close()?;
        // Before and after: others use the device, too.
        let mut device = of_device(place)?;
        let db = place.open(16)?;
        let map = db.map("map")?;
        let (mut bytes, before, work) = (0, requests(), processor());
        let seconds = timed(|| {
            for record in map.iter()? {
                let (key, value) = record?;
                bytes += (key.len() + value.len()) as u64;
            }
            Ok(())
        })?;
        let (read, work) = (db.stats().pages, processor() - work);
        let each = read.reads as f64 / (requests() - before).max(1) as f64;
        drop(map);
        db.close()?;
        device = (device + of_device(place)?) / 2.0;
        let speed = (read.reads * read.page_bytes) as f64 / MIB as f64 / seconds;
        println!(
            "  {what}: {} MiB of records, {} page reads, {each:.1} with one request, {work:.2} s of processor; {speed:.0} MiB a second, the device {device:.0}, {:.2} times",
            bytes / MIB,
            read.reads,
            speed / device
        );
    }
    Ok(())
}

/// A batch beside a thread that reads and writes other records.
fn batch(place: &Place) -> Result<()> {
    for tiers in [Tiers::One, Tiers::Two] {
        let db = place.fresh(16)?;
        let map = db.create_map("map", Kind::Tree, options(tiers))?;
        let others = db.create_map("others", Kind::Tree, options(tiers))?;
        for i in 0..1000 {
            others.put(scattered(i), "value")?;
        }
        for changes in [1000, 10_000, 50_000, 100_000, 200_000] {
            let mut batch = db.batch();
            for i in 0..changes {
                batch.put(&map, scattered(i), [7; 40]);
            }
            let done = AtomicBool::new(false);
            let (written, seconds, (get, put)) = std::thread::scope(|scope| {
                let waits = scope.spawn(|| longest_waits(&others, &done));
                let begun = Instant::now();
                let written = db.write(batch, Durability::Buffered);
                let seconds = begun.elapsed().as_secs_f64();
                done.store(true, Ordering::Relaxed);
                (written, seconds, waits.join().unwrap_or_default())
            });
            match written {
                Ok(()) => println!(
                    "  {tiers:?}: {changes} changes in {seconds:.3} s, {:.1} us each; others: longest get {:.1} ms, put {:.1} ms",
                    seconds * 1e6 / changes as f64,
                    get.as_secs_f64() * 1e3,
                    put.as_secs_f64() * 1e3
                ),
                Err(error) => println!("  {tiers:?}: {error}"),
            }
        }
        drop((map, others));
        db.close()?;
    }
    Ok(())
}

/// The longest get and the longest put of another thread.
fn longest_waits(map: &Map, done: &AtomicBool) -> (Duration, Duration) {
    let mut longest = (Duration::ZERO, Duration::ZERO);
    let mut i = 0;
    while !done.load(Ordering::Relaxed) {
        let (key, begun) = (scattered(i % 1000), Instant::now());
        let got = map.get(key);
        longest.0 = longest.0.max(begun.elapsed());
        let begun = Instant::now();
        let put = map.put(key, "value");
        longest.1 = longest.1.max(begun.elapsed());
        if got.is_err() || put.is_err() {
            break;
        }
        i += 1;
    }
    longest
}

/// Bytes of a database of one record.
fn size(place: &Place) -> Result<()> {
    let db = place.fresh(256)?;
    db.tree("tree")?.put("key", "value")?;
    let bytes = || -> u64 {
        let entries = std::fs::read_dir(place.path()).into_iter().flatten();
        let len =
            |entry: std::io::Result<std::fs::DirEntry>| Some(entry.ok()?.metadata().ok()?.len());
        entries.filter_map(len).sum()
    };
    let open = bytes();
    db.close()?;
    println!(
        "  of one record: {} KiB while it is open, {} KiB after closing",
        open >> 10,
        bytes() >> 10
    );
    Ok(())
}
