//! The command: small runs of everything end and report it; what it cannot do it says.

use std::path::PathBuf;
use std::process::{Command, Output};

const BENCH: &str = env!("CARGO_BIN_EXE_mem-bench");
/// Enough for merges.
const FEW: [&str; 4] = ["--entries", "9000", "--ops", "2_000"];

fn run(args: &[&str]) -> Output {
    Command::new(BENCH).args(args).output().expect("it starts")
}

/// The standard output of a run that ends well.
fn report(args: &[&str]) -> String {
    let output = run(&[&FEW, args].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {error}");
    String::from_utf8(output.stdout).expect("text")
}

/// A folder that is empty.
fn folder(name: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It may be left from an earlier run.
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a folder can be made");
    dir
}

/// The maps of each set of keys: those of `rivals`.
const INTS: usize = 26;
const BYTES: usize = 25;

#[test]
fn every_workload_runs_on_every_map_with_every_kind_of_keys() {
    let dir = folder("all");
    let (json, plots) = (dir.join("out.json"), dir.join("plots"));
    let (json, plots) = (json.to_string_lossy(), plots.to_string_lossy());
    let table = report(&["--maps", "all", "--json", &json, "--plots", &plots]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .filter(|line| !line.is_empty())
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for (set, maps) in [
        ("random", INTS),
        ("monotonic", INTS),
        ("clustered", INTS),
        ("email", BYTES),
    ] {
        let of_set: Vec<_> = rows.iter().filter(|row| row[1] == set).collect();
        assert_eq!(of_set.len(), maps, "maps of {set}: {of_set:?}");
        for name in ["hybrid", "hybrid-concurrent", "hybrid-multi"] {
            assert!(of_set.iter().any(|row| row[2] == name), "{set}: no {name}");
        }
    }
    // Bytes, peak and six rates are there; pauses were not asked for.
    for row in &rows {
        let filled = row.iter().map(|cell| !cell.is_empty());
        let filled: Vec<bool> = filled.collect();
        assert!(filled[1..=10].iter().all(|there| *there), "{row:?}");
        assert!(!filled[11..].iter().any(|there| *there), "{row:?}");
    }
    let text = std::fs::read_to_string(&*json).expect("the JSON is there");
    for name in [
        "pair",
        "keys",
        "entries",
        "bytes_per_entry",
        "inserts_per_second",
        "gets_per_second",
        "scans_per_second",
        "longest_insert_us",
    ] {
        let field = format!("\"{name}\": ");
        assert_eq!(text.matches(&field).count(), rows.len(), "{name}");
    }
    // All but the pauses were measured.
    let zeros = |name: &str| text.matches(&format!("\"{name}\": 0.0000")).count();
    assert_eq!(zeros("longest_insert_us"), rows.len());
    for name in ["inserts_per_second", "gets_per_second", "scans_per_second"] {
        assert_eq!(zeros(name), 0, "{name}");
    }
    let drawn = std::fs::read_dir(&*plots).expect("the plots are there");
    assert_eq!(drawn.count(), 4 * 6);
}

#[test]
fn pauses_are_measured_where_they_are_asked_for() {
    let table = report(&["--pause", "--keys", "random", "--maps", "hybrid-concurrent"]);
    let row = table.lines().nth(2).expect("a row");
    assert_eq!(
        row.split('|').filter(|cell| cell.trim().is_empty()).count(),
        2
    );
}

#[test]
fn maps_are_measured_by_turns() {
    let lines = report(&[
        "--in-turns",
        "--keys",
        "random,email",
        "--maps",
        "BTreeMap,hybrid-multi",
    ]);
    let begins = [
        "random BTreeMap:",
        "random hybrid-multi:",
        "email BTreeMap:",
        "email hybrid-multi:",
    ];
    assert_eq!(lines.lines().count(), 4);
    for (line, begin) in lines.lines().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
        for what in ["insert", "get", "half updates", "scan"] {
            assert!(line.contains(what), "{line}");
        }
    }
}

#[test]
fn several_threads_are_measured_against_one() {
    let lines = report(&["--threads", "2", "--keys", "random,email"]);
    let begins = [
        "random hybrid-concurrent:",
        "random crossbeam-skiplist:",
        "email hybrid-concurrent:",
        "email crossbeam-skiplist:",
    ];
    assert_eq!(lines.lines().count(), 4);
    for (line, begin) in lines.lines().zip(begins) {
        assert!(line.starts_with(begin), "{line}");
        assert!(line.contains("reads ") && line.contains("half updates "));
        assert_eq!(line.matches(" by 2 (").count(), 2, "{line}");
    }
}

#[test]
fn lookups_of_the_four_structures_are_counted_or_it_says_what_is_missing() {
    let output = run(&["paper", "table2", "--entries", "2000"]);
    let counts = Command::new("valgrind").arg("--version").output().is_ok();
    if !counts {
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains("valgrind"),
            "{error}"
        );
        return;
    }
    assert!(output.status.success());
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| table2"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    assert_eq!(rows.len(), 4, "{text}");
    for row in rows {
        let instructions = row[10].parse::<f64>().expect("instructions");
        // Of a build that is hardly optimised.
        assert!((20.0..50_000.0).contains(&instructions), "{row:?}");
    }
}

