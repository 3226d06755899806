//! The database as a whole, benchmarks and the demonstration.

use crate::common::Folder;

#[test]
fn stat_verify_and_checkpoint_answer() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    dir.run(&["put", "db", "k", "v", "-s", "rows", "--kind", "table"])
        .ok();
    dir.run(&["put", "db", "l", "v", "-s", "main"]).ok();
    let stat = dir.run(&["stat", "db"]).ok().to_owned();
    let main = stat.lines().find(|line| line.contains("main")).unwrap();
    let main: Vec<_> = main.split_whitespace().collect();
    assert_eq!(main[..4], ["main", "tree", "2", "2"], "{stat}");
    let json = dir.run(&["stat", "db", "--json"]).json();
    assert_eq!(json["structures"][0]["records"], 2, "{json}");
    assert_eq!(json["structures"][1]["records"], 1, "{json}");
    assert!(
        dir.run(&["verify", "db"])
            .ok()
            .contains("no problems found")
    );
    assert_eq!(dir.run(&["verify", "db", "--json"]).json()["ok"], true);
    assert!(dir.run(&["checkpoint", "db", "--json"]).json()["seconds"].is_f64());
    assert!(
        dir.run(&["checkpoint", "db"])
            .ok()
            .contains("checkpoint written")
    );
}

#[test]
fn what_was_found_is_printed_also_if_the_closing_fails() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    // The superblocks are written in turn.
    let failed = (0..2).map(|_| {
        let ran = dir.run_without_space(&["verify", "db", "--reclaim"]);
        let out = String::from_utf8_lossy(&ran.out);
        assert!(out.contains("no problems found"), "{out}{}", ran.error);
        ran.code == Some(1) && ran.error.contains("closing the database failed")
    });
    assert!(failed.fold(false, |any, failed| any | failed));
    // What only reads writes nothing when it is closed, if the log is empty.
    dir.run(&["checkpoint", "db"]).ok();
    let ran = dir.run_without_space(&["get", "db", "k"]);
    assert_eq!(
        (ran.code, &ran.out[..]),
        (Some(0), &b"v\n"[..]),
        "{}",
        ran.error
    );
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "v\n");
}

/// This process has it open, and each command is another.
#[test]
fn a_database_that_another_process_has_open_is_left_alone() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    let options = terrace::Options::new().memory(16 << 20);
    let db = terrace::Database::open(dir.0.join("db"), options).unwrap();
    let map = db.map("main").unwrap();
    map.put("k", "w").unwrap();
    let before = dir.names("db");
    for args in [
        &["get", "db", "k"][..],
        &["put", "db", "k", "x"],
        &["stat", "db"],
        &["verify", "db"],
        &["checkpoint", "db"],
        &["dump", "db"],
    ] {
        dir.run(args)
            .fails(&["is open elsewhere", "close it there first"]);
    }
    assert_eq!(dir.names("db"), before);
    assert_eq!(map.get("k").unwrap().unwrap(), b"w");
    drop((map, db));
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "w\n");
}

#[test]
fn a_database_that_is_opened_with_control_answers_while_it_is_open() {
    let dir = Folder::new();
    let options = terrace::Options::new().memory(16 << 20).control(true);
    let db = terrace::Database::open(dir.0.join("db"), options).unwrap();
    let tree = db.tree("main").unwrap();
    tree.put("k", "v").unwrap();
    assert!(dir.run(&["stat", "db"]).ok().contains("records, about"));
    let json = dir.run(&["stat", "db", "--json"]).json();
    assert_eq!(json["structures"][0]["records"], 1, "{json}");
    assert_eq!(json["memory"]["limit"], 16 << 20, "{json}");
    let before = db.stats().checkpoints.completed;
    assert!(dir.run(&["checkpoint", "db", "--json"]).json()["seconds"].is_f64());
    assert_eq!(db.stats().checkpoints.completed, before + 1);
    assert!(
        dir.run(&["verify", "db"])
            .ok()
            .contains("no problems found")
    );
    let top = dir.run(&["top", "db", "--once"]).ok().to_owned();
    assert!(
        top.starts_with("terrace db ") && top.contains("main "),
        "{top}"
    );
    // No other process reads or writes records.
    dir.run(&["get", "db", "k"]).fails(&["is open elsewhere"]);
    drop((tree, db));
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "v\n");
    // One that no process has open is opened.
    assert!(dir.run(&["top", "db", "--once"]).ok().contains("main "));
    dir.run(&["top", "db"]).fails(&["no terminal", "--once"]);
    dir.run(&["view", "db", "--http", "0.0.0.0:0"])
        .fails(&["can be reached from other machines", "token"]);
}

