//! Figures of a database: where the records live, where the memory goes, what was read and written.

use terrace_access::{LevelFigures, MergeFigures};
use terrace_base::Result;
use terrace_pages::CheckpointReport;
use terrace_tier::TierStats;

use crate::catalog::info::StructureInfo;
use crate::catalog::opened::IndexState;
use crate::catalog::opened::Open;
use crate::core::Core;
use crate::histogram::Summary;
use crate::latency::CallStats;
use crate::options::MemoryStats;
use crate::progress::{Progress, Work};
use crate::state::expired::ExpiryStats;
use crate::state::opening::Opening;
use crate::state::program::ProgramFigure;
use crate::state::series::{COUNTS, Counts};
use crate::state::transactions::TransactionStats;
use crate::stats::left::PagesLeft;

/// A snapshot of a database's figures; counts are since it was opened. Prints as a table.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Stats {
    /// The structures.
    pub structures: Vec<StructureStats>,
    /// The counts of all that were dropped since the opening, as far as figures had been asked for before; as
    /// those of one structure, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<Box<StructureStats>>,
    /// Where the memory goes.
    pub memory: MemoryStats,
    /// Pages and the files that hold them.
    pub pages: PageStats,
    /// The log.
    pub log: LogFigures,
    /// Checkpoints.
    pub checkpoints: CheckpointStats,
    /// What became of transactions.
    pub transactions: TransactionStats,
    /// How long calls took, by their kind; of quick ones some are timed ([`crate::Call::one_in`]).
    #[serde(default)]
    pub calls: Vec<CallStats>,
    /// Records that had expired.
    #[serde(default)]
    pub expiry: ExpiryStats,
    /// Dropped structures whose pages could not be given back so far.
    pub drops: DropStats,
    /// Files of loaders: what they sort and have no memory for.
    pub loaders: LoaderStats,
    /// How the opening went.
    pub opening: Opening,
    /// Figures of the program that has the database open ([`crate::Database::show_figures`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub program: Vec<ProgramFigure>,
    /// Who follows the log to backup sets now.
    #[cfg(feature = "backup")]
    #[serde(default)]
    pub following: Vec<crate::FollowStatus>,
    /// The last backup that was made since the opening.
    #[cfg(feature = "backup")]
    #[serde(default)]
    pub last_backup: Option<crate::BackupReport>,
}

/// Files of loaders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct LoaderStats {
    /// Their length now.
    pub file_bytes: u64,
    /// What was written to such files.
    pub bytes_written: u64,
}

/// Figures of one structure.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct StructureStats {
    /// What it is.
    #[serde(flatten)]
    pub info: StructureInfo,
    /// Its place among all structures and indexes, from 0: the lowest that was free when it was seen first. It
    /// keeps it.
    #[serde(default)]
    pub series: u32,
    /// About how many records it has; only in what [`crate::Database::survey`] gives, and none where
    /// pages could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub records: Option<u64>,
    /// About how many of them the hot tier holds; as `records`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_records: Option<u64>,
    /// About how many the cold tier (or the only one) holds; as `records`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cold_records: Option<u64>,
    /// Reads answered by the hot tier.
    pub hot_hits: u64,
    /// Reads answered by the cold (or only) tier.
    pub cold_hits: u64,
    /// Reads that found nothing.
    pub misses: u64,
    /// Records written and deleted, by single calls, batches, transactions and loaders, and by the replay when
    /// it was opened; one that had to begin anew may count twice.
    #[serde(default)]
    pub writes: u64,
    /// Share of the reads that the hot tier answered; `None` before the first.
    pub hot_hit_rate: Option<f64>,
    /// Records copied to the hot tier after a read.
    pub promotions: u64,
    /// Records that left the hot tier by sweep and demotion.
    pub demotions: u64,
    /// Records that made room for another in their hot leaf.
    pub replacements: u64,
    /// Changed records written to the cold tier.
    pub cleaned: u64,
    /// Hot leaves freed by packing.
    pub packed_leaves: u64,
    /// Hot leaves that the ageing has looked at.
    pub swept_leaves: u64,
    /// Sum of their fills when it did, in thousandths: the mean fill over any stretch of time is the
    /// difference of these over the difference of the leaves.
    pub swept_fill_thousandths: u64,
    /// Mean fill of the hot leaves that the sweep has seen, 0 to 1; `None` before the first.
    pub hot_fill: Option<f64>,
    /// About how much of it has expired and takes space still, 0 to 1, when that was last looked at: each minute,
    /// and by a survey. `None` where records do not expire.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired_ratio: Option<f64>,
    /// What merging has come to, of an LSM-tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lsm: Option<LsmStats>,
    /// The figures of the indexes of a table, each a tree of its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_index: Vec<StructureStats>,
}

