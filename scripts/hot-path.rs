//! What `scripts/hot-path` counts: hot records read and written by one thread, in each of these functions.

use std::hint::black_box;

use terrace::{Database, Durability, Map, Options};
#[cfg(feature = "lsm")]
use terrace::{HashOptions, TreeOptions};

/// Calls of each kind.
const CALLS: u64 = 20_000;
const KEYS: u64 = 80_000;

fn key(i: u64) -> [u8; 8] {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) % KEYS).to_be_bytes()
}

#[inline(never)]
pub fn probe_gets(map: &Map) {
    let mut value = Vec::new();
    for i in 0..CALLS {
        assert!(map.get_into(key(i), &mut value).unwrap());
        black_box(&value);
    }
}

#[inline(never)]
pub fn probe_puts(map: &Map) {
    for i in 0..CALLS {
        map.put(key(i), [7u8; 100]).unwrap();
    }
}

#[inline(never)]
pub fn probe_batches(db: &Database, map: &Map) {
    for i in 0..CALLS / 4 {
        let mut batch = db.batch();
        for j in 0..4 {
            batch.put(map, key(i * 4 + j), [8u8; 100]);
        }
        db.write(batch, Durability::Buffered).unwrap();
    }
}

#[inline(never)]
pub fn probe_updates(map: &Map) {
    for i in 0..CALLS {
        map.update(key(i), |old| old.map(<[u8]>::to_vec)).unwrap();
    }
}

/// Gets whose value has memory of its own, to compare with those that are awaited.
#[inline(never)]
#[cfg(feature = "aio")]
pub fn probe_owned(map: &Map) {
    for i in 0..CALLS {
        black_box(map.get(key(i)).unwrap().unwrap());
    }
}

/// The same as futures, which memory answers at once.
#[inline(never)]
#[cfg(feature = "aio")]
pub fn probe_asyncs(map: &terrace::aio::Map) {
    use std::task::{Context, Poll, Waker};
    let mut context = Context::from_waker(Waker::noop());
    for i in 0..CALLS {
        let get = std::pin::pin!(map.get(key(i)));
        let Poll::Ready(value) = std::future::Future::poll(get, &mut context) else {
            panic!("a record in memory is waited for");
        };
        black_box(value.unwrap().unwrap());
    }
}

/// Transactions of very many reads each.
#[inline(never)]
pub fn probe_reads(db: &Database, map: &Map) {
    const READS: u64 = 2000;
    for i in 0..CALLS / READS {
        db.read(|t| {
            for j in 0..READS {
                black_box(t.get(map, key(i * READS + j))?);
            }
            Ok::<_, terrace::Error>(())
        })
        .unwrap();
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (folder, kind) = (arguments.next().unwrap(), arguments.next().unwrap());
    let db = Database::open(&folder, Options::new().memory(64 << 20)).unwrap();
    let map: Map = match kind.as_str() {
        #[cfg(feature = "lsm")]
        "lsm" => (*db.lsm("records").unwrap()).clone(),
        #[cfg(feature = "lsm")]
        "expiring-tree" => {
            let options = TreeOptions::new().expiring();
            (*db.tree_with("records", options).unwrap()).clone()
        }
        #[cfg(feature = "lsm")]
        "expiring-hash" => {
            let options = HashOptions::new().expiring();
            (*db.hash_with("records", options).unwrap()).clone()
        }
        "hash" => (*db.hash("records").unwrap()).clone(),
        _ => (*db.tree("records").unwrap()).clone(),
    };
    for i in 0..KEYS {
        map.put(key(i), [1u8; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    let mut value = Vec::new();
    for i in 0..KEYS {
        map.get_into(key(i), &mut value).unwrap();
    }
    probe_gets(&map);
    probe_puts(&map);
    probe_batches(&db, &map);
    probe_updates(&map);
    probe_reads(&db, &map);
    #[cfg(feature = "aio")]
    {
        let aio = terrace::aio::Database::with_threads(db.clone(), 1).unwrap();
        probe_owned(&map);
        probe_asyncs(&aio.map(&map));
    }
    db.close().unwrap();
}
