//! Making a database, and opening one: the last checkpoint, then the log from its cut on.
//!
//! The order of creation is log, store, catalog, first checkpoint; until the store's first
//! superblock is durable the directory counts as empty. The order of opening is store, structures,
//! log, after the superblock has been made durable that was read, which it may not have been; replay goes
//! through the ordinary code of the structures, and nothing that it changes is
//! durable before the log has sealed its tail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use terrace_base::checksum::mix;
use terrace_base::disk::Disk;
use terrace_base::{AlignedBuf, Error, PageId, Result};
use terrace_pages::map::Superblock;
use terrace_pages::{Cleaner, CutInfo, LEARNT_BYTES, PageStore, Presence, StoreOptions};
use terrace_tier::TierContext;
use terrace_wal::{Log, LogOptions, Position, decode_segment};

use crate::catalog::Catalog;
use crate::checkpointer::Checkpoints;
use crate::checkpointer::Speed;
use crate::core::Core;
use crate::drops::Drops;
use crate::load::run_file::remove_leftovers as remove_loads;
use crate::load::space::Space;
use crate::options::{Budget, Options, SweepOrder};
use crate::passes::Passes;
use crate::progress::{Teller, Work};
use crate::registry::Registry;
use crate::replay::{replay, threads_for};

/// How an opening went.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct Opening {
    /// Whether the database was made by it.
    pub created: bool,
    /// Whether pages are read and written around the cache of the operating system; `false` where it was
    /// not to be or the file system refuses it, and then that cache takes memory beyond the limit.
    /// `None` on a disk without such a cache.
    pub direct_io: Option<bool>,
    /// Log records replayed.
    pub replayed_records: u64,
    /// Changes that were in them.
    pub replayed_operations: u64,
    /// Bytes of these records.
    pub replayed_bytes: u64,
    /// Whether the log ended in something that a power cut had left incomplete.
    pub dropped_tail: bool,
    /// How long the replay took.
    pub replay_seconds: f64,
    /// How long all of it took.
    pub seconds: f64,
}

/// First structure number that is given out.
const FIRST_STRUCTURE: u32 = 1;
/// Bytes read of a leftover log segment: its header and the longest block.
const LEFTOVER_BYTES: usize = 4096 + (1 << 20) + 4096;

impl Core {
    /// Opens the database on `disk`, or makes it.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Arc<Core>> {
        let start = Instant::now();
        options.check()?;
        let budget = Budget::of(options.memory);
        let direct_io = disk.goes_around_cache();
        let mut core = match PageStore::presence(&*disk)? {
            Presence::Present => recover(disk, options, budget),
            Presence::Absent if options.create => create(disk, options, budget),
            Presence::Absent => Err(Error::invalid(
                "there is no database here; name another directory, or allow making one with Options::create(true)",
            )),
        }
        .map_err(|e| budget.explain(e))?;
        core.opening.seconds = seconds(start.elapsed());
        core.opening.direct_io = direct_io;
        let core = Arc::new(core);
        if core.opening.created {
            core.checkpoint(Speed::Fast, false)?;
        }
        core.resume_drops();
        Ok(core)
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

fn store_options(options: &Options, budget: &Budget) -> StoreOptions {
    let mut store = StoreOptions::new(budget.store);
    if let Some(page_bytes) = options.page_bytes {
        store.page_bytes = page_bytes;
    }
    store
}

fn log_options(options: &Options, budget: &Budget) -> LogOptions {
    LogOptions {
        segment_bytes: options.segment_bytes(),
        buffer_bytes: budget.log as usize,
        seed: options.seed,
        ..LogOptions::default()
    }
}

fn tier_context(store: &Arc<PageStore>, options: &Options, budget: &Budget) -> Arc<TierContext> {
    let tiers =
        TierContext::with_sketch(store.clone(), budget.locks as usize, budget.sketch as usize);
    if let Some(seed) = options.seed {
        tiers.seed(seed);
    }
    tiers.sweep_stored(options.sweep == SweepOrder::Heap);
    tiers
}

/// A number that no two databases share.
fn identity(options: &Options) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    options.seed.map_or_else(
        || RandomState::new().hash_one(std::process::id()),
        |seed| mix(seed, 0x0DA7_ABA5E),
    )
}

fn create(disk: Arc<dyn Disk>, options: Options, budget: Budget) -> Result<Core> {
    let log_options = log_options(&options, &budget);
    remove_leftovers(&*disk, &log_options.prefix)?;
    remove_loads(&*disk)?;
    let log = Log::create(disk.clone(), log_options, 0)?;
    let cut = log.position();
    let info = CutInfo {
        log_position: cut.encode(),
        learnt: [0; LEARNT_BYTES],
        next_structure: FIRST_STRUCTURE,
        next_sequence: cut.sequence,
        catalog_root: PageId::NONE,
        clean: false,
    };
    let store = PageStore::create(
        disk.clone(),
        store_options(&options, &budget),
        identity(&options),
        &info,
    )?;
    let (store, cleaner) = start(store, &options)?;
    let tiers = tier_context(&store, &options, &budget);
    let catalog = Catalog::create(&store)?;
    let registry = Registry::open(tiers.clone(), catalog, FIRST_STRUCTURE)?;
    let opening = Opening {
        created: true,
        ..Opening::default()
    };
    Ok(assemble(
        options, budget, disk, store, tiers, log, registry, cut, opening, cleaner,
    ))
}

