//! The result of a benchmark, for people.

use std::fmt;

use crate::numbers::{bytes, count, ratio, time};
use crate::report::{LoadSummary, Report, ShiftSummary};
use crate::workload::Workload;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut title = format!(
            "workload {} on {} ({} tier{}",
            self.workload,
            self.structure,
            self.tiers,
            if self.tiers == 1 { "" } else { "s" }
        );
        if self.tiers > 1 && !self.policy.is_empty() {
            title += &format!(", policy {}", self.policy);
        }
        title += ")";
        writeln!(f, "{title}")?;
        let zipf = self.zipf.map_or(String::new(), |theta| format!(" {theta}"));
        writeln!(
            f,
            "{} records of {} + {} bytes, {}{zipf}, {} of memory, {} thread{}",
            count(self.records as f64),
            self.key_bytes,
            self.value_bytes,
            self.distribution,
            bytes(self.memory_bytes),
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        )?;
        if let (Some(iops), Some(latency)) = (self.device_iops, self.device_latency_us) {
            writeln!(
                f,
                "on a disk that serves {} requests of 16 KiB a second, each in {latency} us or more",
                count(f64::from(iops))
            )?;
        }
        if let Some(load) = &self.load {
            writeln!(f)?;
            self.fmt_load(f, load)?;
        }
        writeln!(f)?;
        let warm = &self.warmup;
        if warm.ops > 0 {
            let verdict = match warm.steady {
                Some(true) => ", then it was steady",
                Some(false) => ", and it was NOT steady yet: give it a longer warm-up",
                None => "",
            };
            let text = format!(
                "{:.1} s, {} operations{verdict}",
                warm.seconds,
                count(warm.ops as f64)
            );
            row(f, "warm-up", &text)?;
        }
        row(
            f,
            "measured",
            &format!(
                "{:.1} s, {} operations",
                self.seconds,
                count(self.ops as f64)
            ),
        )?;
        row(
            f,
            "throughput",
            &format!("{} operations/s", count(self.ops_per_second)),
        )?;
        if let Some(worst) = self.worst_100ms_ops_per_second {
            row(
                f,
                "  worst 100 ms",
                &format!("{} operations/s", count(worst)),
            )?;
        }
        if self.scanned_records_per_second > 0.0 {
            let text = format!("{} records/s", count(self.scanned_records_per_second));
            row(f, "  scanned", &text)?;
        }
        for (name, l) in &self.latency_ns_by_operation {
            let text = format!(
                "p50 {}  p99 {}  p99.9 {}  max {}",
                time(l.p50),
                time(l.p99),
                time(l.p999),
                time(l.max)
            );
            row(f, &format!("latency of {}", name.replace('_', "-")), &text)?;
        }
        self.fmt_pages(f)?;
        self.fmt_bytes(f)?;
        if let Some(shift) = &self.shift {
            fmt_shift(f, shift)?;
        }
        if let Some(audit) = &self.audit {
            let text = format!(
                "all {} records read and found right",
                count(audit.records as f64)
            );
            row(f, "audit", &text)?;
        }
        Ok(())
    }
}

impl Report {
    fn fmt_load(&self, f: &mut fmt::Formatter<'_>, load: &LoadSummary) -> fmt::Result {
        let text = format!(
            "{:.1} s, {} records/s",
            load.seconds,
            count(load.ops_per_second)
        );
        row(f, "loading", &text)?;
        let text = format!(
            "{} reads and {} writes per record",
            ratio(load.page_reads_per_op),
            ratio(load.page_writes_per_op)
        );
        row(f, "  pages", &text)?;
        if let Some(written) = load.settled.disk_bytes_written_per_user_byte {
            let text = format!("{} per user byte, checkpoint included", ratio(written));
            row(f, "  written to disk", &text)?;
        }
        if let Some(size) = load.settled.disk_bytes {
            row(f, "  size on disk", &bytes(size))?;
        }
        Ok(())
    }

    fn fmt_pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = ratio(self.page_reads_per_op);
        if self.page_bytes > 0 {
            text += &format!(" pages of {}", bytes(self.page_bytes));
        }
        match (self.static_optimum_reads_per_op, self.reads_over_optimum) {
            (Some(optimum), Some(over)) => {
                text += &format!(" = {over:.2} times the optimum of {}", ratio(optimum));
            }
            (Some(_), None) => text += " (the optimum is none: everything fits)",
            (None, _) => {}
        }
        row(f, "reads per operation", &text)?;
        let mut text = ratio(self.page_writes_per_op);
        if let Some(over) = self.reads_and_writes_over_optimum
            && self.page_writes_per_op > 0.0
        {
            text += &format!(" (reads and writes: {over:.2} times the optimum)");
        }
        row(f, "writes per operation", &text)
    }

    fn fmt_bytes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(fill) = self.hot_fill {
            row(f, "fill of hot pages", &format!("{:.1} %", fill * 100.0))?;
        }
        if let Some(written) = self.disk_bytes_written_per_user_byte {
            let mut text = format!("{} per user byte", ratio(written));
            if let Some(log) = self.log_bytes_per_user_byte {
                text += &format!(", of which log {}", ratio(log));
            }
            row(f, "written to disk", &text)?;
        }
        if self.workload == Workload::Load.name()
            && let Some(settled) = self.settled
            && let Some(written) = settled.disk_bytes_written_per_user_byte
        {
            row(
                f,
                "  with checkpoint",
                &format!("{} per user byte", ratio(written)),
            )?;
        }
        if let Some(peak) = self.peak_resident_bytes {
            let mut text = format!("{} at most", bytes(peak));
            if let Some(before) = self.resident_before_open_bytes {
                text += &format!(", of which the benchmark {}", bytes(before));
            }
            row(f, "resident memory", &text)?;
        }
        let gate = &self.gate_closed_us;
        if let (Some(p999), Some(max)) = (gate.p999, gate.max) {
            let text = format!(
                "{} times, p99.9 {p999:.0} µs, longest {max:.0} µs",
                gate.count
            );
            row(f, "gate closed", &text)?;
        }
        Ok(())
    }
}

fn fmt_shift(f: &mut fmt::Formatter<'_>, shift: &ShiftSummary) -> fmt::Result {
    let pages = |reads| format!("{} reads per operation", ratio(reads));
    let text = format!(
        "{} operations/s, {}",
        count(shift.before_ops_per_second),
        pages(shift.before_page_reads_per_op)
    );
    row(f, "before the hot set moved", &text)?;
    let mut text = format!(
        "{} operations/s, {}",
        count(shift.after_ops_per_second),
        pages(shift.after_page_reads_per_op)
    );
    if let Some(lowest) = shift.lowest_ops_per_second {
        text += &format!(", lowest {}", count(lowest));
    }
    row(f, "after it moved", &text)?;
    let text = match shift.recovered_after_seconds {
        Some(seconds) => format!("90 % of the throughput after {seconds:.1} s"),
        None => "90 % of the throughput was not reached again".into(),
    };
    row(f, "  recovery", &text)
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, text: &str) -> fmt::Result {
    // A name that is too long moves its figures, and nothing else.
    writeln!(f, "  {name:<25} {text}")
}
