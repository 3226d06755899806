//! What a database is opened with, and how its memory is divided.

use terrace_base::{Error, Result};
use terrace_pages::{PAGE_SIZES, PageStore};
use terrace_wal::{Durability, LOG_SEGMENTS};

use crate::catalog::registry::Registry;
use crate::clock::{Source, TimeSource};
use crate::progress::{Listener, Progress};

/// Memory when nothing else is said: what a small service can spare.
const DEFAULT_MEMORY: u64 = 256 << 20;
/// Smallest bound of the log: below it checkpoints would rewrite the hot tier all the time.
const MIN_DEFAULT_LOG_LIMIT: u64 = 256 << 20;
/// Fewest bytes of log between checkpoints that can be asked for: a few records.
const MIN_LOG_LIMIT: u64 = 64 << 10;
/// Segments that the log up to its limit fills: deleting one at a time keeps its files small.
const SEGMENTS_PER_LIMIT: u64 = 8;
/// Smallest and largest segment of the log chosen here.
const SEGMENT_BYTES: (u64, u64) = (64 << 10, 64 << 20);

/// In which order the hot tier of a table is gone over for rows that can leave it. (Trees and hash
/// tables keep their records in one order only.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[cfg_attr(not(feature = "paper"), allow(dead_code))]
pub enum SweepOrder {
    /// That of the primary keys, which both tiers share: rows that leave together come to few pages
    /// of the cold index.
    #[default]
    Index,
    /// That of the pages on which the rows lie, where that is another
    /// (`MapOptions::hot_heap`): each row that leaves takes a way of its own
    /// into the cold tier. It costs many times the page reads and writes.
    Heap,
}

/// What a database is opened with.
///
/// ```
/// # use terrace::{Durability, Options};
/// let options = Options::new().memory(64 << 20).durability(Durability::Sync);
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until something is opened or made with them"]
pub struct Options {
    pub(crate) memory: u64,
    pub(crate) page_bytes: Option<usize>,
    pub(crate) create: bool,
    pub(crate) direct_io: bool,
    pub(crate) log_limit: Option<u64>,
    pub(crate) log_segment: Option<u64>,
    pub(crate) snapshot_space: Option<u64>,
    pub(crate) archive_lag: Option<u64>,
    pub(crate) keep_changes: u64,
    pub(crate) durability: Durability,
    pub(crate) sweep: SweepOrder,
    #[cfg(feature = "paper")]
    pub(crate) pessimistic: bool,
    #[cfg(feature = "paper")]
    pub(crate) bilsm: Option<crate::paper::BiLsmOptions>,
    pub(crate) replay_listener: Option<Listener>,
    #[cfg_attr(not(feature = "control"), expect(dead_code))]
    pub(crate) control: bool,
    #[cfg(feature = "backup")]
    pub(crate) follow: Option<(std::path::PathBuf, crate::FollowOptions)>,
    pub(crate) foreground: bool,
    pub(crate) seed: Option<u64>,
    pub(crate) clock: Option<Source>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            memory: DEFAULT_MEMORY,
            page_bytes: None,
            create: true,
            direct_io: true,
            log_limit: None,
            log_segment: None,
            snapshot_space: None,
            archive_lag: None,
            keep_changes: 0,
            durability: Durability::Buffered,
            sweep: SweepOrder::Index,
            #[cfg(feature = "paper")]
            pessimistic: false,
            #[cfg(feature = "paper")]
            bilsm: None,
            replay_listener: None,
            control: false,
            #[cfg(feature = "backup")]
            follow: None,
            foreground: false,
            seed: None,
            clock: None,
        }
    }
}

impl Options {
    /// The defaults: 256 MiB of memory, made if missing, direct I/O, buffered durability.
    pub fn new() -> Options {
        Options::default()
    }

    /// Memory for everything that the database keeps, in bytes: pages, tables, log buffers, locks.
    /// Bytes that are handed to you (values, batches not yet written) are yours.
    pub fn memory(mut self, bytes: u64) -> Options {
        self.memory = bytes;
        self
    }