/// What merging has come to in an LSM-tree since it was opened, and what is in it.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct LsmStats {
    /// Leaves of the top, which takes all changes (that come from the hot tier, where there is one).
    pub top_leaves: u64,
    /// Most leaves that it is to have.
    pub top_bound: u64,
    /// Steps: ranges of records that were merged further down.
    pub steps: u64,
    /// Bytes of pages that steps have made.
    pub merge_bytes: u64,
    /// Pages that steps have read from disk.
    pub merge_reads: u64,
    /// Bytes of keys and values that came to the top.
    #[serde(default)]
    pub arrived_bytes: u64,
    /// Bytes of keys and values that users wrote. What is written again while it is hot comes to the top once.
    pub user_bytes: u64,
    /// `merge_bytes` over `user_bytes`; `None` before the first.
    pub merge_bytes_per_user_byte: Option<f64>,
    /// Changes that had to make a step first, or wait for one.
    pub step_waits: u64,
    /// Most steps that one of them has waited for.
    pub step_waits_max: u64,
    /// Bytes of filters, about.
    pub filter_bytes: u64,
    /// The levels, from the uppermost to the last one.
    pub levels: Vec<LevelStats>,
}

/// A level of an LSM-tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct LevelStats {
    /// Its pages.
    pub data_pages: u64,
    /// Bytes of records in them, as they are without compression.
    pub bytes: u64,
    /// Bytes of the pages themselves: fewer where they are compressed.
    pub page_bytes: u64,
    /// Records, marks of deletions among them.
    pub records: u64,
    /// Marks of deletions.
    pub tombstones: u64,
}

impl From<MergeFigures> for LsmStats {
    fn from(f: MergeFigures) -> LsmStats {
        let level = |level: &LevelFigures| LevelStats {
            data_pages: level.pages,
            bytes: level.bytes,
            page_bytes: level.pages * f.page_bytes,
            records: level.records,
            tombstones: level.tombstones,
        };
        LsmStats {
            top_leaves: f.top_leaves,
            top_bound: f.top_bound,
            steps: f.steps,
            merge_bytes: f.merge_bytes,
            merge_reads: f.merge_reads,
            arrived_bytes: f.arrived_bytes,
            user_bytes: f.user_bytes,
            merge_bytes_per_user_byte: ratio(f.merge_bytes, f.user_bytes),
            step_waits: f.waits,
            step_waits_max: f.most_waits,
            filter_bytes: f.filter_bytes,
            levels: f.levels.iter().rev().map(level).collect(),
        }
    }
}

/// Figures of pages and files.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct PageStats {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages read from disk.
    pub reads: u64,
    /// Of them those that were read to let records go from hot tiers.
    #[serde(default)]
    pub demotion_reads: u64,
    /// Those that looking what is used has read, and closing pages up.
    #[serde(default)]
    pub ageing_reads: u64,
    /// Those that merging LSM-trees has read.
    #[serde(default)]
    pub merging_reads: u64,
    /// Those for who goes through pages in order: ranges, large values.
    #[serde(default)]
    pub order_reads: u64,
    /// Pages written, checkpoints included.
    pub writes: u64,
    /// Pages evicted from memory.
    pub evictions: u64,
    /// Of them pages of records that are not hot.
    #[serde(default)]
    pub left: PagesLeft,
    /// Writes of pages that had changed meanwhile.
    pub discarded_writes: u64,
    /// Times a thread had to wait for a free frame.
    pub waits_for_frames: u64,
    /// Times a writer had to wait for a checkpoint in progress.
    pub waits_for_cut: u64,
    /// Pages that exist.
    pub live: u64,
    /// Pages of hot tiers in memory.
    pub hot: u64,
    /// Most that hot tiers may have.
    pub hot_cap: u64,
    /// Pages in memory that differ from disk; one that a checkpoint has still to write counts twice if it
    /// has changed since its cut.
    pub dirty: u64,
    /// Pages on the disk that only snapshots and backups in progress still have.
    pub kept: u64,
    /// Bytes of the data file.
    pub data_file_bytes: u64,
    /// Bytes written to the files that say where pages lie.
    pub map_bytes_written: u64,
}

