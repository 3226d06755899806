//! Transactions as closures, run again while others are faster.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use terrace_base::Error;

use super::commit::Ended;
use super::open::Transaction;
use super::options::TransactionOptions;
use super::reader::Reader;
use super::turn::TURN_WAIT;
use crate::api::database::Database;

/// Attempts that follow at once.
const AT_ONCE: u32 = 3;
/// The first wait after that, doubled each time, and the longest.
const FIRST_WAIT: Duration = Duration::from_micros(2);
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// From this attempt on a transaction asks the others to wait.
const WITH_TURN: u32 = 16;
impl Database {
    /// Runs a transaction: `f` reads and writes through it, over any structures of this database, and what it
    /// does happens at one instant, as if nobody else were there, or not at all.
    ///
    /// When others have changed meanwhile what it has read, `f` runs again, so it must not do anything
    /// that cannot be done twice. Its error is passed on, and nothing was changed then. A panic in it passes
    /// through, and nothing was changed.
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
    /// For a single counter use [`crate::Map::merge`] or [`crate::Map::update`], which wait for nobody.
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
        let core = &self.handle.core;
        let attempts = options.attempts;
        let mut transaction = Transaction::new(self, options);
        for attempt in 1..=attempts {
            let turn = &core.turn;
            let alone = (attempt >= WITH_TURN).then(|| turn.alone(TURN_WAIT));
            let answer = f(&mut transaction);
            let stands = match (&answer, &transaction.conflict) {
                (_, Some(_)) => false,
                (Ok(_), None) => true,
                // It may be an error of a state that is gone, or that never was.
                (Err(_), None) => {
                    if transaction.reads.has_ranges() {
                        core.store.grace();
                    }
                    match transaction.reads.refresh(core)? {
                        Ok(()) => true,
                        Err(changed) => {
                            transaction.conflict = Some(changed);
                            false
                        }
                    }
                }
            };
            if stands {
                let Ok(answer) = answer else {
                    return answer;
                };
                let shared = alone.is_none().then(|| turn.shared(TURN_WAIT));
                let ended = transaction.commit_once()?;
                drop(shared);
                if let Ended::Committed(_) = ended {
                    return Ok(answer);
                }
            } else {
                transaction.count_conflict();
            }
            drop(alone);
            if attempt == attempts {
                break;
            }
            transaction.reset();
            wait_after(attempt);
        }
        core.transactions.gave_up();
        Err(transaction.conflict_error(attempts).into())
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

    /// Begins a transaction that is committed by hand ([`Transaction::commit`]) and not run again: for bindings
    /// of other languages, and for who has a loop already.
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self, options)
    }
}

impl Transaction {
    /// An attempt ended before its commit.
    fn count_conflict(&mut self) {
        let core = self.db.handle.core.clone();
        let refreshed = std::mem::take(&mut self.reads.refreshed);
        let changed = self.conflict.take().unwrap_or_else(|| self.some());
        core.transactions
            .conflict(self.options.label, changed.names(), refreshed);
        self.conflict = Some(changed);
    }
}

/// Waits a little after an attempt that was too late, by chance, so that those who disturbed each other do
/// not meet again.
fn wait_after(attempt: u32) {
    if attempt < AT_ONCE {
        return;
    }
    let doubled = FIRST_WAIT * (1u32 << (attempt - AT_ONCE).min(9));
    let most = doubled.min(LONGEST_WAIT).as_nanos() as u64;
    let wait = RandomState::new().hash_one(attempt) % most.max(1);
    std::thread::sleep(Duration::from_nanos(wait));
}
