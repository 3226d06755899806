//! Records in and out: `load`, `get`, `put`, `delete`, `scan` and `dump`.

use crate::common::Folder;
use std::fmt::Write;
use std::io::Write as _;

#[test]
fn put_get_delete() {
    let dir = Folder::new();
    dir.run(&["put", "db", "ada", "lovelace"]).ok();
    assert_eq!(dir.run(&["get", "db", "ada"]).ok(), "lovelace\n");
    let json = dir.run(&["get", "db", "ada", "--json"]).json();
    assert_eq!(
        (&json["key"], &json["value"]),
        (&"ada".into(), &"lovelace".into())
    );
    dir.run_with(&["put", "db", "ada", "-"], b"from\0stdin\xff")
        .ok();
    assert_eq!(dir.run(&["get", "db", "ada"]).out, b"from\0stdin\xff\n");
    assert_eq!(
        dir.run(&["get", "db", "616461", "--hex"]).ok(),
        "66726f6d00737464696eff\n"
    );
    dir.run(&["delete", "db", "ada"]).ok();
    dir.run(&["get", "db", "ada"]).fails(&["no key \"ada\""]);
    dir.run(&["delete", "db", "ada"]).fails(&["no key"]);
}

#[test]
fn what_is_not_there_is_said() {
    let dir = Folder::new();
    for command in ["stat", "verify", "checkpoint", "scan", "dump"] {
        dir.run(&[command, "nodb"])
            .fails(&["no database at nodb", "terrace load"]);
    }
    assert!(!dir.0.join("nodb").exists());
    dir.run(&["put", "db", "k", "v", "-s", "one"]).ok();
    dir.run(&["put", "db", "k", "v", "-s", "two"]).ok();
    dir.run(&["get", "db", "k"])
        .fails(&["--structure", "\"one\", \"two\""]);
    dir.run(&["get", "db", "k", "-s", "three"])
        .fails(&["\"three\"", "\"one\", \"two\""]);
    dir.run(&["get", "db", "zz", "-s", "one", "--hex"])
        .fails(&["hexadecimal"]);
    assert_eq!(dir.run(&["get", "db"]).code, Some(2));
    assert_eq!(dir.run(&["stat", "db", "--memory", "much"]).code, Some(2));
}

#[test]
fn a_file_that_is_no_database_is_refused() {
    let dir = Folder::new();
    dir.file("file", "not a folder");
    // A file would be a map in persistent memory.
    dir.run(&["stat", "file"])
        .fails(&["file is a file of text", "map in persistent memory"]);
    std::fs::create_dir(dir.0.join("mine")).unwrap();
    dir.run(&["stat", "mine"])
        .fails(&["no database at mine", "terrace load"]);
    dir.file("mine/letter", "dear");
    dir.run(&["put", "mine", "k", "v"])
        .fails(&["mine holds other files"]);
    // Many keep a folder called "data".
    std::fs::create_dir_all(dir.0.join("project/data")).unwrap();
    dir.run(&["put", "project", "k", "v"])
        .fails(&["project holds other files"]);
    dir.run(&["stat", "project"])
        .fails(&["no database at project"]);
    assert_eq!(dir.names("project"), ["data"]);
    std::fs::create_dir(dir.0.join("notes")).unwrap();
    dir.file("notes/log-2026.txt", "dear");
    dir.run(&["put", "notes", "k", "v"])
        .fails(&["notes holds other files"]);
    dir.run(&["put", "db", "k", "v", "--memory", "64k"])
        .fails(&["at least --memory"]);
    let json = dir.run(&["put", "db", "k", "v", "--json"]).json();
    assert_eq!(json["value_bytes"], 1);
    assert_eq!(
        dir.run(&["delete", "db", "k", "--json"]).json()["was_there"],
        true
    );
}

