//! Maps in persistent memory on the command line: files, where databases are folders.

use crate::common::Folder;
use terrace_pm::{Durability, Options, PmMap};

fn options() -> Options {
    Options::new().memory(4 << 20).capacity(64 << 20)
}

/// A file with numbers, as a program makes it.
fn numbers(dir: &Folder, keys: impl Iterator<Item = u64>) {
    let map = PmMap::<u64, u64>::open(dir.0.join("n.pm"), options()).unwrap();
    for key in keys {
        map.put(key, key * 10).unwrap();
    }
    map.close().unwrap();
    drop(map);
}

#[test]
fn pairs_go_in_and_out() {
    let dir = Folder::new();
    dir.run(&["put", "m.pm", "ada", "lovelace", "--kind", "pm"])
        .ok();
    assert!(dir.0.join("m.pm").is_file());
    assert_eq!(dir.run(&["get", "m.pm", "ada"]).ok(), "lovelace\n");
    // It is known by being a file.
    dir.run(&["put", "m.pm", "alan", "turing"]).ok();
    dir.run_with(&["put", "m.pm", "raw", "-"], b"\0\xff").ok();
    assert_eq!(dir.run(&["get", "m.pm", "726177", "--hex"]).ok(), "00ff\n");
    assert_eq!(
        dir.run(&["scan", "m.pm", "--to", "b"]).ok(),
        "ada\tlovelace\nalan\tturing\n"
    );
    dir.run(&["delete", "m.pm", "ada"]).ok();
    dir.run(&["get", "m.pm", "ada"]).fails(&["no key \"ada\""]);
    dir.run(&["delete", "m.pm", "ada"]).fails(&["no key"]);
    dir.run(&["get", "m.pm", "ada", "-s", "main"])
        .fails(&["no structures"]);
    let stat = dir.run(&["stat", "m.pm", "--json"]).json();
    assert_eq!(stat["keys"], "byte strings");
    assert!(stat["capacity_bytes"].as_u64() > stat["file_bytes"].as_u64());
    let verified = dir.run(&["verify", "m.pm", "--json"]).json();
    assert_eq!(
        (&verified["ok"], &verified["report"]["keys"]),
        (&true.into(), &2.into())
    );
    dir.run(&["get", "other.pm", "x"]).fails(&["other.pm"]);
    assert!(!dir.0.join("other.pm").exists());
}

#[test]
fn a_prefix_is_one_and_a_range_has_two_ends() {
    let dir = Folder::new();
    let lines = "k\tv\na\t1\nab\t2\nabc\t3\nac\t4\nb\t5\n";
    dir.file("p.tsv", lines);
    let load = [
        "load", "m.pm", "--kind", "pm", "-f", "tsv", "-k", "k", "--value", "v", "p.tsv",
    ];
    dir.run(&load).ok();
    let scan = |args: &[&str]| {
        let all = [&["scan", "m.pm", "--keys-only"], args].concat();
        dir.run(&all).ok().to_owned()
    };
    assert_eq!(scan(&["--prefix", "ab"]), "ab\nabc\n");
    assert_eq!(scan(&["--prefix", "ab", "--reverse"]), "abc\nab\n");
    assert_eq!(scan(&["--prefix", "b"]), "b\n");
    assert_eq!(scan(&["--from", "ab", "--to", "ac"]), "ab\nabc\n");
    assert_eq!(scan(&["--reverse", "--limit", "2"]), "b\nac\n");
    let count = dir.run(&["scan", "m.pm", "--prefix", "a", "--count", "--json"]);
    assert_eq!(count.json()["count"], 4);
    dir.run(&["scan", "m.pm", "--from", "b", "--to", "a"])
        .fails(&["swap --from and --to"]);
    // Prefixes whose last byte has none behind it.
    dir.run(&["put", "m.pm", "ff", "00", "--hex"]).ok();
    assert_eq!(scan(&["--prefix", "ff", "--hex"]), "ff\n");
}

