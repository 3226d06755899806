//! The stores, a file each.

mod bf_tree;
#[cfg(feature = "f2")]
mod f2;
mod fjall;
mod lmdb;
mod redb;
mod rocksdb;
mod sled;
mod sqlite;

use terrace_bench::TargetResult;

use crate::store::{Opening, Store};

/// A store: its name, what it is opened with, and how.
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// What it is, and what is set differently from its defaults.
    pub options: &'static str,
    /// Whether it reads its files through the cache of the operating system, which a number given to the store
    /// does not bound.
    pub cached: bool,
    /// What its program may have beside its number at least, in bytes, where groups bound memory: with less the
    /// system reads the program's own text again and again, and that would be measured.
    pub beside: u64,
    /// Records that are loaded in one transaction.
    pub load_batch: usize,
    /// Opens it.
    pub open: fn(&Opening<'_>) -> TargetResult<Box<dyn Store>>,
}

/// Records of a transaction of a load, of stores whose documents advise that for many records: one after the other
/// took minutes.
const LOAD_BATCH: usize = 1000;

/// For a program's own text, its threads and the benchmark.
const LEAST_BESIDE: u64 = 16 << 20;
/// RocksDB's text has some 10 MiB, and it comes with libraries of its own.
const TEXT_OF_C: u64 = 64 << 20;
/// F2 has some 6 MiB of places for 96 threads in three stores, besides what the number is divided into.
#[cfg(feature = "f2")]
const PLACES_OF_F2: u64 = 32 << 20;

/// All of them.
pub const ALL: &[Known] = &[
    Known {
        name: "rocksdb",
        options: "LSM-tree in C++, the system's library; three quarters of the memory for the cache of blocks with indexes and filters in it, a quarter for memtables; filters of 10 bits; no compression; direct I/O; log written, not synced",
        cached: false,
        beside: TEXT_OF_C,
        load_batch: 1,
        open: rocksdb::open,
    },
    Known {
        name: "rocksdb-rows",
        options: "the same with the memory as in the Tiered-Indexing paper: of what memtables leave nine tenths for a cache of rows, a tenth for blocks",
        cached: false,
        beside: TEXT_OF_C,
        load_batch: 1,
        open: rocksdb::open_with_rows,
    },
    Known {
        name: "lmdb",
        options: "B+tree mapped into memory, through heed; its only cache is the operating system's; no read-ahead; commits not synced (MDB_NOSYNC); loaded in transactions of 1,000",
        cached: true,
        beside: LEAST_BESIDE,
        load_batch: LOAD_BATCH,
        open: lmdb::open,
    },
    Known {
        name: "redb",
        options: "B+tree in Rust; all memory for its cache; one transaction a put, of which one in 64 is synced, as freed pages can only be used after that; loaded in transactions of 1,000",
        cached: true,
        beside: LEAST_BESIDE,
        load_batch: LOAD_BATCH,
        open: redb::open,
    },
    Known {
        name: "fjall",
        options: "LSM-tree in Rust; three quarters of the memory for its cache, a quarter for a memtable; no compression; log written, not synced",
        cached: true,
        beside: LEAST_BESIDE,
        load_batch: 1,
        open: fjall::open,
    },
    Known {
        name: "sled",
        options: "log-structured tree in Rust; all memory for its cache; written every half second",
        cached: true,
        beside: LEAST_BESIDE,
        load_batch: 1,
        open: sled::open,
    },
    Known {
        name: "sqlite",
        options: "the system's library, through rusqlite; a table without rowid, write-ahead log, synchronous = normal; memory divided among the connections' caches; loaded in transactions of 1,000",
        cached: true,
        beside: LEAST_BESIDE,
        load_batch: LOAD_BATCH,
        open: sqlite::open,
    },
    Known {
        name: "bf-tree",
        options: "the Bf-Tree in Rust; a buffer of the memory, at the power of two below; direct I/O; no log: what was put since the last snapshot is lost with the process",
        cached: false,
        beside: LEAST_BESIDE,
        load_batch: 1,
        open: bf_tree::open,
    },
    #[cfg(feature = "f2")]
    Known {
        name: "f2",
        options: "F2 of microsoft/FASTER in C++, a hash table of two tiers of logs; of the memory an eighth for the cold index's log, six pages for the cold log, and of the rest without indexes two fifths for the hot log, three for the cache of reads; the hot log is compacted from a fifth of the data on, the cold one from 1.35 times the data on; pages of its logs of 128 KiB, not 32 MiB, and of overflow buckets of 64 KiB, not 64 MiB, or it would need 900 MiB; direct I/O; threads nap 10 µs while they wait; no log: what is in the hot log's memory is lost with the process",
        cached: false,
        beside: PLACES_OF_F2,
        load_batch: 1,
        open: f2::open,
    },
];