#[test]
fn damage_is_damage_also_if_nobody_reads_the_report() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "a value to be found"]).ok();
    dir.damage("db", b"a value to be found");
    for args in [&["verify", "db"][..], &["verify", "db", "--json"]] {
        assert_eq!(dir.run(args).code, Some(1));
        assert_eq!(dir.run_unseen(args).code, Some(1));
    }
}

#[test]
fn help_has_examples_and_a_version() {
    let dir = Folder::new();
    assert!(dir.run(&["--help"]).ok().contains("Examples:"));
    assert!(
        dir.run(&["index", "create", "--help"])
            .ok()
            .contains("Examples:")
    );
    for command in ["load", "scan", "drop", "bench", "demo"] {
        assert!(
            dir.run(&[command, "--help"]).ok().contains("Examples:"),
            "{command}"
        );
    }
    assert!(
        dir.run(&["--version"])
            .ok()
            .contains(env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(dir.run(&[]).code, Some(2));
}

#[test]
fn stat_tells_whether_pages_go_around_the_cache_of_the_system() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    let direct = dir.run(&["stat", "db", "--json"]).json()["opening"]["direct_io"].as_bool();
    let said = dir.run(&["stat", "db"]).ok().contains("through the cache");
    assert_eq!(said, !direct.unwrap());
}

#[test]
fn a_plot_is_written_also_if_nobody_reads_the_result() {
    let dir = Folder::new();
    let bench = ["bench", "b", "--plot", "plot.svg"];
    assert_eq!(dir.run_unseen(&[&bench[..], &SMALL].concat()).code, Some(0));
    let svg = std::fs::read_to_string(dir.0.join("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg"), "{svg}");
}

#[test]
fn more_seconds_than_anybody_waits_are_refused() {
    let dir = Folder::new();
    let ran = dir.run(&["demo", "--seconds", "7000000000000000000"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.error.contains("31536000"), "{}", ran.error);
}

const SMALL: [&str; 10] = [
    "--records",
    "20k",
    "--memory",
    "16MiB",
    "--threads",
    "2",
    "--seconds",
    "0.5",
    "--warmup",
    "0.2",
];

/// For many runs.
const TINY: [&str; 10] = [
    "--records",
    "6k",
    "--memory",
    "5MiB",
    "--threads",
    "2",
    "--seconds",
    "0.2",
    "--warmup",
    "0",
];

/// Values of which half compresses take fewer pages where they are, and all are right.
#[test]
fn half_random_values_take_fewer_pages_compressed() {
    let dir = Folder::new();
    let pages = ["none", "lz4"].map(|how| {
        let args = [
            "bench",
            "b",
            "-w",
            "a",
            "--structure",
            "lsm",
            "--compress",
            how,
        ];
        let rest = ["--value-random", ".5", "--remove", "--json", "--audit"];
        // More than the memory holds, so that most of it is in the last level.
        let much = ["--records", "60k", "--memory", "4MiB", "--seconds", "0.2"];
        let json = dir.run(&[&args[..], &rest, &much].concat()).json();
        assert_eq!(json["compression"], how);
        assert_eq!(json["value_random"], 0.5);
        let last = |field: &str| {
            let levels: Vec<u64> = serde_json::from_value(json[field].clone()).unwrap();
            *levels.last().unwrap() as f64
        };
        last("level_page_bytes") / last("levels").max(1.0)
    });
    assert!(pages[1] < pages[0] * 0.8, "{pages:?}");
    dir.run(&["bench", "b", "-w", "a", "--compress", "lz4"])
        .fails(&["--structure lsm"]);
}

/// Runs every workload over a structure, with one tier and with two.
fn every_workload_runs(structure: &str) {
    let dir = Folder::new();
    for workload in [
        "a", "b", "c", "d", "e", "f", "load", "scan", "hotspot", "shift",
    ] {
        for tiers in ["1", "2"] {
            let args = [
                "bench",
                "b",
                "-w",
                workload,
                "--structure",
                structure,
                "--tiers",
                tiers,
                "--remove",
                "--json",
                "--audit",
            ];
            let ran = dir.run(&[&args[..], &TINY].concat());
            if structure == "hash" && ["e", "scan"].contains(&workload) {
                ran.fails(&["hash table", "order"]);
                continue;
            }
            let json = ran.json();
            assert_eq!(json["workload"], workload);
            assert!(json["ops"].as_u64().unwrap() > 0, "{workload} {tiers}");
            assert_eq!(json["tiers"].to_string(), tiers);
            if structure == "lsm" {
                let fields = json.as_object().unwrap();
                for field in [
                    "levels",
                    "merge_bytes_per_user_byte",
                    "filter_bytes",
                    "step_waits_max",
                    "live_bytes_per_user_byte",
                ] {
                    assert!(fields.contains_key(field), "{field}: {json}");
                }
                assert!(json["step_waits_max"].as_u64().unwrap() <= 1);
            }
            assert!(!dir.0.join("b").exists());
        }
    }
}

#[test]
fn every_workload_runs_on_trees() {
    every_workload_runs("tree");
}

#[test]
fn every_workload_runs_on_hash_tables() {
    every_workload_runs("hash");
}

#[test]
fn every_workload_runs_on_tables() {
    every_workload_runs("table");
}

#[test]
fn every_workload_runs_on_lsm_trees() {
    every_workload_runs("lsm");
}

/// The rows of the paper's Table 3, and one of them again over what is there.
#[test]
fn the_papers_policy_for_lsm_trees_has_six_rows() {
    let dir = Folder::new();
    let args = [
        "bench",
        "b",
        "--structure",
        "lsm",
        "--control-period",
        "0.01",
    ];
    // Data of ten times the memory.
    let small = [
        "--records",
        "60k",
        "--memory",
        "4MiB",
        "--threads",
        "2",
        "--seconds",
        "1",
        "--warmup",
        "0",
    ];
    let ran = dir.run(&[&args[..], &["--table3", "--json"], &small].concat());
    let rows: serde_json::Value = serde_json::from_str(ran.ok()).unwrap();
    let rows = rows.as_array().unwrap();
    let field = |n: usize, name: &str| rows[n][name].as_f64().unwrap();
    let switches: Vec<_> = rows
        .iter()
        .map(|row| ["promote", "early", "control"].map(|name| row[name].as_str().unwrap()))
        .collect();
    assert_eq!(
        switches,
        [
            ["never", "off", "off"],
            ["all", "off", "off"],
            ["const:0.3", "off", "off"],
            ["exp", "off", "off"],
            ["exp", "on", "off"],
            ["exp", "on", "on"],
        ]
    );
    assert_eq!(field(0, "promotions_per_lookup"), 0.0);
    assert!(field(1, "promotions_per_lookup") > 2.0 * field(2, "promotions_per_lookup"));
    assert!(field(2, "promotions_per_lookup") > field(3, "promotions_per_lookup"));
    assert!(field(1, "migrated_bytes_per_lookup") > field(2, "migrated_bytes_per_lookup"));
    assert!(field(3, "migrated_bytes_per_lookup") > 0.0);
    assert!((0..6).all(|n| rows[n]["report"]["checked_reads"].as_u64() > Some(0)));
    assert!(!dir.0.join("b").exists());

    let row = ["--promote", "up:0.3", "--early", "off", "--json"];
    let json = dir.run(&[&args[..], &row, &small].concat()).json();
    assert_eq!(
        json["policy"],
        "paper, promote up:0.3, early off, control on"
    );
    assert!(json["counters"]["promotions"].as_u64().unwrap() > 0);
    let again = ["--skip-load", "--promote", "never", "--audit", "--json"];
    let json = dir.run(&[&args[..], &again, &small].concat()).json();
    assert_eq!(json["counters"]["promotions"], 0);
    // Nothing in the files depends on it.
    let without = [
        "bench",
        "b",
        "--structure",
        "lsm",
        "--skip-load",
        "--policy",
        "paper",
        "--audit",
    ];
    dir.run(&[&without[..], &small].concat()).ok();
}

#[test]
fn a_loaded_database_serves_many_benchmarks() {
    let dir = Folder::new();
    let text = dir.run(&[&["bench", "b", "-w", "load"][..], &SMALL].concat());
    assert!(text.ok().contains("throughput"), "{}", text.ok());
    dir.run(&[&["bench", "b", "-w", "c"][..], &SMALL].concat())
        .fails(&["--skip-load"]);
    // Not many more than this, whatever the disk: thousands would be read otherwise.
    let slow = dir.run(
        &[
            &[
                "bench",
                "b",
                "-w",
                "c",
                "--skip-load",
                "--device-iops",
                "200",
            ][..],
            &["--distribution", "uniform", "--json"],
            &SMALL,
        ]
        .concat(),
    );
    let slow: serde_json::Value = serde_json::from_str(slow.ok()).expect("an object");
    let reads = slow["page_reads_per_op"].as_f64().expect("a number")
        * slow["ops_per_second"].as_f64().expect("a number");
    assert!(slow["device_iops"] == 200 && reads <= 300.0, "{slow}");
    let again = ["bench", "b", "-w", "c", "--skip-load", "--plot", "p.svg"];
    let table = dir.run(&[&again[..], &SMALL].concat());
    assert!(table.ok().contains("latency of read"), "{}", table.ok());
    assert!(!table.ok().contains("up to"), "{}", table.ok());
    let histogram = dir.run(&[&again[..5], &["--histogram"], &SMALL].concat());
    let bars = |line: &&str| line.contains("up to") && line.contains('#');
    assert!(
        histogram.ok().lines().filter(bars).count() > 0,
        "{}",
        histogram.ok()
    );
    assert!(dir.0.join("p.svg").exists() && dir.0.join("p-reads.svg").exists());
    let more = [
        "bench",
        "b",
        "-w",
        "c",
        "--skip-load",
        "--records",
        "40k",
        "--seconds",
        "1",
    ];
    dir.run(&more).fails(&["missing", "same number of records"]);
}

#[test]
fn a_killed_loader_leaves_something_to_replay() {
    let dir = Folder::new();
    let args = [
        "bench",
        "b",
        "-w",
        "replay",
        "--records",
        "20k",
        "--memory",
        "16MiB",
        "--remove",
        "--audit",
    ];
    let json = dir.run(&[&args[..], &["--json"]].concat()).json();
    // The records, and the creation of the structure.
    assert_eq!(json["replayed_operations"], 20_001);
    assert_eq!(json["records_found"], 20_000);
    assert_eq!(json["load"]["workload"], "load");
    let text = dir.run(&args);
    assert!(text.ok().contains("20000 of 20000 loaded"), "{}", text.ok());
    assert!(!dir.0.join("b").exists());
    dir.run(&["bench", "b", "-w", "replay", "--log", "off"])
        .fails(&["--log buffered"]);
}

#[test]
fn the_loader_of_a_replay_is_told_everything() {
    let dir = Folder::new();
    let args = ["bench", "b", "-w", "replay", "--remove", "--json"];
    let small = ["--records", "5k", "--memory", "16MiB"];
    for (more, label) in [
        (
            &["--structure", "hash", "--hashes", "own"][..],
            "default, a hash function for each tier",
        ),
        (
            &["--structure", "table", "--hot-heap"],
            "default, a heap above",
        ),
        (
            &["--exclusive", "--pessimistic-locks"],
            "default, exclusive tiers",
        ),
        (
            &["--structure", "table", "--hot-heap", "--sweep", "heap"],
            "default, a heap above, swept in heap order",
        ),
    ] {
        let json = dir.run(&[&args[..], &small, more].concat()).json();
        assert_eq!(json["load"]["policy"], label);
        assert_eq!(json["policy"], label);
    }
    dir.run(&[&args[..], &["--record-cache"]].concat())
        .fails(&["record cache", "replay"]);
    assert!(!dir.0.join("b").exists());
}

#[test]
fn senseless_benchmarks_are_refused_before_anything_is_made() {
    let dir = Folder::new();
    for (args, word) in [
        (&["--distribution", "ycsb", "--zipf", "1.5"][..], "0.9999"),
        (&["--value-bytes", "3"], "values"),
        (&["--threads", "0"], "threads"),
        (&["--seconds", "-1"], "seconds"),
        (&["--seconds", "nan"], "seconds"),
        (&["--records", "0"], "records"),
        (&["--hot-heap"], "--structure table"),
        (&["--tiers", "1", "--exclusive"], "--tiers 2"),
        (&["--structure", "lsm", "--exclusive"], "--tiers 2"),
        (&["--sweep", "heap"], "--hot-heap"),
        (&["--device-iops", "3"], "10 to"),
        (&["--promote", "all"], "--structure lsm"),
        (&["--table3"], "--structure lsm"),
        (&["--control-period", "1"], "--promote"),
    ] {
        let joined: Vec<String> = args.chunks(2).map(|pair| pair.join("=")).collect();
        let all: Vec<&str> = ["bench", "b"]
            .into_iter()
            .chain(joined.iter().map(String::as_str))
            .collect();
        dir.run(&all).fails(&[word]);
        assert!(!dir.0.join("b").exists());
    }
    let lsm = ["bench", "b", "--structure", "lsm"];
    for (args, word) in [
        (&["--promote", "all", "--tiers", "1"][..], "--tiers 2"),
        (&["--promote", "all", "-w", "replay"], "replay"),
        (
            &["--promote", "all", "--control-period", "0"],
            "--control-period",
        ),
        (
            &["--promote", "all", "--control-period", "nan"],
            "--control-period",
        ),
        (&["--table3", "-w", "f"], "--workload c"),
        (&["--table3", "--tiers", "1"], "--tiers 2"),
    ] {
        dir.run(&[&lsm[..], args].concat()).fails(&[word]);
        assert!(!dir.0.join("b").exists());
    }
    for args in [
        &["--promote", "some"][..],
        &["--promote", "const:1.5"],
        &["--promote", "const:"],
        &["--early", "off"],
        &["--control", "off"],
        &["--promote", "exp", "--early", "half"],
        &["--promote", "exp", "--record-cache"],
        &["--promote", "exp", "--policy", "default"],
        &["--promote", "exp", "--table3"],
        &["--table3", "--skip-load"],
    ] {
        assert_eq!(
            dir.run(&[&lsm[..], args].concat()).code,
            Some(2),
            "{args:?}"
        );
        assert!(!dir.0.join("b").exists());
    }
    assert_eq!(dir.run(&["bench", "b", "--workload", "g"]).code, Some(2));
    assert_eq!(dir.run(&["bench", "b", "--tiers", "3"]).code, Some(2));
}

/// A demonstration that is over soon, and needs no more time than it is given.
const DEMO: [&str; 10] = [
    "demo",
    "--people",
    "80k",
    "--memory",
    "2560KiB",
    "--visits",
    "40k",
    "--seconds",
    "36000",
    "--threads=2",
];

#[test]
fn the_demonstration_counts_and_compares() {
    let dir = Folder::new();
    let json = dir.run(&[&DEMO[..], &["--json", "--keep"]].concat()).json();
    let figure = |store: &str, name: &str| json[store][name].as_f64().unwrap();
    let mut stores = vec!["two_tiers", "one_tier"];
    if cfg!(feature = "peers-demo") {
        stores.push("redb");
    }
    for store in &stores {
        assert_eq!(json[store]["complete"], true, "{json}");
        assert_eq!(json[store]["visits"], 40_000, "{json}");
    }
    assert_eq!(json["redb"].is_object(), stores.len() == 3);
    // What it is there to show: one tier reads a page for most visits, two tiers for the few that are cold, and
    // what is counted often is written seldom.
    for other in &stores[1..] {
        let reads = "device_reads_per_visit_of_the_last_quarter";
        let (two, other_reads) = (figure("two_tiers", reads), figure(other, reads));
        assert!(two * 2.0 < other_reads, "{other}: {json}");
        let written = "bytes_written_per_visit";
        let (two, other_bytes) = (figure("two_tiers", written), figure(other, written));
        assert!(two * 2.0 < other_bytes, "{other}: {json}");
    }
    // All visits of a person are in the profile that is kept.
    let top = &json["most_often"][0];
    let name = top["name"].as_str().unwrap();
    let profile = dir.run(&["get", "terrace-demo/two-tiers", name]);
    let stored: u64 = profile.ok()[..8].parse().unwrap();
    assert_eq!(top["visits"].as_u64(), Some(stored));
    let scanned = dir.run(&["scan", "terrace-demo/one-tier", "--count"]);
    assert_eq!(scanned.ok().trim(), "80000");
    dir.run(&DEMO)
        .fails(&["terrace-demo is there already", "--dir"]);
}

#[test]
fn the_demonstration_ends_with_bars_and_takes_its_files_away() {
    let dir = Folder::new();
    let out = dir.run(&[
        "demo",
        "--people",
        "1000",
        "--visits",
        "2k",
        "--seconds",
        "36000",
    ]);
    for word in [
        "1000 profiles of people",
        "two tiers: 2000 visits in",
        "one tier: 2000 visits in",
        "the cache of the operating system",
        "device reads per visit",
        "bytes written per visit",
        "\n  two tiers  ",
        "\n  one tier   ",
        "Most often: ",
        "has all its visits",
    ] {
        assert!(out.ok().contains(word), "{word}: {}", out.ok());
    }
    assert_eq!(dir.names(""), [""; 0]);
}

#[test]
fn the_demonstration_says_what_it_takes() {
    let dir = Folder::new();
    for (args, said) in [
        (["--threads", "0"], "--threads"),
        (["--people", "999"], "--people"),
        (["--people", "20M"], "--people"),
        (["--memory", "1MiB"], "--memory"),
        (["--visits", "10"], "--visits"),
        (["--seconds", "0"], "--seconds"),
    ] {
        dir.run(&[&["demo"][..], &args].concat()).fails(&[said]);
    }
    assert!(!dir.0.join("terrace-demo").exists());
}