#[test]
fn what_cannot_be_done_is_refused_at_once_and_said() {
    for (args, says) in [
        (&["--what"][..], "unexpected argument '--what'"),
        (&["random"], "unrecognized subcommand 'random'"),
        (&["--entries"], "a value is required for '--entries"),
        (&["--entries", "many"], "a number of 1000 or more is needed"),
        (&["--entries", "-1"], "unexpected argument '-1'"),
        (&["--ops", "999"], "a number of 1000 or more is needed"),
        (
            &["--keys", "random,words"],
            "invalid value 'words' for '--keys",
        ),
        (&["--keys", ""], "'--keys <KEYS>'"),
        (
            &["--maps", "hybrid,hash"],
            "no map hash for these keys; maps are BTreeMap",
        ),
        (
            &["--keys", "email", "--maps", "brie-tree"],
            "no map brie-tree for these keys; maps are BTreeMap",
        ),
        (&["--threads", "0"], "0 is not in 1..=1024"),
        (&["--threads", "2", "--in-turns"], "cannot be used with"),
        (&["--in-turns", "--pause"], "cannot be used with"),
        (&["--in-turns", "--json", "x"], "cannot be used with"),
        (&["paper"], "required"),
        (&["paper", "fig8"], "invalid value 'fig8'"),
        (
            &["paper", "fig5", "--quick", "--entries", "2000"],
            "cannot be used with",
        ),
    ] {
        let output = run(args);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{args:?}");
        assert!(error.contains(says), "{args:?}: {error}");
        assert!(
            error.contains("--help") || error.contains("maps are"),
            "{args:?} shows no way out: {error}"
        );
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let file = folder("none").join("no").join("out.json");
    let args = [
        "--keys",
        "random",
        "--maps",
        "BTreeMap",
        "--json",
        &file.to_string_lossy(),
    ];
    let output = run(&[&FEW[..], &args].concat());
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("the report could not be written"), "{error}");
}

#[test]
fn help_is_no_error() {
    let output = run(&["--help"]);
    assert!(output.status.success() && output.stderr.is_empty());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("--in-turns") && text.contains("crossbeam-skiplist"));
}

#[test]
fn an_experiment_of_the_paper_writes_figures_and_pictures() {
    let dir = folder("paper");
    let (json, out) = (dir.join("out.json"), dir.join("page"));
    let output = run(&[
        "paper",
        "fig5",
        "--entries",
        "3000",
        "--json",
        &json.to_string_lossy(),
        "--out",
        &out.to_string_lossy(),
    ]);
    assert!(output.status.success());
    let text = std::fs::read_to_string(json).expect("the JSON is there");
    // Three sets of keys; four structures and their compact forms, and the compressed one.
    assert_eq!(text.matches("\"bytes_per_entry\"").count(), 27);
    let page = std::fs::read_to_string(out.join("index.html")).expect("the page is there");
    assert!(page.contains("<svg") && page.contains("compact ART"));
    assert!(out.join("fig5-gets_per_second.svg").exists());
}

#[test]
fn placement_is_measured_where_it_was_built_in() {
    let output = run(&["place", "fig8", "--scale", "0.002"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    match cfg!(feature = "place") {
        true => assert!(
            output.status.success() && said.contains("fig8"),
            "{said} {error}"
        ),
        false => assert!(
            !output.status.success() && error.contains("--features place"),
            "{error}"
        ),
    }
}
