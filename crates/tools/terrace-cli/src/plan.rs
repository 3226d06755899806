//! `terrace plan`: how much memory a database wants, worked out from how many records there are and how unevenly
//! they are used. docs/guide/memory.md has the model in words, docs/measured/engine.md what it was fitted to.
//!
//! With two tiers memory holds the records that are used most. With one it holds pages, of which the ones that
//! were used last stay; which those are follows from the mean time that a page stays (H. Che and others,
//! "Hierarchical Web Caching Systems", 2002).

use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Result, bail};
use serde_json::json;
use terrace_bench::zipf::harmonic;

use crate::args::PlanArgs;
use crate::output::print;
use crate::skew::mass;

/// Bytes of a page, unless an option says otherwise.
const PAGE: f64 = 16384.0;
/// Records of more bytes have pages of their own in part, and are not promoted.
const LONGEST: u64 = 4096;
/// What a page has for each record beside its bytes: a slot of four, and two lengths.
const BESIDE: f64 = 6.0;
/// The part of the memory that holds hot records when it is full of them: the rest are locks, tables, buffers,
/// cold pages on their way, and room on hot pages. Fitted to page reads with a fifth and two fifths of the data in
/// memory (1.135 and 1.220 times the static optimum).
const HOT: f64 = 0.86;
/// The part of the memory that holds pages in a structure with one tier.
const FRAMES: f64 = 0.97;
/// How full cold pages are. With one tier they are split by each insert; with two, runs of records fill them.
const FILL_ONE: f64 = 0.75;
const FILL_TWO: f64 = 0.84;
/// Pages written for each record that is changed, by pages read for each that is read, with what is saved for
/// checkpoints: measured 0.14 to 0.19 with a fifth to four fifths of the data in memory.
const WRITES: f64 = 0.18;
/// Places of the data file for each cold page, where little is changed.
const PLACES: f64 = 1.04;
/// What it is longer by under updates, as a part of the hot records' bytes: what is dirty of them is saved, as it is and
/// as it was, and so are cold pages. Measured 1.25 to 1.9.
const UPDATED: f64 = 1.5;
/// What the log has for each change beside its key and value: 1.16 bytes for each of 128.
const LOGGED: f64 = 20.0;
/// Changes that an opening does again in a second.
const REPLAYED: f64 = 500_000.0;
/// The log's bound where none is given: this, or twice the memory.
const LOG: u64 = 256 << 20;
/// Steps of the sum over the ranks of records behind the first thousand: each two hundredths wide.
const STEP: f64 = 1.02;
/// Ranks that are summed one by one.
const ONE_BY_ONE: u64 = 1000;

/// What a database is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub records: u64,
    /// Bytes of a key with its value.
    pub record: u64,
    pub theta: f64,
    pub log_limit: u64,
}

/// What it comes to with a given amount of memory.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Planned {
    pub memory_bytes: u64,
    /// Records that fit into the hot tier.
    pub hot_records: u64,
    /// The part of the reads that memory answers.
    pub hot_share: f64,
    /// Pages read for each read of a record, with two tiers.
    pub reads: f64,
    /// The same with one tier: plain pages in memory.
    pub reads_one_tier: f64,
    /// Pages written for each record that is changed, with those of checkpoints.
    pub writes: f64,
    /// Bytes of the data file where there is little but reading.
    pub file_bytes: u64,
    /// The same under many updates.
    pub file_updated_bytes: u64,
    pub log_bytes: u64,
    pub log_bytes_for_a_change: f64,
    /// Seconds that an opening takes after a crash, at most.
    pub opening_seconds: f64,
}

