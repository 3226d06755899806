//! What commands say where something is not as it was thought: the reason, once, and the way out.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};

use terrace::{Database, Options};

use crate::common::Folder;

const COMMAND: &str = env!("CARGO_BIN_EXE_terrace");

#[test]
fn a_structure_that_is_there_is_of_the_kind_that_was_said() {
    let dir = Folder::new();
    let jsonl = b"{\"id\":\"a\",\"v\":1}\n";
    let load = |more: &[&str]| {
        let args = [
            &["load", "db", "--format", "jsonl", "--key", "id"],
            more,
            &["-"],
        ]
        .concat();
        dir.run_with(&args, jsonl)
    };
    load(&[]).ok();
    for (kind, named) in [
        ("lsm", "LSM-tree"),
        ("hash", "hash table"),
        ("table", "table"),
    ] {
        load(&["--kind", kind]).fails(&["\"main\" is there", "a tree", named, "--structure"]);
        dir.run(&["put", "db", "a", "b", "-s", "main", "--kind", kind])
            .fails(&["\"main\" is there", named]);
    }
    load(&["--tiers", "1"]).fails(&["tiers are 2"]);
    load(&["--kind", "tree", "--tiers", "2"]).ok();
    load(&[]).ok();
    load(&["--kind", "lsm", "-s", "other"]).ok();
    assert!(dir.run(&["list", "db"]).ok().contains("lsm"));
}

#[test]
fn a_scan_prints_json_as_get_does() {
    let dir = Folder::new();
    let value = r#"{"path":"C:\\temp","said":"\"ä\""}"#;
    dir.run(&["put", "db", "a", value]).ok();
    assert_eq!(dir.run(&["get", "db", "a"]).ok(), format!("{value}\n"));
    assert_eq!(dir.run(&["scan", "db"]).ok(), format!("a\t{value}\n"));
    dir.run(&["put", "db", "a", r"C:\temp"]).ok();
    assert_eq!(dir.run(&["scan", "db"]).ok(), "a\tC:\\\\temp\n");
}

#[test]
fn a_file_of_text_is_no_damaged_map() {
    let dir = Folder::new();
    dir.file("people.csv", "id,name\n1,Zoë\n");
    let told = dir.run(&["get", "people.csv", "1"]);
    let told = told.fails(&["people.csv is a file of text", "terrace load"]);
    assert!(!told.contains("damaged"), "{told}");
}

#[test]
fn an_output_that_takes_nothing_is_named() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "b"]).ok();
    for args in [
        ["dump", "db"],
        ["scan", "db"],
        ["stat", "db"],
        ["list", "db"],
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let ran = Command::new(COMMAND)
            .args(args)
            .current_dir(&dir.0)
            .stdout(Stdio::from(full.unwrap()))
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{args:?}: {told}");
        assert!(
            told.contains("cannot write to the standard output"),
            "{args:?}: {told}"
        );
        assert!(!told.contains("could not be read"), "{args:?}: {told}");
    }
}

#[test]
fn times_and_rates_are_said_in_many_ways_and_wrong_ones_name_them() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "b"]).ok();
    dir.run(&["backup", "create", "db", "set"]).ok();
    let refused = |args: &[&str], words: &[&str]| {
        let ran = dir.run(args);
        assert_eq!(ran.code, Some(2), "{}", ran.error);
        for word in words {
            assert!(ran.error.contains(word), "{word}: {}", ran.error);
        }
    };
    refused(
        &["backup", "create", "db", "set", "--rate", "lots"],
        &["gentle", "fast", "100MiB"],
    );
    refused(
        &["restore", "set", "r", "--to-time", "yesterday"],
        &["+02:00", "1970"],
    );
    for time in [
        "2019-01-01",
        "2019-01-01T02:00:00+02:00",
        "1546300800",
        "2019-01-01 00:00Z",
    ] {
        dir.run(&["restore", "set", "r", "--to-time", time])
            .fails(&[
                "does not have the state of 2019-01-01T00:00:00.000Z",
                "point 1",
            ]);
    }
}

/// A database that this process has open.
fn open(dir: &Folder, control: bool) -> Database {
    let options = Options::new().memory(16 << 20).control(control);
    let db = Database::open(dir.0.join("db"), options).unwrap();
    db.tree("t").unwrap().put("a", "b").unwrap();
    db
}

