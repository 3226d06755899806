//! Benchmarks of key-value stores: workloads, distributions, measurement and reports.
//!
//! The number that this crate is built around is *page reads per operation*, because it does not
//! depend on the machine, and its ratio to the *static optimum*: what a store would need that
//! holds exactly the best set of records in its memory. Everything else (throughput, latency,
//! resident memory, bytes written) is measured beside it, in one run.
//!
//! A store is measured through the trait [`Target`]. A [`Plan`] says what is to be done;
//! [`Prepared::new`] computes what has to be known before the store is opened;
//! [`Prepared::run`] loads, warms up, measures, and gives a [`Report`]. Every value read is checked
//! on the way: a store that answers wrongly gets no numbers.
//!
//! The benchmark itself needs a few megabytes whatever the number of records (no tables of
//! probabilities or keys), so that the resident memory of the process is that of the store.
#![forbid(unsafe_code)]

pub mod buckets;
pub mod device;
pub mod distribution;
mod error;
pub mod latency;
mod newest;
pub mod numbers;
pub mod permutation;
pub mod plan;
pub mod plot;
pub mod record_cache;
pub mod records;
pub mod report;
pub mod resident;
pub mod rng;
pub mod runner;
pub mod steady;
mod table;
pub mod target;
#[cfg(test)]
mod testing;
pub mod timeline;
mod worker;
pub mod workload;
pub mod ycsb;
pub mod zipf;

pub use distribution::Distribution;
pub use error::Error;
pub use plan::{Load, Plan, Prepared, StoreLabels, Warmup};
pub use record_cache::RecordCache;
pub use records::KeyLayout;
pub use report::Report;
pub use runner::Event;
pub use target::{Counters, Durations, Feed, Target, TargetError, TargetResult};
pub use timeline::{Part, Window};
pub use worker::Audit;
pub use workload::{Operation, Workload};
