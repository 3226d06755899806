//! The database: opening, closing, and everything that is not about one structure.

use std::path::Path;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::read_only::ReadOnlyDisk;
use terrace_base::{Error, Result};
use terrace_wal::Durability;

use crate::batch::Batch;
use crate::core::Core;
use crate::gentle::Cancel;
use crate::handle::Handle;
use crate::hash::Hash;
use crate::map::Map;
use crate::naming::StructureInfo;
use crate::options::Options;
use crate::progress::Progress;
use crate::spec::{HashOptions, Kind, LsmOptions, MapOptions, TreeOptions};
use crate::stats::{CheckpointInfo, Stats};
use crate::table::{Table, TableOptions};
use crate::tree::Tree;
use crate::verify::VerifyReport;

/// An open database. Clones are the same database; it is closed when the last one, and the last
/// handle of a structure, is dropped, or by [`Database::close`]. Dropped by a panic it makes no last
/// checkpoint; what was acknowledged is in the log.
///
/// Calls block. They may be made from any number of threads, but not in a process that was forked
/// meanwhile: there they are errors (but for [`Database::stats`], which is not to be called there), and
/// handles that are dropped touch nothing.
///
/// ```
/// use terrace::{Database, Durability, Options};
///
/// # fn main() -> terrace::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Database::open(path, Options::new().memory(16 << 20))?;
/// let users = db.tree("users")?;
/// users.put(b"alice", b"1")?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// for entry in users.range(b"a".as_slice()..b"b")? {
///     let (key, value) = entry?;
///     println!("{key:?} {value:?}");
/// }
/// let mut batch = db.batch();
/// batch.put(&users, b"bob", b"2").delete(&users, b"alice");
/// db.write(batch, Durability::Sync)?;
/// println!("{}", db.stats());
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) handle: Arc<Handle>,
}