impl Load {
    /// Works it out.
    pub fn with(&self, memory: u64) -> Planned {
        let each = self.record as f64 + BESIDE;
        let hot = ((memory as f64 * HOT / each) as u64).min(self.records);
        let reads = 1.0 - mass(hot, self.records, self.theta);
        let hot_bytes = (hot as f64 * each).min(memory as f64 * HOT);
        let cold_bytes = self.records as f64 * each / FILL_TWO;
        let log = self.record as f64 + LOGGED;
        // Hot pages are not in the file; what is dirty in them is.
        let file = cold_bytes * PLACES;
        Planned {
            memory_bytes: memory,
            hot_records: hot,
            hot_share: 1.0 - reads,
            reads,
            reads_one_tier: self.reads_of_pages(memory),
            writes: reads * WRITES,
            file_bytes: file as u64,
            file_updated_bytes: (file + hot_bytes * UPDATED) as u64,
            log_bytes: self.log_limit,
            log_bytes_for_a_change: log,
            opening_seconds: self.log_limit as f64 / log / REPLAYED,
        }
    }

    /// Pages read for each read of a record where memory holds the pages that were used last.
    fn reads_of_pages(&self, memory: u64) -> f64 {
        let each = self.record as f64 + BESIDE;
        let pages = (self.records as f64 * each / (PAGE * FILL_ONE)).max(1.0);
        let frames = memory as f64 * FRAMES / PAGE;
        // The records that are used most lie on pages of their own, all others evenly among them.
        let heads = (pages.ceil() as u64).clamp(1, self.records);
        if frames >= heads as f64 {
            return 0.0;
        }
        let all = harmonic(self.records, self.theta);
        let others = (1.0 - harmonic(heads, self.theta) / all) / pages;
        let rates: Vec<(f64, f64)> = ranks(heads)
            .map(|(rank, count)| (rank.powf(-self.theta) / all + others, count))
            .collect();
        // The mean time that a page stays is the one with which as many pages stay as there are frames.
        let stay = |time: f64| -> f64 {
            rates
                .iter()
                .map(|(rate, count)| count * -(-rate * time).exp_m1())
                .sum()
        };
        let (mut low, mut high) = (0.0, 1.0);
        while stay(high) < frames {
            high *= 2.0;
        }
        for _ in 0..100 {
            let middle = (low + high) / 2.0;
            match stay(middle) < frames {
                true => low = middle,
                false => high = middle,
            }
        }
        rates
            .iter()
            .map(|(rate, count)| count * rate * (-rate * low).exp())
            .sum()
    }
}

/// Ranks up to the last, the later ones in groups: each with its middle and how many it has.
fn ranks(last: u64) -> impl Iterator<Item = (f64, f64)> {
    let mut from = 0u64;
    std::iter::from_fn(move || {
        if from >= last {
            return None;
        }
        let to = match from < ONE_BY_ONE {
            true => from + 1,
            false => ((from as f64 * STEP) as u64).max(from + 1).min(last),
        };
        let middle = ((from as f64 + 0.5) * (to as f64 + 0.5)).sqrt();
        let rank = if to == from + 1 { to as f64 } else { middle };
        let count = (to - from) as f64;
        from = to;
        Some((rank, count))
    })
}

