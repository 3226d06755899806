//! Transactions: begun and committed by hand, or as a function that runs again while others are faster.
//!
//! What is run again by the engine is lent under a handle for each attempt and taken back afterwards.

use std::collections::BTreeSet;
use std::mem::replace;
use std::ops::Bound;
use std::sync::Arc;

use terrace::{Database, Map, Merge, Savepoint, Transaction, TransactionOptions};
use terrace_base::sync::Mutex;

use crate::cursor::{End, of_source};
use crate::enter::{database_clone, entered, map, taken};
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::{Access, Object};
use crate::shared::{Shared, locked};
use crate::window::Record;

const OVER: &str = "the transaction has ended; begin another one";
/// Labels that are told apart, as many as the engine has figures of.
const MOST_LABELS: usize = 64;
/// Records of a range that are read at once.
const WINDOW: usize = 256;

/// A label for [`TransactionOptions::label`]. They are kept for good, so there is a number of them; past it the
/// answer is none.
pub fn label(label: &str) -> Option<&'static str> {
    static LABELS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut labels = locked(&LABELS).ok()?;
    if !labels.contains(label) && labels.len() < MOST_LABELS {
        labels.insert(String::from(label).leak());
    }
    labels.get(label).copied()
}

fn lend(shared: &Arc<Shared>, transaction: Transaction, access: Access) -> Result<u64> {
    let going = Box::new(Mutex::new(Some(transaction)));
    handles::add(shared, Object::Transaction(going, access))
}

/// Begins a transaction that [`commit`] ends; nothing is held meanwhile.
///
/// # Errors
/// When the database is closed.
pub fn begin(db: u64, options: TransactionOptions) -> Result<u64> {
    let (db, shared) = database_clone(db)?;
    let transaction = shared.home.guarded(|| Ok(db.begin(options)))?;
    lend(&shared, transaction, Access::ByHand)
}

/// Runs `call` with the handle of a transaction, again while others are faster, and commits what it did. It may
/// run several times. The handle is good for that attempt only. When it answers a failure nothing is changed.
///
/// # Errors
/// That of `call`; [`crate::Kind::Conflict`]; those of a commit.
pub fn run(
    db: u64,
    options: TransactionOptions,
    call: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    attempts(db, options, Access::BorrowedTransaction, call)
}

/// The same with a transaction that only reads: all of one instant.
///
/// # Errors
/// As [`run`].
pub fn read(
    db: u64,
    options: TransactionOptions,
    call: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    attempts(db, options, Access::Reads, call)
}

fn attempts(
    db: u64,
    options: TransactionOptions,
    access: Access,
    mut call: impl FnMut(u64) -> Result<()>,
) -> Result<()> {
    let (db, shared) = database_clone(db)?;
    shared.home.guarded(|| {
        db.transaction_with(options, |own| attempt(&db, &shared, access, own, &mut call))
    })
}

fn attempt(
    db: &Database,
    shared: &Arc<Shared>,
    access: Access,
    own: &mut Transaction,
    call: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    // What stays here meanwhile is never used.
    let lent = replace(own, db.begin(TransactionOptions::new()));
    let handle = lend(shared, lent, access)?;
    let lending = BorrowedTransaction(handle);
    let answer = call(handle);
    let back = lending.back();
    *own = back.ok_or_else(|| Failure::closed("transaction"))?;
    answer
}

/// A transaction that is lent; taken back in any case.
struct BorrowedTransaction(u64);

impl BorrowedTransaction {
    fn back(&self) -> Option<Transaction> {
        let entry = handles::remove(self.0, "transaction", |_| true).ok()??;
        match entry.object {
            Object::Transaction(going, _) => going.into_inner(),
            _ => None,
        }
    }
}

impl Drop for BorrowedTransaction {
    fn drop(&mut self) {
        drop(self.back());
    }
}

/// Commits; its place in the order of commits, if it changed what is logged. The handle is closed then.
///
/// # Errors
/// [`crate::Kind::Conflict`] when others changed what was read: nothing is changed, and it may be begun anew;
/// [`crate::Kind::Invalid`] for one that is lent.
pub fn commit(transaction: u64) -> Result<Option<u64>> {
    let Some((transaction, shared)) = ended(transaction)? else {
        return Err(Failure::closed("transaction"));
    };
    shared.home.guarded(|| Ok(transaction.commit()?.sequence))
}