#[test]
fn who_comes_when_too_many_ask_hears_that() {
    let dir = Folder::new();
    let db = open(&dir, true);
    let socket = dir.0.join("db/control");
    let mut asking: Vec<UnixStream> = Vec::new();
    // Each is admitted when it has its answer.
    for _ in 0..8 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"{\"command\":\"version\"}\n").unwrap();
        let mut answer = [0; 1];
        stream.read_exact(&mut answer).unwrap();
        asking.push(stream);
    }
    let told = dir.run(&["stat", "db"]);
    let told = told.fails(&["8 connections are open already"]);
    assert!(!told.contains("Options::control"), "{told}");
    drop(asking);
    db.close().unwrap();
    dir.run(&["stat", "db"]).ok();
}

#[test]
fn who_has_it_open_and_is_stopped_is_told_of_soon() {
    let dir = Folder::new();
    let db = open(&dir, false);
    // It takes connections and says nothing, as a process that was stopped.
    let _silent = UnixListener::bind(dir.0.join("db/control")).unwrap();
    let told = dir.run(&["stat", "db"]);
    let told = told.fails(&["said nothing for 10 seconds", "stopped"]);
    let process = std::process::id().to_string();
    assert!(told.contains(&process), "{told}");
    assert_eq!(told.matches("said nothing").count(), 1, "{told}");
    db.close().unwrap();
}

#[test]
fn what_a_foreign_socket_says_reaches_no_terminal_as_it_is() {
    let dir = Folder::new();
    let db = open(&dir, false);
    let foreign = UnixListener::bind(dir.0.join("db/control")).unwrap();
    let thread = std::thread::spawn(move || {
        let (mut stream, _) = foreign.accept().unwrap();
        let mut request = [0; 512];
        let _ = stream.read(&mut request).unwrap();
        let answer = b"{\"error\":{\"kind\":\"invalid\",\"text\":\"no\\u001b[2J\\u0007\"}}\n";
        stream.write_all(answer).unwrap();
    });
    let told = dir.run(&["stat", "db"]);
    let told = told.fails(&["no\u{fffd}[2J"]);
    assert!(!told.trim_end().contains(char::is_control), "{told:?}");
    thread.join().unwrap();
    db.close().unwrap();
}

#[test]
fn who_begins_hears_the_next_command() {
    let dir = Folder::new();
    let said = |args: &[&str], code: i32, words: &[&str]| {
        let ran = dir.run(args);
        assert_eq!(ran.code, Some(code), "{args:?}: {}", ran.error);
        for word in words {
            assert!(ran.error.contains(word), "{args:?}: {word}: {}", ran.error);
        }
        ran.error
    };
    let start = said(
        &[],
        2,
        &["terrace put people.db", "terrace demo", "terrace help"],
    );
    assert!(start.lines().count() < 15, "{start}");
    // What it tells to begin with works.
    dir.run(&["put", "people.db", "alice", "Berlin"]).ok();
    dir.run(&["get", "people.db", "alice"]).ok();
    said(&["gte", "people.db", "alice"], 2, &["terrace get"]);
    said(&["ls", "people.db"], 2, &["terrace list"]);
    said(&["people.db"], 2, &["terrace stat people.db"]);
    said(&["nonsense"], 2, &["terrace help"]);
    // Commands of commands, and wrong options, as clap has them.
    said(&["backup", "make"], 2, &["unrecognized subcommand"]);
    said(&["get", "people.db", "alice", "--jsn"], 2, &["--json"]);

    said(
        &["get", "peple.db", "alice"],
        1,
        &["no database at peple.db", "terrace put", "people.db"],
    );
    let told = said(&["get", "other/people.db", "alice"], 1, &["no database"]);
    assert!(!told.contains("next:"), "{told}");
    let value = "a value that is damaged below";
    dir.run(&["put", "bad.db", "a", value]).ok();
    dir.damage("bad.db", value.as_bytes());
    said(
        &["get", "bad.db", "a"],
        1,
        &["terrace verify bad.db", "terrace restore"],
    );
}

#[test]
fn who_has_a_database_is_named_with_what_it_answers() {
    let dir = Folder::new();
    for control in [false, true] {
        let path = dir.0.join("db");
        let db = Database::open(&path, Options::new().memory(16 << 20).control(control)).unwrap();
        db.tree("main").unwrap().put("a", "b").unwrap();
        let ran = dir.run(&["get", "db", "a"]);
        let told = ran.fails(&["open elsewhere"]);
        // Where the kernel does not tell who it is, nothing is said of that.
        let pid = format!("process {} (", std::process::id());
        assert!(told.contains(&pid) || !told.contains("process "), "{told}");
        let next = if control {
            "terrace stat db"
        } else {
            "fuser db/LOCK"
        };
        assert!(told.contains(next), "{told}");
        db.close().unwrap();
    }
    dir.run(&["get", "db", "a"]).ok();
}
