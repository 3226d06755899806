//! Writing several changes as one, and transactions.

use terrace_base::{Error, Result};
use terrace_wal::Durability;

use crate::handle::database::Database;
use crate::latency::Call;
use crate::transaction::{Attempted, Attempts, Reader, Transaction, TransactionOptions};
use crate::write::batch::Batch;

impl Database {
    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new()
    }

    /// Makes all changes of a batch, in their order, or none: whatever crash comes, either all or
    /// none are found afterwards. Other threads may see some of them before others. In a unique index
    /// of a table, two rows may exchange their keys: what counts is what is so after the batch. With `None` it
    /// is as durable as [`crate::Options::durability`] says.
    ///
    /// # Errors
    /// Then nothing was changed, unless it is [`crate::Error::Poisoned`].
    pub fn write(&self, mut batch: Batch, durability: impl Into<Option<Durability>>) -> Result<()> {
        let core = self.core();
        let durability = durability.into();
        let write = || core.write_batch(&mut batch, durability);
        core.latencies().timed_always(Call::Batch, write)
    }

    /// Runs a transaction: `f` reads and writes through it, over any structures of this database, and what it
    /// does happens at one instant, as if nothing else were under way, or not at all.
    ///
    /// When others have changed meanwhile what it has read, `f` runs again, so it must not do anything
    /// that cannot be done twice. After eight attempts it takes the fairness lock: writers of what it reads wait until
    /// it has ended, four times as long as its longest attempt took and a second at most, so it gets through beside
    /// them. Its error is passed on, and nothing was changed then. A panic in it passes through, and nothing was
    /// changed.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use terrace::encode;
    /// let accounts = db.tree("accounts")?;
    /// accounts.put("alice", encode::u64(100))?;
    /// accounts.put("bob", encode::u64(0))?;
    /// let paid = db.transaction(|t| {
    ///     let mut balance = |name| -> terrace::Result<u64> {
    ///         Ok(t.get(&accounts, name)?.and_then(|b| encode::to_u64(&b)).unwrap_or(0))
    ///     };
    ///     let (from, to) = (balance("alice")?, balance("bob")?);
    ///     if from < 30 {
    ///         return Ok(false);
    ///     }
    ///     t.put(&accounts, "alice", encode::u64(from - 30))?;
    ///     t.put(&accounts, "bob", encode::u64(to + 30))?;
    ///     Ok::<_, terrace::Error>(true)
    /// })?;
    /// assert!(paid);
    /// assert_eq!(accounts.get("bob")?, Some(encode::u64(30).to_vec()));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// For a single counter use [`crate::Map::merge`] or [`crate::Map::update`], which wait for no other thread.
    ///
    /// # Errors
    /// Those of `f`, and of the commit: [`Error::Conflict`] when a hundred attempts were too late,
    /// [`Error::Duplicate`], [`Error::DiskFull`]. Nothing was changed then.
    pub fn transaction<T, E: From<Error>>(
        &self,
        f: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transaction_with(TransactionOptions::new(), f)
    }

    /// [`Database::transaction`] with options.
    ///
    /// # Errors
    /// As [`Database::transaction`].
    pub fn transaction_with<T, E: From<Error>>(
        &self,
        options: TransactionOptions,
        mut f: impl FnMut(&mut Transaction) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (mut attempts, mut transaction) = self.attempts(options);
        loop {
            attempts.begin(&mut transaction);
            let answer = f(&mut transaction);
            match attempts.end(&mut transaction, answer.is_ok())? {
                Attempted::Committed(_) | Attempted::Ended => return answer,
                Attempted::Again => {}
            }
        }
    }

    /// The attempts of a transaction, and the transaction, for who runs it again by itself; see [`Attempts`].
    pub fn attempts(&self, options: TransactionOptions) -> (Attempts, Transaction) {
        (
            Attempts::of(self, &options),
            Transaction::new(self, options),
        )
    }

    /// Reads several things of one instant: `f` may read any structures of this database, and what it
    /// answers is of a state that was there. It takes no locks and writes nothing. It runs again when something
    /// that it has read changes meanwhile, so it is for short reads; for long ones take a snapshot.
    ///
    /// # Errors
    /// Those of `f`; [`Error::Conflict`] when a hundred attempts were too late.
    pub fn read<T, E: From<Error>>(
        &self,
        mut f: impl FnMut(&mut Reader<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        self.transaction(|transaction| f(&mut Reader { transaction }))
    }

    /// Begins a transaction that is committed by hand ([`Transaction::commit`]) and not run again. Who runs it
    /// again by itself takes [`Database::attempts`].
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self, options)
    }
}
