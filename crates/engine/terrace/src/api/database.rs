//! The database: everything that is not about one structure, and closing. How one comes to a structure stands
//! beside its handle.

use std::time::SystemTime;

use terrace_base::Result;

use crate::catalog::info::StructureInfo;
use crate::compact::{CompactOptions, CompactReport};
use crate::gentle::Cancel;
use crate::handle::database::Database;
use crate::millis::time_of;
use crate::progress::Progress;
use crate::stats::{CheckpointInfo, Stats};
use crate::verify::VerifyReport;

impl Database {
    /// Drops a structure. Its name is free at once and its handles answer
    /// [`crate::Error::NoSuchStructure`]; its space is given back in the background.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`], and those of a write.
    pub fn drop_structure(&self, name: &str) -> Result<()> {
        self.core().drop_structure(name)
    }

    /// Gives a structure another name. Its handles stay good.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`], [`crate::Error::StructureExists`], and those of a write.
    pub fn rename_structure(&self, from: &str, to: &str) -> Result<()> {
        self.core().rename_structure(from, to)
    }

    /// What structures there are, by name.
    pub fn structures(&self) -> Vec<StructureInfo> {
        self.core().structures()
    }

    /// Makes everything durable that was written so far, structures without log excepted.
    ///
    /// # Errors
    /// A failure of the disk, after which the database has to be opened again.
    pub fn sync(&self) -> Result<()> {
        let core = self.core();
        let _pass = core.passes().enter()?;
        core.log().sync().map_err(|e| core.failed(e))
    }

    /// The number of the last change that was made of structures with log: of a write, a batch, a
    /// transaction, a mark. What was written before it has smaller numbers. A restore can go back to one
    /// (`RestoreTo::Sequence`).
    ///
    /// # Errors
    /// When the database is closed.
    pub fn sequence(&self) -> Result<u64> {
        let core = self.core();
        let _pass = core.passes().enter()?;
        let next = match core.store().is_image() {
            true => core.store().superblock().next_sequence,
            false => core.log().next_sequence(),
        };
        Ok(next.saturating_sub(1))
    }

    /// Makes a checkpoint: everything written so far is durable in its place, structures without
    /// log included, and the log before it is given up.
    ///
    /// # Errors
    /// [`crate::Error::DiskFull`] when there is no space for it; nothing is lost then.
    pub fn checkpoint(&self) -> Result<CheckpointInfo> {
        let core = self.core();
        core.purging_checkpoint().map(CheckpointInfo::from)
    }

    /// Where the records live: [`Database::stats`] with about how many records each structure has, and
    /// how many of them in which tier, from a sample: usually within a twentieth, of LSM-trees within a
    /// quarter. Reads some dozen pages of each structure, some hundred where they differ much.
    ///
    /// # Errors
    /// When the database is closed, or has to be opened again after a failure. A structure that
    /// cannot be read has no numbers.
    pub fn survey(&self) -> Result<Stats> {
        self.core().survey()
    }

    /// Where the memory goes, what was read and written, what the tiers did, since the opening.
    pub fn stats(&self) -> Stats {
        self.core().stats()
    }

    /// Tells figures of the program with those of the database from now on: in [`Stats::program`], in metrics, and
    /// to who watches the database. `figures` is called whenever figures are asked for; it must not ask for figures
    /// itself, and should not hold a [`Database`], which would then stay open.
    pub fn show_figures(
        &self,
        figures: impl Fn() -> Vec<crate::ProgramFigure> + Send + Sync + 'static,
    ) {
        self.handle
            .core()
            .program()
            .show(std::sync::Arc::new(figures));
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
    /// two parts ([`crate::Work::Pages`], and [`crate::Work::Rows`] if there are indexes). No other call gets on
    /// meanwhile: `progress` must not call this database, but for [`Database::stats`].
    ///
    /// # Errors
    /// As [`Database::verify`].
    pub fn verify_with(&self, mut progress: impl FnMut(Progress)) -> Result<VerifyReport> {
        self.core().verify(&mut progress, &Cancel::new())
    }

    /// The same, until it is cancelled: then all other calls get on at once.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`], and as [`Database::verify`].
    pub fn verify_until(
        &self,
        cancel: &Cancel,
        mut progress: impl FnMut(Progress),
    ) -> Result<VerifyReport> {
        self.core().verify(&mut progress, cancel)
    }

    /// Gets back space that is lost: verifies everything, as [`Database::verify`] does, and frees the pages
    /// to which nothing points. Returns how many there were; the space is free after the next checkpoint.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] when something is damaged: then it is not known what belongs to whom, and nothing is
    /// freed. Those of a write.
    pub fn reclaim(&self) -> Result<u64> {
        self.core().reclaim()
    }

    /// Makes pages full and the file short, while others go on: tombstones reach the records that they
    /// are for, records of neighbouring pages are brought together, pages at the end of the file are moved
    /// to its front, and the file is cut. It reads and writes a good part of the database, so it is for
    /// when much was deleted, or when a load is over and reads are to come.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use terrace::{CompactOptions, Rate};
    /// let report = db.compact(CompactOptions::new().rate(Rate::Fast))?;
    /// assert!(report.pages_after <= report.pages_before);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`], [`crate::Error::DiskFull`], and those of the disk. A part of it is done then, and
    /// nothing is lost.
    pub fn compact(&self, options: CompactOptions<'_>) -> Result<CompactReport> {
        self.core().compact(options)
    }

    /// Drops all that has expired, in all structures, as fast as it goes; returns how many records that were. It
    /// goes by itself, too, where it is worth it: this is for who wants the space now. O(records).
    ///
    /// # Errors
    /// Those of a write.
    pub fn drop_expired(&self) -> Result<u64> {
        self.core().expire_everything()
    }

    /// What time it is for records that expire. Who says in how long one expires counts from here.
    #[doc(hidden)]
    pub fn time(&self) -> SystemTime {
        time_of(self.core().clock().now())
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