#[test]
fn text_has_prefixes_too() {
    let dir = Folder::new();
    let map = PmMap::<str, str>::open(dir.0.join("t.pm"), options()).unwrap();
    for key in [
        "stra",
        "straße",
        "strasse",
        "straz",
        "\u{d7ff}",
        "\u{10ffff}",
    ] {
        map.put(key, "x").unwrap();
    }
    map.close().unwrap();
    drop(map);
    let scan = |prefix: &str| {
        let args = ["scan", "t.pm", "--keys-only", "--prefix", prefix];
        dir.run(&args).ok().to_owned()
    };
    assert_eq!(scan("stra"), "stra\nstrasse\nstraz\nstraße\n");
    assert_eq!(scan("straß"), "straße\n");
    assert_eq!(scan("\u{d7ff}"), "\u{d7ff}\n");
    assert_eq!(scan("\u{10ffff}"), "\u{10ffff}\n");
}

#[test]
fn numbers_are_ordered_as_numbers() {
    let dir = Folder::new();
    numbers(&dir, 1..=20);
    let scan = |args: &[&str]| {
        let all = [&["scan", "n.pm", "--keys-only"], args].concat();
        dir.run(&all).ok().to_owned()
    };
    assert_eq!(scan(&["--from", "9", "--to", "11"]), "9\n10\n");
    assert_eq!(scan(&["--from", "19", "--reverse"]), "20\n19\n");
    assert_eq!(dir.run(&["get", "n.pm", "10"]).ok(), "100\n");
    dir.run(&["scan", "n.pm", "--from", "11", "--to", "9"])
        .fails(&["swap --from and --to"]);
    dir.run(&["scan", "n.pm", "--prefix", "1"])
        .fails(&["no prefix", "--from"]);
    dir.run(&["put", "n.pm", "ten", "1"])
        .fails(&["this map has numbers", "ten"]);
    dir.run(&["put", "n.pm", "21", "210"]).ok();
    assert_eq!(scan(&["--from", "20"]), "20\n21\n");
}

#[test]
fn what_is_dumped_can_be_loaded() {
    let dir = Folder::new();
    let map = PmMap::<[u8], [u8]>::open(dir.0.join("m.pm"), options()).unwrap();
    for key in 0..2000u32 {
        let bytes = key.wrapping_mul(2_654_435_761).to_be_bytes();
        map.put(bytes, vec![key as u8; key as usize % 40]).unwrap();
    }
    map.close().unwrap();
    drop(map);
    let dump = dir.run(&["dump", "m.pm"]).ok().to_owned();
    assert_eq!(
        dump.lines().filter(|line| line.contains("key")).count(),
        2000
    );
    dir.file("dump", &dump);
    dir.run(&["load", "again.pm", "--kind", "pm", "-f", "dump", "dump"])
        .ok();
    assert_eq!(dir.run(&["dump", "again.pm"]).ok(), dump);
    // And into a database, and back.
    dir.run(&["load", "db", "-f", "dump", "dump"]).ok();
    let scanned = dir.run(&["scan", "db", "--hex"]).ok().to_owned();
    assert_eq!(dir.run(&["scan", "again.pm", "--hex"]).ok(), scanned);
    dir.run(&["dump", "m.pm", "--all"]).fails(&["--all"]);
}

#[test]
fn lines_that_are_none_are_skipped_and_a_full_map_is_not() {
    let dir = Folder::new();
    numbers(&dir, 1..=3);
    dir.file("n.tsv", "k\tv\n7\t70\nseven\t70\n8\teighty\n9\t90\n");
    let load = [
        "load", "n.pm", "-f", "tsv", "-k", "k", "--value", "v", "n.tsv",
    ];
    dir.run(&load).fails(&["n.tsv:3", "malformed", "1 records"]);
    let skip = [&load[..], &["--skip-bad", "--json"]].concat();
    let json = dir.run(&skip).json();
    assert_eq!(
        (&json["records"], &json["malformed"]),
        (&2.into(), &2.into())
    );
    // A small map and more than it holds: that is no malformed line.
    let lines: String = (0..60_000)
        .map(|i| format!("key {i:07}\t{}\n", "v".repeat(100)))
        .collect();
    dir.file("much.tsv", format!("k\tv\n{lines}"));
    let args = [
        "load",
        "small.pm",
        "--kind",
        "pm",
        "--capacity",
        "12MiB",
        "-f",
        "tsv",
        "-k",
        "k",
        "--value",
        "v",
        "much.tsv",
        "--skip-bad",
    ];
    let ran = dir.run(&args);
    ran.fails(&["records are loaded", "capacity"]);
    assert!(!ran.error.contains("malformed"), "{}", ran.error);
    let count = dir
        .run(&["scan", "small.pm", "--count"])
        .ok()
        .trim()
        .parse::<u64>();
    assert!(count.unwrap() > 1000);
    dir.run(&["delete", "small.pm", "key 0000007"]).ok();
    dir.run(&["verify", "small.pm"]).ok();
}