#[test]
fn ranges_are_deleted() {
    let dir = Folder::new();
    let rows: String = (0..2000).map(|n| format!("{n:04},v{n}\n")).collect();
    dir.file("in.csv", format!("id,v\n{rows}"));
    dir.run(&["load", "db", "in.csv", "-f", "csv", "-k", "id"])
        .ok();
    let count = || dir.run(&["scan", "db", "--count"]).ok().trim().to_owned();
    assert_eq!(count(), "2000");
    let json = dir.run(&["delete", "db", "--from", "0100", "--to", "0150", "--json"]);
    assert_eq!(json.json()["removed"], 50);
    let json = dir.run(&["delete", "db", "--prefix", "1", "--atomic", "--json"]);
    assert!(json.json()["removed"].is_null());
    assert_eq!(count(), "950");
    dir.run(&["delete", "db", "--from", "0900", "--atomic"])
        .ok();
    assert_eq!(count(), "850");
    dir.run(&["verify", "db"]).ok();
    assert_eq!(dir.run(&["delete", "db"]).code, Some(2));
    let both = ["delete", "db", "0001", "--to", "0002"];
    assert_eq!(dir.run(&both).code, Some(2));
    dir.run(&["put", "db", "k", "v", "-s", "h", "--kind", "hash"])
        .ok();
    dir.run(&["delete", "db", "-s", "h", "--to", "z", "--atomic"])
        .fails(&["only ranges of trees"]);
    dir.run(&["put", "db", "k1", "v", "-s", "l", "--kind", "lsm"])
        .ok();
    dir.run(&["put", "db", "z", "v", "-s", "l"]).ok();
    dir.run(&["delete", "db", "-s", "l", "--prefix", "k", "--atomic"])
        .ok();
    assert_eq!(
        dir.run(&["scan", "db", "-s", "l", "--count"]).ok().trim(),
        "1"
    );
}

#[test]
fn csv_comes_in_whole_or_by_field() {
    let dir = Folder::new();
    dir.file(
        "p.csv",
        "name,email,age\n\"Love, lace\",ada@x,36\nAlan,alan@x,41\n",
    );
    let out = dir.run(&["load", "db", "--format", "csv", "--key", "email", "p.csv"]);
    assert!(out.ok().starts_with("2 records"), "{}", out.ok());
    assert_eq!(
        dir.run(&["get", "db", "ada@x"]).ok(),
        "{\"name\":\"Love, lace\",\"email\":\"ada@x\",\"age\":\"36\"}\n"
    );
    let args = [
        "load", "db", "-f", "csv", "-k", "name", "--value", "age", "-s", "ages", "p.csv",
    ];
    dir.run(&args).ok();
    assert_eq!(
        dir.run(&["scan", "db", "-s", "ages"]).ok(),
        "Alan\t41\nLove, lace\t36\n"
    );
}

#[test]
fn standard_input_and_json_lines_and_tabs_work_too() {
    let dir = Folder::new();
    let lines = b"{\"id\":2,\"v\":\"b\"}\n{\"id\":1,\"v\":\"a\"}\n";
    let args = [
        "load", "db", "--format", "jsonl", "--key", "id", "--json", "-",
    ];
    let json = dir.run_with(&args, lines).json();
    assert_eq!(
        (json["records"].as_u64(), json["malformed"].as_u64()),
        (Some(2), Some(0))
    );
    assert_eq!(
        dir.run(&["get", "db", "2"]).ok(),
        "{\"id\":2,\"v\":\"b\"}\n"
    );
    dir.file("t.tsv", "w\tn\n\"a\t1\n");
    dir.run(&[
        "load", "db", "-s", "t", "-f", "tsv", "-k", "w", "--value", "n", "t.tsv",
    ])
    .ok();
    assert_eq!(dir.run(&["get", "db", "-s", "t", "\"a"]).ok(), "1\n");
}

#[test]
fn numbers_that_differ_late_are_different_keys() {
    let dir = Folder::new();
    let lines = "{\"id\":100000000000000000001,\"price\":1.10}\n\
        {\"id\":100000000000000000002,\"price\":1.1}\n";
    let load = ["load", "db", "-f", "jsonl", "-k"];
    dir.run_with(&[&load[..], &["id", "-"]].concat(), lines.as_bytes())
        .ok();
    assert_eq!(
        dir.run(&["scan", "db", "--keys-only"]).ok(),
        "100000000000000000001\n100000000000000000002\n"
    );
    let prices = ["price", "--value", "id", "-s", "prices", "-"];
    dir.run_with(&[&load[..], &prices].concat(), lines.as_bytes())
        .ok();
    assert_eq!(
        dir.run(&["scan", "db", "-s", "prices"]).ok(),
        "1.1\t100000000000000000002\n1.10\t100000000000000000001\n"
    );
}

