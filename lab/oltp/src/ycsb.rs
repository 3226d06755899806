//! YCSB over one table: points, read and changed ones, and ranges, on a hotspot or after Zipf.

use terrace_bench::rng::{Rng, mix};
use terrace_bench::zipf::Zipf;

use crate::txn::{Engine, Key, Span, TableDef, missing, scan};

/// Rows of a range.
pub const RANGE: usize = 100;

/// The table.
pub fn schema() -> Vec<TableDef> {
    vec![TableDef {
        name: "rows",
        indexes: &[],
        resident: false,
        prefix: 0,
    }]
}

/// Which rows are asked for.
#[derive(Clone, Debug)]
pub enum Skew {
    /// After Zipf with this exponent; the popular ones lie anywhere.
    Zipf(f64),
    /// Nine of ten times one of this share of all rows, which lie anywhere.
    Hotspot(f64),
}

/// What is done to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read it.
    Read,
    /// Read it and write it back, changed.
    Change,
    /// Read a hundred from it on.
    Range,
}

/// How much there is and what is done.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Rows.
    pub rows: u64,
    /// Bytes of each, 16 at least.
    pub bytes: usize,
    /// Which of them are asked for.
    pub skew: Skew,
    /// What is done.
    pub operation: Operation,
}

fn key(n: u64) -> Key {
    n.to_be_bytes()
}

fn row(n: u64, changes: u64, bytes: usize) -> Vec<u8> {
    let mut row = vec![b'.'; bytes];
    row[..8].copy_from_slice(&n.to_le_bytes());
    row[8..16].copy_from_slice(&changes.to_le_bytes());
    row
}

fn changes(n: u64, row: &[u8]) -> Option<u64> {
    let is = row.first_chunk::<8>()? == &n.to_le_bytes();
    let changes = u64::from_le_bytes(*row.get(8..)?.first_chunk::<8>()?);
    is.then_some(changes)
}

/// Loads the rows.
///
/// # Errors
/// Those of the engine.
pub fn load(engine: &dyn Engine, plan: &Plan) -> anyhow::Result<()> {
    let partitions = engine.partitions() as u64;
    for partition in 0..partitions {
        let all: Vec<u64> = (0..plan.rows)
            .filter(|n| n % partitions == partition)
            .collect();
        for some in all.chunks(500) {
            engine.transact(&[partition as usize], &mut |t| {
                t.on(partition as usize);
                some.iter()
                    .try_for_each(|&n| t.put(0, &key(n), &row(n, 0, plan.bytes)))
            })?;
        }
    }
    Ok(())
}

/// A client.
pub struct Client {
    plan: Plan,
    rng: Rng,
    zipf: Option<Zipf>,
    partitions: u64,
    /// Operations, and changes among them.
    pub done: [u64; 2],
}

impl Client {
    /// A client of this plan.
    pub fn new(plan: &Plan, partitions: usize, seed: u64) -> Client {
        let zipf = match plan.skew {
            Skew::Zipf(theta) => Some(Zipf::new(plan.rows, theta)),
            Skew::Hotspot(_) => None,
        };
        Client {
            plan: plan.clone(),
            rng: Rng::new(seed),
            zipf,
            partitions: partitions as u64,
            done: [0; 2],
        }
    }

    fn draw(&mut self) -> u64 {
        let rank = match (&self.zipf, &self.plan.skew) {
            (Some(zipf), _) => zipf.draw(&mut self.rng),
            (None, Skew::Hotspot(share)) if self.rng.below(10) > 0 => self
                .rng
                .below(((self.plan.rows as f64 * share) as u64).max(1)),
            _ => self.rng.below(self.plan.rows),
        };
        mix(rank.wrapping_add(1)) % self.plan.rows
    }

    /// One operation.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step(&mut self, engine: &dyn Engine) -> anyhow::Result<usize> {
        let (n, bytes) = (self.draw(), self.plan.bytes);
        let at = (n % self.partitions) as usize;
        match self.plan.operation {
            Operation::Read => engine.transact(&[at], &mut |t| {
                t.on(at);
                t.get(0, &key(n))?.ok_or_else(|| missing(n))?;
                Ok(())
            })?,
            Operation::Change => engine.transact(&[at], &mut |t| {
                t.on(at);
                let old = t.get(0, &key(n))?.ok_or_else(|| missing(n))?;
                let changes = changes(n, &old).ok_or_else(|| missing(n))?;
                t.put(0, &key(n), &row(n, changes + 1, bytes))
            })?,
            Operation::Range => engine.transact(&[at], &mut |t| {
                t.on(at);
                t.range(
                    0,
                    Span {
                        limit: RANGE,
                        ..Span::of(&key(n), &[0xff; 9])
                    },
                )?;
                Ok(())
            })?,
        };
        let change = usize::from(self.plan.operation == Operation::Change);
        self.done[0] += 1;
        self.done[1] += change as u64;
        Ok(0)
    }
}

/// All rows are there, as they are, and changed as often as was done.
///
/// # Errors
/// What is not so; those of the engine.
pub fn check(engine: &dyn Engine, plan: &Plan, changed: u64) -> anyhow::Result<()> {
    let (mut rows, mut sum) = (0, 0);
    scan(engine, 0, |key, row| {
        let n = u64::from_be_bytes(*key);
        anyhow::ensure!(row.len() == plan.bytes, "row {n} has {} bytes", row.len());
        sum += changes(n, row).ok_or_else(|| anyhow::anyhow!("row {n} is another one"))?;
        rows += 1;
        Ok(())
    })?;
    anyhow::ensure!(rows == plan.rows, "{rows} rows of {}", plan.rows);
    anyhow::ensure!(
        sum == changed,
        "{sum} changes are there, {changed} were made"
    );
    Ok(())
}
