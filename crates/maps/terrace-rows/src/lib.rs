//! Typed rows in memory with several compact indexes, serial transactions and rollback.
//!
//! A [`Store`] holds tables of [`Row`]s. A table has a primary key and any number of indexes, unique ones and
//! lists, over the maps of `terrace-mem`: half of the bytes of a `BTreeMap` each. Rows lie encoded in slabs. A
//! transaction is a closure that runs alone in its partition; an error or a panic takes back what it did.
//!
//! With [`Store::open`] rows that are not used leave memory, with all their index entries, for a database on the disk,
//! and come back by use. A closure that asks for one of them gets [`Error::Cold`], passes it on, and runs again when the
//! row was read. What is there is gone when the store is closed: the folder is emptied at opening.
//!
//! ```
//! use terrace_rows::{Error, Row, Store};
//!
//! struct Account { id: u64, city: String, balance: i64 }
//!
//! impl Row for Account {
//!     type Key = u64;
//!     fn key(&self) -> u64 { self.id }
//!     fn encode(&self, out: &mut Vec<u8>) {
//!         out.extend(self.id.to_le_bytes());
//!         out.extend(self.balance.to_le_bytes());
//!         out.extend(self.city.as_bytes());
//!     }
//!     fn decode(bytes: &[u8]) -> Option<Account> {
//!         Some(Account {
//!             id: u64::from_le_bytes(*bytes.first_chunk()?),
//!             balance: i64::from_le_bytes(*bytes.get(8..)?.first_chunk()?),
//!             city: String::from_utf8(bytes.get(16..)?.to_vec()).ok()?,
//!         })
//!     }
//! }
//!
//! let store = Store::in_memory();
//! let accounts = store.table::<Account>("accounts").index("city", |a| a.city.clone()).create()?;
//! store.transact(|t| {
//!     t.insert(&accounts, &Account { id: 7, city: "Riga".into(), balance: 100 })?;
//!     t.insert(&accounts, &Account { id: 9, city: "Oslo".into(), balance: 0 })
//! })?;
//! let moved: Result<(), Error> = store.transact(|t| {
//!     let mut from = t.get(&accounts, &7)?.ok_or(Error::Missing)?;
//!     from.balance -= 10;
//!     t.put(&accounts, &from)?;
//!     t.get(&accounts, &8)?.ok_or(Error::Missing)?;
//!     Ok(())
//! });
//! assert_eq!(moved, Err(Error::Missing));
//! let in_riga: Vec<Account> = store.transact(|t| t.index(&accounts, "city", &"Riga".to_string()))?;
//! assert_eq!(in_riga[0].balance, 100);
//! # Ok::<(), Error>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod faults;
mod row;
mod span;
mod spill;
mod stats;
mod store;
mod table;
mod txn;

pub use error::Error;
#[cfg(feature = "planted-faults")]
pub use faults::{Fault, between_runs, plant};
pub use row::{KeyBytes, Row};
pub use span::Span;
pub use stats::{Stats, TableStats};
pub use store::{Options, Store, TableBuilder};
pub use table::handle::{Handle, IndexKind, Table};
pub use txn::Transaction;