    /// Size of a page in bytes: 4096, 8192, 16384 (the default), 32768 or 65536. Fixed when the
    /// database is made; opening it with another one said is an error.
    pub fn page_size(mut self, bytes: usize) -> Options {
        self.page_bytes = Some(bytes);
        self
    }

    /// Whether to make the database if there is none (the default).
    pub fn create(self, create: bool) -> Options {
        Options { create, ..self }
    }

    /// Whether pages go around the cache of the operating system (the default, where the file
    /// system allows it). Without, that cache takes memory beyond the limit.
    pub fn direct_io(mut self, direct: bool) -> Options {
        self.direct_io = direct;
        self
    }

    /// Bytes of log that an opening after a crash replays at most, about: a checkpoint begins at 13 sixteenths of it, and
    /// where no logged structure has its hot tier in memory alone at the whole of it. A larger limit means fewer
    /// rewrites of hot records and a longer recovery. Default: the larger of 256 MiB and twice the memory.
    pub fn log_limit(mut self, bytes: u64) -> Options {
        self.log_limit = Some(bytes);
        self
    }

    /// Bytes of the disk that snapshots and backups may keep, all together, beside the newest pages. Past it
    /// the oldest is given up; writers never wait for it. Default: as much as the data that it shows, so one
    /// snapshot alone is never given up but on a full disk.
    pub fn snapshot_space(mut self, bytes: u64) -> Options {
        self.snapshot_space = Some(bytes);
        self
    }

    /// Bytes of log that are kept for who follows it ([`crate::Database::follow`], [`crate::Database::changes`]) and is behind. Past it the
    /// log is put aside all the same, and a new point has to be made; writers never wait for it. Default: as
    /// much as [`Options::log_limit`].
    pub fn archive_lag(mut self, bytes: u64) -> Options {
        self.archive_lag = Some(bytes);
        self
    }

    /// Bytes of log that stay behind checkpoints, so that who reads the changes ([`crate::Database::changes`])
    /// can go on where it stopped, after a restart too. On a full disk they are given up. Default: none.
    pub fn keep_changes(mut self, bytes: u64) -> Options {
        self.keep_changes = bytes;
        self
    }

    /// How durable a write is when it returns, unless it says otherwise. Default:
    /// [`Durability::Buffered`].
    pub fn durability(self, durability: Durability) -> Options {
        Options { durability, ..self }
    }

    /// Whether readers take the lock of each record that they look at, as writers do, for comparison: the paper's
    /// pessimistic lock table (section 7.10). Without, they look whether the record has changed meanwhile.
    #[cfg(feature = "paper")]
    pub fn pessimistic_locks(mut self, pessimistic: bool) -> Options {
        self.pessimistic = pessimistic;
        self
    }

    /// In which order rows of tables with two tiers leave the hot one. Default:
    /// [`SweepOrder::Index`]; the other is there for comparison. Nothing in the files depends on it.
    #[cfg(feature = "paper")]
    pub fn sweep(self, sweep: SweepOrder) -> Options {
        Options { sweep, ..self }
    }

    /// How LSM-trees with [`Policy::Paper`](crate::Policy::Paper) promote records; without, by the coin that
    /// trees have. For comparison. Nothing in the files depends on it.
    #[cfg(feature = "paper")]
    pub fn bilsm(mut self, options: crate::paper::BiLsmOptions) -> Options {
        self.bilsm = Some(options);
        self
    }

    /// Tells `listen` how far the replay of the log has come, some hundred times at most and on the
    /// thread that opens the database. Where it ends is known to the length of a log file.
    pub fn replay_progress(mut self, listen: impl Fn(Progress) + Send + Sync + 'static) -> Options {
        self.replay_listener = Some(Listener::new(listen));
        self
    }

    /// Whether a socket in the folder of the database answers other processes of the same user: then
    /// `terrace stat`, `top`, `view`, `checkpoint` and `verify` work while this process has the database open;
    /// see [`crate::control`]. Off by default. It costs a thread that waits, and records are neither read
    /// nor written over it.
    #[cfg(feature = "control")]
    pub fn control(self, control: bool) -> Options {
        Options { control, ..self }
    }

