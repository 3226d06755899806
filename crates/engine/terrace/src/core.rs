//! What a database is made of, and how a failure of one part stops the others.
//!
//! Invariant: once page store or log has failed so that it is not known what is durable, both refuse
//! to write; once a logged change could not be applied, no caller reads either, until the database is
//! opened again and replay completes what was logged.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};
use terrace_pages::{Cleaner, PageStore};
use terrace_tier::TierContext;
use terrace_wal::{Appended, Durability, Log, Position};

use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::clock::Clock;
use crate::latency::Latencies;
use crate::operations::{OperationGuard, Operations};
use crate::options::{Budget, Options};
use crate::planted::{Fault, planted};
#[cfg(feature = "backup")]
use crate::state::backups::Backups;
use crate::state::checkpoints::Checkpoints;
use crate::state::definitions::Definitions;
use crate::state::demotion::Demotion;
use crate::state::drops::Drops;
use crate::state::expired::Expired;
use crate::state::fairness_lock::FairnessLock;
use crate::state::heads::Heads;
use crate::state::loads::Space;
use crate::state::opening::Opening;
use crate::state::program::Program;
use crate::state::reader::Reader;
use crate::state::rounds::Rounds;
use crate::state::series::Series;
use crate::state::transactions::Figures;
use crate::state::unlogged::Unlogged;

/// The parts of one database. Background threads hold it, handles hold it through
/// [`Handle`](crate::handle::shared::Handle).
pub struct Core {
    opened: Opened,
    /// What loaders take.
    loads: Arc<Space>,
    passes: Arc<Operations>,
    definitions: Definitions,
    checkpoints: Checkpoints,
    drops: Drops,
    /// What collectors of metrics need of structures that come and go.
    series: Series,
    rounds: Rounds,
    /// How long calls take.
    latencies: Latencies,
    /// Figures of the program.
    program: Program,
    #[cfg(feature = "backup")]
    backups: Backups,
    demotion: Demotion,
    /// What became of transactions.
    transactions: Figures,
    turn: Arc<FairnessLock>,
    heads: Heads,
    /// Reads for who waits without a thread.
    reader: Reader,
    /// Whether all that was saved of hot tiers is in them again.
    loaded_saved: AtomicBool,
    /// Whether what has no log is in it for a while.
    unlogged: Unlogged,
}

/// The parts that an opening brings.
pub struct Opened {
    pub options: Options,
    pub budget: Budget,
    pub store: Arc<PageStore>,
    pub tiers: Arc<TierContext>,
    pub log: Log,
    pub registry: Registry,
    /// What time it is for records that expire.
    pub clock: Arc<Clock>,
    /// How it went.
    pub opening: Opening,
    /// The store whose last checkpoint this reads, if the database was opened to be read only.
    #[cfg_attr(not(feature = "backup"), allow(dead_code))]
    pub read_only_of: Option<Arc<PageStore>>,
    /// Kept for its thread only.
    pub _cleaner: Option<Cleaner>,
}

/// One part each, for who works with it: its state is its own.
macro_rules! parts {
    ($($part:ident: $type:ty $(, of $of:ident)?;)*) => {$(
        #[inline]
        pub fn $part(&self) -> &$type {
            &self$(.$of)?.$part
        }
    )*};
}

impl Core {
    parts! {
        options: Options, of opened;
        budget: Budget, of opened;
        store: Arc<PageStore>, of opened;
        tiers: Arc<TierContext>, of opened;
        log: Log, of opened;
        registry: Registry, of opened;
        clock: Arc<Clock>, of opened;
        opening: Opening, of opened;
        loads: Arc<Space>;
        passes: Operations;
        definitions: Definitions;
        checkpoints: Checkpoints;
        drops: Drops;
        series: Series;
        rounds: Rounds;
        latencies: Latencies;
        program: Program;
        demotion: Demotion;
        transactions: Figures;
        turn: Arc<FairnessLock>;
        heads: Heads;
        reader: Reader;
        loaded_saved: AtomicBool;
        unlogged: Unlogged;
    }

    #[cfg(feature = "backup")]
    parts! {
        backups: Backups;
        read_only_of: Option<Arc<PageStore>>, of opened;
    }

