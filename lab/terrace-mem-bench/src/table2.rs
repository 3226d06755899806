//! Table 2 of the paper: what a lookup of a random integer takes of the processor, by each structure
//! alone. Instructions and misses are counted by cachegrind, which simulates the caches of the machine it
//! runs on, so that neither the clock nor other programs matter: it runs this program twice, with lookups
//! and without, and the difference is theirs.

use crate::keys;
use crate::paper::{PAIRS, Row, alone};
use crate::random::{Random, Zipf};
use std::hint::black_box;
use std::io::{Error, Result};
use std::path::Path;
use std::process::Command;
use terrace_mem::HybridMap;

/// Lookups that are counted.
const LOOKUPS: usize = 100_000;

/// What cachegrind counts.
#[derive(Clone, Copy)]
struct Counts([f64; 3]);

/// The lines that cachegrind prints them in, but for the number of blanks, which versions differ in.
const LINES: [&str; 3] = ["I refs: ", "D1 misses: ", "LLd misses: "];

impl Counts {
    /// What stands behind the names of the lines in the report.
    fn parse(report: &str) -> Option<Self> {
        let lines: Vec<String> = report
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let mut all = [0.0; 3];
        for (name, count) in LINES.iter().zip(&mut all) {
            let line = lines.iter().find_map(|line| line.split_once(name))?.1;
            let number = line.split_whitespace().next()?.replace(',', "");
            *count = number.parse().ok()?;
        }
        Some(Counts(all))
    }
}

/// Loads a structure and looks keys up in it: what is counted.
pub fn lookups(pair: usize, entries: usize, lookups: usize) {
    let Some((pair, _)) = PAIRS.get(pair) else {
        return;
    };
    let keys = keys::random(entries);
    let mut map = HybridMap::<u64, u64>::with_options(alone(*pair)).expect("good options");
    for (i, &key) in keys.iter().enumerate() {
        map.insert(key, i as u64);
    }
    let (mut random, zipf) = (Random(3), Zipf::new(entries, 0.99));
    let places: Vec<usize> = (0..LOOKUPS).map(|_| zipf.next(&mut random)).collect();
    for &at in places.iter().take(lookups) {
        black_box(map.get(&keys[at]));
    }
}

fn count(program: &Path, args: [usize; 3]) -> Result<Counts> {
    let mut command = Command::new("valgrind");
    let flags = [
        "--tool=cachegrind",
        "--cache-sim=yes",
        "--cachegrind-out-file=/dev/null",
    ];
    command.args(flags).arg(program).arg("lookups");
    command.args(args.map(|n| n.to_string()));
    let output = command.output().map_err(|error| {
        Error::new(
            error.kind(),
            format!("valgrind, which counts, does not start: {error}"),
        )
    })?;
    let report = String::from_utf8_lossy(&output.stderr);
    Counts::parse(&report)
        .ok_or_else(|| Error::other(format!("cachegrind does not count:\n{report}")))
}

/// A row for each structure.
///
/// # Errors
/// Where valgrind is not there or does not count.
pub fn rows(entries: usize) -> Result<Vec<Row>> {
    let program = std::env::current_exe()?;
    let mut rows = Vec::new();
    for (pair, (_, name)) in PAIRS.iter().enumerate() {
        eprintln!("table2: {name}");
        let (with, without) = (
            count(&program, [pair, entries, LOOKUPS])?,
            count(&program, [pair, entries, 0])?,
        );
        let each = |i: usize| (with.0[i] - without.0[i]) / LOOKUPS as f64;
        rows.push(Row {
            figure: "table2",
            pair: name.to_string(),
            keys: "random",
            entries,
            instructions_per_get: each(0),
            l1_misses_per_get: each(1),
            last_level_misses_per_get: each(2),
            ..Row::default()
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cachegrind_counts_is_read() {
        let report = "==7== I refs:        1,234,567\n==7== D1  misses:      8,901  ( 7,000 rd)\n\
                      ==7== LLd misses:         23  (20 rd + 3 wr)\n";
        let counts = Counts::parse(report).map(|counts| counts.0);
        assert_eq!(counts, Some([1_234_567.0, 8901.0, 23.0]));
        let older =
            "==7== I   refs:      5\n==7== D1  misses:   6  (1 rd)\n==7== LLd misses: 7 (1 rd)";
        let counts = Counts::parse(older).map(|counts| counts.0);
        assert_eq!(counts, Some([5.0, 6.0, 7.0]));
        assert!(Counts::parse("valgrind: no").is_none());
    }
}