#[test]
fn bad_lines_stop_the_loading_or_are_skipped_and_reported() {
    let dir = Folder::new();
    dir.file("bad.csv", b"id,v\n1,a\n2\n3,\xff\n4,d\n");
    let args = ["load", "db", "--format", "csv", "--key", "id", "bad.csv"];
    dir.run(&args).fails(&[
        "bad.csv:3",
        "malformed",
        "1 records before it",
        "--skip-bad",
    ]);
    assert_eq!(dir.run(&["scan", "db", "--count"]).ok(), "1\n");
    let ran = dir.run(&[&args[..], &["--skip-bad"]].concat());
    assert!(
        ran.ok().contains("2 malformed lines were skipped"),
        "{}",
        ran.ok()
    );
    assert!(ran.error.contains("bad.csv:3: 1 fields"), "{}", ran.error);
    assert!(
        ran.error.contains("bad.csv:4:") && ran.error.contains("UTF-8"),
        "{}",
        ran.error
    );
    assert_eq!(dir.run(&["scan", "db", "--keys-only"]).ok(), "1\n4\n");
}

#[test]
fn keys_and_values_that_are_too_long_are_malformed() {
    let dir = Folder::new();
    let long = "k".repeat(70_000);
    dir.file("long.csv", format!("id,v\n1,a\n{long},b\n2,c\n"));
    let args = ["load", "db", "-f", "csv", "-k", "id", "long.csv"];
    dir.run(&args)
        .fails(&["long.csv:3", "the key has 70000 bytes", "--skip-bad"]);
    let ran = dir.run(&[&args[..], &["--skip-bad"]].concat());
    assert!(ran.ok().contains("1 malformed lines"), "{}", ran.ok());
    assert_eq!(dir.run(&["scan", "db", "--keys-only"]).ok(), "1\n2\n");
}

#[test]
fn a_quote_that_is_not_closed_ends_the_loading() {
    let dir = Folder::new();
    dir.file("open.csv", "id,v\n1,a\n2,\"abc\n3,def\n4,ghi\n");
    let args = ["load", "db", "-f", "csv", "-k", "id", "open.csv"];
    let words = ["open.csv", "1 records", "line 3 is not closed"];
    dir.run(&args).fails(&words);
    // Leaving the record out would leave out all the rest.
    dir.run(&[&args[..], &["--skip-bad"]].concat())
        .fails(&words);
    assert_eq!(dir.run(&["scan", "db", "--keys-only"]).ok(), "1\n");
}

#[test]
fn what_cannot_be_made_leaves_nothing_behind() {
    let dir = Folder::new();
    dir.file("p.csv", "id,v\n1,a\n");
    std::fs::create_dir(dir.0.join("empty")).unwrap();
    let index = ["--index", "v=json:/v"];
    let long = "k".repeat(5000);
    for db in ["new", "empty"] {
        let load = ["load", db, "-f", "csv", "-k", "id", "p.csv"];
        dir.run(&[&load[..], &["--memory", "1MiB"]].concat())
            .fails(&["--memory"]);
        dir.run(&[&load[..], &["-s", " x"]].concat())
            .fails(&["name of a structure"]);
        dir.run(&[&load[..], &index].concat())
            .fails(&["--kind table"]);
        dir.run(&["put", db, "k", "v", "-s", ""])
            .fails(&["name of a structure"]);
        dir.run(&["put", db, &long, "v"]).fails(&["5000 bytes"]);
    }
    assert!(!dir.0.join("new").exists());
    assert!(dir.names("empty").is_empty());
    // What was there before stays.
    dir.run(&["put", "db", "k", "v"]).ok();
    dir.run(&["put", "db", "k", "v", "-s", " x"])
        .fails(&["name of a structure"]);
    dir.run(&["put", "db", "k", "v", "--memory", "1MiB"])
        .fails(&["--memory"]);
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "v\n");
}

