//! What a run of the benchmark counts.

use terrace_bench::{Counters, Durations};

use super::Db;

impl Db {
    /// What a benchmark looks at. Cheap enough for once a second while others work.
    pub fn counters(&self) -> Counters {
        let stats = self.inner.stats();
        let sum = |count: fn(&terrace::StructureStats) -> u64| {
            stats.structures.iter().map(count).sum::<u64>()
        };
        Counters {
            page_bytes: stats.pages.page_bytes,
            page_reads: stats.pages.reads,
            read_requests: 0,
            demotion_reads: stats.pages.demotion_reads,
            ageing_reads: stats.pages.ageing_reads,
            page_writes: stats.pages.writes,
            disk_bytes_written: stats.disk_bytes_written(),
            log_bytes: stats.log.bytes,
            hot_hits: sum(|s| s.hot_hits),
            cold_hits: sum(|s| s.cold_hits),
            promotions: sum(|s| s.promotions),
            demotions: sum(|s| s.demotions + s.replacements),
            checkpoints: stats.checkpoints.completed,
            committed: stats.transactions.committed,
            conflicts: stats.transactions.conflicts,
            refreshed: stats.transactions.refreshed,
            swept_leaves: sum(|s| s.swept_leaves),
            swept_fill_thousandths: sum(|s| s.swept_fill_thousandths),
            merge_bytes: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.merge_bytes)),
            merge_user_bytes: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.user_bytes)),
            merge_arrived_bytes: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.arrived_bytes)),
            merge_steps: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.steps)),
            step_waits: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.step_waits)),
            step_waits_max: {
                let all = stats.structures.iter().flat_map(|s| &s.lsm);
                all.map(|lsm| lsm.step_waits_max).max().unwrap_or(0)
            },
            filter_bytes: sum(|s| s.lsm.as_ref().map_or(0, |lsm| lsm.filter_bytes)),
            levels: levels(&stats, |level| level.bytes),
            level_page_bytes: levels(&stats, |level| level.page_bytes),
            disk_bytes: Some(stats.disk_bytes()),
            data_file_bytes: Some(stats.pages.data_file_bytes),
            live_page_bytes: Some(stats.pages.live * stats.pages.page_bytes),
            hot_page_bytes: Some(stats.pages.hot * stats.pages.page_bytes),
            processor_us: terrace_bench::resident::processor_us().unwrap_or(0),
            memory_bytes: Some(stats.memory.used()),
            gate_closed: Durations {
                longest_ns: stats.checkpoints.gate_closed.max_ns,
                buckets: stats.checkpoints.gate_closed_buckets,
            },
        }
    }
}

/// A figure of each level of the LSM-trees, from above.
fn levels(stats: &terrace::Stats, figure: fn(&terrace::LevelStats) -> u64) -> Vec<u64> {
    let all = stats.structures.iter().flat_map(|s| &s.lsm);
    let levels = all.flat_map(|lsm| &lsm.levels);
    levels.map(figure).collect()
}
