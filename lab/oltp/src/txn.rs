//! What a workload asks of an engine: tables of bytes by their keys, with indexes, in transactions.

use std::fmt;

/// An index of a table.
#[derive(Clone, Copy)]
pub struct IndexDef {
    /// Its name.
    pub name: &'static str,
    /// Whether two rows may not have the same key.
    pub unique: bool,
    /// Whether its keys are 8 bytes, so that an engine may keep them as numbers.
    pub number: bool,
    /// The key of a row. Pure.
    pub key: fn(&[u8]) -> Vec<u8>,
}

/// A table. All primary keys of all workloads are 8 bytes, so that an engine may keep them as numbers.
#[derive(Clone, Copy)]
pub struct TableDef {
    /// Its name.
    pub name: &'static str,
    /// Its indexes, in the order of their numbers.
    pub indexes: &'static [IndexDef],
    /// Whether its rows are so few or so often read that they never leave memory.
    pub resident: bool,
    /// Ranges that are read lie within keys that begin with the same `prefix` bytes; 0 where they do not.
    pub prefix: usize,
}

/// A primary key.
pub type Key = [u8; 8];

/// Why a transaction does not commit.
#[derive(Debug)]
pub enum Stop {
    /// The workload wants it so.
    Rollback,
    /// The engine wants to run it again, after it has fetched what was cold, or because another one was faster.
    Again,
    /// It does not go on.
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Stop {
        Stop::Failed(error)
    }
}

/// Something that has to be there and is not.
pub fn missing(what: impl fmt::Display) -> Stop {
    Stop::Failed(anyhow::anyhow!("{what} is missing"))
}

/// The operations of a transaction. Tables and indexes go by their numbers in the schema. Ranges are half open, and
/// answer at most `limit` rows, from the low end or (`back`) from the high one.
pub trait Txn {
    /// The partition that all operations after this are about; where there is none, nothing.
    fn on(&mut self, partition: usize);
    /// The row of a key.
    fn get(&mut self, table: usize, key: &Key) -> Result<Option<Vec<u8>>, Stop>;
    /// The rows of several keys.
    fn get_many(&mut self, table: usize, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, Stop>;
    /// Stores a row, whether there was one or not.
    fn put(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<(), Stop>;
    /// Stores a row if there is none; whether it did.
    fn insert(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<bool, Stop>;
    /// Removes a row, whether there is one or not.
    fn delete(&mut self, table: usize, key: &Key) -> Result<(), Stop>;
    /// Rows by their keys.
    fn range(&mut self, table: usize, range: Span<'_>) -> Result<Vec<(Key, Vec<u8>)>, Stop>;
    /// Rows by the keys that an index has of them; those of one key in any order.
    fn index(&mut self, table: usize, index: usize, range: Span<'_>) -> Result<Vec<Vec<u8>>, Stop>;
}

/// What a range is about.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// From this key on.
    pub low: &'a [u8],
    /// To before this one.
    pub high: &'a [u8],
    /// At most this many rows.
    pub limit: usize,
    /// Whether from the high end.
    pub back: bool,
}

impl<'a> Span<'a> {
    /// All rows from the low end.
    pub fn of(low: &'a [u8], high: &'a [u8]) -> Span<'a> {
        Span {
            low,
            high,
            limit: usize::MAX,
            back: false,
        }
    }

    /// The first one from the low end.
    pub fn first(low: &'a [u8], high: &'a [u8]) -> Span<'a> {
        Span {
            limit: 1,
            ..Span::of(low, high)
        }
    }

    /// The first one from the high end.
    pub fn last(low: &'a [u8], high: &'a [u8]) -> Span<'a> {
        Span {
            limit: 1,
            back: true,
            ..Span::of(low, high)
        }
    }
}

/// Where the bytes are, and what an engine has done for what was not there.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Figures {
    /// Bytes of rows.
    pub rows: u64,
    /// Bytes of indexes.
    pub indexes: u64,
    /// Everything else in memory: links, filters, undo, what reads and writes the disk.
    pub other: u64,
    /// Transactions that were run again.
    pub restarts: u64,
    /// Rows that were asked for and were not in memory.
    pub misses: u64,
    /// Reads of the disk, and their bytes.
    pub reads: u64,
    /// See `reads`.
    pub read_bytes: u64,
    /// Bytes that were written to the disk.
    pub written_bytes: u64,
    /// Rows that left memory.
    pub evicted: u64,
}

impl Figures {
    /// All bytes in memory.
    pub fn memory(&self) -> u64 {
        self.rows + self.indexes + self.other
    }
}

/// How a transaction ended, if the engine did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is done.
    Committed,
    /// The workload took it back.
    RolledBack,
}

/// What runs transactions.
pub trait Engine: Sync {
    /// Parts that know nothing of each other; 1 where any transaction may use everything.
    fn partitions(&self) -> usize;
    /// Runs a transaction over these partitions, in ascending order, until it commits or is taken back. It may run several times.
    ///
    /// # Errors
    /// What the closure failed with, or the engine.
    fn transact(
        &self,
        partitions: &[usize],
        f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>,
    ) -> anyhow::Result<Ended>;
    /// Where its bytes are.
    fn figures(&self) -> Figures;
}

/// All rows of a table in all partitions, in transactions of a thousand rows each: for oracles, when nothing writes.
///
/// # Errors
/// Those of the engine, and of `see`.
pub fn scan(
    engine: &dyn Engine,
    table: usize,
    mut see: impl FnMut(&Key, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    for partition in 0..engine.partitions() {
        let mut low = Some([0u8; 8]);
        while let Some(from) = low {
            let mut rows = Vec::new();
            engine.transact(&[partition], &mut |t| {
                t.on(partition);
                rows = t.range(
                    table,
                    Span {
                        limit: 1000,
                        ..Span::of(&from, &[0xff; 9])
                    },
                )?;
                Ok(())
            })?;
            low = match rows.last() {
                Some((last, _)) if rows.len() == 1000 => u64::from_be_bytes(*last)
                    .checked_add(1)
                    .map(u64::to_be_bytes),
                _ => None,
            };
            for (key, row) in &rows {
                see(key, row)?;
            }
        }
    }
    Ok(())
}
