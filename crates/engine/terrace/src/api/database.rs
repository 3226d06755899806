//! The database: everything that is not about one structure, and closing. How one comes to a structure stands
//! beside its handle.

use std::sync::Arc;

use terrace_base::Result;

use crate::api::handle::Handle;
use crate::catalog::change::StructureInfo;
use crate::gentle::Cancel;
use crate::progress::Progress;
use crate::stats::{CheckpointInfo, Stats};
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
    /// Drops a structure. Its name is free at once and its handles answer
    /// [`crate::Error::NoSuchStructure`]; its space is given back in the background.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`], and those of a write.
    pub fn drop_structure(&self, name: &str) -> Result<()> {
        self.handle.core.drop_structure(name)
    }

    /// Gives a structure another name. Its handles stay good.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`], [`crate::Error::StructureExists`], and those of a write.
    pub fn rename_structure(&self, from: &str, to: &str) -> Result<()> {
        self.handle.core.rename_structure(from, to)
    }

    /// What structures there are, by name.
    pub fn structures(&self) -> Vec<StructureInfo> {
        self.handle.core.structures()
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
    /// [`crate::Error::DiskFull`] when there is no space for it; nothing is lost then.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        let core = &self.handle.core;
        if core.options.foreground {
            // There is no thread that would do it. What does not work now is left to the next time. A round
            // ends; the bound is for those who delete meanwhile.
            let purge = |waited| {
                let _pass = core.passes.enter()?;
                core.tiers.purge(waited)
            };
            let mut more = purge(true);
            for _ in 0..core.store.live_pages() {
                if !matches!(more, Ok(true)) {
                    break;
                }
                more = purge(false);
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

    /// Tells figures of the program with those of the database from now on: in [`Stats::program`], in metrics, and
    /// to who watches the database. `figures` is called whenever somebody asks; it must not ask for figures itself,
    /// and should not hold a [`Database`], which would then stay open.
    pub fn show_figures(
        &self,
        figures: impl Fn() -> Vec<crate::ProgramFigure> + Send + Sync + 'static,
    ) {
        self.handle.core.program.show(std::sync::Arc::new(figures));
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

    /// The same, until it is cancelled: then everybody gets on at once.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`], and as [`Database::verify`].
    pub fn verify_until(
        &self,
        cancel: &Cancel,
        mut progress: impl FnMut(Progress),
    ) -> Result<VerifyReport> {
        self.handle.core.verify(&mut progress, cancel)
    }

    /// Gets back space that is lost: verifies everything, as [`Database::verify`] does, and frees the pages
    /// that belong to nobody. Returns how many there were; the space is free after the next checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when something is damaged: then it is not known what belongs to whom, and nothing is
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
