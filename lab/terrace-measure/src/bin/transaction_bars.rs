//! Measures transactions, merges and `get_many` against plain calls, as ratios within one run:
//! `cargo run --release -p terrace-measure --bin transaction_bars -- FOLDER RECORDS`. What it makes in FOLDER,
//! which must not be there, it deletes. With 80,000 records all are hot.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use terrace::{
    Database, Error, Kind, Map, MapOptions, Merge, Options, Result, Tiers, TransactionOptions,
    encode,
};
use terrace_sim::{Call, HookedDisk, SimDisk};

const VALUE: [u8; 100] = [7; 100];
/// Turns of the two sides; the middle one counts.
const TURNS: usize = 9;
const THREADS: u64 = 4;
/// Keys that are asked for together.
const TOGETHER: u64 = 64;

thread_local! {
    /// Reads of this thread that have taken their time already.
    static PAID: Cell<usize> = const { Cell::new(0) };
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().ok_or("name a folder that is not there yet")?);
    let records: u64 = args.next().ok_or("say how many records")?.parse()?;
    std::fs::create_dir(&folder)?;
    let done = hot(&folder, records)
        .and_then(|()| beside_writers(&folder, records))
        .and_then(|()| cold());
    std::fs::remove_dir_all(&folder)?;
    Ok(done?)
}

fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

/// Processor time of all threads of this process, in ticks of the kernel.
fn ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let of = |n: usize| -> f64 {
        let field = fields.split_whitespace().nth(n);
        field.and_then(|field| field.parse().ok()).unwrap_or(0.0)
    };
    of(11) + of(12)
}

/// How often the second side is done in the processor time of the first, the sides by turns.
fn ratio(
    mut one: impl FnMut() -> Result<()>,
    mut other: impl FnMut() -> Result<()>,
) -> Result<f64> {
    let mut ratios = Vec::new();
    one()?;
    other()?;
    for _ in 0..TURNS {
        let before = ticks();
        one()?;
        let between = ticks();
        other()?;
        ratios.push((between - before) / (ticks() - between).max(1.0));
    }
    ratios.sort_by(f64::total_cmp);
    Ok(ratios[TURNS / 2])
}

/// `work` by several threads, each with its number.
fn by_threads(threads: u64, work: impl Fn(u64) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let all: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let mut done = all.into_iter().map(|thread| match thread.join() {
            Ok(done) => done,
            Err(_) => Err(Error::invalid("a thread panicked")),
        });
        done.try_for_each(|done| done)
    })
}

fn hot(folder: &Path, records: u64) -> Result<()> {
    for kind in [Kind::Tree, Kind::Hash] {
        let path = folder.join(kind.to_string());
        let options = Options::new().memory(64 << 20).log_limit(1 << 30);
        let db = Database::open(&path, options)?;
        let map = db.create_map("m", kind, MapOptions::new())?;
        for i in 0..records {
            map.put(key(i), VALUE)?;
        }
        for i in 0..2 * records {
            map.get(key(i % records))?;
        }
        println!("{kind}");
        transfers(&db, &map, records)?;
        if kind == Kind::Tree {
            ranges(&db, &map, records)?;
        }
        counters(&db, &map)?;
        many(&map, records)?;
        drop(map);
        db.close()?;
        std::fs::remove_dir_all(&path).map_err(|e| Error::io("deleting", "a database", e))?;
    }
    Ok(())
}

