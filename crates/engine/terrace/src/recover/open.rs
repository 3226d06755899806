//! Making a database, and opening one: the last checkpoint, then the log from its cut on.
//!
//! The order of creation is log, store, catalog, first checkpoint; until the store's first
//! superblock is durable the directory counts as empty. The order of opening is store, structures,
//! log, after the superblock has been made durable that was read, which it may not have been; replay goes
//! through the ordinary code of the structures, and nothing that it changes is
//! durable before the log has sealed its tail.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::checksum::mix;
use terrace_base::disk::Disk;
use terrace_base::{AlignedBuf, Error, PageId, Result};
use terrace_pages::map::Superblock;
use terrace_pages::{
    CheckpointMeta, Cleaner, HOT_IN_MEMORY, LEARNT_BYTES, NEWEST_VERSION, PageStore, PinnedImage,
    Presence, SavedPart, StoreOptions,
};
use terrace_tier::TierContext;
use terrace_wal::{Log, LogOptions, Position, decode_segment};

use crate::catalog::entries::Catalog;
use crate::catalog::registry::Registry;
use crate::clock::{Clock, Source, TIME_AT};
use crate::core::{Core, Opened};
use crate::options::{Budget, Options, SweepOrder};
use crate::planted::hot_is_in_memory;
use crate::progress::{Teller, Work};
use crate::recover::nothing::Nothing;
use crate::recover::replay::{Replay, replay, threads_for};
use crate::state::checkpoints::Speed;
use crate::state::expired::Expired;
use crate::state::loads::remove_leftovers as remove_loads;
use crate::state::opening::Opening;
use crate::warm::note_brought_over;

