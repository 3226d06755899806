//! Two tiers beside one, and beside another store.

use serde_json::{Value, json};
use std::fmt::Write;
use terrace_bench::numbers::{bytes, count as number, ratio};

use super::answers::Answers;
use super::count::Outcome;
use super::survey::Survey;

/// What is not known of a store.
const UNKNOWN: &str = "-";

/// A table for people.
pub fn table(two: &Outcome, one: &Outcome, other: &Outcome) -> String {
    let mut text = String::new();
    let mut row = |name: &str, [two, one, other]: [String; 3], note: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name:<28}{two:>12}{one:>12}{other:>12}   {note}");
    };
    let all = [two, one, other];
    row("", all.map(|o| o.name.into()), String::new());
    let stopped = |o: &&Outcome| o.units < two.units;
    let part = |o: &&Outcome| format!("{} after {:.0} %", o.name, work_done(two, o) * 100.0);
    let parts: Vec<_> = all.iter().filter(|o| stopped(o)).map(part).collect();
    let note = match parts.is_empty() {
        true => "the same work".into(),
        false => format!("stopped: {}", parts.join(", ")),
    };
    row("time", all.map(|o| format!("{:.1} s", o.seconds)), note);
    let times = |o: &Outcome| two.updates_per_second() / o.updates_per_second().max(1e-9);
    row(
        "updates per second",
        all.map(|o| number(o.updates_per_second().round())),
        format!("{:.1} and {:.1} times as many", times(one), times(other)),
    );
    let reads = |o: &Outcome| o.per_update(o.counters.page_reads);
    row(
        "page reads per update",
        [ratio(reads(two)), ratio(reads(one)), UNKNOWN.into()],
        fewer(reads(two), reads(one)),
    );
    let writes = |o: &Outcome| o.per_update(o.counters.page_writes);
    row(
        "page writes per update",
        [ratio(writes(two)), ratio(writes(one)), UNKNOWN.into()],
        fewer(writes(two), writes(one)),
    );
    let written = Outcome::written_per_user_byte;
    row(
        "bytes written per user byte",
        [ratio(written(two)), ratio(written(one)), UNKNOWN.into()],
        fewer(written(two), written(one)),
    );
    if let [Some(a), Some(b), Some(c)] = all.map(|o| o.peak_resident) {
        row(
            "resident memory at most",
            [a, b, c].map(bytes),
            "of the whole process".into(),
        );
    }
    if let [Some(a), Some(b), Some(c)] = all.map(|o| o.counters.disk_bytes) {
        row("size on disk", [a, b, c].map(bytes), String::new());
    }
    if let Some(fill) = two.counters.hot_fill() {
        let unknown = || UNKNOWN.to_owned();
        row(
            "fill of hot pages",
            [format!("{:.0} %", fill * 100.0), unknown(), unknown()],
            String::new(),
        );
    }
    text += "\nredb keeps pages in a cache of the same size, counts a whole piece of the text in one\n\
             transaction, and has the cache of the operating system beside; Terrace acknowledges each\n\
             update, and goes around that cache.\n";
    text
}

fn work_done(all: &Outcome, part: &Outcome) -> f64 {
    part.updates() as f64 / all.updates().max(1) as f64
}

fn fewer(two: f64, one: f64) -> String {
    if two <= 0.0 || one <= 0.0 {
        return String::new();
    }
    if one >= two {
        format!("{:.1} times fewer", one / two)
    } else {
        format!("{:.1} times more", two / one)
    }
}

/// The same for programs.
pub fn json(
    survey: &Survey,
    memory: u64,
    [two, one, other]: [&Outcome; 3],
    answers: &Answers,
) -> Value {
    let run = |o: &Outcome| {
        json!({
            "seconds": o.seconds,
            "complete": o.units == o.of_units,
            "updates": o.updates(),
            "updates_per_second": o.updates_per_second(),
            "page_bytes": o.counters.page_bytes,
            "page_reads_per_update": o.per_update(o.counters.page_reads),
            "page_writes_per_update": o.per_update(o.counters.page_writes),
            "disk_bytes_written": o.counters.disk_bytes_written,
            "disk_bytes_written_per_user_byte": o.written_per_user_byte(),
            "peak_resident_bytes": o.peak_resident,
            "log_bytes": o.counters.log_bytes,
            "disk_bytes": o.counters.disk_bytes,
            "hot_fill": o.counters.hot_fill(),
        })
    };
    json!({
        "words": survey.words,
        "text_bytes": survey.text_bytes,
        "distinct_words": survey.distinct[0],
        "distinct_pairs": survey.distinct[1],
        "distinct_triples": survey.distinct[2],
        "data_bytes": survey.data_bytes,
        "memory_bytes": memory,
        "two_tiers": run(two),
        "one_tier": run(one),
        "redb": {
            "seconds": other.seconds,
            "complete": other.units == other.of_units,
            "updates": other.updates(),
            "updates_per_second": other.updates_per_second(),
            "peak_resident_bytes": other.peak_resident,
            "disk_bytes": other.counters.disk_bytes,
        },
        "answers": answers.json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_bench::Counters;

    fn outcome(name: &'static str, units: usize, seconds: f64, page_reads: u64) -> Outcome {
        let counters = Counters {
            page_reads,
            page_writes: 10,
            disk_bytes_written: 1 << 20,
            ..Counters::default()
        };
        Outcome {
            name,
            units,
            of_units: 10,
            counted: [units as u64 * 100; 3],
            user_bytes: units as u64 * 30_000,
            seconds,
            peak_resident: Some(20 << 20),
            counters,
        }
    }

    #[test]
    fn the_table_says_what_was_and_was_not_done() {
        let two = outcome("two tiers", 10, 1.0, 200);
        let redb = outcome("redb", 10, 8.0, 0);
        let same = table(&two, &outcome("one tier", 10, 4.0, 1000), &redb);
        assert!(
            same.contains("the same work") && same.contains("4.0 and 8.0 times as many"),
            "{same}"
        );
        assert!(same.contains("5.0 times fewer"), "{same}");
        let part = table(&two, &outcome("one tier", 5, 4.0, 0), &redb);
        assert!(part.contains("stopped: one tier after 50 %"), "{part}");
        assert!(
            part.lines().all(|line| line.chars().count() <= 100),
            "{part}"
        );
    }
}
