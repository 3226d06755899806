//! Which metrics there are, and from which figures they come.

use terrace::{Kind as StructureKind, Policy, Stats, StructureStats, Summary, Tiers};

use crate::named::named;
use crate::text::Kind::{Counter, Gauge, Histogram, Info};
use crate::text::{BOUNDS, Labels, Number, SECOND, Text, cumulated};

/// Writes all families.
pub fn write(stats: &Stats, text: &mut Text) {
    text.family("build", Info, "The version of Terrace.")
        .sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    memory(stats, text);
    structures(stats, text);
    crate::merging::families(stats, text);
    pages(stats, text);
    transactions(stats, text);
    crate::calls::families(stats, text);
    expiry(stats, text);
    log(stats, text);
    checkpoints(stats, text);
    crate::backups::families(stats, text);
    opening(stats, text);
    crate::program::families(stats, text);
}

fn one(text: &mut Text, name: &'static str, help: &'static str, number: impl Into<Number>) {
    text.family(name, Gauge, help).sample(&[], number);
}

fn count(text: &mut Text, name: &'static str, help: &'static str, number: u64) {
    text.family(name, Counter, help).sample(&[], number);
}

fn memory(stats: &Stats, text: &mut Text) {
    let m = &stats.memory;
    one(
        text,
        "memory_limit_bytes",
        "The memory limit; the parts add up to it.",
        m.limit,
    );
    text.family(
        "memory_bytes",
        Gauge,
        "Where the memory goes; adds up to the limit.",
    );
    for (part, bytes) in [
        ("hot_pages", m.hot_pages),
        ("inner_pages", m.inner_pages),
        ("cold_pages", m.cold_pages),
        ("frame_headers", m.frame_headers),
        ("page_table", m.page_table),
        ("page_map", m.page_map),
        ("cut_copies", m.cut_copies),
        ("write_buffers", m.write_buffers),
        ("locks", m.locks),
        ("sketch", m.sketch),
        ("log_buffers", m.log_buffers),
        ("structures", m.structures),
        ("loaders", m.loaders),
        ("snapshots", m.snapshots),
        ("unused", m.unused),
    ] {
        text.sample(&[("part", part)], bytes);
    }
}