/// Gives further records to replay, in order.
pub type Behind<'b> = &'b mut dyn FnMut(&mut Replay<'_>) -> Result<()>;

/// First structure number that is given out.
const FIRST_STRUCTURE: u32 = 1;
/// Bytes of what a snapshot has beside its pages: locks, of which readers take none, counters, a log that
/// takes no records.
const IMAGE_PART_BYTES: u64 = 16 << 10;
/// Bytes read of a leftover log segment: its header and the longest block.
const LEFTOVER_BYTES: usize = 4096 + (1 << 20) + 4096;

impl Core {
    /// Opens the database on `disk`, or makes it.
    ///
    /// What `behind` gives is replayed behind the log, before any caller sees the database.
    pub fn open_with(
        disk: Arc<dyn Disk>,
        options: Options,
        behind: Option<Behind<'_>>,
    ) -> Result<Arc<Core>> {
        let start = Instant::now();
        options.check()?;
        let budget = Budget::of(options.memory);
        let direct_io = disk.goes_around_cache();
        #[cfg(feature = "backup")]
        let folder = disk.folder().map(std::path::Path::to_owned);
        let mut core = match PageStore::presence(&*disk)? {
            Presence::Present => recover(disk, options, budget, behind),
            Presence::Absent if options.create => create(disk, options, budget),
            Presence::Absent => Err(Error::invalid(
                "there is no database here; name another directory, or allow making one with Options::create(true)",
            )),
        }
        .map_err(|e| budget.explain(e))?;
        core.note_opening(start.elapsed(), direct_io);
        #[cfg(feature = "backup")]
        if let Some(folder) = folder {
            core.backups().folders().are_of(&folder);
        }
        let core = Arc::new(core);
        if core.opening().created {
            core.checkpoint(Speed::Fast, false)?;
        }
        core.resume_drops();
        Ok(core)
    }

    /// Opens a pinned image, to be read only: there is no log, and no thread.
    pub fn open_image(pin: PinnedImage, options: &Options) -> Result<Arc<Core>> {
        let superblock = pin.superblock().clone();
        // What had expired then, and nothing else, is gone.
        let clock = match time_of_cut(&superblock) {
            0 => running_clock(options, 0),
            time => Clock::fixed(time),
        };
        Core::over_image(
            PageStore::open_image(pin)?,
            None,
            &superblock,
            options,
            clock,
        )
    }

    /// Opens the last checkpoint of a database that no process writes to, to be read only.
    ///
    /// # Errors
    /// When there is none, or its log has to be replayed; those of opening.
    pub fn open_read_only(disk: Arc<dyn Disk>, options: &Options) -> Result<Arc<Core>> {
        options.check()?;
        let budget = Budget::of(options.memory);
        if PageStore::presence(&*disk)? == Presence::Absent {
            return Err(Error::invalid(
                "there is no database here; name another directory",
            ));
        }
        let superblock = PageStore::read_superblock(&*disk)?.newest;
        check_page_size(options, &superblock)?;
        let log_options = log_options(options, &budget);
        let (cut, generation) = (cut_of(&superblock)?, superblock.generation);
        // Where the checkpoint rests on the log there is something to replay, whatever is left of it.
        if superblock.catalog_root == PageId::NONE
            || cut.sequence < superblock.next_sequence
            || Log::has_records(&*disk, &log_options, cut, generation)?
        {
            return Err(Error::NotClosed);
        }
        let direct_io = disk.goes_around_cache();
        #[cfg(feature = "backup")]
        let folder = disk.folder().map(std::path::Path::to_owned);
        let (store, main) = PageStore::open_read_only(disk, store_options(options, &budget))
            .map_err(|e| budget.explain(e))?;
        let clock = running_clock(options, time_of_cut(&superblock));
        let mut core = Core::over_image(store, Some(main), &superblock, options, clock)?;
        if let Some(core) = Arc::get_mut(&mut core) {
            #[cfg(feature = "backup")]
            if let Some(folder) = &folder {
                core.backups().folders().are_of(folder);
            }
            core.note_opening(Duration::ZERO, direct_io);
        }
        Ok(core)
    }

    fn over_image(
        store: PageStore,
        read_only_of: Option<Arc<PageStore>>,
        superblock: &Superblock,
        options: &Options,
        clock: Clock,
    ) -> Result<Arc<Core>> {
        let clock = Arc::new(clock);
        let store = Arc::new(store);
        let options = Options {
            foreground: true,
            replay_listener: None,
            ..options.clone()
        };
        let disk: Arc<dyn Disk> = Arc::new(Nothing);
        let log_options = LogOptions {
            segment_bytes: IMAGE_PART_BYTES,
            first_segment_bytes: IMAGE_PART_BYTES,
            buffer_bytes: IMAGE_PART_BYTES as usize,
            ..LogOptions::default()
        };
        let log = Log::create(disk.clone(), log_options, 0)?;
        let cut = log.position();
        log.close()?;
        let part = IMAGE_PART_BYTES as usize;
        let tiers = TierContext::with_sketch(store.clone(), part, part);
        let catalog = Catalog::open(&store, superblock.catalog_root);
        let registry = Registry::open(
            tiers.clone(),
            catalog,
            superblock.next_structure,
            Expired::new(clock.clone()),
        )?;
        // In memory only: what is unfinished is not found, and nothing is taken apart.
        registry.settle()?;
        let budget = Budget::of(options.memory);
        if !store.is_of_another() {
            budget.check_structures(&registry)?;
            store.make_room_for_extra()?;
        }
        let beside = (log.memory_bytes() + tiers.memory_bytes()) as u64;
        store.count_image_bytes(beside + registry.memory_bytes());
        Core::new(
            Opened {
                options,
                budget,
                store,
                tiers,
                log,
                registry,
                clock,
                opening: Opening::default(),
                _cleaner: None,
                read_only_of,
            },
            disk,
            cut,
        )
        .map(Arc::new)
    }
}

/// The time that a checkpoint was made with, of a database that keeps it; otherwise 0.
fn time_of_cut(superblock: &Superblock) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&superblock.learnt[TIME_AT]);
    u64::from_le_bytes(bytes)
}