    /// Copies the log to the backup set in this folder from the opening to the close, as
    /// [`Database::follow`](crate::Database::follow) does, which says how; the set is made if it is not there, and
    /// its first point before the opening is done. An opening that cannot do so fails. How far it is, is in
    /// [`Stats::following`](crate::Stats::following). A database that is opened to be read only follows nothing.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let set = dir.path().join("set");
    /// use terrace::{Database, FollowOptions, Options, RestoreOptions, restore};
    ///
    /// let options = Options::new().memory(16 << 20).follow(&set, FollowOptions::new());
    /// let db = Database::open(dir.path().join("db"), options)?;
    /// db.tree("users")?.put("alice", "1")?;
    /// db.close()?;
    ///
    /// let again = dir.path().join("again");
    /// restore(&set, &again, RestoreOptions::new().options(Options::new().memory(16 << 20)))?;
    /// let then = Database::open(&again, Options::new().memory(16 << 20))?;
    /// assert_eq!(then.tree("users")?.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    #[cfg(feature = "backup")]
    pub fn follow(
        mut self,
        set: impl Into<std::path::PathBuf>,
        options: crate::FollowOptions,
    ) -> Options {
        self.follow = Some((set.into(), options));
        self
    }

    /// Runs without background threads: checkpoints only on demand, drops before they return.
    /// Makes the order of all I/O a function of the calls, which is what simulations need.
    #[doc(hidden)]
    pub fn foreground(self, foreground: bool) -> Options {
        Options { foreground, ..self }
    }

    /// Fixes what is otherwise random in the files. Every opening needs another seed.
    #[doc(hidden)]
    pub fn seed(mut self, seed: u64) -> Options {
        self.seed = Some(seed);
        self
    }

    /// Takes the time from here instead of from the system. For tests, and to look as of another time.
    #[doc(hidden)]
    pub fn clock(mut self, clock: std::sync::Arc<dyn TimeSource>) -> Options {
        self.clock = Some(Source(clock));
        self
    }

    /// Length of the files of the log in bytes, at most: a multiple of 4096, from 16 KiB to 1 GiB. They
    /// begin with 128 KiB and double while much is written. Default: an eighth of
    /// [`Options::log_limit`], 64 KiB to 64 MiB.
    pub fn log_segment(mut self, bytes: u64) -> Options {
        self.log_segment = Some(bytes);
        self
    }

    /// Refuses what no database can be opened with.
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(page) = self.page_bytes
            && !PAGE_SIZES.contains(&page)
        {
            return Err(Error::invalid(format!(
                "a page size of {page} bytes is not possible; choose one of {PAGE_SIZES:?}"
            )));
        }
        if let Some(limit) = self.log_limit
            && limit < MIN_LOG_LIMIT
        {
            return Err(Error::invalid(format!(
                "a log limit of {limit} bytes is too small; choose at least {MIN_LOG_LIMIT}"
            )));
        }
        if let Some(bytes) = self.log_segment
            && !(LOG_SEGMENTS.contains(&bytes) && bytes.is_multiple_of(4096))
        {
            let (least, most) = (LOG_SEGMENTS.start(), LOG_SEGMENTS.end());
            return Err(Error::invalid(format!(
                "log files of {bytes} bytes are not possible; choose a multiple of 4096 from {least} to {most}"
            )));
        }
        if self.memory > MOST_MEMORY {
            return Err(Error::invalid(format!(
                "a memory limit of {} bytes is not possible; choose at most {MOST_MEMORY}",
                self.memory
            )));
        }
        Ok(())
    }

    /// The bound of the log in force.
    pub(crate) fn effective_log_limit(&self) -> u64 {
        self.log_limit
            .unwrap_or_else(|| MIN_DEFAULT_LOG_LIMIT.max(self.memory.saturating_mul(2)))
    }

    /// Bytes of log in force that are kept for who follows it.
    pub(crate) fn effective_archive_lag(&self) -> u64 {
        self.archive_lag
            .unwrap_or_else(|| self.effective_log_limit())
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.log_segment.unwrap_or_else(|| {
            let part = self.effective_log_limit() / SEGMENTS_PER_LIMIT;
            part.clamp(SEGMENT_BYTES.0, SEGMENT_BYTES.1)
                .next_multiple_of(4096)
        })
    }
}