#[test]
fn two_fields_with_one_name_are_refused() {
    let dir = Folder::new();
    dir.file("two.csv", "id,v,w,v\n1,a,b,c\n");
    dir.file("two.tsv", "id\tv\tv\n1\ta\tb\n");
    for (format, file, places) in [("csv", "two.csv", "2 and 4"), ("tsv", "two.tsv", "2 and 3")] {
        dir.run(&["load", "db", "-f", format, "-k", "id", file])
            .fails(&["\"v\" twice", places]);
    }
    assert!(!dir.0.join("db").exists());
}

#[test]
fn many_bad_lines_are_counted_but_not_all_shown() {
    let dir = Folder::new();
    let args = [
        "load",
        "db",
        "--format",
        "jsonl",
        "--key",
        "id",
        "--skip-bad",
        "-",
    ];
    let ran = dir.run_with(&args, "garbage\n".repeat(500).as_bytes());
    assert!(ran.ok().contains("500 malformed lines"), "{}", ran.ok());
    assert_eq!(ran.error.lines().count(), 20);
}

#[test]
fn a_wrong_file_or_field_leaves_no_database_behind() {
    let dir = Folder::new();
    dir.file("p.csv", "a,b\n1,2\n");
    dir.file("empty.csv", "");
    let load =
        |file: &str, key: &str| dir.run(&["load", "db", "--format", "csv", "--key", key, file]);
    load("none.csv", "a").fails(&["cannot open none.csv"]);
    load(".", "a").fails(&["is a folder"]);
    load("p.csv", "c").fails(&["no field \"c\"", "a, b"]);
    load("empty.csv", "a").fails(&["empty"]);
    assert_eq!(
        dir.run(&["load", "db", "--format", "csv", "p.csv"]).code,
        Some(2)
    );
    assert_eq!(
        dir.run(&["load", "db", "--format", "xml", "--key", "a", "p.csv"])
            .code,
        Some(2)
    );
    assert!(!dir.0.join("db").exists());
}

#[test]
fn scans_take_ranges_prefixes_and_directions() {
    let dir = Folder::new();
    let mut lines = String::from("k,v\n");
    for i in 0..3000 {
        writeln!(lines, "{i:04},{i}").unwrap();
    }
    let args = ["load", "db", "-f", "csv", "-k", "k", "--value", "v", "-"];
    dir.run_with(&args, lines.as_bytes()).ok();
    let scan = |args: &[&str]| {
        let all: Vec<&str> = ["scan", "db"].iter().chain(args).copied().collect();
        dir.run(&all).ok().to_owned()
    };
    assert_eq!(scan(&["--count"]), "3000\n");
    assert_eq!(
        scan(&["--from", "0010", "--to", "0012"]),
        "0010\t10\n0011\t11\n"
    );
    assert_eq!(scan(&["--prefix", "299", "--count"]), "10\n");
    assert_eq!(
        scan(&["--reverse", "--limit", "2", "--keys-only"]),
        "2999\n2998\n"
    );
    assert_eq!(scan(&["--prefix", "001", "-r", "-l", "1"]), "0019\t19\n");
    assert_eq!(scan(&["--from", "5", "--count"]), "0\n");
    let objects = scan(&["--limit", "1", "--json"]);
    assert_eq!(objects, "{\"key\":\"0000\",\"value\":\"0\"}\n");
    assert_eq!(scan(&["--limit", "1", "--hex"]), "30303030\t30\n");
    dir.run(&["scan", "db", "--from", "b", "--to", "a"])
        .fails(&["ends before it begins"]);
    assert_eq!(
        dir.run(&["scan", "db", "--prefix", "a", "--from", "b"])
            .code,
        Some(2)
    );
}

#[test]
fn a_dump_loads_again_whatever_is_in_it() {
    let dir = Folder::new();
    dir.run(&["put", "old", "00ff", "fe0a", "--hex"]).ok();
    dir.run(&["put", "old", "text", "line\nline"]).ok();
    dir.run(&["put", "old", "empty", ""]).ok();
    let dump = dir.run(&["dump", "old"]).ok().to_owned();
    assert_eq!(dump.lines().count(), 3);
    dir.run_with(&["load", "new", "--format", "dump", "-"], dump.as_bytes())
        .ok();
    assert_eq!(dir.run(&["dump", "new"]).ok(), dump);
    dir.run(&["load", "new", "--format", "dump", "--key", "a", "-"])
        .fails(&["--key"]);
}

