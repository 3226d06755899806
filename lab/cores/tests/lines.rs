//! What a hot read and a blind write may share with those of other records, counted.
//!
//! Skipped, and said so, where a process may not trace its own children.

use std::process::Command;

use serde_json::Value;

/// The counts of `operations` over all structures; none where nothing can be traced.
fn counts(operations: &[&str]) -> Option<Vec<Value>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cores-bench"));
    program.args(["count", "--json"]);
    for operation in operations {
        program.args(["--operation", operation]);
    }
    let output = program.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    if !cfg!(target_arch = "x86_64") || errors.contains("cannot trace") {
        eprintln!("not counted: {errors}");
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).expect("it prints JSON"))
}

fn of<'c>(counts: &'c [Value], operation: &str) -> Vec<&'c Value> {
    let of = |count: &&Value| count["operation"] == operation;
    let found: Vec<_> = counts.iter().filter(of).collect();
    assert_eq!(found.len(), 3, "all structures were counted");
    found
}

/// Lines of the log that a put may write: that of its lane, and the two at the ends of its record, where those of others
/// begin and end. Now and then the lane is closed and opened again, under the mutex.
const LINES_OF_THE_LOG: f64 = 4.0;

#[test]
fn a_hot_read_writes_no_line_that_reads_of_others_touch_and_a_put_those_of_the_log_alone() {
    let Some(counts) = counts(&["get", "put"]) else {
        return;
    };
    for count in of(&counts, "get") {
        // Keys of a hash table are scattered: a page may be needed by both, now and then.
        let written = count["written"].as_f64().expect("a number");
        assert!(count["written_least"] == 0 && written < 0.5, "{count:#}");
    }
    for count in of(&counts, "put") {
        let written = count["written"].as_f64().expect("a number");
        assert!(written <= LINES_OF_THE_LOG, "{count:#}");
        for site in count["by"].as_array().expect("a list") {
            let place = site["place"].as_str().expect("a text");
            let of_the_log = ["terrace-wal/", "terrace-base/src/"];
            let is_known = of_the_log.iter().any(|known| place.contains(known));
            // What a latch that both happen to need is, is none of the two's.
            let is_rare = site["lines"].as_f64().is_some_and(|lines| lines < 0.5);
            let is_read = site["written"] == false;
            // Without lines of the source, as built with `debug = 0`, a place is an address.
            let is_nameless = place.starts_with("0x");
            assert!(
                is_known || is_rare || is_read || is_nameless,
                "{place}: {count:#}"
            );
        }
    }
}
