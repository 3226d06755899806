//! Compaction: fewer and fuller pages, and a shorter file, while others go on.
//!
//! Invariant: each step is whole and bounded, so whatever ends it early, a part of it is done and nothing is
//! lost.

use std::time::Instant;

use terrace_access::StoragePlace;
use terrace_base::{Error, Result};
use terrace_tier::Structure;

use crate::core::Core;
use crate::gentle::{Cancel, Pace, Rate};
use crate::progress::{Progress, Teller, Work};

/// How full pages are made if nothing is said: with room for a few records, so that the next ones do not
/// split them all.
const FILL: f64 = 0.95;
/// Less is what pages have anyway.
const LEAST_FILL: f64 = 0.5;
/// Pages that are moved to the front of the file between two checkpoints: one in `MOVED_PART`, and `MOVED_LEAST` at
/// least.
const MOVED_PART: u64 = 4;
const MOVED_LEAST: u64 = 1024;
/// Most cold pages that a step of purging reads (see `terrace_tier`), about.
const BURIED_STEP: u64 = 128;
/// Pages that are moved while no thread can close a table.
const MOVED_STEP: u64 = 64;
/// Times that the end of the file is looked at: each moves a good part of what lies there.
const ROUNDS: usize = 24;
/// After this many in a row that make the file shorter by less than one part in `GAIN_PART` no more follow.
const IDLE_ROUNDS: usize = 5;
const GAIN_PART: u64 = 64;

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

    /// How fast it goes through pages. Unless it goes as fast as it can, the checkpoints that it makes in
    /// between are made as gently as others.
    pub fn rate(self, rate: Rate) -> CompactOptions<'p> {
        CompactOptions { rate, ..self }
    }

    /// What ends it early.
    pub fn cancel(mut self, cancel: &Cancel) -> CompactOptions<'p> {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Who hears how far it has come, some hundred times at most, on the calling thread.
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'p) -> CompactOptions<'p> {
        self.progress = Some(Box::new(progress));
        self
    }

    fn check(&self) -> Result<()> {
        self.rate.check()?;
        match (LEAST_FILL..=1.0).contains(&self.fill) {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "pages cannot be {} full; choose from {LEAST_FILL} to 1",
                self.fill
            ))),
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
    /// Structures with a page that cannot be read: the pages behind it were not brought together.
    #[serde(default)]
    pub unreadable: u64,
    /// How long it took.
    pub seconds: f64,
}

/// A compaction under way.
struct Run {
    fill: f64,
    rate: Rate,
    cancel: Cancel,
    pace: Pace,
    page_bytes: u64,
}

impl Run {
    fn go_on(&self) -> Result<()> {
        match self.cancel.is_cancelled() {
            false => Ok(()),
            true => Err(Error::Cancelled {
                what: "the compaction; a part of it is done, and nothing is lost".into(),
            }),
        }
    }

    /// `bytes` bytes of pages were gone through.
    fn after(&mut self, bytes: u64) {
        self.pace.after(bytes, &mut || ());
    }
}

/// Where bringing pages of a structure together goes on.
enum At {
    /// At the page that covers this position.
    Position(Vec<u8>),
    /// At the page of storage that is listed here.
    Stored(StoragePlace),
}

/// One step of it; where the next one is.
fn step_at(structure: &dyn Structure, at: At, fill: f64) -> Result<Option<At>> {
    match at {
        At::Position(from) => {
            let next = structure.compact_step(&from, fill)?;
            Ok(Some(next.map_or(At::Stored(None), At::Position)))
        }
        At::Stored(mut place) => {
            structure.compact_stored_step(&mut place)?;
            Ok(place.is_some().then_some(At::Stored(place)))
        }
    }
}

/// What rounds of moving pages make of the length of the file.
struct Gains {
    shortest: u64,
    idle: usize,
}

impl Default for Gains {
    fn default() -> Gains {
        Gains {
            shortest: u64::MAX,
            idle: 0,
        }
    }
}

impl Gains {
    /// Whether, with a round behind which the file is so long, too many have gained nothing.
    fn are_over(&mut self, file: u64) -> bool {
        self.idle = match file + file / GAIN_PART < self.shortest {
            true => 0,
            false => self.idle + 1,
        };
        self.shortest = self.shortest.min(file);
        self.idle >= IDLE_ROUNDS
    }
}

impl Core {
    /// See [`crate::Database::compact`].
    pub fn compact(&self, options: CompactOptions<'_>) -> Result<CompactReport> {
        self.compact_all(options).map_err(|e| self.failed(e))
    }

    fn compact_all(&self, mut options: CompactOptions<'_>) -> Result<CompactReport> {
        options.check()?;
        let began = Instant::now();
        let before = self.stats().pages;
        let mut progress = options.progress.take();
        let mut nothing = |_| ();
        let tell: &mut dyn FnMut(Progress) = match &mut progress {
            Some(progress) => &mut **progress,
            None => &mut nothing,
        };
        let page_bytes = self.store().page_bytes() as u64;
        let cancel = options.cancel.unwrap_or_default();
        let mut run = Run {
            fill: options.fill,
            rate: options.rate,
            pace: Pace::new(options.rate, before.live * page_bytes, Some(&cancel)),
            cancel,
            page_bytes,
        };
        self.purge_all(&mut run)?;
        let unreadable =
            self.bring_together(&mut run, Teller::new(tell, Work::Compact, before.live))?;
        let moved = self.shorten(&mut run, tell);
        self.store().end_compacting();
        moved?;
        let after = self.stats().pages;
        Ok(CompactReport {
            pages_before: before.live,
            pages_after: after.live,
            file_bytes_before: before.data_file_bytes,
            file_bytes_after: after.data_file_bytes,
            unreadable,
            seconds: began.elapsed().as_secs_f64(),
        })
    }

