//! The figures as a table for people.

use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

use crate::histogram::Summary;
use crate::kinds::spec::Tiers;
use crate::options::MemoryStats;
use crate::progress::Progress;
use crate::state::transactions::TransactionStats;
use crate::stats::{CheckpointStats, LogFigures, PageStats, Stats, StructureStats};

/// Bytes with a unit.
struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let units = ["B", "KiB", "MiB", "GiB", "TiB"];
        let mut unit = 0;
        let mut number = self.0 as f64;
        while number >= 1024.0 && unit + 1 < units.len() {
            number /= 1024.0;
            unit += 1;
        }
        let digits = if unit == 0 || number >= 100.0 { 0 } else { 1 };
        f.pad(&format!("{number:.digits$} {}", units[unit]))
    }
}

/// A share as per cent, or a dash.
fn percent(share: Option<f64>) -> String {
    share.map_or("-".into(), |share| format!("{:.1} %", share * 100.0))
}

/// A duration to the microsecond; what is shorter than that to the nanosecond.
fn nanos(nanos: u64) -> String {
    let kept = if nanos < 1000 {
        nanos
    } else {
        nanos - nanos % 1000
    };
    format!("{:?}", Duration::from_nanos(kept))
}

fn seconds(seconds: f64) -> String {
    nanos(Duration::try_from_secs_f64(seconds).map_or(0, |time| time.as_nanos() as u64))
}

fn durations(summary: &Summary) -> String {
    format!(
        "{} at the median, {} at 99 %, {} at 99.9 %, {} at most",
        nanos(summary.p50_ns),
        nanos(summary.p99_ns),
        nanos(summary.p999_ns),
        nanos(summary.max_ns)
    )
}

/// A line for a structure and one for each of its indexes.
fn with_indexes(
    f: &mut Formatter<'_>,
    s: &StructureStats,
    line: fn(&mut Formatter<'_>, &StructureStats, &str, Option<&str>) -> Result,
) -> Result {
    line(f, s, &s.info.name, None)?;
    s.by_index.iter().try_for_each(|index| {
        line(
            f,
            index,
            &format!("  by {}", index.info.name),
            Some("index"),
        )
    })
}

/// What has expired, if anything may.
fn expired(f: &mut Formatter<'_>, stats: &Stats) -> Result {
    let expiring = |s: &&StructureStats| s.expired_ratio.is_some();
    if !stats.structures.iter().any(|s| expiring(&s)) {
        return Ok(());
    }
    writeln!(f, "records that expire")?;
    for s in stats.structures.iter().filter(expiring) {
        let share = percent(s.expired_ratio);
        writeln!(f, "  {}: about {share} have expired", s.info.name)?;
    }
    let e = &stats.expiry;
    writeln!(
        f,
        "  {} reads met one; dropped {} by demotion, {} by merges, {} by rounds; {} steps of the clock",
        e.hidden, e.dropped_by_demotion, e.dropped_by_merge, e.dropped_by_round, e.clock_steps
    )
}

/// How long calls took.
fn calls(f: &mut Formatter<'_>, stats: &Stats) -> Result {
    let mut timed = stats
        .calls
        .iter()
        .filter(|one| one.latency.count > 0)
        .peekable();
    if timed.peek().is_some() {
        writeln!(f, "calls took, of those that were timed")?;
    }
    timed.try_for_each(|one| {
        let (name, of) = (one.call.as_str(), durations(&one.latency));
        writeln!(f, "  {name:<28} {of}, {} timed", one.latency.count)
    })
}

/// Where the records of a structure live.
fn place(f: &mut Formatter<'_>, s: &StructureStats, name: &str, kind: Option<&str>) -> Result {
    let number = |number: Option<u64>| number.map_or("?".into(), |number| number.to_string());
    let hot = match s.info.tiers {
        Tiers::One => "-".into(),
        Tiers::Two => number(s.hot_records),
    };
    writeln!(
        f,
        "  {name:<24} {:>5} {:>5} {:>14} {hot:>14} {:>14}",
        kind.unwrap_or(s.info.kind.as_str()),
        tiers_of(s),
        number(s.records),
        number(s.cold_records),
    )
}

fn tiers_of(s: &StructureStats) -> &'static str {
    match s.info.tiers {
        Tiers::One => "1",
        Tiers::Two => "2",
    }
}

fn line(f: &mut Formatter<'_>, s: &StructureStats, name: &str, kind: Option<&str>) -> Result {
    let (kind, tiers) = (kind.unwrap_or(s.info.kind.as_str()), tiers_of(s));
    writeln!(
        f,
        "  {name:<24} {kind:>5} {tiers:>5} {:>12} {:>12} {:>10} {:>8} {:>12} {:>12} {:>8}",
        s.hot_hits,
        s.cold_hits,
        s.misses,
        percent(s.hot_hit_rate),
        s.promotions,
        s.demotions + s.replacements,
        percent(s.hot_fill),
    )
}