#[test]
fn a_dump_of_a_damaged_database_has_what_lies_before_and_behind_the_damage() {
    let dir = Folder::new();
    let mut lines = String::from("k,v\n");
    for i in 0..5000 {
        writeln!(lines, "{i:04},the value of {i:04}").unwrap();
    }
    for (kind, tiers) in [
        ("tree", "1"),
        ("hash", "1"),
        ("tree", "2"),
        ("table", "1"),
        ("lsm", "1"),
    ] {
        let db = format!("{kind}{tiers}");
        let args = ["load", &db, "--kind", kind, "--tiers", tiers, "-f", "csv"];
        let fields = ["-k", "k", "--value", "v", "-"];
        dir.run_with(&[&args[..], &fields].concat(), lines.as_bytes())
            .ok();
        dir.damage(&db, b"the value of 2500");
        let ran = dir.run(&["dump", &db]);
        let error = ran.fails(&["data is damaged", "records", "are dumped"]);
        let dump = std::str::from_utf8(&ran.out).unwrap();
        let saved = dump.lines().count();
        assert!(!dump.contains("2500") && saved < 5000, "{db}: {saved}");
        if kind == "table" {
            continue;
        }
        // All but one page.
        assert!(error.contains("those between are missing"), "{error}");
        assert!(saved > 4000, "{db}: {saved}");
        let new = format!("{db}-new");
        dir.run_with(&["load", &new, "-f", "dump", "-"], dump.as_bytes())
            .ok();
        assert_eq!(
            dir.run(&["scan", &new, "--count"]).ok(),
            format!("{saved}\n"),
            "no record twice"
        );
    }
}

#[test]
fn a_dump_is_no_longer_than_what_load_reads() {
    // Six bytes for one in JSON: so a value below the longest gave a line above it.
    let dir = Folder::new();
    let value = vec![1; 1 << 20];
    dir.run_with(&["put", "old", "k", "-"], &value).ok();
    let dump = dir.run(&["dump", "old"]).ok().to_owned();
    assert!(dump.len() <= 2 * value.len() + 100, "{}", dump.len());
    dir.run_with(&["load", "new", "--format", "dump", "-"], dump.as_bytes())
        .ok();
    let mut found = dir.run(&["get", "new", "k"]).out;
    assert_eq!(found.pop(), Some(b'\n'));
    assert!(found == value);
}

#[test]
fn output_that_nobody_reads_is_no_error() {
    use std::process::{Command, Stdio};
    let dir = Folder::new();
    let lines: String = (0..50_000)
        .map(|i| format!("{{\"id\":\"{i}\"}}\n"))
        .collect();
    dir.run_with(
        &["load", "db", "-f", "jsonl", "-k", "id", "-"],
        lines.as_bytes(),
    )
    .ok();
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["scan", "db"])
        .current_dir(&dir.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && error.is_empty(), "{error}");
}

#[test]
fn a_standard_error_that_nobody_reads_ends_nothing() {
    let dir = Folder::new();
    let load = ["load", "db", "-f", "csv", "-k", "id", "--skip-bad", "-"];
    let ran = dir.run_unheard(&load, b"id,v\n1,a\n2\n3\n4,d\n");
    assert!(
        ran.ok().contains("2 malformed lines were skipped"),
        "{}",
        ran.ok()
    );
    assert_eq!(dir.run(&["scan", "db", "--keys-only"]).ok(), "1\n4\n");
    for args in [
        &["get", "db", "none"][..],
        &["delete", "db", "none"],
        &["get", "nodb", "none"],
    ] {
        assert_eq!(dir.run_unheard(args, b"").code, Some(1), "{args:?}");
    }
}

#[test]
fn a_key_that_was_not_there_is_told_by_the_exit_code_also_if_nobody_reads_the_output() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    let delete = ["delete", "db", "none", "--json"];
    assert_eq!(dir.run_unseen(&delete).code, Some(1));
    assert_eq!(
        dir.run_unseen(&["delete", "db", "k", "--json"]).code,
        Some(0)
    );
}

