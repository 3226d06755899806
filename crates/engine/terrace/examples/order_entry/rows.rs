//! Rows. To the database a row is bytes: here JSON, through serde; any encoding will do.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use terrace::encode::from_key;
use terrace::{Batch, Error, Table, Transaction};

#[derive(Serialize, Deserialize)]
pub struct Warehouse {
    pub tax: i64,
    pub ytd: i64,
}

#[derive(Serialize, Deserialize)]
pub struct District {
    pub tax: i64,
    pub ytd: i64,
    pub next_order: u32,
}

#[derive(Serialize, Deserialize)]
pub struct Customer {
    pub w: u16,
    pub d: u8,
    pub id: u32,
    pub first: String,
    pub last: String,
    pub balance: i64,
    pub ytd_payment: i64,
    pub payments: u32,
    pub deliveries: u32,
}

#[derive(Serialize, Deserialize)]
pub struct History {
    pub w: u16,
    pub d: u8,
    pub amount: i64,
}

#[derive(Serialize, Deserialize)]
pub struct Order {
    pub w: u16,
    pub d: u8,
    pub id: u32,
    pub customer: u32,
    pub carrier: Option<u8>,
    pub lines: u8,
}

#[derive(Serialize, Deserialize)]
pub struct Line {
    pub item: u32,
    pub supplier: u16,
    pub quantity: i64,
    pub amount: i64,
    pub delivered: bool,
}

#[derive(Serialize, Deserialize)]
pub struct Item {
    pub price: i64,
}

#[derive(Serialize, Deserialize)]
pub struct Stock {
    pub quantity: i64,
    pub ytd: i64,
    pub orders: u32,
    pub remote: u32,
}

pub fn bytes(row: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(row).expect("these rows have no maps, so they always become JSON")
}

pub fn parse<T: DeserializeOwned>(row: &[u8]) -> Result<T, Stop> {
    serde_json::from_slice(row).map_err(|e| Stop::Broken(e.to_string()))
}

/// Why a transaction ends without a commit. Whatever comes from the database is `Engine`: passed on with `?`, it
/// lets the transaction run again where another one was faster.
#[derive(Debug)]
pub enum Stop {
    Engine(Error),
    /// The customer named an item that there is not: the order is not entered.
    NoSuchItem,
    /// A row or a condition that is not as it has to be.
    Broken(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Engine(error)
    }
}

/// Reads a row that has to be there.
pub fn row<T: DeserializeOwned>(
    t: &mut Transaction,
    table: &Table,
    key: impl AsRef<[u8]>,
) -> Result<T, Stop> {
    let missing = || Stop::Broken(format!("a row of \"{}\" is missing", table.name()));
    parse(&t.get(table, key)?.ok_or_else(missing)?)
}

/// Writes a row.
pub fn put(
    t: &mut Transaction,
    table: &Table,
    key: impl AsRef<[u8]>,
    row: &impl Serialize,
) -> Result<(), Stop> {
    Ok(t.put(table, key, bytes(row))?)
}

/// Writes a row as a part of a batch.
pub fn add(batch: &mut Batch, table: &Table, key: impl AsRef<[u8]>, row: &impl Serialize) {
    batch.put(table, key, bytes(row));
}

/// The parts of a primary key.
pub fn id<P: terrace::encode::FromKeyParts>(key: &[u8]) -> Result<P, Stop> {
    from_key(key).ok_or_else(|| Stop::Broken(format!("{key:?} is no such key")))
}