/// `terrace plan`
pub fn run(args: &PlanArgs) -> Result<ExitCode> {
    let record = args.key.0.saturating_add(args.value.0);
    if args.records == 0 || args.records > 1 << 48 {
        bail!(
            "give from 1 to 2^48 records with --records, not {}",
            args.records
        );
    }
    if record == 0 || record > LONGEST {
        bail!(
            "key and value have {record} bytes together, and this works out what up to {LONGEST} come to: longer \
             records lie on pages of their own, are read by one request, and gain nothing by two tiers"
        );
    }
    if args.memory.0 < 1 << 20 {
        bail!("give a mebibyte or more with --memory: a database does not open with less");
    }
    let load = Load {
        records: args.records,
        record,
        theta: args.skew.theta(args.records),
        log_limit: args
            .log_limit
            .map_or_else(|| LOG.max(args.memory.0.saturating_mul(2)), |limit| limit.0),
    };
    let planned = load.with(args.memory.0);
    let others = [-3, -2, -1, 1, 2].map(|shift: i32| match shift < 0 {
        true => args.memory.0 >> -shift,
        false => args.memory.0.saturating_mul(1 << shift),
    });
    let others = others.into_iter().filter(|memory| *memory >= 1 << 20);
    let mut all: Vec<Planned> = others.map(|memory| load.with(memory)).collect();
    all.push(planned);
    all.sort_by_key(|planned| planned.memory_bytes);
    match args.json {
        true => print(&format!(
            "{}\n",
            json!({ "records": load.records, "record_bytes": load.record, "theta": load.theta, "planned": planned,
                    "by_memory": all })
        ))?,
        false => print(&text(&load, &planned, &all))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn text(load: &Load, planned: &Planned, all: &[Planned]) -> String {
    let data = load.records.saturating_mul(load.record);
    let mut text = String::new();
    let mut line = |name: &str, what: String| writeln!(text, "{name:<14}{what}").expect("a string");
    line(
        "data",
        format!(
            "{} of keys and values; the memory is {:.0} % of that",
            size(data as f64),
            100.0 * planned.memory_bytes as f64 / data as f64
        ),
    );
    line(
        "skew",
        format!(
            "exponent {:.2}: a fifth of the records gets {:.0} % of the accesses",
            load.theta,
            100.0 * mass((load.records / 5).max(1), load.records, load.theta)
        ),
    );
    line(
        "reads",
        format!(
            "{} page reads for each read (with plain pages in memory {}); memory answers {:.1} %",
            decimals(planned.reads),
            decimals(planned.reads_one_tier),
            100.0 * planned.hot_share
        ),
    );
    line(
        "writes",
        format!(
            "{} page writes for each change, with what checkpoints write",
            decimals(planned.writes)
        ),
    );
    line(
        "data file",
        format!(
            "{} with little but reading, some {} under many updates and after a load",
            size(planned.file_bytes as f64),
            size(planned.file_updated_bytes as f64)
        ),
    );
    line(
        "log",
        format!(
            "up to {}, {:.0} bytes for each change; opening after a crash takes up to {:.1} s",
            size(planned.log_bytes as f64),
            planned.log_bytes_for_a_change,
            planned.opening_seconds
        ),
    );
    text += "\nmemory        page reads for each read    with plain pages\n";
    for one in all {
        let mark = if one == planned { " <" } else { "" };
        let row = format!(
            "{:<14}{:<28}{}{mark}",
            size(one.memory_bytes as f64),
            decimals(one.reads),
            decimals(one.reads_one_tier)
        );
        text += &format!("{}\n", row.trim_end());
    }
    text += "\nWorked out, not measured: `terrace plan --help` says how far it may be off.\n";
    text
}

/// A small number with two digits that say something.
fn decimals(number: f64) -> String {
    match number {
        n if n < 0.000_5 => "0.000".into(),
        n if n < 0.1 => format!("{n:.3}"),
        n => format!("{n:.2}"),
    }
}

fn size(bytes: f64) -> String {
    indicatif::BinaryBytes(bytes as u64).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(theta: f64) -> Load {
        Load {
            records: 10_000_000,
            record: 128,
            theta,
            log_limit: 256 << 20,
        }
    }

    fn about(value: f64, wanted: f64, part: f64) {
        let off = (value / wanted - 1.0).abs();
        assert!(off <= part, "{value} instead of {wanted}");
    }

    /// Of four records with weights 1, 1/2, 1/3, 1/4, in all 25/12, two fit: 18/25 of the accesses.
    #[test]
    fn small_loads_are_as_worked_out_by_hand() {
        let load = Load {
            records: 4,
            record: 1_000_000 - 6,
            theta: 1.0,
            log_limit: 2_000_000,
        };
        // 0.86 of 2.4 million bytes are two records of a million bytes.
        let planned = load.with(2_400_000);
        assert_eq!(planned.hot_records, 2);
        about(planned.hot_share, 18.0 / 25.0, 1e-12);
        about(planned.reads, 7.0 / 25.0, 1e-12);
        about(planned.writes, 0.18 * 7.0 / 25.0, 1e-12);
        // Four records on pages that are 0.84 full, and two hot ones one and a half times.
        about(planned.file_bytes as f64, 1.04 * 4e6 / 0.84, 1e-6);
        about(
            planned.file_updated_bytes as f64,
            1.04 * 4e6 / 0.84 + 1.5 * 2e6,
            1e-6,
        );
        about(planned.log_bytes_for_a_change, 1_000_014.0, 1e-12);
        about(planned.opening_seconds, 2e6 / 1_000_014.0 / 500_000.0, 1e-9);
        let planned = load.with(5_000_000);
        assert_eq!((planned.hot_records, planned.reads), (4, 0.0));
    }

    /// Where all pages are alike, as many reads find theirs as there are frames for the pages.
    #[test]
    fn pages_that_are_used_alike_stay_as_far_as_there_are_frames() {
        let load = measured(0.0);
        let pages = 10e6 * 134.0 / (16384.0 * 0.75);
        let frames = f64::from(512 << 20) * 0.97 / 16384.0;
        about(
            load.with(512 << 20).reads_one_tier,
            1.0 - frames / pages,
            0.001,
        );
        assert_eq!(load.with(4 << 30).reads_one_tier, 0.0);
    }

    /// docs/measured/engine.md: page reads for each operation of C, by the static optimum and by the constant
    /// device of 20,000 pages a second.
    #[test]
    fn the_model_is_near_what_was_measured() {
        let load = measured(0.9);
        let optimum = |mib: u64| 1.0 - mass((mib << 20) / 128, 10_000_000, 0.9);
        about(load.with(256 << 20).reads, 1.135 * optimum(256), 0.03);
        about(load.with(512 << 20).reads, 1.220 * optimum(512), 0.03);
        about(load.with(1 << 30).reads, 1.80 * optimum(1024), 0.20);
        about(
            load.with(512 << 20).reads_one_tier,
            20_000.0 / 41_665.0,
            0.05,
        );
        about(load.with(1 << 30).reads_one_tier, 20_000.0 / 72_965.0, 0.05);
        // All alike: 0.698 with two tiers, 0.730 with one.
        let even = measured(0.0).with(512 << 20);
        about(even.reads, 0.698, 0.1);
        about(even.reads_one_tier, 0.730, 0.05);
        // docs/decisions/hot-in-memory.md, a million records: bytes of the file for each of the user's after C and F, page writes of an update.
        let small = Load {
            records: 1_000_000,
            ..load
        };
        for (tenths_of_mib, after_c, after_f, writes) in [
            (256, 1.338, 1.631, 0.0436),
            (512, 1.303, 1.786, 0.0212),
            (1024, 1.3, 2.197, 0.0088),
        ] {
            let planned = small.with((tenths_of_mib << 20) / 10);
            about(planned.file_bytes as f64, after_c * 128e6, 0.05);
            about(planned.file_updated_bytes as f64, after_f * 128e6, 0.1);
            about(planned.writes, writes, 0.25);
        }
        let planned = small.with(51 << 20);
        about(planned.log_bytes_for_a_change, 1.16 * 128.0, 0.01);
    }

    #[test]
    fn ranks_are_all_there_once() {
        for last in [1, 999, 1000, 1001, 5_000_000] {
            let counted: f64 = ranks(last).map(|(_, count)| count).sum();
            assert_eq!(counted, last as f64);
            // 1 + 1/2 + ... + 1/last
            let sum: f64 = ranks(last).map(|(rank, count)| count / rank).sum();
            about(sum, harmonic(last, 1.0), 0.000_1);
        }
    }
}