#[test]
fn a_hash_table_takes_the_same_commands() {
    let dir = Folder::new();
    let lines: String = (0..500).map(|i| format!("{i:04},{i}\n")).collect();
    let load = ["load", "db", "-s", "table", "--kind", "hash"];
    let fields = ["-f", "csv", "-k", "k", "--value", "v", "-"];
    dir.run_with(
        &[&load[..], &fields].concat(),
        format!("k,v\n{lines}").as_bytes(),
    )
    .ok();
    dir.run(&["put", "db", "more", "here", "-s", "other", "--kind", "hash"])
        .ok();
    assert_eq!(dir.run(&["get", "db", "0042", "-s", "table"]).ok(), "42\n");
    dir.run(&["delete", "db", "0007", "-s", "table"]).ok();
    assert_eq!(
        dir.run(&["scan", "db", "-s", "table", "--count"]).ok(),
        "499\n"
    );
    let dump = dir.run(&["dump", "db", "-s", "table"]).ok().to_owned();
    assert_eq!(dump.lines().count(), 499);
    dir.run_with(&["load", "new", "-f", "dump", "-"], dump.as_bytes())
        .ok();
    assert_eq!(dir.run(&["scan", "new", "--count"]).ok(), "499\n");
    dir.run(&["scan", "db", "-s", "table", "--prefix", "00"])
        .fails(&["hash table", "order"]);
    assert!(dir.run(&["stat", "db"]).ok().contains("hash"));
    dir.run(&["verify", "db"]).ok();
}

#[test]
fn a_value_in_hexadecimal_may_come_from_the_standard_input() {
    let dir = Folder::new();
    dir.run_with(&["put", "db", "6b", "-", "--hex"], b"00fF\n")
        .ok();
    assert_eq!(dir.run(&["get", "db", "6b", "--hex"]).ok(), "00ff\n");
    dir.run_with(&["put", "db", "6b", "-", "--hex"], b"xyz")
        .fails(&["hexadecimal"]);
    dir.run_with(&["put", "db", "k", "-"], b"a\n").ok();
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "a\n\n");
    assert!(dir.run(&["get", "--help"]).ok().contains("line end"));
}

#[test]
fn a_key_that_a_line_gives_twice_is_no_key() {
    let dir = Folder::new();
    let lines = b"{\"id\":1,\"v\":\"a\",\"id\":2}\n{\"id\":3,\"v\":1,\"v\":2}\n{\"id\":4,\"w\":1,\"w\":2,\"v\":1}\n";
    let load = ["load", "db", "-f", "jsonl", "-k", "id", "--value", "v", "-"];
    dir.run_with(&load, lines)
        .fails(&["input:1", "two fields \"id\""]);
    let loaded = dir.run_with(&[&load[..], &["--skip-bad"]].concat(), lines);
    loaded.ok();
    assert!(
        loaded.error.contains("two fields \"v\""),
        "{}",
        loaded.error
    );
    // What is not asked for may be there as often as it likes.
    assert_eq!(dir.run(&["scan", "db", "--keys-only"]).ok(), "4\n");
}

#[test]
fn what_gzip_has_compressed_is_read_and_any_character_divides_fields() {
    let dir = Folder::new();
    let text = "id;name\n1;Ada, the first\n2;\"Bob;\"\n";
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(text.as_bytes()).unwrap();
    let gz = gz.finish().unwrap();
    dir.file("p.csv.gz", &gz);
    let load = |db: &str, more: &[&str]| {
        let args = ["load", db, "-f", "csv", "-k", "id", "--value", "name"];
        dir.run(&[&args[..], more].concat())
    };
    let done = load("db", &["--delimiter", ";", "p.csv.gz"]);
    assert!(done.ok().starts_with("2 records"), "{}", done.ok());
    assert_eq!(dir.run(&["get", "db", "1"]).ok(), "Ada, the first\n");
    assert_eq!(dir.run(&["get", "db", "2"]).ok(), "Bob;\n");
    // Cut off, it is no file that ends there.
    dir.file("cut.csv.gz", &gz[..gz.len() - 9]);
    load("cut", &["--delimiter", ";", "cut.csv.gz"]).fails(&["cut.csv.gz"]);
    let tabs = dir.run_with(
        &["load", "t", "-f", "tsv", "--delimiter", "|", "-k", "a", "-"],
        b"a|b\n1|\"x\n",
    );
    tabs.ok();
    assert_eq!(
        dir.run(&["get", "t", "1"]).ok(),
        "{\"a\":\"1\",\"b\":\"\\\"x\"}\n"
    );
    let refused = dir.run(&[
        "load",
        "t",
        "-f",
        "csv",
        "-k",
        "a",
        "--delimiter",
        "ab",
        "x",
    ]);
    assert_eq!(refused.code, Some(2));
    dir.file("d.jsonl", "");
    dir.run(&["load", "t", "-f", "dump", "--delimiter", ";", "d.jsonl"])
        .fails(&["--delimiter"]);
}