fn structures(stats: &Stats, text: &mut Text) {
    let named = named(stats);
    text.family("structures", Gauge, "Structures, without their indexes.")
        .sample(&[], stats.structures.len() as u64);
    text.family("structure", Info, "What a structure or an index is.");
    for one in named.iter().filter(|one| !one.is_sum()) {
        let info = &one.stats[0].info;
        let kind = match info.kind {
            StructureKind::Tree if !one.index.is_empty() => "index",
            kind => kind.as_str(),
        };
        let policy = match (info.tiers, info.policy) {
            (Tiers::One, _) => "",
            (Tiers::Two, Policy::Default) => "default",
            (Tiers::Two, Policy::Paper) => "paper",
            (Tiers::Two, _) => "other",
        };
        let tiers = if info.tiers == Tiers::One { "1" } else { "2" };
        let yes = |is: bool| if is { "true" } else { "false" };
        text.sample(
            &[
                ("structure", &*one.structure),
                ("index", one.index),
                ("kind", kind),
                ("tiers", tiers),
                ("policy", policy),
                ("logged", yes(info.logged)),
                ("inclusive", yes(info.inclusive)),
                (
                    "hot_in_memory",
                    if info.hot_in_memory { "true" } else { "" },
                ),
                ("hot_heap", if info.hot_heap { "true" } else { "" }),
            ],
            1,
        );
    }
    type Figure = fn(&StructureStats) -> u64;
    let mut each = |name, help, label, figures: &[(&str, Figure)]| {
        text.family(name, Counter, help);
        for one in &named {
            for (value, figure) in figures {
                let labels: Labels<'_> = &[
                    ("structure", &*one.structure),
                    ("index", one.index),
                    (label, value),
                ];
                text.sample(labels, one.sum(figure));
            }
        }
    };
    each(
        "reads",
        "Reads, by the tier that answered; none is a key that was not there.",
        "tier",
        &[
            ("hot", |s| s.hot_hits),
            ("cold", |s| s.cold_hits),
            ("none", |s| s.misses),
        ],
    );
    each(
        "writes",
        "Records written and deleted, those of batches, loaders and the replay at the opening included.",
        "",
        &[("", |s| s.writes)],
    );
    each(
        "moves",
        "Records that moved between the tiers: up after a read, down by ageing, displaced by one that is used more; cleaned ones were written below and stayed.",
        "direction",
        &[
            ("up", |s| s.promotions),
            ("down", |s| s.demotions),
            ("displaced", |s| s.replacements),
            ("cleaned", |s| s.cleaned),
        ],
    );
    each(
        "packed_leaves",
        "Hot leaves freed by packing.",
        "",
        &[("", |s| s.packed_leaves)],
    );
    each(
        "swept_leaves",
        "Hot leaves that the ageing has looked at.",
        "",
        &[("", |s| s.swept_leaves)],
    );
    text.family(
        "swept_fill_ratio",
        Counter,
        "Sum of the fills of hot leaves that the ageing has looked at.",
    );
    for one in &named {
        let labels: Labels<'_> = &[("structure", &*one.structure), ("index", one.index)];
        text.sample(
            labels,
            one.sum(|s| s.swept_fill_thousandths) as f64 / 1000.0,
        );
    }
    text.family(
        "hot_fill_ratio",
        Gauge,
        "Mean fill of the hot leaves that the ageing has seen.",
    );
    for one in &named {
        let leaves = one.sum(|s| s.swept_leaves);
        if leaves > 0 {
            let labels: Labels<'_> = &[("structure", &*one.structure), ("index", one.index)];
            let fill = one.sum(|s| s.swept_fill_thousandths) as f64 / 1000.0;
            text.sample(labels, fill / leaves as f64);
        }
    }
    text.family(
        "records",
        Gauge,
        "Records, about, from a sample; a promoted one may be in both tiers.",
    );
    for one in &named {
        let tiers: [(&str, fn(&StructureStats) -> Option<u64>); 3] = [
            ("all", |s| s.records),
            ("hot", |s| {
                s.hot_records.filter(|_| s.info.tiers == Tiers::Two)
            }),
            ("cold", |s| s.cold_records),
        ];
        for (tier, figure) in tiers {
            if let Some(records) = one.sum_known(figure) {
                text.sample(
                    &[
                        ("structure", &*one.structure),
                        ("index", one.index),
                        ("tier", tier),
                    ],
                    records,
                );
            }
        }
    }
}