/// Two gets and two puts.
fn transfers(db: &Database, map: &Map, records: u64) -> Result<()> {
    const EACH: u64 = 20_000;
    for threads in [1, THREADS] {
        let before = db.stats().transactions;
        let pair = |thread: u64, i: u64| {
            let n = (i * THREADS + thread) * 2_654_435_761;
            (key(n % records), key((n / 7) % records))
        };
        let made = ratio(
            || {
                by_threads(threads, |thread| {
                    (0..EACH).try_for_each(|i| {
                        let (a, b) = pair(thread, i);
                        map.get(a)?;
                        map.get(b)?;
                        map.put(a, VALUE)?;
                        map.put(b, VALUE)
                    })
                })
            },
            || {
                by_threads(threads, |thread| {
                    (0..EACH).try_for_each(|i| {
                        let (a, b) = pair(thread, i);
                        db.transaction(|t| {
                            t.get(map, a)?;
                            t.get(map, b)?;
                            t.put(map, a, VALUE)?;
                            t.put(map, b, VALUE)
                        })
                    })
                })
            },
        )?;
        let after = db.stats().transactions;
        println!(
            "  2 gets + 2 puts over the plain calls, {threads} threads: {made:.2}; {} given up of {}",
            after.given_up - before.given_up,
            after.committed - before.committed
        );
    }
    Ok(())
}

fn ranges(db: &Database, map: &Map, records: u64) -> Result<()> {
    const EACH: u64 = 3000;
    let tree = map.as_tree().ok_or_else(|| Error::invalid("no tree"))?;
    let made = ratio(
        || {
            (0..EACH).try_for_each(|i| {
                let from = key(i % records);
                for record in tree.range(from..)?.take(100) {
                    record?;
                }
                map.put(from, VALUE)
            })
        },
        || {
            (0..EACH).try_for_each(|i| {
                let from = key(i % records);
                db.transaction(|t| {
                    for record in t.range(map, from..)?.take(100) {
                        record?;
                    }
                    t.put(map, from, VALUE)
                })
            })
        },
    )?;
    println!("  range of 100 + 1 put over the plain calls: {made:.2}");
    let (low, high) = (u64::MAX / 2, u64::MAX);
    let puts = || (0..100_000).try_for_each(|i| map.put(key(i % records), VALUE));
    let watching = ratio(puts, || {
        let mut open: Vec<_> = (0..8)
            .map(|_| db.begin(TransactionOptions::new()))
            .collect();
        for (i, t) in (0u64..).zip(&mut open) {
            let from = [(low + i).to_be_bytes(), high.to_be_bytes()].concat();
            let to = [(low + i).to_be_bytes(), high.to_be_bytes(), [255; 8]].concat();
            t.range(map, from..to)?.count();
        }
        puts()
    })?;
    println!("  put while eight ranges elsewhere are watched: {watching:.2}");
    Ok(())
}

/// One counter that four threads add to.
fn counters(db: &Database, map: &Map) -> Result<()> {
    const EACH: u64 = 20_000;
    let number = |old: Option<&[u8]>| old.and_then(encode::to_u64).unwrap_or(0);
    let update = || {
        by_threads(THREADS, |_| {
            (0..EACH).try_for_each(|_| {
                let more = |old: Option<&[u8]>| Some(encode::u64(number(old) + 1).to_vec());
                map.update("counter", more).map(drop)
            })
        })
    };
    let merged = ratio(update, || {
        by_threads(THREADS, |_| {
            (0..EACH).try_for_each(|_| map.merge("counter", Merge::AddUnsigned(1)).map(drop))
        })
    })?;
    let transacted = ratio(update, || {
        by_threads(THREADS, |_| {
            (0..EACH).try_for_each(|_| {
                db.transaction(|t| {
                    let old = number(t.get(map, "counter")?.as_deref());
                    t.put(map, "counter", encode::u64(old + 1))
                })
            })
        })
    })?;
    println!(
        "  one counter by {THREADS} threads over update: merge {merged:.2}, transaction {transacted:.2}"
    );
    Ok(())
}

fn many(map: &Map, records: u64) -> Result<()> {
    const EACH: u64 = 3000;
    let keys = |i: u64| (0..TOGETHER).map(move |n| key((i * TOGETHER + n) * 7919 % records));
    let made = ratio(
        || (0..EACH).try_for_each(|i| keys(i).try_for_each(|key| map.get(key).map(drop))),
        || {
            (0..EACH).try_for_each(|i| {
                let keys: Vec<_> = keys(i).collect();
                map.get_many(&keys).map(drop)
            })
        },
    )?;
    println!("  get_many of {TOGETHER} hot keys over gets: {made:.2}");
    Ok(())
}