/// More memory than this is a slip of the pen: 64 TiB, past every machine.
const MOST_MEMORY: u64 = 1 << 46;

/// What is kept in memory for each structure may take one part in this many: frames that make room for it.
const STRUCTURES_PART: u64 = 3;

/// Bytes of a mebibyte.
const MIB: u64 = 1 << 20;

/// How the memory is divided. The parts add up to the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    /// All of it.
    pub limit: u64,
    /// For the page store: frames, page table, page map, write buffers, copies for a cut.
    pub store: u64,
    /// For the table of record locks.
    pub locks: u64,
    /// For the counters of accesses to cold records.
    pub sketch: u64,
    /// For the buffers of the log.
    pub log: u64,
    /// For iterators, sweeps, the names of structures.
    pub scratch: u64,
}

impl Budget {
    /// Divides `limit`.
    pub fn of(limit: u64) -> Budget {
        // The shares change where a mebibyte begins, so that it is clear where less is left than just
        // before.
        let whole = limit / MIB * MIB;
        // Two keys that share a lock cost each other retries, so a lock for every few records
        // that are in use at once; past a million locks nothing is gained.
        let locks = (whole / 256).clamp(64 << 10, 8 << 20);
        // Three bits for each record of 128 bytes that fits, more than twice over. With much more data
        // than memory that is too little: then it grows, and frames make room for it (see there).
        let sketch = whole / 128;
        // Half of it holds what arrives while the other half is written. Past 4 MiB writes of the
        // operating system do not get faster.
        let log = (whole / 128)
            .clamp(64 << 10, 4 << 20)
            .next_multiple_of(8192);
        let scratch = (whole / 256).clamp(64 << 10, 8 << 20);
        let store = limit.saturating_sub(locks + sketch + log + scratch);
        Budget {
            limit,
            store,
            locks,
            sketch,
            log,
            scratch,
        }
    }

    /// The least limit that leaves `store` bytes to the page store.
    pub fn least_for(store: u64) -> u64 {
        let enough = |limit: u64| Budget::of(limit).store >= store;
        let mut least = store + store / 32 + 32 * MIB;
        loop {
            let surplus = Budget::of(least).store.saturating_sub(store);
            if surplus > 0 {
                // Fewer bytes do not have greater shares.
                least -= surplus;
                continue;
            }
            // Before this mebibyte the shares were smaller: the end of the one before may do, too.
            match (least / MIB * MIB).checked_sub(1) {
                Some(before) if enough(before) => least = before,
                _ => return least,
            }
        }
    }

    /// Refuses one more structure where what is kept in memory for each takes all that they may have.
    pub fn check_structures(&self, registry: &Registry) -> Result<()> {
        let (bytes, count) = (registry.memory_bytes(), registry.len());
        if bytes < self.limit / STRUCTURES_PART {
            return Ok(());
        }
        let each = bytes.div_ceil(count.max(1));
        Err(Error::MemoryTooSmall {
            what: format!(
                "a database with more than {count} structures ({each} bytes for each, in a third of the memory)"
            ),
            given: self.limit,
            needed: (bytes + each) * STRUCTURES_PART + (MIB >> 3),
        })
    }

    /// Translates what the page store says of its part into what the user has to set; what is
    /// translated stays as it is.
    pub fn explain(&self, error: Error) -> Error {
        match error {
            Error::MemoryTooSmall {
                what,
                given,
                needed,
            } if given != self.limit || self.limit == 0 => Error::MemoryTooSmall {
                what,
                given: self.limit,
                needed: Budget::least_for(needed),
            },
            other => other,
        }
    }
}