    /// All tombstones that wait in hot tiers reach the records below them.
    fn purge_all(&self, run: &mut Run) -> Result<()> {
        self.load_all_saved()?;
        let reads = || self.store().stats().page_reads;
        let mut purge = |waited| {
            let before = reads();
            let more = {
                // For each step: a drop, a verification and closing wait for those that are out.
                let _pass = self.passes().enter()?;
                self.tiers().purge(waited)?
            };
            // Others read, too: no more than a step does is taken for its own.
            let read = reads().saturating_sub(before).clamp(1, BURIED_STEP);
            run.after(read * run.page_bytes);
            run.go_on()?;
            Ok::<bool, Error>(more)
        };
        // A round that is under way has passed some tombstones by, so there may be a second one; the bound is for those
        // who delete meanwhile.
        for _ in 0..2 {
            let mut more = purge(true)?;
            for _ in 0..self.store().live_pages() {
                if !more {
                    break;
                }
                more = purge(false)?;
            }
        }
        Ok(())
    }

    /// Goes through the leaves of each structure in order, and then through the pages of its rows; how many
    /// structures have a page that cannot be read.
    fn bring_together(&self, run: &mut Run, mut teller: Teller<'_>) -> Result<u64> {
        let mut unreadable = 0;
        for open in self.registry().all() {
            // A step of an LSM-tree merges many pages.
            let merged = |page_bytes| {
                let figures = open.structure.merge_figures();
                figures.map_or(0, |f| f.merge_bytes + f.merge_reads * page_bytes)
            };
            let mut next = Some(At::Position(Vec::new()));
            let mut steps = 0;
            while let Some(at) = next {
                run.go_on()?;
                let before = merged(run.page_bytes);
                let pass = self.passes().enter()?;
                if open.is_dropped() {
                    break;
                }
                let step = step_at(&*open.structure, at, run.fill);
                drop(pass);
                next = match step {
                    // It is in the way of its own structure only.
                    Err(e) if e.is_unreadable() => {
                        unreadable += 1;
                        None
                    }
                    step => step?,
                };
                // A list of pages that goes round in circles has no end.
                steps += 1;
                if steps > 2 * self.store().page_numbers() {
                    break;
                }
                teller.one_more();
                let bytes = merged(run.page_bytes).saturating_sub(before);
                run.after(bytes.max(run.page_bytes));
            }
        }
        teller.end();
        Ok(unreadable)
    }

    /// Moves pages from the end of the file to its front, and lets checkpoints cut it.
    fn shorten(&self, run: &mut Run, tell: &mut dyn FnMut(Progress)) -> Result<()> {
        let pages = self.stats().pages;
        let behind = (pages.data_file_bytes / run.page_bytes).saturating_sub(pages.live);
        let mut teller = Teller::new(tell, Work::Move, behind.min(pages.live));
        let (mut file, mut all) = (u64::MAX, 0);
        let mut gains = Gains::default();
        for _ in 0..ROUNDS {
            run.go_on()?;
            self.compacting_checkpoint(run)?;
            let moved = self.move_to_front(run)?;
            all += moved;
            teller.is_at(all);
            let now = self.stats().pages.data_file_bytes;
            // Both superblocks have to name the shorter file before it is cut.
            if moved == 0 && now >= file {
                break;
            }
            file = now;
            // Others write as much as is moved: more rounds would move the same pages again.
            if gains.are_over(now) {
                break;
            }
        }
        self.store().cut_tightly();
        for _ in 0..2 {
            run.go_on()?;
            self.compacting_checkpoint(run)?;
        }
        teller.end();
        Ok(())
    }

    /// A checkpoint as gentle as the rest.
    fn compacting_checkpoint(&self, run: &mut Run) -> Result<()> {
        let report = match run.rate {
            Rate::Fast => self.asked_checkpoint(),
            _ => self.gentle_checkpoint(&|| run.cancel.is_cancelled()),
        }?;
        // Pages that others change meanwhile are written by each, and each costs them copies: so what they write
        // counts as much as what is moved.
        run.after(report.pages * run.page_bytes);
        Ok(())
    }

    /// Has a good part of the pages at the end of the file written further in front; how many.
    fn move_to_front(&self, run: &mut Run) -> Result<u64> {
        let most = (self.store().live_pages() / MOVED_PART).max(MOVED_LEAST);
        let batch = run.pace.batch(run.page_bytes as usize) as u64 / run.page_bytes;
        let (mut moved, mut from) = (0, Some(0));
        while let Some(next) = from.filter(|_| moved < most) {
            run.go_on()?;
            let step = {
                // An operation for each step, as above.
                let _pass = self.passes().enter()?;
                self.store().compact_some(next, batch.min(MOVED_STEP))
            };
            let (some, then) = step?;
            moved += some;
            from = then;
            run.after(some * run.page_bytes);
        }
        Ok(moved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_once_the_file_gets_no_shorter() {
        let rounds = |lengths: &[u64]| {
            let mut gains = Gains::default();
            lengths.iter().take_while(|&&l| !gains.are_over(l)).count()
        };
        // As long as each gains something all are made.
        let falling: Vec<u64> = (0..20).map(|i| 1000 - 40 * i).collect();
        assert_eq!(rounds(&falling), 20);
        // Up and down, or by hardly anything, is no gain.
        assert_eq!(rounds(&[1000; 20]), IDLE_ROUNDS);
        assert_eq!(
            rounds(&[1000, 1005, 995, 1010, 990, 1000, 500]),
            IDLE_ROUNDS
        );
        // A gain begins anew.
        assert_eq!(
            rounds(&[1000, 1000, 1000, 500, 500, 500, 500, 500, 500]),
            3 + IDLE_ROUNDS
        );
    }
}
