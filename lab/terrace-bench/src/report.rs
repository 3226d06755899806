//! The result of a benchmark, for programs.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::latency::{Latencies, LatencySummary};
use crate::plan::{Load, Prepared};
use crate::records::KEY_BYTES;
use crate::target::Counters;
use crate::timeline::{Part, Window};
use crate::worker::Audit;
use crate::workload::Workload;

/// What a part of a run did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Span {
    pub ops: u64,
    pub seconds: f64,
    pub user_bytes: u64,
    pub scanned: u64,
    pub worst_tenth: Option<f64>,
    /// Windows of the curve that belong to it.
    pub windows: usize,
    /// What the counters rose by; what they measure as a level is as it was at the end.
    pub counters: Counters,
}

impl Span {
    pub fn between(a: &Counters, b: Counters, ops: u64, user_bytes: u64, seconds: f64) -> Self {
        Span {
            ops,
            seconds,
            user_bytes,
            counters: b.since(a),
            ..Span::default()
        }
    }

    fn ops_per_second(&self) -> f64 {
        self.ops as f64 / self.seconds.max(1e-9)
    }

    fn per_op(&self, count: u64) -> f64 {
        count as f64 / self.ops.max(1) as f64
    }

    fn per_user_byte(&self, bytes: u64) -> Option<f64> {
        (self.user_bytes > 0).then(|| bytes as f64 / self.user_bytes as f64)
    }
}

/// What came out of a run, before it is made into a report.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub measured: Span,
    pub latencies: Latencies,
    /// Loading, its latencies, and the counters once its checkpoint was done.
    pub load: Option<(Span, Latencies, Span)>,
    pub settled: Option<Span>,
    /// What was before the first move of the hot set, and after each.
    pub shifts: Vec<Span>,
    pub warmup: WarmupSummary,
    pub audit: Option<Audit>,
    pub sampled_peak: Option<u64>,
    pub peak: Option<u64>,
    pub windows: Vec<Window>,
    pub checked: u64,
}

impl Outcome {
    pub fn of(measured: Span) -> Self {
        Outcome {
            measured,
            ..Outcome::default()
        }
    }

    pub fn of_load(measured: Span, latencies: Latencies, settled: Span) -> Self {
        Outcome {
            measured,
            latencies,
            settled: Some(settled),
            ..Outcome::default()
        }
    }

    /// All together are what was measured.
    pub fn of_shift(spans: Vec<Span>) -> Self {
        let measured = spans.iter().cloned().reduce(Span::and);
        Outcome {
            measured: measured.unwrap_or_default(),
            shifts: spans,
            ..Outcome::default()
        }
    }
}

impl Span {
    /// This one and the next.
    fn and(self, after: Span) -> Span {
        let before = self;
        let (a, b) = (&before.counters, &after.counters);
        let counters = Counters {
            page_reads: a.page_reads + b.page_reads,
            read_requests: a.read_requests + b.read_requests,
            page_writes: a.page_writes + b.page_writes,
            disk_bytes_written: a.disk_bytes_written + b.disk_bytes_written,
            log_bytes: a.log_bytes + b.log_bytes,
            hot_hits: a.hot_hits + b.hot_hits,
            cold_hits: a.cold_hits + b.cold_hits,
            promotions: a.promotions + b.promotions,
            demotions: a.demotions + b.demotions,
            committed: a.committed + b.committed,
            conflicts: a.conflicts + b.conflicts,
            refreshed: a.refreshed + b.refreshed,
            checkpoints: a.checkpoints + b.checkpoints,
            swept_leaves: a.swept_leaves + b.swept_leaves,
            swept_fill_thousandths: a.swept_fill_thousandths + b.swept_fill_thousandths,
            ..b.clone()
        };
        Span {
            ops: before.ops + after.ops,
            seconds: before.seconds + after.seconds,
            user_bytes: before.user_bytes + after.user_bytes,
            scanned: before.scanned + after.scanned,
            worst_tenth: match (before.worst_tenth, after.worst_tenth) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            },
            windows: before.windows + after.windows,
            counters,
        }
    }
}