fn running_clock(options: &Options, floor: u64) -> Clock {
    let source = options.clock.clone().unwrap_or_else(Source::system);
    Clock::running(source, floor)
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

/// Length of the first file of the log: a database of one record is small. They grow from there.
const FIRST_SEGMENT_BYTES: u64 = 128 << 10;
/// Shortest files of the log for which the data file leaves the space when it grows: on a full disk a checkpoint gives back
/// a whole one only where the log has gone on to the next. Another is for what the map needs beside.
const SEGMENTS_LEFT: u64 = 2;

fn log_options(options: &Options, budget: &Budget) -> LogOptions {
    LogOptions {
        segment_bytes: options.segment_bytes(),
        first_segment_bytes: FIRST_SEGMENT_BYTES,
        retained_bytes: options.keep_changes,
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
    #[cfg(feature = "paper")]
    tiers.lock_for_reads(options.pessimistic);
    #[cfg(feature = "paper")]
    if let Some(bilsm) = options.bilsm {
        tiers.set_bilsm(bilsm);
    }
    tiers
}

/// Makes the log of a database whose pages come from elsewhere; where its records will begin.
#[cfg(feature = "backup")]
pub fn new_log(disk: Arc<dyn Disk>, options: &Options) -> Result<Position> {
    let log = Log::create(disk, log_options(options, &Budget::of(options.memory)), 0)?;
    let cut = log.position();
    log.close()?;
    Ok(cut)
}

/// A number that no two databases share.
pub fn identity(options: &Options) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    options.seed.map_or_else(
        || RandomState::new().hash_one(std::process::id()),
        |seed| mix(seed, 0x0DA7_ABA5E),
    )
}

fn create(disk: Arc<dyn Disk>, options: Options, budget: Budget) -> Result<Core> {
    let log_options = log_options(&options, &budget);
    let least_segment = log_options.least_segment_bytes();
    remove_leftovers(&*disk, &log_options.prefix)?;
    remove_loads(&*disk)?;
    let log = Log::create(disk.clone(), log_options, 0)?;
    let cut = log.position();
    let info = CheckpointMeta {
        log_position: cut.encode(),
        learnt: [0; LEARNT_BYTES],
        next_structure: FIRST_STRUCTURE,
        next_sequence: cut.sequence,
        unlogged_from: cut.sequence,
        catalog_root: PageId::NONE,
        clean: false,
    };
    let store = PageStore::create(
        disk.clone(),
        store_options(&options, &budget),
        identity(&options),
        &info,
    )?;
    let (store, cleaner) = start(store, &options, least_segment)?;
    let tiers = tier_context(&store, &options, &budget);
    let catalog = Catalog::create(&store)?;
    if hot_is_in_memory() {
        store.raise_format(HOT_IN_MEMORY);
    }
    let clock = Arc::new(running_clock(&options, 0));
    let registry = Registry::open(
        tiers.clone(),
        catalog,
        FIRST_STRUCTURE,
        Expired::new(clock.clone()),
    )?;
    let opening = Opening {
        created: true,
        ..Opening::default()
    };
    Core::new(
        Opened {
            options,
            budget,
            store,
            tiers,
            log,
            registry,
            clock,
            opening,
            _cleaner: cleaner,
            read_only_of: None,
        },
        disk,
        cut,
    )
}

fn recover(
    disk: Arc<dyn Disk>,
    options: Options,
    budget: Budget,
    behind: Option<Behind<'_>>,
) -> Result<Core> {
    #[cfg(feature = "backup")]
    let is_restored = behind.is_some();
    let superblock = PageStore::read_superblock(&*disk)?.newest;
    check_page_size(&options, &superblock)?;
    let cut = cut_of(&superblock)?;
    let store = PageStore::open(disk.clone(), store_options(&options, &budget))?;
    let log_options = log_options(&options, &budget);
    let least_segment = log_options.least_segment_bytes();
    if !Log::has_noted(&*disk, &log_options, superblock.generation) {
        // From here on the log forgets what lies before it.
        store.confirm()?;
    }
    let (store, cleaner) = start(store, &options, least_segment)?;
    let tiers = tier_context(&store, &options, &budget);
    tiers.recall(&superblock.learnt);
    // A crash may have come between the making of the store and its first checkpoint.
    let catalog = match superblock.catalog_root {
        PageId::NONE => Catalog::create(&store)?,
        root => Catalog::open(&store, root),
    };
    let clock = Arc::new(running_clock(&options, time_of_cut(&superblock)));
    let registry = Registry::open(
        tiers.clone(),
        catalog,
        superblock.next_structure,
        Expired::new(clock.clone()),
    )?;
    budget.check_structures(&registry)?;
    store.make_room_for_extra()?;
    let version = match hot_is_in_memory() {
        true => store.format_version(),
        false => NEWEST_VERSION,
    };
    if version < NEWEST_VERSION {
        let brought_over = registry.bring_over(version)?;
        if brought_over && !options.foreground {
            note_brought_over(&*disk, superblock.database, options.memory, &registry);
        }
    }
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
    let behind_cut = superblock.next_sequence;
    let replayed = told(&options, |seen| {
        let before_cut = (cut.sequence, superblock.unlogged_from, behind_cut);
        replay(&registry, threads, before_cut, |replay| {
            // It comes above when somebody asks for it, and by and by.
            let slots = registry.saved_slots()?;
            store.add_fresh(slots);
            store.has_saved(SavedPart::All, store.saving_mark(), slots);
            replay.is_of_version(version);
            replay.doubt_marks(clock.believed_at_once());
            let mut apply = |sequence, payload: &[u8]| replay.record(sequence, payload);
            let generation = superblock.generation;
            let log =
                Log::recover_with(disk.clone(), log_options, cut, generation, &mut apply, seen)?;
            if log.0.next_sequence() < behind_cut {
                let what = "it ends before the last checkpoint, which rests on it";
                return Err(Error::corrupt("log", None, what));
            }
            if let Some(behind) = behind {
                behind(replay)?;
            }
            clock.not_before(replay.marked());
            Ok(log)
        })
    });
    let ((log, report), operations) = replayed?;
    registry.settle()?;
    store.open_reserve(false);
    // The log has agreed that this is the last checkpoint.
    store.remove_leftovers()?;
    remove_loads(&*disk)?;
    #[cfg(feature = "backup")]
    if !is_restored {
        crate::backup_set::place::forget_mark(&*disk);
    }
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
    Core::new(
        Opened {
            options,
            budget,
            store,
            tiers,
            log,
            registry,
            clock,
            opening,
            _cleaner: cleaner,
            read_only_of: None,
        },
        disk,
        cut,
    )
}

/// Replays, and tells the listener of the options how far it has come.
fn told<T>(
    options: &Options,
    replay: impl FnOnce(Option<&mut dyn FnMut(u64, u64)>) -> Result<T>,
) -> Result<T> {
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
    let replayed = replay(is_heard.then_some(&mut seen as &mut dyn FnMut(u64, u64)))?;
    if let Some(teller) = teller {
        teller.end();
    }
    Ok(replayed)
}

fn cut_of(superblock: &Superblock) -> Result<Position> {
    Position::decode(&superblock.log_position)
        .ok_or_else(|| Error::corrupt("data", None, "the superblock names no place in the log"))
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

fn start(
    store: PageStore,
    options: &Options,
    least_segment: u64,
) -> Result<(Arc<PageStore>, Option<Cleaner>)> {
    store.leave_free(SEGMENTS_LEFT * least_segment);
    if let Some(space) = options.snapshot_space {
        store.limit_pins((space / store.page_bytes() as u64).max(1));
    }
    let store = Arc::new(store);
    let cleaner = if options.foreground {
        None
    } else {
        Some(Cleaner::start(store.clone())?)
    };
    Ok((store, cleaner))
}

/// Removes the log of a creation that was cut off. A log with anything in it is a user's data.
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