fn recover(disk: Arc<dyn Disk>, options: Options, budget: Budget) -> Result<Core> {
    let superblock = PageStore::read_superblock(&*disk)?.newest;
    check_page_size(&options, &superblock)?;
    let cut = Position::decode(&superblock.log_position)
        .ok_or_else(|| Error::corrupt("data", None, "the superblock names no place in the log"))?;
    let store = PageStore::open(disk.clone(), store_options(&options, &budget))?;
    let log_options = log_options(&options, &budget);
    if !Log::has_noted(&*disk, &log_options, superblock.generation) {
        // From here on the log forgets what lies before it.
        store.confirm()?;
    }
    let (store, cleaner) = start(store, &options)?;
    let tiers = tier_context(&store, &options, &budget);
    tiers.recall(&superblock.learnt);
    // A crash may have come between the making of the store and its first checkpoint.
    let catalog = match superblock.catalog_root {
        PageId::NONE => Catalog::create(&store)?,
        root => Catalog::open(&store, root),
    };
    let registry = Registry::open(tiers.clone(), catalog, superblock.next_structure)?;
    // With a full hot tier replay has to demote; the thread does it beside.
    let demoter = if options.foreground {
        None
    } else {
        Some(tiers.start_demoter()?)
    };
    let start = Instant::now();
    let threads = if options.foreground {
        1
    } else {
        threads_for(options.memory)
    };
    store.open_reserve(true);
    let mut tell = options
        .replay_listener
        .as_ref()
        .map(|listener| |progress| listener.hear(progress));
    let is_heard = tell.is_some();
    let mut untold = tell.as_mut();
    let mut teller: Option<Teller<'_>> = None;
    let mut seen = |done, total| {
        if let Some(tell) = untold.take() {
            teller = Some(Teller::new(tell, Work::Replay, total));
        }
        if let Some(teller) = &mut teller {
            teller.is_at(done);
        }
    };
    let seen = is_heard.then_some(&mut seen as &mut dyn FnMut(u64, u64));
    let ((log, report), operations) = replay(&registry, threads, |replay| {
        let mut apply = |sequence, payload: &[u8]| replay.record(sequence, payload);
        let generation = superblock.generation;
        Log::recover_with(disk.clone(), log_options, cut, generation, &mut apply, seen)
    })?;
    if let Some(teller) = teller {
        teller.end();
    }
    registry.settle()?;
    store.open_reserve(false);
    // The log has agreed that this is the last checkpoint.
    store.remove_leftovers()?;
    remove_loads(&*disk)?;
    let opening = Opening {
        created: false,
        direct_io: None,
        replayed_records: report.records,
        replayed_operations: operations,
        replayed_bytes: report.record_bytes,
        dropped_tail: report.dropped_tail,
        replay_seconds: seconds(start.elapsed()),
        seconds: 0.0,
    };
    drop(demoter);
    Ok(assemble(
        options, budget, disk, store, tiers, log, registry, cut, opening, cleaner,
    ))
}

fn check_page_size(options: &Options, superblock: &Superblock) -> Result<()> {
    match options.page_bytes {
        Some(wanted) if wanted != superblock.page_bytes as usize => Err(Error::invalid(format!(
            "the database has pages of {} bytes, and {wanted} were asked for; the page size is fixed when a database is made, so leave it out",
            superblock.page_bytes
        ))),
        _ => Ok(()),
    }
}

fn start(store: PageStore, options: &Options) -> Result<(Arc<PageStore>, Option<Cleaner>)> {
    let store = Arc::new(store);
    let cleaner = if options.foreground {
        None
    } else {
        Some(Cleaner::start(store.clone())?)
    };
    Ok((store, cleaner))
}

#[allow(clippy::too_many_arguments)]
fn assemble(
    options: Options,
    budget: Budget,
    disk: Arc<dyn Disk>,
    store: Arc<PageStore>,
    tiers: Arc<TierContext>,
    log: Log,
    registry: Registry,
    cut: Position,
    opening: Opening,
    cleaner: Option<Cleaner>,
) -> Core {
    Core {
        options,
        budget,
        loads: Space::new(disk),
        store,
        tiers,
        log,
        registry,
        passes: Passes::new(),
        closing: Mutex::new(()),
        naming: Mutex::new(()),
        checkpoints: Checkpoints::new(cut),
        drops: Drops::default(),
        demoter: Mutex::new(None),
        opening,
        _cleaner: cleaner,
    }
}

/// Removes the log of a creation that was cut off. A log with anything in it is somebody's data.
fn remove_leftovers(disk: &dyn Disk, prefix: &str) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the directory", e))?;
    let is_segment = |name: &&String| {
        let digits = name.strip_prefix(prefix);
        digits.is_some_and(|d| d.len() == 8 && d.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    for name in names.iter().filter(is_segment) {
        let file = disk
            .open_buffered(name)
            .map_err(|e| Error::io("opening", name, e))?;
        let len = file.len().map_err(|e| Error::io("measuring", name, e))?;
        let mut bytes = AlignedBuf::zeroed(LEFTOVER_BYTES);
        let part = (len as usize).min(LEFTOVER_BYTES);
        file.read_at(&mut bytes[..part], 0)
            .map_err(|e| Error::io("reading", name, e))?;
        if let Some(segment) = decode_segment(&bytes[..part])
            && (segment.generation > 0 || segment.number > 1 || !segment.blocks.is_empty())
        {
            return Err(Error::corrupt(
                "data",
                None,
                format!("the file is missing or empty, but {name} holds the log of a database"),
            ));
        }
    }
    for name in names.iter().filter(is_segment) {
        disk.delete(name)
            .map_err(|e| Error::io("deleting", name, e))?;
    }
    Ok(())
}