/// How the run warmed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WarmupSummary {
    /// How long.
    pub seconds: f64,
    /// How many operations.
    pub ops: u64,
    /// Whether it became steady in the time it had; `None` if the time was given.
    pub steady: Option<bool>,
}

/// How long writers were kept waiting by checkpoints, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct GateClosed {
    /// 999 of 1000 times at most this.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
    /// How often.
    pub count: u64,
}

/// How much larger the data file is than the pages in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct FileOverLive {
    /// In half of the windows at most this.
    pub median: Option<f64>,
    /// In no window more than this.
    pub max: Option<f64>,
}

impl FileOverLive {
    /// Loading and warming up do not count.
    fn of(windows: &[Window]) -> Self {
        let mut all: Vec<f64> = windows
            .iter()
            .filter(|w| matches!(w.part, Part::Measure | Part::Moved))
            .filter_map(|w| Some((w.data_file_bytes?, w.live_page_bytes?)))
            .filter(|&(_, live)| live > 0)
            .map(|(file, live)| file as f64 / live as f64)
            .collect();
        all.sort_by(f64::total_cmp);
        FileOverLive {
            median: all.get(all.len().saturating_sub(1) / 2).copied(),
            max: all.last().copied(),
        }
    }
}

/// What loading took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LoadSummary {
    /// How long it took until the last record was written.
    pub seconds: f64,
    /// Records per second until then.
    pub ops_per_second: f64,
    /// How long each took.
    pub latency_ns: LatencySummary,
    /// Page reads per record.
    pub page_reads_per_op: f64,
    /// Page writes per record.
    pub page_writes_per_op: f64,
    /// Bytes written to disk per user byte, until then.
    pub disk_bytes_written_per_user_byte: Option<f64>,
    /// Bytes written to the log per user byte, until then.
    pub log_bytes_per_user_byte: Option<f64>,
    /// The slowest tenth of a second.
    pub worst_100ms_ops_per_second: Option<f64>,
    /// The checkpoint after it.
    pub settled: Settled,
}

/// How it stood when a checkpoint after loading was complete.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settled {
    /// How long the checkpoint took.
    pub seconds: f64,
    /// Bytes written to disk per user byte, checkpoint included.
    pub disk_bytes_written_per_user_byte: Option<f64>,
    /// The size of the files.
    pub disk_bytes: Option<u64>,
}

impl Settled {
    fn of(span: &Span) -> Self {
        Settled {
            seconds: span.seconds,
            disk_bytes_written_per_user_byte: span.per_user_byte(span.counters.disk_bytes_written),
            disk_bytes: span.counters.disk_bytes,
        }
    }
}

/// What moving the hot set did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShiftSummary {
    /// Operations per second before.
    pub before_ops_per_second: f64,
    /// Page reads per operation before.
    pub before_page_reads_per_op: f64,
    /// The slowest window afterwards, in operations per second.
    pub lowest_ops_per_second: Option<f64>,
    /// The most page reads per operation of a window afterwards.
    pub most_page_reads_per_op: Option<f64>,
    /// Seconds until a window reached 90 % of the throughput before; `None` if none did.
    pub recovered_after_seconds: Option<f64>,
    /// Operations per second in the last quarter afterwards.
    pub after_ops_per_second: f64,
    /// Page reads per operation in the last quarter afterwards.
    pub after_page_reads_per_op: f64,
}

impl ShiftSummary {
    /// Of each move: the spans before the first one and after each, and the windows of all.
    fn of_all(spans: &[Span], windows: &[Window]) -> Vec<ShiftSummary> {
        let Some((first, moves)) = spans.split_first() else {
            return Vec::new();
        };
        let reads = first.per_op(first.counters.page_reads);
        let mut before = (first.ops_per_second(), reads);
        let mut moved = windows.iter().filter(|w| w.part == Part::Moved);
        let each = |span: &Span| {
            let windows: Vec<&Window> = moved.by_ref().take(span.windows).collect();
            let summary = ShiftSummary::of(before, &windows);
            before = (
                summary.after_ops_per_second,
                summary.after_page_reads_per_op,
            );
            summary
        };
        moves.iter().map(each).collect()
    }