/// Figures of the log.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct LogFigures {
    /// Records appended.
    pub records: u64,
    /// Their bytes: keys, values and what says what they are.
    pub record_bytes: u64,
    /// Bytes that the log has grown by.
    pub bytes: u64,
    /// Write calls.
    pub writes: u64,
    /// Syncs for commits.
    pub syncs: u64,
    /// Commits that these served.
    pub sync_commits: u64,
    /// Bytes of its files.
    pub file_bytes: u64,
    /// Bytes that a recovery would have to read now.
    pub bytes_since_checkpoint: u64,
    /// Bytes at which a checkpoint begins.
    pub limit: u64,
}

/// How a checkpoint went.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Its number.
    pub generation: u64,
    /// Pages written for it.
    pub pages: u64,
    /// Of them those of hot tiers.
    pub hot_pages: u64,
    /// Until no thread was changing pages, in seconds.
    pub drain_seconds: f64,
    /// For how long no thread could change pages, in seconds.
    pub closed_seconds: f64,
    /// The whole of it, in seconds.
    pub seconds: f64,
}

impl From<CheckpointReport> for CheckpointInfo {
    fn from(report: CheckpointReport) -> CheckpointInfo {
        CheckpointInfo {
            generation: report.generation,
            pages: report.pages,
            hot_pages: report.hot_pages,
            drain_seconds: report.drained.as_secs_f64(),
            closed_seconds: report.closed.as_secs_f64(),
            seconds: report.total.as_secs_f64(),
        }
    }
}

/// Figures of checkpoints.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CheckpointStats {
    /// Completed.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
    /// Why the last attempt failed, if it did.
    pub last_error: Option<String>,
    /// How the last one went.
    pub last: Option<CheckpointInfo>,
    /// How far the one that is being made has come, about; its last part, files that say where pages lie and
    /// waiting for the device, is not counted.
    pub running: Option<Progress>,
    /// Pages written by all of them.
    pub pages: u64,
    /// Of them those of hot tiers.
    pub hot_pages: u64,
    /// Bytes of hot pages that checkpoints wrote for each byte logged: what keeping records hot
    /// costs in rewriting them. A larger log limit lowers it. `None` before the first record.
    pub hot_rewrite_factor: Option<f64>,
    /// How long they took until no thread was changing pages.
    pub gate_drained: Summary,
    /// How long no thread could change pages.
    pub gate_closed: Summary,
    /// The same as counts: a duration in nanoseconds, and how many closings took at most that and
    /// longer than the one before.
    pub gate_closed_buckets: Vec<(u64, u64)>,
    /// The same of `gate_drained`.
    #[serde(default)]
    pub gate_drained_buckets: Vec<(u64, u64)>,
    /// The same of `total`.
    #[serde(default)]
    pub total_buckets: Vec<(u64, u64)>,
    /// How long they took as a whole.
    pub total: Summary,
}

/// Dropped structures whose pages could not be given back so far. They are tried again, also after
/// the next opening; `verify` says which these are.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct DropStats {
    /// How many there are.
    pub stuck: u64,
    /// Why the last one that was tried failed.
    pub last_error: Option<String>,
}