fn pages(stats: &Stats, text: &mut Text) {
    let p = &stats.pages;
    one(text, "page_size_bytes", "Bytes of a page.", p.page_bytes);
    count(text, "page_reads", "Pages read from disk.", p.reads);
    text.family(
        "page_reads_by_cause",
        Counter,
        "Pages read from disk, by what for: `caller` is single records that were asked for.",
    )
    .sample(
        &[("cause", "caller")],
        p.reads
            .saturating_sub(p.demotion_reads + p.ageing_reads + p.merging_reads + p.order_reads),
    )
    .sample(&[("cause", "order")], p.order_reads)
    .sample(&[("cause", "demotion")], p.demotion_reads)
    .sample(&[("cause", "ageing")], p.ageing_reads)
    .sample(&[("cause", "merging")], p.merging_reads);
    count(
        text,
        "page_writes",
        "Pages written to disk, those of checkpoints included.",
        p.writes,
    );
    count(
        text,
        "page_evictions",
        "Pages evicted from memory.",
        p.evictions,
    );
    let ways = [
        ("one", &p.left.for_one),
        ("order", &p.left.in_order),
        ("engine", &p.left.for_engine),
        ("made", &p.left.made),
    ];
    let text_of = [
        (
            "pages_left",
            "Pages of records evicted from memory, by how they came: for one record, in order, for the engine's own work, or made in memory.",
        ),
        (
            "pages_left_hits",
            "How often those were asked for while they were in memory, each up to 63 times.",
        ),
    ];
    for (i, (name, what)) in text_of.into_iter().enumerate() {
        text.family(name, Counter, what);
        for (way, left) in ways {
            text.sample(&[("came", way)], [left.pages, left.hits][i]);
        }
    }
    count(
        text,
        "page_writes_discarded",
        "Writes of pages that had changed meanwhile.",
        p.discarded_writes,
    );
    text.family(
        "waits",
        Counter,
        "Times that a thread had to wait, by what for.",
    )
    .sample(&[("cause", "frame")], p.waits_for_frames)
    .sample(&[("cause", "checkpoint")], p.waits_for_cut);
    one(text, "live_pages", "Pages that exist.", p.live);
    one(text, "hot_pages", "Pages of hot tiers in memory.", p.hot);
    one(
        text,
        "hot_pages_limit",
        "Most pages that hot tiers may have.",
        p.hot_cap,
    );
    one(
        text,
        "dirty_pages",
        "Pages in memory that differ from disk.",
        p.dirty,
    );
    one(
        text,
        "kept_pages",
        "Pages on the disk that only snapshots and backups in progress still have.",
        p.kept,
    );
    one(
        text,
        "data_file_bytes",
        "Bytes of the data file.",
        p.data_file_bytes,
    );
    count(
        text,
        "page_map_written_bytes",
        "Bytes written to the files that say where pages lie.",
        p.map_bytes_written,
    );
    one(
        text,
        "loader_file_bytes",
        "Bytes of the files that loaders sort in.",
        stats.loaders.file_bytes,
    );
    count(
        text,
        "loader_written_bytes",
        "Bytes written to such files.",
        stats.loaders.bytes_written,
    );
    one(
        text,
        "stuck_drops",
        "Dropped structures whose pages could not be given back so far.",
        stats.drops.stuck,
    );
}

fn transactions(stats: &Stats, text: &mut Text) {
    let t = &stats.transactions;
    count(
        text,
        "transactions_committed",
        "Transactions that committed, those that only read included.",
        t.committed,
    );
    count(
        text,
        "transaction_conflicts",
        "Attempts of transactions under which something that they had read had changed.",
        t.conflicts,
    );
    count(
        text,
        "transaction_refreshed_records",
        "Records that transactions looked at again and found the same.",
        t.refreshed,
    );
    count(
        text,
        "transactions_given_up",
        "Transactions that were given up after all of their attempts.",
        t.given_up,
    );
}

fn expiry(stats: &Stats, text: &mut Text) {
    let e = &stats.expiry;
    count(
        text,
        "expired_hidden",
        "Times that a reader came by a record that had expired, and was not shown it.",
        e.hidden,
    );
    text.family(
        "expired_dropped",
        Counter,
        "Records that had expired and were dropped, by who did it.",
    )
    .sample(&[("by", "demotion")], e.dropped_by_demotion)
    .sample(&[("by", "merge")], e.dropped_by_merge)
    .sample(&[("by", "round")], e.dropped_by_round);
    count(
        text,
        "clock_steps",
        "Steps of the wall clock, forward or back, that were seen.",
        e.clock_steps,
    );
    text.family(
        "expired_ratio",
        Gauge,
        "About how much of a structure has expired and takes space still.",
    );
    for s in stats.structures.iter().take(crate::MAX_STRUCTURES) {
        if let Some(ratio) = s.expired_ratio {
            text.sample(&[("structure", &s.info.name)], ratio);
        }
    }
}

fn log(stats: &Stats, text: &mut Text) {
    let l = &stats.log;
    count(
        text,
        "log_records",
        "Records appended to the log.",
        l.records,
    );
    count(
        text,
        "log_record_bytes",
        "Bytes of these records.",
        l.record_bytes,
    );
    count(
        text,
        "log_bytes",
        "Bytes that the log has grown by.",
        l.bytes,
    );
    count(text, "log_writes", "Write calls of the log.", l.writes);
    count(text, "log_syncs", "Syncs of the log for commits.", l.syncs);
    count(
        text,
        "log_sync_commits",
        "Commits that these syncs served.",
        l.sync_commits,
    );
    one(
        text,
        "log_file_bytes",
        "Bytes of the log's files.",
        l.file_bytes,
    );
    one(
        text,
        "log_since_checkpoint_bytes",
        "Bytes that a recovery would have to read now.",
        l.bytes_since_checkpoint,
    );
    one(
        text,
        "log_limit_bytes",
        "Bytes of log at which a checkpoint begins.",
        l.limit,
    );
}