    /// Of one move: operations a second and page reads each before it, and the windows after it.
    fn of((steady, reads_before): (f64, f64), moved: &[&Window]) -> Self {
        let began = moved.first().map_or(0.0, |w| w.at - w.seconds);
        let late = &moved[moved.len() - moved.len().div_ceil(4)..];
        let ops = late.iter().map(|w| w.ops).sum::<u64>();
        let seconds: f64 = late.iter().map(|w| w.seconds).sum();
        let reads = late.iter().map(|w| w.page_reads).sum::<u64>();
        // The last window is what was left when time was over: it may be too short to say much.
        let whole = &moved[..moved.len().saturating_sub(1).max(1).min(moved.len())];
        ShiftSummary {
            before_ops_per_second: steady,
            before_page_reads_per_op: reads_before,
            lowest_ops_per_second: whole
                .iter()
                .map(|w| w.ops_per_second())
                .min_by(f64::total_cmp),
            most_page_reads_per_op: whole
                .iter()
                .map(|w| w.page_reads_per_op())
                .max_by(f64::total_cmp),
            recovered_after_seconds: moved
                .iter()
                .find(|w| w.ops_per_second() >= 0.9 * steady)
                .map(|w| w.at - began),
            after_ops_per_second: ops as f64 / seconds.max(1e-9),
            after_page_reads_per_op: reads as f64 / ops.max(1) as f64,
        }
    }
}