impl Database {
    /// Opens the database in a directory, and makes both if they are missing and the options allow
    /// it. The directory is locked until the last handle is gone.
    ///
    /// # Errors
    /// [`Error::Locked`] when another process or handle has it; [`Error::MemoryTooSmall`] with what
    /// is needed; [`Error::Corrupt`] for files that are damaged or not Terrace's.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let direct = if options.direct_io {
            DirectIo::Preferred
        } else {
            DirectIo::Off
        };
        // Before anything is made on the disk.
        options.check()?;
        let path = path.as_ref();
        let disk = if options.create {
            FileDisk::open_or_create(path, direct)?
        } else if path.exists() {
            FileDisk::open(path, direct)?
        } else {
            return Err(Error::invalid(format!(
                "there is no directory {}; name the one that holds the database, or allow making it with Options::create(true)",
                path.display()
            )));
        };
        Database::open_on(Arc::new(disk), options)
    }

    /// Opens the database in a directory to be read only: nothing there is written, made or deleted, so
    /// the files may be another user's, and the file system one that takes no writes. Any number of readers
    /// may have it open, in any number of processes, and nobody may write meanwhile; what is read does not
    /// change. Of [`Options`] the memory and direct I/O count. Whatever would write is an error.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # use terrace::{Database, Options};
    /// let options = || Options::new().memory(16 << 20);
    /// let db = Database::open(dir.path(), options())?;
    /// db.tree("users")?.put("alice", "1")?;
    /// db.close()?;
    /// let db = Database::open_read_only(dir.path(), options())?;
    /// let users = db.tree("users")?;
    /// assert_eq!(users.get("alice")?.as_deref(), Some(&b"1"[..]));
    /// assert!(users.put("bob", "1").is_err());
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotClosed`] when the log has to be replayed; [`Error::Locked`] while somebody has it open
    /// for writing; otherwise as [`Database::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        let direct = if options.direct_io {
            DirectIo::Preferred
        } else {
            DirectIo::Off
        };
        options.check()?;
        Database::open_read_only_on(Arc::new(ReadOnlyDisk::open(path, direct)?), options)
    }

    /// The same on any disk, to which nobody may write meanwhile.
    ///
    /// # Errors
    /// As [`Database::open_read_only`].
    pub fn open_read_only_on(disk: Arc<dyn Disk>, options: Options) -> Result<Database> {
        let core = Core::open_read_only(disk, &options)?;
        Ok(Database {
            handle: Arc::new(Handle::of_image(core)),
        })
    }

    /// Opens the database on any disk: one of a test, for example.
    ///
    /// # Errors
    /// As [`Database::open`], without the lock, which is the disk's business.
    pub fn open_on(disk: Arc<dyn Disk>, options: Options) -> Result<Database> {
        #[cfg(feature = "backup")]
        let follow = options.follow.clone();
        let handle = Handle::open(disk.clone(), options)?;
        #[cfg(feature = "control")]
        handle.listen(&*disk)?;
        #[cfg(feature = "backup")]
        if let Some((set, how)) = follow {
            crate::backup::follow_from_opening(&handle.core, &set, how)?;
        }
        Ok(Database {
            handle: Arc::new(handle),
        })
    }

    /// The tree of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn tree(&self, name: &str) -> Result<Tree> {
        self.tree_with(name, TreeOptions::new())
    }

    /// The tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::tree`]; [`Error::Invalid`] when there is one that is not what the options say.
    pub fn tree_with(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Tree, options).map(Tree::new)
    }

    /// A new tree.
    ///
    /// # Errors
    /// [`Error::StructureExists`]; otherwise as [`Database::tree`].
    pub fn create_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.create_map(name, Kind::Tree, options).map(Tree::new)
    }

    /// A tree that is there.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`]; [`Error::Invalid`] when it is not what the options say.
    pub fn open_tree(&self, name: &str, options: TreeOptions) -> Result<Tree> {
        self.found(name, Some(Kind::Tree), options).map(Tree::new)
    }

    /// The hash table of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn hash(&self, name: &str) -> Result<Hash> {
        self.hash_with(name, HashOptions::new())
    }

    /// The hash table of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::hash`]; [`Error::Invalid`] when there is one that is not what the options say.
    pub fn hash_with(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.found_or_made(name, Kind::Hash, options).map(Hash::new)
    }

    /// A new hash table.
    ///
    /// # Errors
    /// [`Error::StructureExists`]; otherwise as [`Database::hash`].
    pub fn create_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.create_map(name, Kind::Hash, options).map(Hash::new)
    }

    /// A hash table that is there.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`]; [`Error::Invalid`] when it is not what the options say.
    pub fn open_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.found(name, Some(Kind::Hash), options).map(Hash::new)
    }

    /// The LSM-tree of this name, made with two tiers if there is none. It does what a tree does, so its
    /// handle is a [`Tree`]. What is written is gathered, and merged into what is there in steps, so that much
    /// less is written to the disk than by a tree that is much larger than the memory; scans read a little
    /// more while much is written. From 40 % of the data in memory on a tree does as well.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let events = db.lsm("events")?;
    /// events.put("2026-03-01 12:00", "began")?;
    /// events.put("2026-03-01 12:05", "ended")?;
    /// assert_eq!(events.prefix("2026-03-01")?.count(), 2);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn lsm(&self, name: &str) -> Result<Tree> {
        self.lsm_with(name, LsmOptions::new())
    }

    /// The LSM-tree of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::lsm`]; [`Error::Invalid`] when there is one that is not what the options say.
    pub fn lsm_with(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.found_or_made(name, Kind::Lsm, options).map(Tree::new)
    }

    /// A new LSM-tree.
    ///
    /// # Errors
    /// [`Error::StructureExists`]; otherwise as [`Database::lsm`].
    pub fn create_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.create_map(name, Kind::Lsm, options).map(Tree::new)
    }

    /// An LSM-tree that is there.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`]; [`Error::Invalid`] when it is not what the options say.
    pub fn open_lsm(&self, name: &str, options: LsmOptions) -> Result<Tree> {
        self.found(name, Some(Kind::Lsm), options).map(Tree::new)
    }

    /// The table of this name, made with two tiers and without indexes if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`Error::Invalid`] when the structure of this
    /// name is of another kind, or a table with an index whose function only the program knows.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.table_with(name, TableOptions::new())
    }

    /// The table of this name, made with its indexes if there is none.
    ///
    /// # Errors
    /// As [`Database::table`]; [`Error::Invalid`] when there is one that is not what the options say,
    /// or has fewer, more or other indexes.
    pub fn table_with(&self, name: &str, options: TableOptions) -> Result<Table> {
        if self.handle.core.find(name)?.is_none() {
            match self.create_table(name, options.clone()) {
                // Another thread was faster.
                Err(Error::StructureExists { .. }) => {}
                made => return made,
            }
        }
        self.open_table(name, options)
    }

    /// A new table with its indexes.
    ///
    /// # Errors
    /// [`Error::StructureExists`]; otherwise as [`Database::table`].
    pub fn create_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let open = self.handle.core.create_table(name, &options)?;
        Ok(Table::new(Map::new(self.clone(), open)))
    }

    /// A table that is there.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`]; [`Error::Invalid`] when it is not what the options say.
    pub fn open_table(&self, name: &str, options: TableOptions) -> Result<Table> {
        let map = self.found(name, Some(Kind::Table), options.map)?;
        self.handle.core.expect_indexes(&map.open, &options)?;
        Ok(Table::new(map))
    }

    /// A structure that is there, of whatever kind.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`].
    pub fn map(&self, name: &str) -> Result<Map> {
        self.found(name, None, MapOptions::new())
    }

    fn found_or_made(&self, name: &str, kind: Kind, options: MapOptions) -> Result<Map> {
        let open = self.handle.core.find(name)?;
        if open.is_none() {
            match self.create_map(name, kind, options) {
                // Another thread was faster.
                Err(Error::StructureExists { .. }) => {}
                made => return made,
            }
        }
        self.found(name, Some(kind), options)
    }

    /// A new structure of some kind.
    ///
    /// # Errors
    /// [`Error::StructureExists`], names that cannot be one, and those of a write.
    pub fn create_map(&self, name: &str, kind: Kind, options: MapOptions) -> Result<Map> {
        let spec = options.spec(kind);
        let open = self.handle.core.create_structure(name, spec)?;
        Ok(Map::new(self.clone(), open))
    }

    fn found(&self, name: &str, kind: Option<Kind>, options: MapOptions) -> Result<Map> {
        let open = self.handle.core.find(name)?;
        let open = open.ok_or_else(|| Error::NoSuchStructure { name: name.into() })?;
        options.check(name, kind, open.spec)?;
        if let Some(compression) = options.said_of_compression() {
            compression.check(open.spec.kind)?;
            self.handle.core.compress(&open, compression)?;
        }
        Ok(Map::new(self.clone(), open))
    }

    /// Drops a structure. Its name is free at once and its handles answer
    /// [`Error::NoSuchStructure`]; its space is given back in the background.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`], and those of a write.
    pub fn drop_structure(&self, name: &str) -> Result<()> {
        self.handle.core.drop_structure(name)
    }

    /// Gives a structure another name. Its handles stay good.
    ///
    /// # Errors
    /// [`Error::NoSuchStructure`], [`Error::StructureExists`], and those of a write.
    pub fn rename_structure(&self, from: &str, to: &str) -> Result<()> {
        self.handle.core.rename_structure(from, to)
    }

    /// What structures there are, by name.
    pub fn structures(&self) -> Vec<StructureInfo> {
        self.handle.core.structures()
    }

    /// An empty batch.
    pub fn batch(&self) -> Batch {
        Batch::new()
    }

    /// Makes all changes of a batch, in their order, or none: whatever crash comes, either all or
    /// none are found afterwards. Other threads may see some of them before others. In a unique index
    /// of a table, two rows may exchange their keys: what counts is what is so after the batch. With `None` it
    /// is as durable as [`Options::durability`] says.
    ///
    /// # Errors
    /// Then nothing was changed, unless it is [`Error::Poisoned`].
    pub fn write(&self, mut batch: Batch, durability: impl Into<Option<Durability>>) -> Result<()> {
        self.handle.core.write_batch(&mut batch, durability.into())
    }

    /// Makes everything durable that was written so far, structures without log excepted.
    ///
    /// # Errors
    /// A failure of the disk, after which the database has to be opened again.
    pub fn sync(&self) -> Result<()> {
        let core = &self.handle.core;
        let _pass = core.passes.enter()?;
        core.log.sync().map_err(|e| core.failed(e))
    }

    /// The number of the last change that was made of structures with log: of a write, a batch, a
    /// transaction, a mark. What was written before it has smaller numbers. A restore can go back to one
    /// (`RestoreTo::Sequence`).
    ///
    /// # Errors
    /// When the database is closed.
    pub fn sequence(&self) -> Result<u64> {
        let core = &self.handle.core;
        let _pass = core.passes.enter()?;
        let next = match core.store.is_image() {
            true => core.store.superblock().next_sequence,
            false => core.log.next_sequence(),
        };
        Ok(next.saturating_sub(1))
    }

    /// Makes a checkpoint: everything written so far is durable in its place, structures without
    /// log included, and the log before it is given up.
    ///
    /// # Errors
    /// [`Error::DiskFull`] when there is no space for it; nothing is lost then.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        let core = &self.handle.core;
        if core.options.foreground {
            // There is no thread that would do it. What does not work now is left to the next time. A round
            // ends; the bound is for those who delete meanwhile.
            let bury = |waited| {
                let _pass = core.passes.enter()?;
                core.tiers.bury(waited)
            };
            let mut more = bury(true);
            for _ in 0..core.store.live_pages() {
                if !matches!(more, Ok(true)) {
                    break;
                }
                more = bury(false);
            }
        }
        core.asked_checkpoint().map(CheckpointInfo::from)
    }

    /// Where the records live: [`Database::stats`] with about how many records each structure has, and
    /// how many of them in which tier, from a sample: usually within a twentieth, of LSM-trees within a
    /// quarter. Reads some dozen pages of each structure, some hundred where they differ much.
    ///
    /// # Errors
    /// When the database is closed, or has to be opened again after a failure. A structure that
    /// cannot be read has no numbers.
    pub fn survey(&self) -> Result<Stats> {
        self.handle.core.survey()
    }

    /// Where the memory goes, what was read and written, what the tiers did, since the opening.
    pub fn stats(&self) -> Stats {
        self.handle.core.stats()
    }

    /// Walks every page and every structure and checks every invariant. Other calls wait until it
    /// is done.
    ///
    /// # Errors
    /// Only when it cannot begin; what it finds is in the report.
    pub fn verify(&self) -> Result<VerifyReport> {
        self.verify_with(|_| ())
    }

    /// [`Database::verify`], telling now and then how far it has come, some hundred times for each of its
    /// two parts ([`crate::Work::Pages`], and [`crate::Work::Rows`] if there are indexes). Nobody else gets on
    /// meanwhile: `progress` must not call this database, but for [`Database::stats`].
    ///
    /// # Errors
    /// As [`Database::verify`].
    pub fn verify_with(&self, mut progress: impl FnMut(Progress)) -> Result<VerifyReport> {
        self.handle.core.verify(&mut progress, &Cancel::new())
    }

    /// Gets back space that is lost: verifies everything, as [`Database::verify`] does, and frees the pages
    /// that belong to nobody. Returns how many there were; the space is free after the next checkpoint.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when something is damaged: then it is not known what belongs to whom, and nothing is
    /// freed. Those of a write.
    pub fn reclaim(&self) -> Result<u64> {
        self.handle.core.reclaim()
    }

    /// Closes the database: waits for calls that are under way, makes a last checkpoint, so that
    /// the next opening has nothing to replay. Later calls through other handles are errors. The
    /// directory stays locked until these are dropped.
    ///
    /// # Errors
    /// Then the last checkpoint could not be made. Everything acknowledged is in the log, and the
    /// next opening finds it there.
    pub fn close(self) -> Result<()> {
        self.handle.close()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("structures", &self.structures())
            .finish_non_exhaustive()
    }
}
