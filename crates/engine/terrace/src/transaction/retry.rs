//! Transactions that run again while others are faster: by a closure, or by who has a loop of its own.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use terrace_base::Result;

use super::commit::Ended;
use super::open::Transaction;
use super::options::{Committed, TransactionOptions};
use crate::handle::database::Database;
use crate::latency::Call;
use crate::state::fairness_lock::most_of;

/// Attempts that follow at once.
const AT_ONCE: u32 = 3;
/// The first wait after that, doubled each time, and the longest.
const FIRST_WAIT: Duration = Duration::from_micros(2);
const LONGEST_WAIT: Duration = Duration::from_millis(1);
/// After this many attempts a transaction takes the fairness lock: writers of what it reads wait for it.
const BEFORE_TURN: u32 = 8;

/// The attempts of a transaction, for who runs it again in a loop of its own, as bindings of other languages do:
/// it gets the fairness lock as a closure does.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
/// use terrace::{Attempted, TransactionOptions};
/// let counts = db.tree("counts")?;
/// let (mut attempts, mut t) = db.attempts(TransactionOptions::new());
/// let committed = loop {
///     attempts.begin(&mut t);
///     let n = t.get(&counts, "n")?.map_or(0, |n| n[0]);
///     t.put(&counts, "n", [n + 1])?;
///     match attempts.end(&mut t, true)? {
///         Attempted::Committed(committed) => break committed,
///         Attempted::Again => {}
///         Attempted::Ended => unreachable!("it was to be committed"),
///     }
/// };
/// assert!(committed.sequence.is_some());
/// # Ok::<(), terrace::Error>(())
/// ```
#[must_use = "attempts do nothing until one begins"]
pub struct Attempts {
    db: Database,
    attempts: u32,
    /// How many have begun.
    begun: u32,
    since: Instant,
    /// When the first one has begun.
    first: Instant,
    longest: Duration,
}

/// How an attempt of a transaction has ended; see [`Attempts::end`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempted {
    /// All of it has happened.
    Committed(Committed),
    /// It was not to be committed, and what it has read was so: nothing has happened.
    Ended,
    /// Others were faster. Nothing has happened; the next attempt is due.
    Again,
}

impl std::fmt::Debug for Attempts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempts")
            .field("begun", &self.begun)
            .field("of", &self.attempts)
            .finish_non_exhaustive()
    }
}

impl Attempts {
    pub(crate) fn of(db: &Database, options: &TransactionOptions) -> Attempts {
        let now = Instant::now();
        Attempts {
            db: db.clone(),
            attempts: options.attempts,
            begun: 0,
            since: now,
            first: now,
            longest: Duration::ZERO,
        }
    }

    /// Begins the next attempt. After eight it waits until the transaction has the fairness lock, for two seconds at
    /// most.
    pub fn begin(&mut self, transaction: &mut Transaction) {
        if self.begun > 0 {
            transaction.reset();
            wait_after(self.begun);
        }
        self.begun += 1;
        if self.begun > BEFORE_TURN {
            let core = self.db.core().clone();
            transaction.take_turn(&core, most_of(self.longest));
        }
        self.since = Instant::now();
        if self.begun == 1 {
            self.first = self.since;
        }
    }

    /// Ends an attempt: commits it, or does not where its code has failed. It may have failed by what it has read
    /// and is not so any more; then it is to run again, too.
    ///
    /// # Errors
    /// [`crate::Error::Conflict`] after the last attempt, and those of [`Transaction::commit`].
    pub fn end(&mut self, transaction: &mut Transaction, commit: bool) -> Result<Attempted> {
        let ended = self.try_to_end(transaction, commit);
        if let Ok(Attempted::Committed(_)) = ended {
            let latencies = self.db.core().latencies();
            latencies.took(Call::Transaction, self.first.elapsed());
        }
        if !matches!(ended, Ok(Attempted::Again)) {
            transaction.let_go();
            return ended;
        }
        self.longest = self.longest.max(self.since.elapsed());
        transaction.let_go();
        if self.begun < self.attempts {
            return ended;
        }
        self.db.core().transactions().gave_up();
        Err(transaction.conflict_error(self.begun))
    }

    fn try_to_end(&self, transaction: &mut Transaction, commit: bool) -> Result<Attempted> {
        if transaction.conflict.is_none() && !commit {
            // It may be an error of a state that is gone.
            match transaction.reads.refresh(self.db.core())? {
                Ok(()) => return Ok(Attempted::Ended),
                Err(changed) => transaction.conflict = Some(changed),
            }
        }
        if transaction.conflict.is_some() {
            transaction.count_conflict();
            return Ok(Attempted::Again);
        }
        Ok(match transaction.commit_once()? {
            Ended::Committed(committed) => Attempted::Committed(committed),
            Ended::Conflict => Attempted::Again,
        })
    }
}

impl Transaction {
    /// An attempt ended before its commit.
    fn count_conflict(&mut self) {
        let core = self.db.core().clone();
        let refreshed = std::mem::take(&mut self.reads.refreshed);
        let changed = self.conflict.take().unwrap_or_else(|| self.some());
        core.transactions()
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