/// The result of a benchmark. Serialises to the object that `--json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The workload's name.
    pub workload: &'static str,
    /// The distribution's name.
    pub distribution: &'static str,
    /// The structure.
    pub structure: String,
    /// How many tiers it has.
    pub tiers: u8,
    /// The policy of the tiers.
    pub policy: String,
    /// Records loaded.
    pub records: u64,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// The share of them that is random; the rest is all alike.
    pub value_random: f64,
    /// How pages are compressed, if they are.
    pub compression: Option<String>,
    /// The exponent of `zipf` and `ycsb`.
    pub zipf: Option<f64>,
    /// The memory that the store was given.
    pub memory_bytes: u64,
    /// Threads.
    pub threads: usize,
    /// How long was measured.
    pub seconds: f64,
    /// Operations measured.
    pub ops: u64,
    /// Operations per second.
    pub ops_per_second: f64,
    /// How long operations took.
    pub latency_ns: LatencySummary,
    /// How many operations took how long, for each bucket that is not empty: its largest duration (1, 2, 5,
    /// 10 … nanoseconds) and its count.
    pub latency_histogram_ns: Vec<(u64, u64)>,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Page reads per operation.
    pub page_reads_per_op: f64,
    /// Page writes per operation.
    pub page_writes_per_op: f64,
    /// Page reads per operation that no choice of records in memory can beat; for workloads of
    /// point accesses.
    pub static_optimum_reads_per_op: Option<f64>,
    /// How full the pages of the hot tier were while it was measured; `None` if none was looked at.
    pub hot_fill: Option<f64>,
    /// Bytes written to disk per user byte written; `None` if nothing was written.
    pub disk_bytes_written_per_user_byte: Option<f64>,
    /// Bytes written to the log per user byte written.
    pub log_bytes_per_user_byte: Option<f64>,
    /// The most resident memory from opening the store to the end, of the whole process.
    pub peak_resident_bytes: Option<u64>,
    /// How long checkpoints kept writers waiting.
    pub gate_closed_us: GateClosed,

    /// Page reads over the optimum.
    pub reads_over_optimum: Option<f64>,
    /// Page reads and writes over the optimum.
    pub reads_and_writes_over_optimum: Option<f64>,
    /// Bytes read per operation.
    pub bytes_read_per_op: f64,
    /// The slowest tenth of a second, in operations per second.
    pub worst_100ms_ops_per_second: Option<f64>,
    /// How long each kind of operation took.
    pub latency_ns_by_operation: BTreeMap<&'static str, LatencySummary>,
    /// Records that scans gave, per second.
    pub scanned_records_per_second: f64,
    /// Transactions committed while it was measured.
    pub committed: u64,
    /// Attempts of transactions that others were faster than, and that were made again.
    pub conflicts: u64,
    /// Records that transactions have looked at again, because others share their locks, and found the same.
    pub refreshed: u64,
    /// What a write promises.
    pub durability: String,
    /// Requests of 16 KiB a second of the device that the disk was made to be as fast as, if it was.
    pub device_iops: Option<u32>,
    /// The least that a request to it took, in microseconds.
    pub device_latency_us: Option<u64>,
    /// Bytes of a key.
    pub key_bytes: u64,
    /// How keys lie.
    pub key_layout: &'static str,
    /// From which the records and how often each is asked for follow.
    pub seed: u64,
    /// Which sequence of requests of that kind.
    pub draws: u64,
    /// How the run warmed up.
    pub warmup: WarmupSummary,
    /// How it was loaded; for the workload `load` this is what was measured.
    pub load: Option<LoadSummary>,
    /// The checkpoint after the workload `load`.
    pub settled: Option<Settled>,
    /// What moving the hot set did, the last time.
    pub shift: Option<ShiftSummary>,
    /// The same, each time.
    pub shifts: Vec<ShiftSummary>,
    /// What reading everything at the end has shown.
    pub audit: Option<Audit>,
    /// Values that were read and found right.
    pub checked_reads: u64,
    /// Resident memory before the store was opened: the benchmark's own.
    pub resident_before_open_bytes: Option<u64>,
    /// The most resident memory as seen every ten milliseconds.
    pub sampled_peak_resident_bytes: Option<u64>,
    /// What the store counted while it was measured.
    pub counters: Counters,
    /// Processors that the run could use.
    pub processors: usize,
    /// Bytes of records in each level of an LSM-tree at the end, the uppermost first.
    pub levels: Vec<u64>,
    /// Bytes of the pages of each, fewer where they are compressed.
    pub level_page_bytes: Vec<u64>,
    /// Bytes that merging has written for each byte of keys and values that users wrote.
    pub merge_bytes_per_user_byte: Option<f64>,
    /// Bytes of the filters of an LSM-tree at the end.
    pub filter_bytes: u64,
    /// Most steps of merging that a change has waited for, since the store was opened.
    pub step_waits_max: u64,
    /// Bytes of the pages in use at the end over those of keys and values, if all records are there.
    pub live_bytes_per_user_byte: Option<f64>,
    /// Bytes of the data file at the end over those of keys and values, if all records are there.
    pub file_bytes_over_user_bytes: Option<f64>,
    /// Records that left the hot tier, for each operation.
    pub demotions_per_op: f64,
    /// Time on a processor for each operation, in microseconds: all threads of the process.
    pub processor_us_per_op: f64,
    /// The size of the data file over that of the pages in use, at the ends of the windows.
    pub file_over_live_pages: FileOverLive,
    /// The curve.
    pub windows: Vec<Window>,
}

