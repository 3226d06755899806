//! Two tiers beside one, and beside another store: a table, and bars.

use serde_json::{Map, Value, json};
use std::fmt::Write;
use terrace_bench::numbers::{bytes, count as number, ratio};

use super::visits::Outcome;

/// What is not known of a store.
const UNKNOWN: &str = "-";
/// The longest bar, in characters.
const BAR: usize = 48;

/// One line: its name, a figure of a store if it is known, how that is shown, and whether two tiers should have less.
struct Line {
    name: &'static str,
    figure: fn(&Outcome) -> Option<f64>,
    shown: fn(f64) -> String,
    fewer: bool,
}

fn shown_bytes(n: f64) -> String {
    bytes(n.round() as u64)
}

const READS: Line = Line {
    name: "device reads per visit",
    figure: |o| Some(o.each(o.moved.reads)),
    shown: ratio,
    fewer: true,
};
const WRITTEN: Line = Line {
    name: "bytes written per visit",
    figure: |o| Some(o.each(o.moved.bytes_written)),
    shown: shown_bytes,
    fewer: true,
};

const LINES: [Line; 11] = [
    READS,
    Line {
        name: "  of the last quarter",
        figure: |o| o.late_reads,
        shown: ratio,
        fewer: true,
    },
    Line {
        name: "bytes read per visit",
        figure: |o| Some(o.each(o.moved.bytes_read)),
        shown: shown_bytes,
        fewer: true,
    },
    Line {
        name: "  the system says",
        figure: |o| system(o, 0),
        shown: shown_bytes,
        fewer: true,
    },
    WRITTEN,
    Line {
        name: "  the system says",
        figure: |o| system(o, 1),
        shown: shown_bytes,
        fewer: true,
    },
    Line {
        name: "visits per second",
        figure: |o| Some(o.per_second()),
        shown: |n| number(n.round()),
        fewer: false,
    },
    Line {
        name: "time of all visits",
        figure: |o| (o.groups == o.of_groups).then_some(o.seconds),
        shown: seconds,
        fewer: true,
    },
    Line {
        name: "time to load",
        figure: |o| Some(o.load_seconds),
        shown: seconds,
        fewer: true,
    },
    Line {
        name: "memory of the process",
        figure: |o| o.peak_resident.map(|n| n as f64),
        shown: shown_bytes,
        fewer: true,
    },
    Line {
        name: "size on disk",
        figure: |o| Some(o.disk_bytes as f64),
        shown: shown_bytes,
        fewer: true,
    },
];

/// For each visit. A system that counts nothing for this device says zero to all.
fn system(outcome: &Outcome, which: usize) -> Option<f64> {
    let told = outcome.system?;
    (told != [0, 0]).then(|| outcome.each(told[which]))
}

fn seconds(n: f64) -> String {
    format!("{n:.1} s")
}

/// A table for people; two tiers come first.
pub fn table(all: &[Outcome]) -> String {
    let mut text = format!("{:<26}", "");
    for outcome in all {
        text += &format!("{:>12}", outcome.name);
    }
    text += "\n";
    for line in &LINES {
        let figures: Vec<_> = all.iter().map(|o| (line.figure)(o)).collect();
        if figures.iter().all(Option::is_none) {
            continue;
        }
        text += &format!("{:<26}", line.name);
        for figure in &figures {
            text += &format!("{:>12}", figure.map_or(UNKNOWN.into(), line.shown));
        }
        let note = note(&figures, line.fewer);
        text += format!("   {note}").trim_end();
        text += "\n";
    }
    let done = |o: &Outcome| o.groups as f64 / o.of_groups.max(1) as f64 * 100.0;
    for outcome in all.iter().filter(|o| o.groups < o.of_groups) {
        let (name, done) = (outcome.name, done(outcome));
        text += &format!("The time of {name} was over after {done:.0} % of its visits.\n");
    }
    text
}

