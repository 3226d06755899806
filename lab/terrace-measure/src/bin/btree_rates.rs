//! Rates of the B+tree in memory: gets, inserts, updates in place and scans of records
//! with 8-byte keys and 120-byte values, with one thread and with two.
//!
//! `cargo run --release -p terrace-measure --bin btree_rates [RECORDS] [PAGE_BYTES] [SECONDS]`

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_access::conformance::{Random, settled};
use terrace_access::{AccessMethod, Edge, Flags, NoRoom, Ordered, Plan, Touch, Value, Window};
use terrace_base::{PageId, Result};
use terrace_methods::BTree;
use terrace_pages::{CheckpointMeta, Class, PageStore, StoreOptions};
use terrace_sim::SimDisk;

const VALUE: [u8; 120] = [7; 120];

fn info() -> CheckpointMeta {
    CheckpointMeta {
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 1,
        next_sequence: 1,
        unlogged_from: 1,
        catalog_root: PageId::NONE,
        clean: true,
    }
}

fn tree(records: u64, page_bytes: usize) -> Result<(Arc<PageStore>, BTree)> {
    let mut options = StoreOptions::new(records * 128 * 5 / 2 + (64 << 20));
    options.page_bytes = page_bytes;
    let store = Arc::new(PageStore::create(
        SimDisk::new(1).shared(),
        options,
        1,
        &info(),
    )?);
    let tree = settled(&store, || {
        BTree::create(&store, &store.enter()?, Class::Hot)
    })?;
    Ok((store, tree))
}

/// Key number `i`: all different, in no order.
fn key(i: u64) -> [u8; 8] {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()
}

fn put(store: &PageStore, tree: &BTree, key: &[u8]) -> Result<()> {
    let plan = Plan::Put(Value::Inline(&VALUE), Flags::NONE);
    settled(store, || {
        let door = store.enter()?;
        tree.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || Ok(()))
    })?;
    Ok(())
}

/// Time that the calling thread has had a processor, where Linux tells: on a machine that others use
/// as well, rates by the clock on the wall say little.
fn processor_time() -> Duration {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = spent.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Operations, time by the clock on the wall, time on processors.
struct Run {
    operations: u64,
    wall: Duration,
    processor: Duration,
}

impl Run {
    fn of(operations: u64, work: impl FnOnce() -> Result<()>) -> Result<Run> {
        let (start, processor) = (Instant::now(), processor_time());
        work()?;
        let processor = processor_time() - processor;
        Ok(Run {
            operations,
            wall: start.elapsed(),
            processor,
        })
    }

    /// Runs `work` in each of this many threads for a while.
    fn threads(
        threads: u64,
        time: Duration,
        work: impl Fn(&mut Random) -> Result<()> + Sync,
    ) -> Run {
        let start = Instant::now();
        let counts = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|t| {
                    let work = &work;
                    scope.spawn(move || {
                        let (mut random, mut count) = (Random::new(t), 0u64);
                        while start.elapsed() < time {
                            for _ in 0..256 {
                                work(&mut random).expect("an operation in memory cannot fail");
                            }
                            count += 256;
                        }
                        (count, processor_time())
                    })
                })
                .collect();
            all.into_iter()
                .map(|t| t.join().unwrap_or_default())
                .collect::<Vec<_>>()
        });
        Run {
            operations: counts.iter().map(|c| c.0).sum(),
            wall: start.elapsed(),
            processor: counts.iter().map(|c| c.1).sum(),
        }
    }

    fn report(&self, what: &str) {
        let rate = |time: Duration| self.operations as f64 / time.as_secs_f64().max(1e-9) / 1000.0;
        println!(
            "{what:<24} {:>9.0} thousand a second, {:>9.0} thousand a processor second",
            rate(self.wall),
            rate(self.processor)
        );
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|a| a.parse::<u64>().unwrap_or(0));
    let records = arguments.next().unwrap_or(1_000_000).max(1);
    let page_bytes = arguments.next().unwrap_or(16384) as usize;
    let time = Duration::from_secs(arguments.next().unwrap_or(3));
    println!("{records} records of 8 + 120 bytes, pages of {page_bytes} bytes");
    let size = |tree: &BTree| {
        let bytes = bytes_per_record(tree, records, page_bytes)?;
        println!("{:<24} {bytes:>9.1} bytes a record", "");
        Ok::<_, terrace_base::Error>(())
    };

    let (store, sorted) = tree(records, page_bytes)?;
    Run::of(records, || {
        (0..records).try_for_each(|i| put(&store, &sorted, &i.to_be_bytes()))
    })?
    .report("inserts in order");
    size(&sorted)?;
    drop((store, sorted));

    let (store, tree) = tree(records, page_bytes)?;
    Run::of(records, || {
        (0..records).try_for_each(|i| put(&store, &tree, &key(i)))
    })?
    .report("inserts in no order");
    size(&tree)?;

    for threads in [1, 2] {
        Run::threads(threads, time, |random| {
            let mut value = Vec::with_capacity(128);
            let key = key(random.bits() % records);
            settled(&store, || tree.try_get(&key, Touch::Raise, &mut value)).map(|_| ())
        })
        .report(&format!("gets, {threads} threads"));
        Run::threads(threads, time, |random| {
            put(&store, &tree, &key(random.bits() % records))
        })
        .report(&format!("updates, {threads} threads"));
    }
    let mut window = Window::new();
    let (mut at, mut seen) = (Vec::new(), 0);
    let mut scan = Run::of(0, || {
        let start = Instant::now();
        while start.elapsed() < time {
            settled(&store, || tree.try_window(Edge::From(&at), &mut window))?;
            seen += window.len() as u64;
            at.clear();
            at.extend_from_slice(window.high.as_deref().unwrap_or_default());
        }
        Ok(())
    })?;
    scan.operations = seen;
    scan.report("records scanned");
    Ok(())
}

fn bytes_per_record(tree: &BTree, records: u64, page_bytes: usize) -> Result<f64> {
    let mut pages = 0;
    tree.verify(&mut |_, _, _| Ok(()), &mut |_| {
        pages += 1;
        Ok(())
    })?;
    Ok((pages * page_bytes) as f64 / records as f64)
}