/// Ends it without a trace. Twice is nothing.
///
/// # Errors
/// [`crate::Kind::Invalid`] for one that is lent.
pub fn abort(transaction: u64) -> Result<()> {
    ended(transaction).map(drop)
}

fn ended(handle: u64) -> Result<Option<(Transaction, Arc<Shared>)>> {
    let mut lent = false;
    let is = |object: &Object| match object {
        Object::Transaction(_, access) => {
            lent = *access != Access::ByHand;
            !lent
        }
        _ => false,
    };
    let removed = handles::remove(handle, "transaction", is);
    if lent {
        return Err(Failure::invalid(
            "this transaction is committed when its function returns, and ended without a trace when that \
             fails; begin one by hand to commit it by hand",
        ));
    }
    let Some(entry) = removed? else {
        return Ok(None);
    };
    entry.shared.home.check()?;
    let shared = entry.shared.clone();
    Ok(match entry.object {
        Object::Transaction(going, _) => going.into_inner().map(|going| (going, shared)),
        _ => None,
    })
}

fn with<R>(
    transaction: u64,
    writes: bool,
    call: impl FnOnce(&mut Transaction) -> Result<R>,
) -> Result<R> {
    entered(transaction, "transaction", |entry| match &entry.object {
        Object::Transaction(_, Access::Reads) if writes => Some(Err(Failure::invalid(
            "this transaction only reads; run one that writes",
        ))),
        Object::Transaction(going, _) => Some(taken(going, OVER, call)),
        _ => None,
    })
}

fn with_map<R, E: Into<Failure>>(
    transaction: u64,
    handle: u64,
    writes: bool,
    call: impl FnOnce(&mut Transaction, &Map) -> std::result::Result<R, E>,
) -> Result<R> {
    map(handle, |map| {
        with(transaction, writes, |transaction| {
            call(transaction, map).map_err(Into::into)
        })
    })
}

/// The value of a key, the transaction's own changes included.
///
/// # Errors
/// Those of [`Transaction::get`].
pub fn get(transaction: u64, map: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
    with_map(transaction, map, false, |t, map| t.get(map, key))
}

/// The values of keys.
///
/// # Errors
/// Those of [`Transaction::get_many`].
pub fn get_many<K: AsRef<[u8]>>(
    transaction: u64,
    map: u64,
    keys: &[K],
) -> Result<Vec<Option<Vec<u8>>>> {
    with_map(transaction, map, false, |t, map| t.get_many(map, keys))
}

/// The value of a key; whether it is still so is not looked at when it is committed.
///
/// # Errors
/// Those of [`Transaction::get_unchecked`].
pub fn get_unchecked(transaction: u64, map: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
    with_map(transaction, map, false, |t, map| t.get_unchecked(map, key))
}

/// Stores a value when it is committed.
///
/// # Errors
/// Those of [`Transaction::put`].
pub fn put(transaction: u64, map: u64, key: &[u8], value: &[u8]) -> Result<()> {
    with_map(transaction, map, true, |t, map| t.put(map, key, value))
}

/// Removes a key when it is committed.
///
/// # Errors
/// Those of [`Transaction::delete`].
pub fn delete(transaction: u64, map: u64, key: &[u8]) -> Result<()> {
    with_map(transaction, map, true, |t, map| t.delete(map, key))
}

/// Stores a value if the key is not there; whether it does.
///
/// # Errors
/// Those of [`Transaction::insert`].
pub fn insert(transaction: u64, map: u64, key: &[u8], value: &[u8]) -> Result<bool> {
    with_map(transaction, map, true, |t, map| t.insert(map, key, value))
}

/// Removes a key; the value that it had.
///
/// # Errors
/// Those of [`Transaction::remove`].
pub fn remove(transaction: u64, map: u64, key: &[u8]) -> Result<Option<Vec<u8>>> {
    with_map(transaction, map, true, |t, map| t.remove(map, key))
}

/// Changes a value by what is there when it is committed.
///
/// # Errors
/// Those of [`Transaction::merge`].
pub fn merge(transaction: u64, map: u64, key: &[u8], merge: Merge) -> Result<()> {
    with_map(transaction, map, true, |t, map| t.merge(map, key, merge))
}