/// How two tiers stand to the others.
fn note(figures: &[Option<f64>], fewer: bool) -> String {
    let [Some(two), others @ ..] = figures else {
        return String::new();
    };
    let times: Vec<_> = others
        .iter()
        .flatten()
        .filter(|other| **other > 0.0 && *two > 0.0)
        .map(|other| if fewer { other / two } else { two / other })
        .map(|times| format!("{times:.1}"))
        .collect();
    match (times.is_empty(), fewer) {
        (true, _) => String::new(),
        (false, true) => format!("{} times less", times.join(" and ")),
        (false, false) => format!("{} times as many", times.join(" and ")),
    }
}

/// The two figures that matter, as bars.
pub fn bars(all: &[Outcome], unicode: bool) -> String {
    let mut text = String::new();
    for line in [READS, WRITTEN] {
        let figure = |o: &Outcome| (line.figure)(o).unwrap_or(0.0);
        let most = all.iter().map(figure).fold(f64::MIN_POSITIVE, f64::max);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line.name);
        for outcome in all {
            let (name, figure) = (outcome.name, figure(outcome));
            let length = ((figure / most * BAR as f64).round() as usize).max(1);
            let bar = if unicode { "█" } else { "#" }.repeat(length);
            let _ = writeln!(text, "  {name:<10} {bar} {}", (line.shown)(figure));
        }
    }
    text
}

/// The runs for programs, by their names with underscores.
pub fn json(all: &[Outcome]) -> Map<String, Value> {
    let run = |o: &Outcome| {
        json!({
            "complete": o.groups == o.of_groups,
            "visits": o.visits(),
            "device_reads": o.moved.reads,
            "device_reads_per_visit": o.each(o.moved.reads),
            "device_reads_per_visit_of_the_last_quarter": o.late_reads,
            "bytes_read": o.moved.bytes_read,
            "bytes_read_per_visit": o.each(o.moved.bytes_read),
            "bytes_written": o.moved.bytes_written,
            "bytes_written_per_visit": o.each(o.moved.bytes_written),
            "system_bytes_read": o.system.map(|told| told[0]),
            "system_bytes_written": o.system.map(|told| told[1]),
            "seconds": o.seconds,
            "visits_per_second": o.per_second(),
            "load_seconds": o.load_seconds,
            "peak_resident_bytes": o.peak_resident,
            "disk_bytes": o.disk_bytes,
        })
    };
    all.iter()
        .map(|outcome| (outcome.name.replace(' ', "_"), run(outcome)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::store::Moved;
    use super::*;

    fn outcome(name: &'static str, groups: u64, seconds: f64, reads: u64) -> Outcome {
        Outcome {
            name,
            groups,
            of_groups: 10,
            seconds,
            moved: Moved {
                reads,
                bytes_read: reads * 8192,
                bytes_written: 1 << 20,
            },
            ..Outcome::default()
        }
    }

    #[test]
    fn the_table_says_what_was_and_was_not_done() {
        let two = outcome("two tiers", 10, 2.0, 200);
        let one = outcome("one tier", 10, 4.0, 1000);
        let all = [two, one, outcome("redb", 5, 8.0, 900)];
        let said = table(&all);
        for word in [
            "5.0 and 9.0 times less",
            "2.0 and 8.0 times as many",
            "The time of redb was over after 50 % of its visits.",
        ] {
            assert!(said.contains(word), "{word}: {said}");
        }
        // What is not known has no line; of what is over nothing is said.
        assert!(!said.contains("last quarter") && !said.contains("system says"));
        assert!(!said.contains("of one tier"), "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 100));
        let bars = bars(&all, false);
        let longest = bars.lines().map(|line| line.matches('#').count()).max();
        assert_eq!(longest, Some(BAR), "{bars}");
        assert!(bars.contains("two tiers  ##### 0.0200"), "{bars}");
    }

    #[test]
    fn a_line_that_another_store_wins_stays() {
        let all = [
            outcome("two tiers", 10, 4.0, 0),
            outcome("one tier", 10, 2.0, 10),
        ];
        let said = table(&all);
        assert!(said.contains("0.5 times as many"), "{said}");
        assert!(said.contains("0.5 times less"), "{said}");
    }
}
