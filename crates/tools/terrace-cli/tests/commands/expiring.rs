//! Records that expire: `put --expires`, `load --expires-field`, `--expiring`, dumps that keep leases, and how much
//! `stat` and `restore` say has expired.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::common::Folder;
use serde_json::Value;

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

/// The records of a dump: keys, and until when they are there, in seconds since 1970.
fn leases(dump: &str) -> Vec<(String, Option<u64>)> {
    let lines = dump.lines().map(|line| -> Value {
        let parsed = serde_json::from_str(line);
        parsed.unwrap()
    });
    let mut all: Vec<_> = lines
        .filter(|line| line["structure"].is_null())
        .map(|line| {
            let expires = line["expires"].as_u64().map(|ms| ms / 1000);
            (line["key"].as_str().unwrap().to_owned(), expires)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn a_record_is_put_for_some_time() {
    let dir = Folder::new();
    let put = [
        "put",
        "db",
        "s1",
        "alice",
        "--kind",
        "hash",
        "--expires",
        "30m",
    ];
    let before = now();
    dir.run(&put).ok();
    assert_eq!(dir.run(&["get", "db", "s1"]).ok(), "alice\n");
    dir.run(&["put", "db", "s2", "bob"]).ok();
    let found = leases(dir.run(&["dump", "db"]).ok());
    let [(s1, Some(end)), (s2, None)] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!((s1.as_str(), s2.as_str()), ("s1", "s2"));
    assert!((before + 1800..=now() + 1801).contains(end), "{end}");
    // At once is never: whoever looks finds nothing.
    dir.run(&["put", "db", "s1", "alice", "--expires", "0m"])
        .ok();
    dir.run(&["get", "db", "s1"]).fails(&["no key \"s1\""]);
    // Whether records may is said when the structure is made.
    dir.run(&["put", "db", "k", "v", "-s", "plain", "--kind", "tree"])
        .ok();
    dir.run(&["put", "db", "k", "v", "-s", "plain", "--expires", "1h"])
        .fails(&["plain", "expir"]);
    dir.run(&["put", "db", "k", "v", "-s", "later", "--expiring"])
        .ok();
    dir.run(&["put", "db", "k", "v", "-s", "later", "--expires", "1h"])
        .ok();
    assert_eq!(
        dir.run(&["put", "db", "k", "v", "--expires", "soon"]).code,
        Some(2)
    );
}

#[test]
fn a_field_says_until_when_a_record_is_there() {
    let dir = Folder::new();
    let end = now() + 3600;
    let csv = format!("id,name,until\n1,ada,{end}\n2,bob,\n3,eve,2020-01-01T00:00:00Z\n");
    let load = [
        "load",
        "db",
        "--kind",
        "hash",
        "--format",
        "csv",
        "--key",
        "id",
        "--expires-field",
        "until",
        "-",
    ];
    dir.run_with(&load, csv.as_bytes()).ok();
    let expected = [("1".to_owned(), Some(end)), ("2".to_owned(), None)];
    assert_eq!(leases(dir.run(&["dump", "db"]).ok()), expected);
    let lines = format!("{{\"id\":\"1\",\"until\":{end}}}\n{{\"id\":\"2\"}}\n");
    let load = [
        "load",
        "db2",
        "--format",
        "jsonl",
        "--key",
        "id",
        "--expires-field",
        "until",
        "-",
    ];
    dir.run_with(&load, lines.as_bytes()).ok();
    assert_eq!(leases(dir.run(&["dump", "db2"]).ok()), expected);
    // A time that is none is a bad line, and a field that is not there a wrong one.
    let bad = "id,until\n1,soon\n";
    dir.run_with(
        &[
            "load",
            "db3",
            "-f",
            "csv",
            "-k",
            "id",
            "--expires-field",
            "until",
            "-",
        ],
        bad.as_bytes(),
    )
    .fails(&["until", "2026-11-25T12:00:00Z"]);
    dir.run_with(
        &[
            "load",
            "db4",
            "-f",
            "csv",
            "-k",
            "id",
            "--expires-field",
            "end",
            "-",
        ],
        csv.as_bytes(),
    )
    .fails(&["end", "until"]);
}

#[test]
fn a_dump_keeps_leases_and_makes_structures_anew() {
    let dir = Folder::new();
    for (structure, kind) in [("h", "hash"), ("t", "tree"), ("l", "lsm"), ("r", "table")] {
        let put = ["put", "old", "-s", structure, "--kind", kind];
        dir.run(&[&put[..], &["a", "1", "--expires", "2h"]].concat())
            .ok();
        dir.run(&[&put[..], &["b", "2"]].concat()).ok();
    }
    let dump = dir.run(&["dump", "--all", "old"]).ok().to_owned();
    assert_eq!(leases(&dump).iter().filter(|(_, e)| e.is_some()).count(), 4);
    dir.run_with(&["load", "new", "--format", "dump", "-"], dump.as_bytes())
        .ok();
    let again = dir.run(&["dump", "--all", "new"]).ok().to_owned();
    assert_eq!(leases(&again), leases(&dump));
    dir.run(&["put", "new", "-s", "t", "c", "3", "--expires", "1h"])
        .ok();
    // One alone goes into one that is made for it, and nowhere else.
    let one = dir.run(&["dump", "old", "-s", "t"]).ok().to_owned();
    let load = ["load", "other", "--format", "dump"];
    dir.run_with(
        &[&load[..], &["-s", "x", "--expiring", "-"]].concat(),
        one.as_bytes(),
    )
    .ok();
    assert_eq!(dir.run(&["dump", "other", "-s", "x"]).ok(), one);
    dir.run_with(&[&load[..], &["-s", "y", "-"]].concat(), one.as_bytes())
        .fails(&["expir"]);
}

/// A database with forty records, of which three quarters expire soon, and a backup set of it, made before that.
fn soon_gone() -> Folder {
    // A busy machine takes longer for the same.
    for seconds in [3, 15, 75] {
        let dir = Folder::new();
        let soon = now() + seconds;
        let mut csv = String::from("id,until\n");
        for i in 0..40 {
            let end = if i % 4 == 0 { soon + 100_000 } else { soon };
            csv += &format!("{i},{end}\n");
        }
        let load = ["load", "db", "-f", "csv", "-k", "id", "--kind", "tree"];
        let load = [&load[..], &["--expires-field", "until", "-"]].concat();
        dir.run_with(&load, csv.as_bytes()).ok();
        dir.run(&["backup", "create", "db", "set"]).ok();
        if now() + 1 < soon {
            while now() <= soon {
                std::thread::sleep(Duration::from_millis(50));
            }
            return dir;
        }
    }
    panic!("a minute is not enough for two commands");
}

#[test]
fn stat_and_restore_say_how_much_has_expired() {
    let dir = soon_gone();
    assert_eq!(leases(dir.run(&["dump", "db"]).ok()).len(), 10);
    let stat = dir.run(&["stat", "db"]);
    let told = "main: about 75.0 % have expired";
    assert!(stat.ok().contains(told), "{}", stat.ok());
    let json = dir.run(&["stat", "db", "--json"]).json();
    assert_eq!(json["structures"][0]["expired_ratio"], 0.75);
    let restored = dir.run(&["restore", "set", "again"]);
    let told = "of main about 75 % has expired";
    assert!(restored.ok().contains(told), "{}", restored.ok());
    let json = dir.run(&["restore", "set", "twice", "--json"]).json();
    assert_eq!(json["expired"][0]["structure"], "main");
    assert_eq!(leases(dir.run(&["dump", "again"]).ok()).len(), 10);
}