/// What is in the levels of LSM-trees, and what merging has come to.
fn merging(f: &mut Formatter<'_>, structures: &[StructureStats]) -> Result {
    let all = structures.iter().filter_map(|s| Some((s, s.lsm.as_ref()?)));
    for (n, (s, lsm)) in all.enumerate() {
        if n == 0 {
            writeln!(f, "LSM-trees")?;
        }
        let factor = lsm.merge_bytes_per_user_byte;
        writeln!(
            f,
            "  {}: top {} of {} leaves, {} steps, {} merged{}, {} changes waited, filters {}",
            s.info.name,
            lsm.top_leaves,
            lsm.top_bound,
            lsm.steps,
            Bytes(lsm.merge_bytes),
            factor.map_or(String::new(), |factor| format!(
                ", {factor:.2} bytes for each that was written"
            )),
            lsm.step_waits,
            Bytes(lsm.filter_bytes),
        )?;
        for (n, level) in lsm.levels.iter().enumerate() {
            write!(
                f,
                "    level {}: {} records, {} of them tombstones, on {} pages, {}",
                n + 1,
                level.records,
                level.tombstones,
                level.data_pages,
                Bytes(level.bytes),
            )?;
            if level.bytes > level.page_bytes {
                write!(f, ", compressed to {}", Bytes(level.page_bytes))?;
            }
            writeln!(f)?;
        }
    }
    Ok(())
}

/// Who follows the log, and the last backup.
#[cfg(feature = "backup")]
fn backups(f: &mut Formatter<'_>, stats: &Stats) -> Result {
    use crate::backup_set::text::text_of;

    if stats.following.is_empty() && stats.last_backup.is_none() {
        return Ok(());
    }
    writeln!(f, "backup")?;
    if let Some(last) = &stats.last_backup {
        writeln!(
            f,
            "  the last point, number {}: change {} of {}, {} stored, in {}",
            last.point,
            last.sequence,
            text_of(last.time),
            Bytes(last.stored_bytes),
            seconds(last.seconds),
        )?;
    }
    for follower in &stats.following {
        let set = follower.set.as_ref();
        let set = set.map_or("a set".into(), |set| set.display().to_string());
        write!(f, "  the log is copied to {set}: ")?;
        match follower.time {
            Some(time) => write!(f, "change {} of {}", follower.sequence, text_of(time))?,
            None => write!(f, "nothing yet")?,
        }
        writeln!(
            f,
            ", {}, {} breaks",
            Bytes(follower.log_bytes),
            follower.breaks
        )?;
        if follower.clock_leaps > 0 {
            let leaps = follower.clock_leaps;
            writeln!(
                f,
                "    the clock went back {leaps} times: `terrace backup list` shows where"
            )?;
        }
        if let Some(error) = &follower.error {
            writeln!(f, "    the last attempt failed: {error}")?;
        }
    }
    Ok(())
}

impl Display for Stats {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if self.structures.iter().any(|s| s.records.is_some()) {
            writeln!(f, "records, about")?;
            writeln!(
                f,
                "  {:<24} {:>5} {:>5} {:>14} {:>14} {:>14}",
                "name", "kind", "tiers", "in all", "in hot tier", "in cold tier"
            )?;
            let places = |s| with_indexes(f, s, place);
            self.structures.iter().try_for_each(places)?;
        }
        writeln!(f, "reads since the opening")?;
        writeln!(
            f,
            "  {:<24} {:>5} {:>5} {:>12} {:>12} {:>10} {:>8} {:>12} {:>12} {:>8}",
            "name",
            "kind",
            "tiers",
            "hot hits",
            "cold hits",
            "misses",
            "in hot",
            "promoted",
            "demoted",
            "fill"
        )?;
        self.structures
            .iter()
            .try_for_each(|s| with_indexes(f, s, line))?;
        merging(f, &self.structures)?;
        memory(f, &self.memory)?;
        pages(f, &self.pages)?;
        if self.opening.direct_io == Some(false) {
            let what = "the cache of the operating system, which takes memory beyond the limit";
            writeln!(f, "  through {what}")?;
        }
        log(f, &self.log)?;
        checkpoints(f, &self.checkpoints)?;
        #[cfg(feature = "backup")]
        backups(f, self)?;
        transactions(f, &self.transactions)?;
        calls(f, self)?;
        expired(f, self)?;
        if let Some(error) = &self.drops.last_error {
            writeln!(f, "drops")?;
            writeln!(f, "  {} not done so far: {error}", self.drops.stuck)?;
        }
        let o = &self.opening;
        writeln!(
            f,
            "opened in {:.3} s, {} changes replayed in {:.3} s",
            o.seconds, o.replayed_operations, o.replay_seconds
        )
    }
}

