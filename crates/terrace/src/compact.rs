//! Compaction: fewer and fuller pages, and a shorter file, while others go on.
//!
//! Invariant: each step is whole and bounded, so whatever ends it early, a part of it is done and nothing is
//! lost.

use std::time::Instant;

use terrace_base::{Error, Result};

use crate::core::Core;
use crate::database::Database;
use crate::gentle::{Cancel, Pace, Rate};
use crate::progress::{Progress, Teller, Work};

/// How full pages are made if nothing is said: with room for a few records, so that the next ones do not
/// split them all.
const FILL: f64 = 0.95;
/// Less is what pages have anyway.
const LEAST_FILL: f64 = 0.5;
/// Pages that are moved to the front of the file between two checkpoints: a part in so many, and so many at
/// least.
const MOVED_PART: u64 = 4;
const MOVED_LEAST: u64 = 1024;
/// Pages that are moved while nobody can close a table.
const MOVED_STEP: u64 = 64;
/// Times that the end of the file is looked at: each moves a good part of what lies there.
const ROUNDS: usize = 24;

/// How a database is compacted.
#[must_use = "options do nothing until something is compacted with them"]
pub struct CompactOptions<'p> {
    fill: f64,
    rate: Rate,
    cancel: Option<Cancel>,
    progress: Option<Box<dyn FnMut(Progress) + 'p>>,
}

impl Default for CompactOptions<'_> {
    fn default() -> Self {
        CompactOptions {
            fill: FILL,
            rate: Rate::Gentle,
            cancel: None,
            progress: None,
        }
    }
}

impl<'p> CompactOptions<'p> {
    /// The defaults: pages 95 % full, and so slowly that others hardly notice.
    pub fn new() -> CompactOptions<'p> {
        CompactOptions::default()
    }

    /// How full pages are to be, from 0.5 to 1.
    pub fn fill(self, fill: f64) -> CompactOptions<'p> {
        CompactOptions { fill, ..self }
    }

    /// How fast it goes.
    pub fn rate(self, rate: Rate) -> CompactOptions<'p> {
        CompactOptions { rate, ..self }
    }

    /// What ends it early.
    pub fn cancel(self, cancel: &Cancel) -> CompactOptions<'p> {
        CompactOptions {
            cancel: Some(cancel.clone()),
            ..self
        }
    }

    /// Who hears how far it has come, some hundred times at most, on the calling thread.
    pub fn progress(self, progress: impl FnMut(Progress) + 'p) -> CompactOptions<'p> {
        CompactOptions {
            progress: Some(Box::new(progress)),
            ..self
        }
    }

    fn check(&self) -> Result<()> {
        match (LEAST_FILL..=1.0).contains(&self.fill) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "pages cannot be {} full; choose from {LEAST_FILL} to 1",
                self.fill
            ))),
        }
    }

    fn go_on(&self) -> Result<()> {
        match &self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err(Error::Cancelled {
                what: "the compaction; a part of it is done, and nothing is lost".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// What a compaction came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CompactReport {
    /// Pages that there were.
    pub pages_before: u64,
    /// Pages that there are.
    pub pages_after: u64,
    /// Bytes that the data file had.
    pub file_bytes_before: u64,
    /// Bytes that it has.
    pub file_bytes_after: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Core {
    /// See [`Database::compact`].
    pub fn compact(&self, mut options: CompactOptions<'_>) -> Result<CompactReport> {
        options.check()?;
        let began = Instant::now();
        let before = self.stats().pages;
        let mut progress = options.progress.take();
        let mut nothing = |_| ();
        let tell: &mut dyn FnMut(Progress) = match &mut progress {
            Some(progress) => &mut **progress,
            None => &mut nothing,
        };
        let page = self.store.page_bytes() as u64;
        let mut teller = Teller::new(tell, Work::Compact, before.live);
        let mut pace = Pace::new(options.rate, before.live * page);
        self.bury_all(&options)?;
        self.bring_together(&options, &mut teller, &mut pace)?;
        let moved = self.shorten(&options);
        self.store.end_compacting();
        moved?;
        teller.end();
        let after = self.stats().pages;
        Ok(CompactReport {
            pages_before: before.live,
            pages_after: after.live,
            file_bytes_before: before.data_file_bytes,
            file_bytes_after: after.data_file_bytes,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// Tombstones that wait in hot tiers reach the records below them.
    fn bury_all(&self, options: &CompactOptions<'_>) -> Result<()> {
        // A pass for each step: a drop, a verification and closing wait for those that are out.
        let bury = |waited| {
            let _pass = self.passes.enter()?;
            self.tiers.bury(waited)
        };
        let mut more = bury(true)?;
        // The bound is for those who delete meanwhile.
        for _ in 0..self.store.live_pages() {
            if !more {
                break;
            }
            options.go_on()?;
            more = bury(false)?;
        }
        Ok(())
    }

    /// Goes through the leaves of each structure in order.
    fn bring_together(
        &self,
        options: &CompactOptions<'_>,
        teller: &mut Teller<'_>,
        pace: &mut Pace,
    ) -> Result<()> {
        let page = self.store.page_bytes() as u64;
        for open in self.registry.all() {
            let mut next = Some(Vec::new());
            while let Some(from) = next {
                options.go_on()?;
                let pass = self.passes.enter()?;
                if open.is_dropped() {
                    break;
                }
                let step = open.structure.compact_step(&from, options.fill);
                drop(pass);
                // A page that cannot be read is in the way of its own structure only.
                next = match step {
                    Err(e) if e.is_unreadable() => None,
                    step => step.map_err(|e| self.failed(e))?,
                };
                teller.one_more();
                pace.after(page);
            }
        }
        Ok(())
    }

    /// Moves pages from the end of the file to its front, and lets checkpoints cut it.
    fn shorten(&self, options: &CompactOptions<'_>) -> Result<()> {
        let mut file = u64::MAX;
        for _ in 0..ROUNDS {
            options.go_on()?;
            self.asked_checkpoint()?;
            let moved = self.move_to_front(options)?;
            let now = self.stats().pages.data_file_bytes;
            // Both superblocks have to name the shorter file before it is cut.
            if moved == 0 && now >= file {
                break;
            }
            file = now;
        }
        self.store.cut_tightly();
        for _ in 0..2 {
            self.asked_checkpoint()?;
        }
        Ok(())
    }

    /// Has a good part of the pages at the end of the file written further in front; how many.
    fn move_to_front(&self, options: &CompactOptions<'_>) -> Result<u64> {
        let most = (self.store.live_pages() / MOVED_PART).max(MOVED_LEAST);
        let (mut moved, mut from) = (0, Some(0));
        while let Some(next) = from.filter(|_| moved < most) {
            options.go_on()?;
            // A pass for each step, as above.
            let _pass = self.passes.enter()?;
            let step = self.store.compact_some(next, MOVED_STEP);
            let (some, then) = step.map_err(|e| self.failed(e))?;
            moved += some;
            from = then;
        }
        Ok(moved)
    }
}

impl Database {
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
    /// [`Error::Cancelled`], [`Error::DiskFull`], and those of the disk. A part of it is done then, and
    /// nothing is lost.
    pub fn compact(&self, options: CompactOptions<'_>) -> Result<CompactReport> {
        self.handle.core.compact(options)
    }
}