/// A share, unless there was nothing.
fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl StructureStats {
    fn of(open: &Open) -> StructureStats {
        let s: TierStats = open.structure.stats();
        let indexes = open.table.as_ref().map(|table| table.snapshot());
        StructureStats {
            info: StructureInfo::of(open),
            series: 0,
            by_index: indexes.map_or_else(Vec::new, |indexes| {
                let stats = |index: &IndexState| StructureStats::of(&index.open);
                indexes.iter().map(stats).collect()
            }),
            lsm: open.structure.merge_figures().map(LsmStats::from),
            records: None,
            hot_records: None,
            cold_records: None,
            hot_hits: s.hot_hits,
            cold_hits: s.cold_hits,
            misses: s.misses,
            writes: s.writes,
            hot_hit_rate: ratio(s.hot_hits, s.hot_hits + s.cold_hits + s.misses),
            promotions: s.promotions,
            demotions: s.demotions,
            replacements: s.replacements,
            cleaned: s.cleaned,
            packed_leaves: s.packed_leaves,
            swept_leaves: s.swept_leaves,
            swept_fill_thousandths: s.swept_fill_thousandths,
            hot_fill: ratio(s.swept_fill_thousandths, s.swept_leaves * 1000),
            expired_ratio: open.spec.expiring.then(|| open.expired_share()),
        }
    }

    /// Estimates how many records it has, and its indexes. A damaged structure is no reason to say nothing of the
    /// others.
    fn look_into(&mut self, open: &Open) {
        let found = open.structure.estimate().ok();
        // An LSM-tree knows its levels once it has been looked into.
        self.lsm = open.structure.merge_figures().map(LsmStats::from);
        self.records = found.map(|found| found.records);
        if open.spec.expiring {
            let living = 1.0 - open.expired_share();
            let living = |records: u64| (records as f64 * living).round() as u64;
            self.records = self.records.map(living);
        }
        self.hot_records = found.map(|found| found.hot);
        self.cold_records = found.map(|found| found.cold);
        let indexes = open.table.as_ref().map(|table| table.snapshot());
        for index in indexes.iter().flat_map(|indexes| indexes.iter()) {
            let mut all = self.by_index.iter_mut();
            if let Some(one) = all.find(|one| one.info.id == index.open.id().0) {
                one.look_into(&index.open);
            }
        }
    }

    /// What it has come to.
    fn counts(&self) -> Counts {
        let lsm = self.lsm.as_ref();
        let of_lsm = |count: fn(&LsmStats) -> u64| lsm.map_or(0, count);
        [
            self.hot_hits,
            self.cold_hits,
            self.misses,
            self.writes,
            self.promotions,
            self.demotions,
            self.replacements,
            self.cleaned,
            self.packed_leaves,
            self.swept_leaves,
            self.swept_fill_thousandths,
            of_lsm(|lsm| lsm.steps),
            of_lsm(|lsm| lsm.merge_bytes),
            of_lsm(|lsm| lsm.merge_reads),
            of_lsm(|lsm| lsm.arrived_bytes),
            of_lsm(|lsm| lsm.user_bytes),
            of_lsm(|lsm| lsm.step_waits),
        ]
    }

    /// One that has come to this, and has nothing.
    fn of_counts(counts: Counts) -> StructureStats {
        let [
            hot_hits,
            cold_hits,
            misses,
            writes,
            promotions,
            demotions,
            replacements,
            cleaned,
            packed_leaves,
            swept_leaves,
            swept_fill_thousandths,
            steps,
            merge_bytes,
            merge_reads,
            arrived_bytes,
            user_bytes,
            step_waits,
        ] = counts;
        let lsm = LsmStats {
            steps,
            merge_bytes,
            merge_reads,
            arrived_bytes,
            user_bytes,
            step_waits,
            ..LsmStats::default()
        };
        let is_lsm = counts[COUNTS - 6..].iter().any(|count| *count > 0);
        StructureStats {
            info: StructureInfo::nameless(),
            series: 0,
            records: None,
            hot_records: None,
            cold_records: None,
            hot_hits,
            cold_hits,
            misses,
            writes,
            hot_hit_rate: ratio(hot_hits, hot_hits + cold_hits + misses),
            promotions,
            demotions,
            replacements,
            cleaned,
            packed_leaves,
            swept_leaves,
            swept_fill_thousandths,
            hot_fill: ratio(swept_fill_thousandths, swept_leaves * 1000),
            expired_ratio: None,
            lsm: is_lsm.then_some(lsm),
            by_index: Vec::new(),
        }
    }
}

impl Core {
    /// A snapshot. Cheap enough for once a second while others work.
    pub fn stats(&self) -> Stats {
        self.snapshot(false)
    }

    /// A snapshot with what there is in each structure, which has to be read.
    pub fn survey(&self) -> Result<Stats> {
        for open in self.registry().all() {
            if open.spec.expiring && open.is_named() {
                // What cannot be read is no reason to say nothing of the others.
                let _ = self.expired_share(&open);
            }
        }
        let _pass = self.passes().enter()?;
        Ok(self.snapshot(true))
    }

    /// Figures of the structures that there are, and what those came to that are not there any more.
    fn structure_figures(
        &self,
        survey: bool,
    ) -> (Vec<StructureStats>, Option<Box<StructureStats>>) {
        let ((all, mut structures), places) = self.series().see(|| {
            let all = self.registry().all();
            let live = all.iter().filter(|open| open.is_named());
            let live = live.map(|open| StructureStats::of(open));
            let structures: Vec<StructureStats> = live.collect();
            let of = |one: &StructureStats| (one.info.id, one.counts());
            let each = |one: &StructureStats| -> Vec<_> {
                one.by_index.iter().chain([one]).map(of).collect()
            };
            let counts = structures.iter().flat_map(each).collect();
            ((all, structures), counts)
        });
        let dropped = places
            .dropped
            .map(|counts| Box::new(StructureStats::of_counts(counts)));
        for one in &mut structures {
            let place = |id| places.of.get(&id).copied().unwrap_or(0);
            one.series = place(one.info.id);
            let indexes = one.by_index.iter_mut();
            indexes.for_each(|index| index.series = place(index.info.id));
        }
        if survey {
            for one in &mut structures {
                let open = all.iter().find(|open| open.id().0 == one.info.id);
                if let Some(open) = open {
                    one.look_into(open);
                }
            }
        }
        (structures, dropped)
    }

