//! What a database is made of, and how a failure of one part stops the others.
//!
//! Invariant: once page store or log has failed so that nobody knows what is durable, both refuse
//! to write; once a logged change could not be applied, nobody reads either, until the database is
//! opened again and replay completes what was logged.

use std::sync::Arc;

use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};
use terrace_pages::{Cleaner, PageStore};
use terrace_tier::{Demoter, TierContext};
use terrace_wal::{Appended, Durability, Log};

use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::checkpoint::state::Checkpoints;
use crate::clock::Clock;
use crate::drops::queue::Drops;
use crate::expired::counts::Expired;
use crate::expired::pause::Rounds;
use crate::latency::Latencies;
use crate::load::space::Space;
use crate::options::{Budget, Options};
use crate::passes::{Pass, Passes};
use crate::planted::{Fault, planted};
use crate::recover::opening::Opening;
use crate::stats::series::Series;
use crate::transaction::{Figures, Heads, Turn};

/// See the module's text. Background threads hold it, handles hold it through
/// [`crate::api::handle::Handle`].
pub struct Core {
    pub options: Options,
    pub budget: Budget,
    /// What loaders take.
    pub loads: Arc<Space>,
    pub store: Arc<PageStore>,
    pub tiers: Arc<TierContext>,
    pub log: Log,
    pub registry: Registry,
    pub passes: Arc<Passes>,
    /// Held by whoever closes a table to the changes of others; taken before `naming`.
    pub closing: Mutex<()>,
    /// Held by whoever creates, drops or renames; taken before a pass.
    pub naming: Mutex<()>,
    pub checkpoints: Checkpoints,
    pub drops: Drops,
    /// The store whose last checkpoint this reads, if the database was opened to be read only.
    pub read_only_of: Option<Arc<PageStore>>,
    /// What collectors of metrics need of structures that come and go.
    pub series: Mutex<Series>,
    /// What time it is for records that expire.
    pub clock: Arc<Clock>,
    /// What has expired, and what became of it.
    pub expired: Arc<Expired>,
    pub rounds: Rounds,
    /// How long calls take.
    pub latencies: Latencies,
    /// Figures of the program.
    pub program: crate::stats::Program,
    #[cfg(feature = "backup")]
    pub backups: crate::backup::state::Backups,
    /// Absent while the world is stopped, and without background threads.
    pub demoter: Mutex<Option<Demoter>>,
    /// What became of transactions.
    pub transactions: Figures,
    /// See [`crate::transaction::Turn`].
    pub turn: Arc<Turn>,
    /// See [`crate::transaction::Heads`].
    pub heads: Heads,
    /// How the opening went.
    pub opening: Opening,
    /// Kept for its thread only.
    pub _cleaner: Option<Cleaner>,
}

impl Core {
    /// A pass to work on a structure.
    // Always: passed on by a call it would be copied through memory, for every read.
    #[inline(always)]
    pub fn enter(&self, open: &Open) -> Result<Pass<'_>> {
        let pass = self.passes.enter()?;
        open.check()?;
        Ok(pass)
    }

    /// Waits until a record is as durable as asked. The caller holds nothing.
    pub fn commit(&self, appended: Appended, durability: Durability) -> Result<()> {
        let durability = match durability {
            Durability::Sync if planted(Fault::SyncAsBuffered) => Durability::Buffered,
            asked => asked,
        };
        if planted(Fault::LogGivenUpAtStep) {
            self.give_up_log()?;
        }
        self.log
            .commit(appended, durability)
            .map_err(|e| self.failed(e))
    }

    /// Of [`Fault::LogGivenUpAtStep`]: gives the log up where steps of merging have been made.
    #[cold]
    fn give_up_log(&self) -> Result<()> {
        let all = self.registry.all();
        let mut merged = all.iter().filter_map(|o| o.structure.merge_figures());
        if merged.all(|figures| figures.steps == 0) {
            return Ok(());
        }
        let generation = self.store.superblock().generation;
        self.log.checkpointed(self.log.position(), generation)
    }

    /// Passes an error on; if it says that nothing may be written any more, every part hears it.
    pub fn failed(&self, error: Error) -> Error {
        let error = self.budget.explain(error);
        if let Error::Poisoned { cause } = &error {
            self.log.poison(cause);
            self.store.poison(&error);
        }
        if error.is_disk_full() {
            // Who copies the log is not worth a write that fails.
            self.log.break_holds();
            // It gives up log segments and slots, and one that is being made must not take its time.
            self.store.ask_for_checkpoint();
        }
        error
    }

    /// After a change that was logged could not be applied: memory is behind the log.
    #[cold]
    pub fn kill(&self, error: Error) -> Error {
        let cause = match error {
            Error::Poisoned { cause } => cause,
            other => format!("a logged change could not be applied: {other}"),
        };
        let error = Error::Poisoned { cause };
        self.passes.kill(&error);
        self.failed(error)
    }

    /// The durability in force for a write of logged or unlogged structures; `None` when there is
    /// nothing to wait for.
    #[inline(always)]
    pub fn durability(
        &self,
        logged: bool,
        asked: Option<Durability>,
    ) -> Result<Option<Durability>> {
        self.store.check_writable()?;
        match (logged, asked) {
            (true, asked) => Ok(Some(asked.unwrap_or(self.options.durability))),
            (false, Some(Durability::Sync)) => Err(Error::invalid(
                "a structure without log cannot be written with Durability::Sync; call Database::checkpoint to make it durable, or create it with logged(true)",
            )),
            (false, _) => Ok(None),
        }
    }
}
