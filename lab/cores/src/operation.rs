//! What is counted and measured: operations on structures of a database that fits memory.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use terrace::{Database, Durability, Map, Options, Tree};

/// A structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Structure {
    /// A B+tree
    Tree,
    /// A hash table
    Hash,
    /// An LSM-tree
    Lsm,
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A read
    Get,
    /// 16 reads together
    GetMany,
    /// A blind put of a record that is there
    Put,
    /// A change of a record by a closure
    Update,
    /// A number is added
    Merge,
    /// Four puts together
    Batch,
    /// A transaction that reads two records and changes both
    Transaction,
    /// The next 20 records
    Range,
    /// A put that waits until it is durable
    SyncedPut,
}

impl Operation {
    /// Its word on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// Bytes of a value.
const VALUE: usize = 100;

/// The database and the structure that threads use.
pub struct Store {
    db: Database,
    map: Map,
    /// The same, where it has an order.
    ordered: Option<Tree>,
}

/// What one thread keeps from one operation to the next.
#[derive(Default)]
pub struct Scratch {
    pub value: Vec<u8>,
}

/// The key of record `i`: neighbours lie side by side.
pub fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

impl Store {
    /// A database in `folder` with `records` of them, all in memory; with threads in the background or without.
    pub fn new(
        structure: Structure,
        folder: &Path,
        records: u64,
        background: bool,
    ) -> Result<Store> {
        // Three times the records: both tiers hold all of them.
        let memory = (64 << 20) + records * VALUE as u64 * 3;
        let options = Options::new().memory(memory).foreground(!background);
        let db = Database::open(folder, options)?;
        let ordered = match structure {
            Structure::Tree => Some(db.tree("records")?),
            Structure::Hash => None,
            Structure::Lsm => Some(db.lsm("records")?),
        };
        let map = match &ordered {
            Some(tree) => (**tree).clone(),
            None => (*db.hash("records")?).clone(),
        };
        for i in 0..records {
            map.put(key(i), [1; VALUE])?;
        }
        db.checkpoint()?;
        let store = Store { db, map, ordered };
        let mut scratch = Scratch::default();
        for i in 0..records {
            store.call(Operation::Get, i, &mut scratch)?;
        }
        Ok(store)
    }

    /// Whether the structure knows `operation`.
    pub fn knows(structure: Structure, operation: Operation) -> bool {
        structure != Structure::Hash || operation != Operation::Range
    }

    /// `operation` on record `i` and its neighbours.
    #[inline(never)]
    pub fn call(&self, operation: Operation, i: u64, scratch: &mut Scratch) -> Result<()> {
        let map = &self.map;
        match operation {
            Operation::Get => ensure!(map.get_into(key(i), &mut scratch.value)?, "{i} is gone"),
            Operation::GetMany => {
                let keys: [[u8; 8]; 16] = std::array::from_fn(|j| key(i + j as u64));
                ensure!(map.get_many(&keys)?.iter().all(Option::is_some), "gone");
            }
            Operation::Put => map.put(key(i), [2; VALUE])?,
            Operation::Update => {
                map.update(key(i), |old| old.map(<[u8]>::to_vec))?;
            }
            Operation::Merge => {
                // Numbers lie behind the records.
                let number = [&key(i)[..], b"n"].concat();
                map.merge(number, terrace::Merge::AddUnsigned(1))?;
            }
            Operation::Batch => {
                let mut batch = self.db.batch();
                for j in 0..4 {
                    batch.put(map, key(i + j), [3; VALUE]);
                }
                self.db.write(batch, Durability::Buffered)?;
            }
            Operation::Transaction => {
                self.db.transaction(|t| {
                    let from = t.get(map, key(i))?;
                    let to = t.get(map, key(i + 1))?;
                    t.put(map, key(i), to.unwrap_or_default())?;
                    t.put(map, key(i + 1), from.unwrap_or_default())?;
                    Ok::<_, terrace::Error>(())
                })?;
            }
            Operation::Range => {
                let mut seen = 0;
                let ordered = self.ordered.as_ref().context("no order")?;
                for record in ordered.range(key(i)..)?.take(20) {
                    seen += record?.0.len();
                }
                ensure!(seen > 0, "nothing from {i} on");
            }
            Operation::SyncedPut => map.put_with(key(i), [4; VALUE], Durability::Sync)?,
        }
        Ok(())
    }

    /// Closes it.
    pub fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}
