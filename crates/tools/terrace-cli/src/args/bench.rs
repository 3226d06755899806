//! What can be said of a benchmark.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::kind::{KindName, parse_compression};
use super::open::Open;
use super::paper::{PaperArgs, PolicyName};
use super::pm::PmBenchArgs;
use crate::engine::Compression;
use crate::size::{Size, parse_count, parse_size};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkloadName {
    /// YCSB A: half reads, half updates
    A,
    /// YCSB B: 95 % reads, 5 % updates
    B,
    /// YCSB C: reads
    C,
    /// YCSB D: 95 % reads, mostly of the newest records, 5 % inserts
    D,
    /// YCSB E: 95 % scans of up to 100 records, 5 % inserts
    E,
    /// YCSB F: half reads, half read-modify-writes
    F,
    /// Loading, and nothing more
    Load,
    /// 95 % scans of up to 100 records, 5 % updates
    Scan,
    /// 90 % of the reads go to 10 % of the records
    Hotspot,
    /// Reads whose hot set moves elsewhere half-way
    Shift,
    /// Transactions that read two records and change both; --json has committed, conflicts, refreshed
    Transfer,
    /// Reads of some records together
    Multiget,
    /// Loading by a process that is killed, then opening: replay of the log
    Replay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DistributionName {
    /// Exact Zipf; every record has a rank of its own (the yardstick)
    Zipf,
    /// YCSB's scrambled Zipfian: ranks collide, a third of the records is never asked for
    Ycsb,
    /// Every record equally often
    Uniform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LoadOrder {
    /// Random order of keys, by all threads
    Random,
    /// In order of keys, by one thread
    Sorted,
    /// Random order of keys, by one thread, all of them together: the database sorts them first
    Together,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyLayoutName {
    /// Multiples of 16: neighbouring keys share long prefixes
    Spaced,
    /// 64-bit hashes
    Hashed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SweepName {
    /// That of the primary index
    Index,
    /// That of the pages on which the rows lie, for comparison
    Heap,
}

impl SweepName {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            SweepName::Index => "index",
            SweepName::Heap => "heap",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HashesName {
    /// One for both tiers
    Shared,
    /// One for each, for comparison
    Own,
}

impl HashesName {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            HashesName::Shared => "shared",
            HashesName::Own => "own",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheName {
    /// The record used least recently goes
    Lru,
    /// One that a hand finds unused, a clean one if there is one near
    Treeline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum DeviceFrom {
    /// From the beginning
    Load,
    /// When all is loaded
    Warmup,
    /// When it has warmed up
    Measure,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogMode {
    /// A synced log record before every acknowledgement
    Sync,
    /// Logged through the operating system
    Buffered,
    /// No log: after a crash the structure stands at its last checkpoint
    Off,
}

impl LogMode {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            LogMode::Sync => "sync",
            LogMode::Buffered => "buffered",
            LogMode::Off => "off",
        }
    }
}

#[derive(Args, Clone, Debug)]
#[command(after_help = BENCH_HELP)]
pub struct BenchArgs {
    #[command(flatten)]
    pub open: Open,

    /// What is run
    #[arg(long, short, value_enum, default_value = "c")]
    pub workload: WorkloadName,

    /// Which records it asks for
    #[arg(long, value_enum, default_value = "zipf")]
    pub distribution: DistributionName,

    /// Over which structure
    #[arg(long, value_enum, default_value = "tree")]
    pub structure: KindName,

    #[command(flatten)]
    pub pm: PmBenchArgs,

    /// How many records are loaded
    #[arg(long, value_name = "N", default_value = "10000000", value_parser = parse_count)]
    pub records: u64,

    /// Bytes of a value; keys have 8
    #[arg(long, value_name = "N", default_value_t = 120)]
    pub value_bytes: usize,

    /// The share of them that is random; the rest is all alike, so that it compresses
    #[arg(long, value_name = "SHARE", default_value_t = 1.0)]
    pub value_random: f64,

    /// The exponent of zipf and ycsb
    #[arg(long, value_name = "THETA", default_value_t = 0.9)]
    pub zipf: f64,

    /// Tiers
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub tiers: u8,

    /// Keep the hot tier in pages of the file, and not in memory alone
    #[arg(long)]
    pub hot_in_file: bool,

    /// Instead of tiers, the record cache that applications build: nine tenths of the memory for the
    /// records used last, written back when they go, in front of a structure with one tier; with
    /// =treeline all but 2 MiB, and which of them goes is decided as in TreeLine
    #[arg(long, value_enum, value_name = "NAME", conflicts_with = "unclean")]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "lru")]
    pub record_cache: Option<CacheName>,

    /// Which records move between the tiers, and when
    #[arg(long, value_enum, value_name = "NAME", default_value = "default")]
    pub policy: PolicyName,

    #[command(flatten)]
    pub paper: PaperArgs,

    /// How pages of an LSM-tree are compressed: none, lz4 (the last level), or lz4:N (the last N levels)
    #[arg(long, value_name = "HOW", value_parser = parse_compression)]
    pub compress: Option<Compression>,

    /// Let the hot tier of a table be a heap, as the cold one is, for comparison
    #[arg(long)]
    pub hot_heap: bool,

    /// In which order a hot tier that is a heap is gone over for rows that can leave it
    #[arg(long, value_enum, value_name = "ORDER", default_value = "index")]
    pub sweep: SweepName,

    /// Let a record that is promoted leave the cold tier, for comparison: tiers that exclude one another
    #[arg(long)]
    pub exclusive: bool,

    /// Let readers take the lock of each record, as writers do, for comparison
    #[arg(long)]
    pub pessimistic_locks: bool,

    /// Whether the two tiers of a hash table share a hash function, or have one each
    #[arg(long, value_enum, value_name = "WHOSE", default_value = "shared")]
    pub hashes: HashesName,

    /// Threads that run operations
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub threads: usize,

    /// With --workload multiget: how many records are read together
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub together: usize,

    /// How long to measure
    #[arg(long, value_name = "N", default_value_t = 30.0)]
    pub seconds: f64,

    /// With --workload shift: how often the hot set moves in that time, at most 2
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub moves: usize,

    /// Warm up for so many seconds, instead of until page reads per operation are steady
    #[arg(long, value_name = "SECONDS")]
    pub warmup: Option<f64>,

    /// The longest that warming up until steady may take
    #[arg(long, value_name = "SECONDS", default_value_t = 900.0)]
    pub longest_warmup: f64,

    /// What a write promises
    #[arg(long, value_enum, default_value = "buffered")]
    pub log: LogMode,

    /// Bytes of a page, if the database is created
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub page_size: Option<Size>,

    /// Let the disk be as slow as one that serves so many requests of 16 KiB a second: with DB in memory
    /// (/dev/shm) figures do not depend on the machine's own disk
    #[arg(long, value_name = "N")]
    pub device_iops: Option<u32>,

    /// The least that each request to that disk takes, in microseconds
    #[arg(
        long,
        value_name = "MICROSECONDS",
        default_value_t = 100,
        requires = "device_iops"
    )]
    pub device_latency: u64,

    /// From when on the disk is that slow: where only the measuring counts, loading and warming up need not wait
    #[arg(
        long,
        value_enum,
        value_name = "WHEN",
        default_value = "load",
        requires = "device_iops"
    )]
    pub device_from: DeviceFrom,

    /// In which order records are loaded
    #[arg(long, value_enum, default_value = "random")]
    pub load_order: LoadOrder,

    /// Wait to be killed after loading, without closing: what the workload replay runs
    #[arg(long, hide = true)]
    pub unclean: bool,

    /// Use what an earlier benchmark has loaded into DB
    #[arg(long)]
    pub skip_load: bool,

    /// How keys lie
    #[arg(long, value_enum, default_value = "spaced")]
    pub keys: KeyLayoutName,

    /// Updates look first whether the record is there, instead of being blind
    #[arg(long)]
    pub checked_updates: bool,

    /// Read everything at the end; for f, check that no update was lost
    #[arg(long)]
    pub audit: bool,

    /// From which the records and how often each is asked for follow
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,

    /// Which sequence of requests of that kind: with --skip-load another one each time, so that a
    /// run does not ask again for what the one before it has brought into memory
    #[arg(long, value_name = "N")]
    pub draws: Option<u64>,

    /// Print how many operations took how long, too; the JSON object always says it
    #[arg(long, conflicts_with = "json")]
    pub histogram: bool,

    /// Write the course of the throughput to this SVG file, and of page reads beside it
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,

    /// Serve a page at this address, 127.0.0.1:8480 for example, that shows live what goes on, and metrics
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<SocketAddr>,

    /// Delete the database afterwards
    #[arg(long, conflicts_with = "skip_load")]
    pub remove: bool,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const BENCH_HELP: &str = "\
Loads the records, warms up until page reads per operation are steady, measures, and prints. Every \
value that is read is checked. Page reads are compared with the static optimum: what a store would \
read that holds exactly the best set of records in its memory.

Examples:
  terrace bench /data/b --records 1M --memory 32MiB --workload f --remove
  terrace bench /data/b --workload load --log off
  terrace bench /data/b --workload c --skip-load --tiers 2 --json > two.json
  terrace bench /data/b --workload shift --memory 512MiB --seconds 240 --plot shift.svg";