/// A place to go back to with [`roll_back`]. Keep it as it is.
///
/// # Errors
/// When the transaction is over.
pub fn savepoint(transaction: u64) -> Result<Savepoint> {
    with(transaction, true, |transaction| Ok(transaction.savepoint()))
}

/// Forgets what was written since a savepoint.
///
/// # Errors
/// Those of [`Transaction::rollback_to`].
pub fn roll_back(transaction: u64, to: &Savepoint) -> Result<()> {
    with(transaction, true, |transaction| {
        Ok(transaction.rollback_to(to)?)
    })
}

/// A cursor over a range of keys, the transaction's own changes included. All of the range counts as read from
/// now on. Records of a hash table come only all together.
///
/// # Errors
/// Those of [`Transaction::range`].
pub fn range(
    transaction: u64,
    handle: u64,
    low: End<'_>,
    high: End<'_>,
    reverse: bool,
) -> Result<u64> {
    let map = map(handle, |map| Ok::<_, Failure>(map.clone()))?;
    let source = match map.as_hash() {
        Some(_) if (low, high) == (Bound::Unbounded, Bound::Unbounded) => {
            let mut all = with(transaction, false, |t| {
                Ok(t.iter(&map)?.collect::<terrace::Result<Vec<_>>>()?)
            })?;
            if reverse {
                all.reverse();
            }
            Windows::of(all)
        }
        _ => {
            with(transaction, false, |t| {
                Ok(t.range::<&[u8]>(&map, (low, high)).map(drop)?)
            })?;
            let left = Some((low.map(<[u8]>::to_vec), high.map(<[u8]>::to_vec)));
            Windows {
                from: Some((transaction, map)),
                left,
                reverse,
                window: Vec::new().into_iter(),
            }
        }
    };
    entered(transaction, "transaction", |entry| match &entry.object {
        Object::Transaction(..) => Some(of_source(entry, Box::new(source))),
        _ => None,
    })
}

/// Rows by an index of a table, read at once.
///
/// # Errors
/// Those of [`Transaction::index`].
pub fn index_range(
    transaction: u64,
    table: u64,
    index: &str,
    low: End<'_>,
    high: End<'_>,
    reverse: bool,
) -> Result<u64> {
    let mut rows = with_map(transaction, table, false, |t, map| {
        let table = map
            .as_table()
            .ok_or_else(|| Failure::invalid("this is no table, so it has no indexes"))?;
        let rows = t.index(&table, index)?.range::<&[u8]>((low, high))?;
        Ok::<_, Failure>(rows.collect::<terrace::Result<Vec<_>>>()?)
    })?;
    if reverse {
        rows.reverse();
    }
    entered(transaction, "transaction", |entry| match &entry.object {
        Object::Transaction(..) => Some(of_source(entry, Box::new(Windows::of(rows)))),
        _ => None,
    })
}

type Ends = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A range of a transaction, read some records at a time: it is not borrowed in between.
struct Windows {
    from: Option<(u64, Map)>,
    /// What is to be read yet.
    left: Option<Ends>,
    reverse: bool,
    window: std::vec::IntoIter<Record>,
}

impl Windows {
    /// Of what was read at once.
    fn of(records: Vec<Record>) -> Windows {
        Windows {
            from: None,
            left: None,
            reverse: false,
            window: records.into_iter(),
        }
    }

    fn read(&mut self) -> Result<()> {
        let (Some((transaction, map)), Some((low, high))) = (&self.from, self.left.take()) else {
            return Ok(());
        };
        let records = with(*transaction, false, |transaction| {
            let range = transaction.range(map, (low.clone(), high.clone()))?;
            Ok(match self.reverse {
                true => range.rev().take(WINDOW).collect(),
                false => range.take(WINDOW).collect::<terrace::Result<Vec<_>>>(),
            }?)
        })?;
        if records.len() == WINDOW
            && let Some((last, _)) = records.last()
        {
            let last = Bound::Excluded(last.clone());
            self.left = Some(match self.reverse {
                true => (low, last),
                false => (last, high),
            });
        }
        self.window = records.into_iter();
        Ok(())
    }
}

impl Iterator for Windows {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        loop {
            if let Some(record) = self.window.next() {
                return Some(Ok(record));
            }
            self.left.as_ref()?;
            if let Err(failure) = self.read() {
                return Some(Err(failure));
            }
        }
    }
}
