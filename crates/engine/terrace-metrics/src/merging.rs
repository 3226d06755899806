//! The families of LSM-trees: levels, steps, what was merged, who waited.

use terrace::{LevelStats, LsmStats, Stats, StructureStats};

use crate::named::named;
use crate::text::Kind::{Counter, Gauge};
use crate::text::{Labels, Text};

/// What merging has come to in LSM-trees.
pub(crate) fn families(stats: &Stats, text: &mut Text) {
    let named = named(stats);
    type Figure = fn(&LsmStats) -> u64;
    let mut each = |name, kind, help, label, figures: &[(&str, Figure)]| {
        text.family(name, kind, help);
        for one in &named {
            if one.stats.iter().all(|s| s.lsm.is_none()) {
                continue;
            }
            for (value, figure) in figures {
                let labels: Labels<'_> = &[("structure", &*one.structure), (label, value)];
                text.sample(labels, one.sum(|s| s.lsm.as_ref().map_or(0, figure)));
            }
        }
    };
    each(
        "lsm_top_leaves",
        Gauge,
        "Leaves of the top of an LSM-tree, which takes all changes, and the most that it is to have.",
        "what",
        &[("now", |l| l.top_leaves), ("bound", |l| l.top_bound)],
    );
    each(
        "lsm_steps",
        Counter,
        "Steps: ranges of records that were merged further down.",
        "",
        &[("", |l| l.steps)],
    );
    each(
        "lsm_merged_bytes",
        Counter,
        "Bytes of pages that steps have made.",
        "",
        &[("", |l| l.merge_bytes)],
    );
    each(
        "lsm_merge_page_reads",
        Counter,
        "Pages that steps have read from disk.",
        "",
        &[("", |l| l.merge_reads)],
    );
    each(
        "lsm_arrived_bytes",
        Counter,
        "Bytes of keys and values that came to the top.",
        "",
        &[("", |l| l.arrived_bytes)],
    );
    each(
        "lsm_user_bytes",
        Counter,
        "Bytes of keys and values that users wrote.",
        "",
        &[("", |l| l.user_bytes)],
    );
    each(
        "lsm_step_waits",
        Counter,
        "Changes that had to make a step first, or wait for one.",
        "",
        &[("", |l| l.step_waits)],
    );
    each(
        "lsm_longest_step_wait_steps",
        Gauge,
        "Most steps that one change has waited for.",
        "",
        &[("", |l| l.step_waits_max)],
    );
    each(
        "lsm_filter_bytes",
        Gauge,
        "Bytes of filters, about.",
        "",
        &[("", |l| l.filter_bytes)],
    );
    type OfLevel = fn(&LevelStats) -> u64;
    let of_levels: [(&str, &str, OfLevel); 5] = [
        (
            "lsm_level_pages",
            "Data pages of a level, the uppermost is 1.",
            |l| l.data_pages,
        ),
        ("lsm_level_bytes", "Bytes of records in a level.", |l| {
            l.bytes
        }),
        (
            "lsm_level_page_bytes",
            "Bytes of the data pages of a level, which are fewer where they are compressed.",
            |l| l.page_bytes,
        ),
        (
            "lsm_level_records",
            "Records of a level, marks of deletions among them.",
            |l| l.records,
        ),
        (
            "lsm_level_tombstones",
            "Marks of deletions in a level.",
            |l| l.tombstones,
        ),
    ];
    for (name, help, figure) in of_levels {
        text.family(name, Gauge, help);
        for one in &named {
            let levels = |s: &StructureStats| s.lsm.as_ref().map_or(0, |l| l.levels.len());
            let most = one.stats.iter().map(|s| levels(s)).max().unwrap_or(0);
            for level in 0..most {
                let of = |s: &StructureStats| {
                    let level = s.lsm.as_ref().and_then(|l| l.levels.get(level));
                    level.map_or(0, figure)
                };
                let number = (level + 1).to_string();
                let labels: Labels<'_> = &[("structure", &*one.structure), ("level", &number)];
                text.sample(labels, one.sum(of));
            }
        }
    }
}