fn memory(f: &mut Formatter<'_>, m: &MemoryStats) -> Result {
    writeln!(f, "memory")?;
    for (what, bytes) in [
        ("hot pages", m.hot_pages),
        ("inner pages", m.inner_pages),
        ("cold pages and free frames", m.cold_pages),
        ("frame headers", m.frame_headers),
        ("page table", m.page_table),
        ("page map", m.page_map),
        ("copies for a checkpoint", m.cut_copies),
        ("write buffers", m.write_buffers),
        ("record locks", m.locks),
        ("access counters", m.sketch),
        ("log buffers", m.log_buffers),
        ("structures", m.structures),
        ("loaders", m.loaders),
        ("snapshots", m.snapshots),
        ("unused", m.unused),
        ("limit", m.limit),
    ] {
        writeln!(f, "  {what:<28} {:>10}", Bytes(bytes))?;
    }
    Ok(())
}

fn pages(f: &mut Formatter<'_>, p: &PageStats) -> Result {
    writeln!(f, "pages of {}", Bytes(p.page_bytes))?;
    let (reads, writes, evictions) = (p.reads, p.writes, p.evictions);
    writeln!(f, "  read {reads}, written {writes}, evicted {evictions}")?;
    let left = &p.left;
    writeln!(
        f,
        "  asked for before they left: for one record {}, in order {}, for the engine {}, made here {}",
        left.for_one, left.in_order, left.for_engine, left.made
    )?;
    let file = Bytes(p.data_file_bytes);
    writeln!(
        f,
        "  exist {}, hot {} of at most {}, changed in memory {}, data file {file}",
        p.live, p.hot, p.hot_cap, p.dirty
    )
}

fn log(f: &mut Formatter<'_>, l: &LogFigures) -> Result {
    writeln!(f, "log")?;
    let bytes = Bytes(l.bytes);
    writeln!(
        f,
        "  {} records, {bytes} appended, {} syncs for {} commits",
        l.records, l.syncs, l.sync_commits
    )?;
    let (since, limit) = (Bytes(l.bytes_since_checkpoint), Bytes(l.limit));
    let files = Bytes(l.file_bytes);
    writeln!(
        f,
        "  {since} since the last checkpoint of at most {limit}, files {files}"
    )
}

fn checkpoints(f: &mut Formatter<'_>, c: &CheckpointStats) -> Result {
    writeln!(f, "checkpoints")?;
    write!(f, "  {} completed, {} given up", c.completed, c.failed)?;
    if let Some(factor) = c.hot_rewrite_factor {
        write!(
            f,
            ", {factor:.2} bytes of hot pages rewritten per byte logged"
        )?;
    }
    writeln!(f)?;
    if c.completed > 0 {
        for (what, took) in [
            ("took", &c.total),
            ("gate drained in", &c.gate_drained),
            ("gate closed for", &c.gate_closed),
        ] {
            writeln!(f, "  {what:<28} {}", durations(took))?;
        }
    }
    if let Some(last) = &c.last {
        writeln!(
            f,
            "  the last, number {}: {} pages, {} of them hot, in {}; gate drained in {}, closed for {}",
            last.generation,
            last.pages,
            last.hot_pages,
            seconds(last.seconds),
            seconds(last.drain_seconds),
            seconds(last.closed_seconds),
        )?;
    }
    if let Some(Progress { done, total, .. }) = &c.running {
        writeln!(f, "  one is being made: {done} of about {total} pages")?;
    }
    if let Some(error) = &c.last_error {
        writeln!(f, "  the last attempt failed: {error}")?;
    }
    Ok(())
}

fn transactions(f: &mut Formatter<'_>, t: &TransactionStats) -> Result {
    if t.committed + t.conflicts == 0 {
        return Ok(());
    }
    writeln!(f, "transactions")?;
    writeln!(
        f,
        "  {} committed, {} conflicts, {} records looked at again, {} given up",
        t.committed, t.conflicts, t.refreshed, t.given_up
    )?;
    for last in &t.last_conflicts {
        let of = match last.label.as_str() {
            "" => String::new(),
            label => format!(" of {label}"),
        };
        writeln!(
            f,
            "  the last of {} conflicts{of}: \"{}\" in \"{}\"",
            last.conflicts, last.key, last.structure
        )?;
    }
    Ok(())
}