fn checkpoints(stats: &Stats, text: &mut Text) {
    let c = &stats.checkpoints;
    count(
        text,
        "checkpoints",
        "Checkpoints that were completed.",
        c.completed,
    );
    count(
        text,
        "checkpoint_failures",
        "Checkpoints that were given up.",
        c.failed,
    );
    text.family(
        "checkpoint_pages",
        Counter,
        "Pages written by checkpoints, by their tier.",
    )
    .sample(&[("tier", "hot")], c.hot_pages)
    .sample(&[("tier", "cold")], c.pages.saturating_sub(c.hot_pages));
    one(
        text,
        "checkpoint_running",
        "Whether a checkpoint is being made.",
        c.running.is_some(),
    );
    if let Some(running) = &c.running {
        let done = running.done as f64 / running.total.max(1) as f64;
        one(
            text,
            "checkpoint_done_ratio",
            "How far the checkpoint that is being made has come.",
            done,
        );
    }
    if let Some(last) = &c.last {
        one(
            text,
            "checkpoint_generation",
            "The number of the last checkpoint.",
            last.generation,
        );
        one(
            text,
            "checkpoint_last_seconds",
            "How long the last checkpoint took.",
            last.seconds,
        );
        text.family(
            "checkpoint_last_pages",
            Gauge,
            "Pages of the last checkpoint, by their tier.",
        )
        .sample(&[("tier", "hot")], last.hot_pages)
        .sample(
            &[("tier", "cold")],
            last.pages.saturating_sub(last.hot_pages),
        );
    }
    durations(
        text,
        "checkpoint_drained_seconds",
        "Until nobody was changing pages.",
        &c.gate_drained,
        &c.gate_drained_buckets,
    );
    durations(
        text,
        "checkpoint_closed_seconds",
        "For how long nobody could change pages.",
        &c.gate_closed,
        &c.gate_closed_buckets,
    );
    durations(
        text,
        "checkpoint_duration_seconds",
        "How long checkpoints took as a whole.",
        &c.total,
        &c.total_buckets,
    );
}

/// A histogram with the bounds of [`BOUNDS`]; a duration that lies within a sixteenth below a bound may be
/// counted above it.
fn durations(
    text: &mut Text,
    name: &'static str,
    help: &'static str,
    summary: &Summary,
    fine: &[(u64, u64)],
) {
    let sum = summary.mean_ns as f64 * summary.count as f64 / SECOND;
    text.family(name, Histogram, help).histogram(
        &[],
        &cumulated(&BOUNDS[5..], fine),
        summary.count,
        sum,
    );
}

fn opening(stats: &Stats, text: &mut Text) {
    let o = &stats.opening;
    one(
        text,
        "opening_seconds",
        "How long the opening took.",
        o.seconds,
    );
    one(
        text,
        "opening_replay_seconds",
        "How long the replay of the log took at the opening.",
        o.replay_seconds,
    );
    one(
        text,
        "opening_replayed_records",
        "Log records replayed at the opening.",
        o.replayed_records,
    );
    one(
        text,
        "opening_replayed_operations",
        "Changes that were in them.",
        o.replayed_operations,
    );
    one(
        text,
        "opening_replayed_bytes",
        "Bytes of these records.",
        o.replayed_bytes,
    );
    one(
        text,
        "opening_created",
        "Whether the opening made the database.",
        o.created,
    );
    one(
        text,
        "opening_dropped_tail",
        "Whether the log ended in something that a power cut had left incomplete.",
        o.dropped_tail,
    );
    if let Some(direct) = o.direct_io {
        one(
            text,
            "direct_io",
            "Whether pages go around the cache of the operating system.",
            direct,
        );
    }
}