impl Report {
    pub(crate) fn new(prepared: &Prepared, outcome: Outcome) -> Self {
        let plan = prepared.plan();
        let span = &outcome.measured;
        let over_user_bytes = |bytes: u64| {
            let record = (KEY_BYTES + plan.value_bytes as u64) as f64;
            bytes as f64 / (plan.records as f64 * record)
        };
        let counters = &span.counters;
        let shifts = ShiftSummary::of_all(&outcome.shifts, &outcome.windows);
        let reads = span.per_op(counters.page_reads);
        let writes = span.per_op(counters.page_writes);
        let optimum = prepared.static_optimum;
        let over = |x: f64| optimum.filter(|&o| o > 0.0).map(|o| x / o);
        let by_operation = outcome.latencies.by_operation();
        let us = |ns: u64| ns as f64 / 1000.0;
        let gate = &counters.gate_closed;
        let load = outcome
            .load
            .as_ref()
            .map(|(span, latencies, settled)| LoadSummary {
                seconds: span.seconds,
                ops_per_second: span.ops_per_second(),
                latency_ns: latencies.summary(),
                page_reads_per_op: span.per_op(span.counters.page_reads),
                page_writes_per_op: span.per_op(span.counters.page_writes),
                disk_bytes_written_per_user_byte: span
                    .per_user_byte(span.counters.disk_bytes_written),
                log_bytes_per_user_byte: span.per_user_byte(span.counters.log_bytes),
                worst_100ms_ops_per_second: span.worst_tenth,
                settled: Settled::of(settled),
            });
        Report {
            workload: plan.workload.name(),
            distribution: match (plan.workload, plan.load) {
                (Workload::Load, Load::Sorted) => "sorted",
                (Workload::Load, _) => "random",
                _ => plan.distribution.name(),
            },
            structure: plan.store.structure.clone(),
            tiers: plan.store.tiers,
            policy: plan.store.policy.clone(),
            records: plan.records,
            value_bytes: plan.value_bytes,
            value_random: plan.value_random,
            compression: plan.store.compression.clone(),
            zipf: plan
                .distribution
                .theta()
                .filter(|_| plan.workload != Workload::Load),
            memory_bytes: plan.memory_bytes,
            threads: plan.threads,
            seconds: span.seconds,
            ops: span.ops,
            ops_per_second: span.ops_per_second(),
            latency_ns: outcome.latencies.summary(),
            latency_histogram_ns: outcome.latencies.buckets(),
            page_bytes: counters.page_bytes,
            page_reads_per_op: reads,
            page_writes_per_op: writes,
            static_optimum_reads_per_op: optimum,
            hot_fill: counters.hot_fill(),
            disk_bytes_written_per_user_byte: span.per_user_byte(counters.disk_bytes_written),
            log_bytes_per_user_byte: span.per_user_byte(counters.log_bytes),
            peak_resident_bytes: outcome.peak,
            gate_closed_us: GateClosed {
                p999: gate.quantile_ns(0.999).map(us),
                max: (gate.count() > 0).then(|| us(gate.longest_ns)),
                count: gate.count(),
            },
            reads_over_optimum: over(reads),
            reads_and_writes_over_optimum: over(reads + writes),
            bytes_read_per_op: reads * counters.page_bytes as f64,
            worst_100ms_ops_per_second: span.worst_tenth,
            latency_ns_by_operation: by_operation.iter().map(|(o, l)| (o.name(), *l)).collect(),
            scanned_records_per_second: span.scanned as f64 / span.seconds.max(1e-9),
            committed: counters.committed,
            conflicts: counters.conflicts,
            refreshed: counters.refreshed,
            durability: plan.store.durability.clone(),
            device_iops: plan.store.device.map(|device| device.rate),
            device_latency_us: plan
                .store
                .device
                .map(|device| device.latency.as_micros() as u64),
            key_bytes: KEY_BYTES,
            key_layout: plan.layout.name(),
            seed: plan.seed,
            draws: plan.draws,
            warmup: outcome.warmup,
            load,
            settled: outcome.settled.as_ref().map(Settled::of),
            shift: shifts.last().copied(),
            shifts,
            audit: outcome.audit,
            checked_reads: outcome.checked,
            resident_before_open_bytes: prepared.resident_before_open,
            sampled_peak_resident_bytes: outcome.sampled_peak,
            levels: counters.levels.clone(),
            level_page_bytes: counters.level_page_bytes.clone(),
            merge_bytes_per_user_byte: (counters.merge_user_bytes > 0)
                .then(|| counters.merge_bytes as f64 / counters.merge_user_bytes as f64),
            filter_bytes: counters.filter_bytes,
            step_waits_max: counters.step_waits_max,
            live_bytes_per_user_byte: counters.live_page_bytes.map(over_user_bytes),
            file_bytes_over_user_bytes: counters.data_file_bytes.map(over_user_bytes),
            demotions_per_op: counters.demotions as f64 / span.ops.max(1) as f64,
            processor_us_per_op: counters.processor_us as f64 / span.ops.max(1) as f64,
            counters: counters.clone(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            file_over_live_pages: FileOverLive::of(&outcome.windows),
            windows: outcome.windows,
        }
    }

    /// The report as one JSON object.
    pub fn to_json(&self) -> String {
        // Maps have string keys and numbers are finite or null: nothing that can fail.
        serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"))
    }
}