#[test]
fn what_is_wrong_with_a_first_line_names_the_file() {
    let dir = Folder::new();
    dir.file("empty.csv", "");
    dir.file("twice.csv", "id,name,id\n");
    for (file, word) in [("empty.csv", "empty"), ("twice.csv", "twice")] {
        dir.run(&["load", "db", "-f", "csv", "-k", "id", file])
            .fails(&[file, word]);
    }
    dir.run_with(&["load", "db", "-f", "csv", "-k", "id", "-"], b"")
        .fails(&["the input", "empty"]);
}

#[test]
fn a_key_that_is_not_utf_8_is_told_of_hexadecimal() {
    use std::os::unix::ffi::OsStrExt;
    let dir = Folder::new();
    dir.run(&["put", "db", "--hex", "ff00", "61"]).ok();
    let bad = std::ffi::OsStr::from_bytes(b"\xff\x01");
    for command in ["get", "delete"] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_terrace"))
            .args([command, "db"])
            .arg(bad)
            .current_dir(&dir.0)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(
            ran.status.code() == Some(2) && text.contains("--hex"),
            "{text}"
        );
    }
    assert_eq!(dir.run(&["get", "db", "--hex", "ff00"]).ok(), "61\n");
}

#[test]
fn a_dump_of_all_structures_makes_them_again() {
    let dir = Folder::new();
    dir.file("p.csv", "id,city\n1,Rome\n2,\n3,Rome\n4,Oslo\n");
    let load = |more: &[&str]| {
        let args = ["load", "db", "-f", "csv", "-k", "id", "p.csv"];
        dir.run(&[&args[..], more].concat()).ok().to_owned()
    };
    load(&["-s", "h", "--kind", "hash"]);
    load(&["-s", "one", "--tiers", "1"]);
    load(&[
        "-s",
        "t",
        "--kind",
        "table",
        "--index",
        "city=json:/city",
        "--index",
        "id=unique:json:/id",
    ]);
    let dumped = dir.run(&["dump", "--all", "db"]).ok().to_owned();
    let made = dir.run_with(&["load", "new", "-f", "dump", "-"], dumped.as_bytes());
    assert!(made.ok().starts_with("12 records"), "{}", made.ok());
    let about = |db: &str| {
        let list = dir.run(&["list", db, "--json"]).ok().to_owned();
        let of = |line: &str| {
            let mut info: serde_json::Value = serde_json::from_str(line).unwrap();
            info["id"].take();
            info
        };
        list.lines().map(of).collect::<Vec<_>>()
    };
    assert_eq!(about("new"), about("db"));
    assert_eq!(about("new").len(), 3);
    // The table is the only one with indexes.
    let indexes = "city=json:/city\nid=unique:json:/id\n";
    assert_eq!(dir.run(&["index", "list", "new"]).ok(), indexes);
    let rome = ["scan", "new", "-s", "t", "--index", "city", "--keys-only"];
    assert_eq!(dir.run(&rome).ok(), "Oslo\t4\nRome\t1\nRome\t3\n");
    // A hash table has an order of its own.
    let lines = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let again = dir.run(&["dump", "--all", "new"]).ok().to_owned();
    assert_eq!(lines(&again), lines(&dumped));
    dir.run(&["verify", "new"]).ok();
    // A dump of one structure goes where it is told to.
    let one = dir.run(&["dump", "db", "-s", "one"]).ok().to_owned();
    dir.run_with(
        &["load", "new", "-s", "x", "-f", "dump", "-"],
        one.as_bytes(),
    )
    .ok();
    assert_eq!(dir.run(&["dump", "new", "-s", "x"]).ok(), one);
}