    fn snapshot(&self, survey: bool) -> Stats {
        let (structures, dropped) = self.structure_figures(survey);
        let s = self.store().stats();
        // Who only reads gives out none.
        let slots = match s.slots.total {
            0 => self.store().superblock().slots,
            slots => slots,
        };
        let pages = PageStats {
            page_bytes: s.page_bytes,
            reads: s.page_reads,
            demotion_reads: s.demotion_reads,
            ageing_reads: s.ageing_reads,
            merging_reads: s.merging_reads,
            order_reads: s.order_reads,
            writes: s.page_writes,
            evictions: s.evictions,
            left: PagesLeft::of(&s.left),
            discarded_writes: s.discarded_writes,
            waits_for_frames: s.waits_for_frames,
            waits_for_cut: s.waits_for_undo,
            live: s.live_pages,
            hot: s.hot_frames,
            hot_cap: s.hot_cap,
            dirty: s.dirty_frames,
            kept: s.slots.kept,
            data_file_bytes: terrace_pages::map::superblock::SLOTS_OFFSET + slots * s.page_bytes,
            map_bytes_written: s.map_bytes,
        };
        let (checkpoints, cut) = self.checkpoints().seen(|state| {
            let stats = CheckpointStats {
                completed: state.total.summary().count,
                failed: state.failures,
                last_error: state.error.as_ref().map(ToString::to_string),
                last: state.last.map(CheckpointInfo::from),
                running: (s.cut_pages > 0).then_some(Progress {
                    work: Work::Checkpoint,
                    done: s.cut_pages_written,
                    total: s.cut_pages,
                }),
                pages: s.checkpoint_page_writes,
                hot_pages: s.checkpoint_hot_writes,
                hot_rewrite_factor: None,
                gate_drained: state.drained.summary(),
                gate_closed: state.closed.summary(),
                gate_closed_buckets: state.closed.buckets(),
                gate_drained_buckets: state.drained.buckets(),
                total_buckets: state.total.buckets(),
                total: state.total.summary(),
            };
            (stats, state.cut)
        });
        let l = self.log().stats();
        let log = LogFigures {
            records: l.records,
            record_bytes: l.record_bytes,
            bytes: l.log_bytes,
            writes: l.writes,
            syncs: l.syncs,
            sync_commits: l.sync_commits,
            file_bytes: self.log().disk_bytes(),
            bytes_since_checkpoint: self.log().bytes_since(cut),
            limit: self.options().effective_log_limit(),
        };
        let (stuck, last_error) = self.drops().stuck();
        let hot_rewrite_factor = ratio(s.checkpoint_hot_writes * s.page_bytes, l.log_bytes);
        let locks = self.tiers().locks.memory_bytes() as u64;
        let sketch = self.tiers().sketch_bytes() as u64;
        let log_buffers = self.log().memory_bytes() as u64;
        Stats {
            structures,
            dropped,
            memory: MemoryStats::of(
                self.budget(),
                self.store(),
                locks,
                sketch,
                log_buffers,
                self.registry().memory_bytes(),
                self.loads().memory_bytes(),
            ),
            loaders: LoaderStats {
                file_bytes: self.loads().file_bytes(),
                bytes_written: self.loads().bytes_written(),
            },
            pages,
            log,
            checkpoints: CheckpointStats {
                hot_rewrite_factor,
                ..checkpoints
            },
            transactions: self.transactions().stats(),
            calls: self.latencies().stats(),
            expiry: self.expired().stats(),
            drops: DropStats { stuck, last_error },
            opening: *self.opening(),
            program: self.program().figures(),
            #[cfg(feature = "backup")]
            following: self.backups().following().statuses(),
            #[cfg(feature = "backup")]
            last_backup: self.backups().last_made(),
        }
    }
}

impl Stats {
    /// Bytes written to the disk since opening: pages, the files that say where they lie, the log, the files
    /// of loaders.
    pub fn disk_bytes_written(&self) -> u64 {
        self.pages.writes * self.pages.page_bytes
            + self.pages.map_bytes_written
            + self.log.bytes
            + self.loaders.bytes_written
    }

    /// Bytes of the files, those that say where pages lie excepted, which are small.
    pub fn disk_bytes(&self) -> u64 {
        self.pages.data_file_bytes + self.log.file_bytes + self.loaders.file_bytes
    }
}