#[test]
fn a_map_that_a_power_cut_has_met_is_begun_anew_only_when_told() {
    let dir = Folder::new();
    let path = dir.0.join("cache.pm");
    let buffered = options().durability(Durability::Buffered);
    let map = PmMap::<[u8], [u8]>::open(&path, buffered.boot(1)).unwrap();
    map.put(&b"k"[..], &b"v"[..]).unwrap();
    map.crash();
    dir.run(&["get", "cache.pm", "k"])
        .fails(&["power-fail", "--discard-after-power-loss"]);
    dir.run(&["put", "cache.pm", "x", "y"])
        .fails(&["--discard-after-power-loss"]);
    dir.run(&["put", "cache.pm", "x", "y", "--discard-after-power-loss"])
        .ok();
    assert_eq!(dir.run(&["scan", "cache.pm"]).ok(), "x\ty\n");
}

#[test]
fn the_benchmark_counts_what_the_documents_say() {
    let dir = Folder::new();
    let bench = |args: &[&str]| {
        let all = [
            &["bench", "-", "--structure", "pm", "--records", "10000"],
            args,
        ]
        .concat();
        dir.run(&all).ok().to_owned()
    };
    let keys = [
        "fences_per_op",
        "lines_per_op",
        "units_256_per_op",
        "leaf_lines_read_per_op",
        "pairs_per_leaf_write",
        "dram_bytes_per_key",
        "log_bytes",
    ];
    let text = bench(&["--json", "--rival", "all", "--work", "all", "--recovery"]);
    for line in text.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        if object["work"] == "recovery" {
            assert_eq!(object["keys"], 10_000);
            continue;
        }
        for key in keys {
            assert!(object[key].is_number(), "{key} in {line}");
        }
    }
    assert_eq!(text.lines().count(), 7 * 11 + 1);
    let text = bench(&["--json", "--experiments", "--plot", "all.svg"]);
    assert_eq!(text.lines().count(), 7 * 11 + 2 + 2);
    for told in ["paper-two", "literal", "\"threads\":1", "\"threads\":4"] {
        assert!(text.contains(told), "{told} in {text}");
    }
    let picture = std::fs::read_to_string(dir.0.join("all.svg")).unwrap();
    for panel in [
        "Lines flushed",
        "The tail",
        "log held",
        "memory a key",
        "opening 10000",
    ] {
        assert!(picture.contains(panel), "{panel}");
    }
    let table = bench(&[
        "--plot",
        "picture.svg",
        "--rival",
        "plain",
        "--work",
        "batch",
    ]);
    assert!(
        table.contains("plain") && table.contains("batch"),
        "{table}"
    );
    let picture = std::fs::read_to_string(dir.0.join("picture.svg")).unwrap();
    assert!(picture.starts_with("<svg"), "{picture}");
    dir.run(&["bench", "-", "--structure", "pm", "--rival", "nobody"])
        .fails(&["no rival", "nobody"]);
    dir.run(&[
        "bench",
        "x.pm",
        "--structure",
        "pm",
        "--device",
        "dax",
        "--records",
        "10",
    ])
    .fails(&["no persistent memory", "--device file"]);
    dir.run(&[
        "bench",
        "x.pm",
        "--structure",
        "pm",
        "--device",
        "file",
        "--rival",
        "all",
    ])
    .fails(&["--rival", "--device count"]);
    let json = dir.run(&[
        "bench",
        "y.pm",
        "--structure",
        "pm",
        "--device",
        "file",
        "--records",
        "2000",
        "--json",
        "--remove",
    ]);
    assert!(json.json()["put_us"].is_number() && json.json()["get_us"].is_number());
}