/// Where the limit went, as of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The limit: what follows adds up to it.
    pub limit: u64,
    /// Pages of hot tiers.
    pub hot_pages: u64,
    /// Inner pages of cold tiers and of structures with one tier.
    pub inner_pages: u64,
    /// Other pages, and frames without one.
    pub cold_pages: u64,
    /// Headers of frames.
    pub frame_headers: u64,
    /// The page table.
    pub page_table: u64,
    /// Where pages lie on disk.
    pub page_map: u64,
    /// Old content kept for the checkpoint in progress.
    pub cut_copies: u64,
    /// Buffers for writing pages.
    pub write_buffers: u64,
    /// Record locks.
    pub locks: u64,
    /// Counters of accesses to cold records.
    pub sketch: u64,
    /// Buffers of the log.
    pub log_buffers: u64,
    /// What is kept for each structure.
    pub structures: u64,
    /// What loaders sort in.
    pub loaders: u64,
    /// What snapshots are read with, and what is known of the places of their pages and of those of backups.
    pub snapshots: u64,
    /// Not in use now: for iterators and sweeps, and for what above may still grow.
    pub unused: u64,
}

/// Bytes of a frame's header, and of what is remembered of the page that left it.
const FRAME_HEADER_BYTES: u64 = 33;

impl MemoryStats {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn of(
        budget: &Budget,
        store: &PageStore,
        locks: u64,
        sketch: u64,
        log_buffers: u64,
        structures: u64,
        loaders: u64,
    ) -> Self {
        let s = store.stats();
        let cold = s
            .frames
            .saturating_sub(s.hot_frames + s.inner_frames + s.lent_frames);
        let mut stats = MemoryStats {
            limit: budget.limit,
            hot_pages: s.hot_frames * s.page_bytes,
            inner_pages: s.inner_frames * s.page_bytes,
            cold_pages: cold * s.page_bytes,
            frame_headers: s.frames * FRAME_HEADER_BYTES,
            page_table: s.table_bytes,
            page_map: s.map_memory_bytes,
            cut_copies: s.undo_bytes,
            write_buffers: s.buffer_bytes,
            locks,
            sketch,
            log_buffers,
            structures,
            loaders,
            snapshots: s.snapshot_bytes,
            unused: 0,
        };
        stats.unused = budget.limit.saturating_sub(stats.used());
        stats
    }

    /// What is in use.
    pub fn used(&self) -> u64 {
        self.hot_pages
            + self.inner_pages
            + self.cold_pages
            + self.frame_headers
            + self.page_table
            + self.page_map
            + self.cut_copies
            + self.write_buffers
            + self.locks
            + self.sketch
            + self.log_buffers
            + self.structures
            + self.loaders
            + self.snapshots
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_and_the_least_limit_is_the_least() {
        for limit in [1 << 20, 3 << 20, 100 << 20, 1 << 30, 1 << 40] {
            let b = Budget::of(limit);
            assert_eq!(b.store + b.locks + b.sketch + b.log + b.scratch, limit);
            let least = Budget::least_for(b.store);
            assert!(least <= limit && Budget::of(least).store >= b.store);
            assert!(Budget::of(least - 1).store < b.store);
        }
    }

    #[test]
    fn an_error_of_the_page_store_is_translated_once() {
        let budget = Budget::of(3 << 20);
        let error = Error::MemoryTooSmall {
            what: "the page table".into(),
            given: budget.store,
            needed: 2 * budget.store,
        };
        let told = |error: &Error| match error {
            Error::MemoryTooSmall { given, needed, .. } => (*given, *needed),
            other => panic!("{other}"),
        };
        let once = budget.explain(error);
        assert_eq!(told(&once), (3 << 20, Budget::least_for(2 * budget.store)));
        let expected = told(&once);
        assert_eq!(told(&budget.explain(once)), expected);
    }

    #[test]
    fn impossible_options_are_refused() {
        Options::new().check().unwrap();
        assert!(Options::new().page_size(5000).check().is_err());
        assert!(Options::new().log_limit(1).check().is_err());
        assert!(Options::new().memory(u64::MAX).check().is_err());
    }

    #[test]
    fn segments_follow_the_limit() {
        assert_eq!(Options::new().segment_bytes(), 64 << 20);
        assert_eq!(Options::new().log_limit(1 << 20).segment_bytes(), 128 << 10);
        assert_eq!(
            Options::new().memory(1 << 30).effective_log_limit(),
            2 << 30
        );
    }
}