/// A hundred reads and a put while two threads put other keys.
fn beside_writers(folder: &Path, records: u64) -> Result<()> {
    const TRANSACTIONS: u64 = 5000;
    let path = folder.join("writers");
    let db = Database::open(&path, Options::new().memory(256 << 20).log_limit(1 << 30))?;
    let tree = db.tree("t")?;
    for i in 0..records {
        tree.put(key(i), VALUE)?;
    }
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let done = std::thread::scope(|scope| {
        for writer in 0..2 {
            let (tree, stop, puts) = (&tree, &stop, &puts);
            scope.spawn(move || {
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    n += 2;
                    if tree.put(key(records + n % records), VALUE).is_err() {
                        return;
                    }
                    puts.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let done = (0..TRANSACTIONS).try_for_each(|i| {
            db.transaction(|t| {
                for n in 0..100 {
                    t.get(&tree, key((i * 100 + n) * 7919 % records))?;
                }
                t.put(&tree, key(i % records), VALUE)
            })
        });
        stop.store(true, Ordering::Relaxed);
        done
    });
    done?;
    let stats = db.stats().transactions;
    println!(
        "100 reads + 1 put beside {:.0} puts/s of other keys at 256 MiB: {} attempts in vain, {} given up of {}, {} records looked at again",
        puts.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64(),
        stats.conflicts,
        stats.given_up,
        stats.committed,
        stats.refreshed
    );
    Ok(())
}

/// Keys that are on a device which takes two milliseconds for a read and answers eight at once.
fn cold() -> Result<()> {
    const READ: Duration = Duration::from_millis(2);
    const AT_ONCE: usize = 8;
    let is_slow = Arc::new(AtomicBool::new(false));
    let free: Arc<(Mutex<usize>, Condvar)> = Arc::new((Mutex::new(AT_ONCE), Condvar::new()));
    let slow = is_slow.clone();
    let disk = HookedDisk::new(SimDisk::new(1).shared(), move |call| {
        if !slow.load(Ordering::Relaxed) {
            return;
        }
        // Those that are asked for together have taken their time together.
        match call {
            Call::ReadTogether("data", reads) => {
                PAID.set(reads);
                return std::thread::sleep(READ * reads.div_ceil(AT_ONCE) as u32);
            }
            Call::Read("data") if PAID.get() > 0 => return PAID.set(PAID.get() - 1),
            Call::Read("data") => {}
            _ => return,
        }
        let (places, came_free) = &*free;
        let taken = places.lock().and_then(|mut places| {
            while *places == 0 {
                places = came_free.wait(places)?;
            }
            *places -= 1;
            Ok(())
        });
        std::thread::sleep(READ);
        if let (Ok(()), Ok(mut places)) = (taken, places.lock()) {
            *places += 1;
            came_free.notify_one();
        }
    });
    let options = Options::new().memory(2 << 20).page_size(4096);
    let db = Database::open_on(Arc::new(disk), options)?;
    let tree = db.create_tree("t", MapOptions::new().tiers(Tiers::One))?;
    let records = 200_000;
    for i in 0..records {
        tree.put(key(i), VALUE)?;
    }
    db.checkpoint()?;
    is_slow.store(true, Ordering::Relaxed);
    let keys = |i: u64| -> Vec<_> {
        let some = (0..TOGETHER).map(|n| key((i * TOGETHER + n) * 7919 % records));
        some.collect()
    };
    let (mut alone, mut together) = (Duration::ZERO, Duration::ZERO);
    for i in 0..10 {
        let began = Instant::now();
        for key in keys(2 * i) {
            tree.get(key)?;
        }
        alone += began.elapsed();
        let began = Instant::now();
        tree.get_many(&keys(2 * i + 1))?;
        together += began.elapsed();
    }
    println!(
        "get_many of {TOGETHER} cold keys over gets, on a device that answers {AT_ONCE} at once: {:.1}",
        alone.as_secs_f64() / together.as_secs_f64()
    );
    Ok(())
}