    /// Of these parts, on this disk; replay begins at `cut`.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(opened: Opened, disk: Arc<dyn Disk>, cut: Position) -> Result<Core> {
        let passes = Arc::new(Operations::new()?);
        stop_after_panics(&opened.store, &passes);
        Ok(Core {
            loads: Space::new(disk),
            passes,
            definitions: Definitions::default(),
            checkpoints: Checkpoints::new(cut),
            drops: Drops::default(),
            series: Series::default(),
            rounds: Rounds::default(),
            latencies: Latencies::default(),
            program: Program::default(),
            #[cfg(feature = "backup")]
            backups: Backups::default(),
            demotion: Demotion::new(opened.tiers.clone(), !opened.options.foreground),
            transactions: Figures::default(),
            loaded_saved: AtomicBool::new(opened.opening.created),
            unlogged: Unlogged::default(),
            turn: Arc::default(),
            heads: Heads::default(),
            reader: Reader::new(
                opened.store.clone(),
                opened.budget.scratch,
                !opened.options.foreground,
            ),
            opened,
        })
    }

    /// What has expired, and what became of it.
    #[inline]
    pub fn expired(&self) -> &Expired {
        self.registry().expired()
    }

    /// How long the opening took, and whether it goes around the cache of the operating system.
    pub fn note_opening(&mut self, time: Duration, direct_io: Option<bool>) {
        self.opened.opening.seconds = time.as_secs_f64();
        self.opened.opening.direct_io = direct_io;
    }

    /// An operation to work on a structure.
    // Always: passed on by a call it would be copied through memory, for every read.
    #[inline(always)]
    pub fn enter(&self, open: &Open) -> Result<OperationGuard<'_>> {
        let pass = self.passes.enter()?;
        open.check()?;
        Ok(pass)
    }

    /// [`Core::commit`] of a record; `None` is of what has no log otherwise, and waits for as long as all writers do.
    #[inline]
    pub fn commit_as(&self, appended: Appended, durability: Option<Durability>) -> Result<()> {
        match durability {
            Some(durability) => self.commit(appended, durability),
            None => {
                self.checkpoints.slow_down();
                Ok(())
            }
        }
    }

    /// Waits until a record is as durable as asked. The caller holds nothing.
    pub fn commit(&self, appended: Appended, durability: Durability) -> Result<()> {
        self.checkpoints.slow_down();
        let durability = match durability {
            Durability::Sync if planted(Fault::SyncAsBuffered) => Durability::Buffered,
            asked => asked,
        };
        if planted(Fault::LogGivenUpAtStep) {
            self.give_up_log()?;
        }
        self.log()
            .commit(appended, durability)
            .map_err(|e| self.failed(e))
    }

    /// Of [`Fault::LogGivenUpAtStep`]: gives the log up where steps of merging have been made.
    #[cold]
    fn give_up_log(&self) -> Result<()> {
        let all = self.registry().all();
        let mut merged = all.iter().filter_map(|o| o.structure.merge_figures());
        if merged.all(|figures| figures.steps == 0) {
            return Ok(());
        }
        let generation = self.store().superblock().generation;
        self.log().checkpointed(self.log().position(), generation)
    }

    /// Passes an error on; if it says that nothing may be written any more, every part hears it.
    pub fn failed(&self, error: Error) -> Error {
        let error = self.budget().explain(error);
        if let Error::Poisoned { cause } = &error {
            self.log().poison(cause);
            self.store().poison(&error);
        }
        if error.is_disk_full() {
            // Who copies the log is not worth a write that fails.
            self.log().break_holds();
            // Nor does a writer wait for a reader: with that the next checkpoint has slots, and can shorten the log.
            self.store().give_up_oldest_pin("the disk is full");
            self.checkpoints.shorten();
            // It gives up log segments and slots, and one that is being made must not take its time.
            self.store().ask_for_checkpoint();
        }
        error
    }

    /// A result, whose error every part hears.
    #[inline]
    pub fn heard<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|e| self.failed(e))
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
        self.store().check_writable()?;
        match (logged, asked) {
            (true, asked) => Ok(Some(asked.unwrap_or(self.options().durability))),
            (false, Some(Durability::Sync)) => Err(Error::invalid(
                "a structure without log cannot be written with Durability::Sync; call Database::checkpoint to make it durable, or create it with logged(true)",
            )),
            (false, _) => Ok(None),
        }
    }
}

/// A panic halfway through something stops everything: no call begins any more, no checkpoint is made.
fn stop_after_panics(store: &Arc<PageStore>, passes: &Arc<Operations>) {
    // Neither keeps the other alive, so that the memory is given back when the database is closed.
    let of_store = Arc::downgrade(passes);
    store.on_halt(move |error| {
        if let Some(passes) = of_store.upgrade() {
            passes.kill(error);
        }
    });
    let of_passes = Arc::downgrade(store);
    passes.on_panic(move || {
        if let Some(store) = of_passes.upgrade() {
            store.halt("a call");
        }
    });
}
