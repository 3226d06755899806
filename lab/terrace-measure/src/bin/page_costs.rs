//! What the page store's own steps cost: an optimistic read of a page in memory, a change under the
//! exclusive latch, and a page fault beside a bare read of the same file.
//!
//! ```text
//! cargo run --release -p terrace-measure --bin page_costs -- <directory> [threads]
//! ```

use std::sync::Arc;
use std::time::Instant;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::{AlignedBuf, PageId, Result};
use terrace_pages::{CheckpointMeta, Class, Cleaner, Pace, PageStore, StoreOptions};

const PAGE: usize = 16384;
const MEMORY: u64 = 64 << 20;
/// Pages of the file: four times what fits into memory.
const PAGES: u64 = 4 * MEMORY / PAGE as u64;
/// Pages that the steps in memory use: a quarter of what fits.
const WARM: u64 = PAGES / 16;

fn info() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 0,
        next_sequence: 0,
        unlogged_from: 0,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

/// Runs `f(random number)` on all threads for a while and prints the time of one call.
fn measure(
    what: &str,
    threads: u64,
    calls: u64,
    f: impl Fn(u64) -> Result<()> + Sync,
) -> Result<()> {
    let start = Instant::now();
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads)
            .map(|t| {
                let f = &f;
                scope.spawn(move || {
                    let mut x = 0x9E37_79B9_7F4A_7C15u64.wrapping_mul(t + 1);
                    for _ in 0..calls {
                        x ^= x << 13;
                        x ^= x >> 7;
                        x ^= x << 17;
                        f(x >> 16)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in all {
            thread.join().expect("a thread that did not panic")?;
        }
        Ok::<_, terrace_base::Error>(())
    })?;
    let nanos = start.elapsed().as_nanos() as f64;
    let rate = (threads * calls) as f64 / nanos * 1e9;
    println!(
        "{what:<36} {:>9.0} ns  {rate:>12.0} /s",
        nanos / calls as f64
    );
    Ok(())
}

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let directory = args.next().unwrap_or_else(|| "page-costs".into());
    let threads = args.next().and_then(|n| n.parse().ok()).unwrap_or(1);
    let disk = Arc::new(FileDisk::open_or_create(&directory, DirectIo::Preferred)?);
    println!(
        "{directory}: direct I/O {}, {threads} threads",
        disk.is_direct()
    );
    let options = StoreOptions {
        page_bytes: PAGE,
        ..StoreOptions::new(MEMORY)
    };
    let store = Arc::new(PageStore::create(disk.clone(), options, 1, &info())?);
    let cleaner = Cleaner::start(store.clone())?;
    for _ in 0..PAGES {
        loop {
            let door = store.enter()?;
            let interrupt = match store.allocate(&door, Class::Cold) {
                Ok(_) => break,
                Err(e) => e,
            };
            drop(door);
            store.settle(interrupt)?;
        }
    }
    store.checkpoint(Pace::Fast, &mut info)?;
    let read = |pid: PageId| loop {
        let interrupt = match store.optimistic(pid) {
            Ok(page) => match (page.view().u64(64), page.validate()) {
                (Ok(value), Ok(())) => {
                    std::hint::black_box(value);
                    return Ok(());
                }
                _ => continue,
            },
            Err(e) => e,
        };
        store.settle(interrupt)?;
    };
    for pid in 0..WARM {
        read(PageId(pid))?;
    }
    measure("optimistic read, in memory", threads, 3_000_000, |x| {
        read(PageId(x % WARM))
    })?;
    measure("change of 16 bytes, in memory", threads, 1_000_000, |x| {
        loop {
            let door = store.enter()?;
            let interrupt = match store.exclusive(PageId(x % WARM), &door) {
                Ok(mut page) => {
                    let bytes = page.change(64, 16).map_err(|_| {
                        terrace_base::Error::invalid("a range in the page was refused")
                    })?;
                    bytes.fill(0);
                    return Ok(());
                }
                Err(e) => e,
            };
            drop(door);
            store.settle(interrupt)?;
        }
    })?;
    store.checkpoint(Pace::Fast, &mut info)?;
    let before = store.stats().page_reads;
    let reads = 20_000 / threads;
    measure("read of any page of the file", threads, reads, |x| {
        read(PageId(x % PAGES))
    })?;
    println!(
        "  of them page faults: {}",
        store.stats().page_reads - before
    );
    let file = disk
        .open("data")
        .map_err(|e| terrace_base::Error::io("opening", "data", e))?;
    measure("bare read of a page", threads, reads, |x| {
        let mut buffer = AlignedBuf::zeroed(PAGE);
        file.read_at(&mut buffer, 65536 + x % PAGES * PAGE as u64)
            .map_err(|e| terrace_base::Error::io("reading", "data", e))
    })?;
    drop(cleaner);
    store.check_accounts()
}
