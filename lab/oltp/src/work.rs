//! The four workloads as one type: schema, loading, clients, oracle.

use crate::txn::{Engine, TableDef};
use crate::{articles, tpcc, voter, ycsb};

/// A workload with its size.
#[derive(Clone, Debug)]
pub enum Work {
    /// TPC-C.
    Tpcc(tpcc::Size),
    /// Voter, with this many phones in each partition.
    Voter(u64),
    /// Articles.
    Articles(articles::Size),
    /// YCSB.
    Ycsb(ycsb::Plan),
}

/// A client of one of them.
#[allow(missing_docs)]
pub enum Client {
    Tpcc(Box<tpcc::Client>),
    Voter(voter::Client),
    Articles(articles::Client),
    Ycsb(ycsb::Client),
}

impl Work {
    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Work::Tpcc(_) => "TPC-C",
            Work::Voter(_) => "Voter",
            Work::Articles(_) => "Articles",
            Work::Ycsb(_) => "YCSB",
        }
    }

    /// Its tables.
    pub fn schema(&self) -> Vec<TableDef> {
        match self {
            Work::Tpcc(_) => tpcc::schema(),
            Work::Voter(_) => voter::schema(),
            Work::Articles(_) => articles::schema(),
            Work::Ycsb(_) => ycsb::schema(),
        }
    }

    /// Loads its first rows.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn load(&self, engine: &dyn Engine) -> anyhow::Result<()> {
        match self {
            Work::Tpcc(size) => tpcc::load(engine, *size),
            Work::Voter(_) => voter::load(engine),
            Work::Articles(size) => articles::load(engine, *size),
            Work::Ycsb(plan) => ycsb::load(engine, plan),
        }
    }

    /// Client number `n` of a run.
    pub fn client(&self, n: usize, partitions: usize, seed: u64) -> Client {
        let seed = terrace_bench::rng::mix(seed.wrapping_mul(1000).wrapping_add(n as u64 + 1));
        match self {
            Work::Tpcc(size) => {
                Client::Tpcc(Box::new(tpcc::Client::new(*size, partitions, n, seed)))
            }
            // A run after another one goes on with other numbers.
            Work::Voter(phones) => {
                let n = n + partitions.max(1) * (seed >> 52) as usize * 64;
                Client::Voter(voter::Client::new(n, partitions, *phones, seed))
            }
            Work::Articles(size) => {
                let n = n + (seed >> 44) as usize;
                Client::Articles(articles::Client::new(n, *size, partitions, seed))
            }
            Work::Ycsb(plan) => Client::Ycsb(ycsb::Client::new(plan, partitions, seed)),
        }
    }

    /// Whether everything is as it has to be, after this many changes of YCSB.
    ///
    /// # Errors
    /// What is not; those of the engine.
    pub fn check(&self, engine: &dyn Engine, changed: u64) -> anyhow::Result<()> {
        match self {
            Work::Tpcc(size) => tpcc::check(engine, *size),
            Work::Voter(_) => voter::check(engine).map(|_| ()),
            Work::Articles(size) => articles::check(engine, *size).map(|_| ()),
            Work::Ycsb(plan) => ycsb::check(engine, plan, changed),
        }
    }
}

impl Client {
    /// One transaction; which of its kinds.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step(&mut self, engine: &dyn Engine) -> anyhow::Result<usize> {
        match self {
            Client::Tpcc(client) => client.step(engine),
            Client::Voter(client) => client.step(engine),
            Client::Articles(client) => client.step(engine),
            Client::Ycsb(client) => client.step(engine),
        }
    }

    /// Changes of YCSB that it made.
    pub fn changed(&self) -> u64 {
        match self {
            Client::Ycsb(client) => client.done[1],
            _ => 0,
        }
    }
}
