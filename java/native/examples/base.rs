//! What the same calls cost without Java, for `java/run bench`: nanoseconds of processor time a call, the least of some rounds.

use std::fs;

use terrace::{Database, Durability, Options};

const RECORDS: u64 = 20_000;
const KEYS: usize = 4096;
const ROUNDS: usize = 6;

/// Nanoseconds that this thread has run.
fn cpu() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    stat.split(' ')
        .next()
        .and_then(|ran| ran.parse().ok())
        .unwrap_or(0)
}

fn best(name: &str, calls: usize, mut run: impl FnMut()) {
    let least = (0..ROUNDS)
        .map(|_| {
            let begin = cpu();
            run();
            (cpu() - begin) as f64 / calls as f64
        })
        .fold(f64::INFINITY, f64::min);
    println!("rust\t{name}\t{least:.1}");
}

fn main() -> terrace::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "base.db".into());
    let db = Database::open(folder, Options::new().memory(512 << 20))?;
    let tree = db.tree("t")?;
    let key = |n: u64| format!("{n:016}").into_bytes();
    for n in 0..RECORDS {
        tree.put(key(n), [b'v'; 100])?;
    }
    let keys: Vec<Vec<u8>> = (0..KEYS as u64)
        .map(|n| key(n * 2_654_435_761 % RECORDS))
        .collect();
    let mut value = Vec::new();
    let calls = 200_000;
    best("get into an array", calls, || {
        for i in 0..calls {
            assert!(tree.get_into(&keys[i % KEYS], &mut value).unwrap_or(false));
        }
    });
    let calls = 50_000;
    best("put", calls, || {
        for i in 0..calls {
            tree.put(&keys[i % KEYS], [b'w'; 100]).unwrap_or_default();
        }
    });
    best("put, 1,000 in a batch", calls, || {
        for group in 0..calls / 1000 {
            let mut batch = db.batch();
            for i in 0..1000 {
                batch.put(&tree, &keys[(i + group) % KEYS], [b'w'; 100]);
            }
            db.write(batch, Durability::Buffered).unwrap_or_default();
        }
    });
    let long = db.tree("long")?;
    let mut loader = long.loader()?;
    for n in 0..1_000_000 {
        loader.put(key(n), [b'v'; 100])?;
    }
    loader.finish()?;
    best("a record of a cursor over a million", 1_000_000, || {
        assert_eq!(
            long.iter().map_or(0, |all| all.flatten().count()),
            1_000_000
        );
    });
    db.close()
}
