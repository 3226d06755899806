//! `terrace changes`: of a database that is closed, from a place on; of one that another process has open.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;
use terrace::{Database, Options};

use crate::common::Folder;

fn lines(text: &str) -> Vec<Value> {
    let parsed = text.lines().map(|line| serde_json::from_str(line).unwrap());
    parsed.collect()
}

#[test]
fn what_is_changed_comes_from_a_place_on() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "1"]).ok();
    let begin = lines(dir.run(&["changes", "db", "--json"]).ok());
    assert_eq!(begin.len(), 1, "{begin:?}");
    let place = begin[0]["place"].as_str().unwrap();
    // While a program keeps the log, the place holds.
    let open = || {
        Database::open(
            dir.0.join("db"),
            Options::new().memory(8 << 20).keep_changes(8 << 20),
        )
        .unwrap()
    };
    let db = open();
    let main = db.tree("main").unwrap();
    main.put("b", "2").unwrap();
    main.delete("a").unwrap();
    main.put([0xFF], "3").unwrap();
    drop(main);
    db.close().unwrap();
    let seen = lines(dir.run(&["changes", "db", "--json", "--from", place]).ok());
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert_eq!(seen[1]["changes"][0]["op"], "put");
    assert_eq!(seen[1]["changes"][0]["key"], "b");
    assert_eq!(seen[1]["changes"][0]["value"], "2");
    assert_eq!(seen[1]["changes"][0]["structure"], "main");
    assert_eq!(seen[2]["changes"][0]["op"], "delete");
    assert_eq!(seen[3]["changes"][0]["key_hex"], "ff");
    let last = seen[3]["place"].as_str().unwrap();
    assert_eq!(
        lines(dir.run(&["changes", "db", "--json", "--from", last]).ok()).len(),
        1
    );
    let text = dir.run(&["changes", "db", "--from", place]);
    assert!(text.ok().contains("put main b = 2\n"), "{}", text.ok());
    let bad = dir.run(&["changes", "db", "--from", "12"]);
    assert_eq!(bad.code, Some(2));
    assert!(bad.error.contains("hexadecimal"), "{}", bad.error);
    // The place of another database.
    dir.run(&["put", "other", "a", "1"]).ok();
    let refused = dir.run(&["changes", "other", "--from", place]);
    refused.fails(&["not in the log any more", "changes_and_snapshot"]);
}

#[test]
fn a_database_that_is_open_elsewhere_is_followed() {
    let dir = Folder::new();
    let path = dir.0.join("db");
    let db = Database::open(&path, Options::new().memory(8 << 20).control(true)).unwrap();
    let users = db.tree("users").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["changes", "db", "--json"])
        .current_dir(&dir.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || -> Value { serde_json::from_str(&out.next().unwrap().unwrap()).unwrap() };
    let begin = next();
    assert_eq!(begin["changes"].as_array().unwrap().len(), 0);
    users.put("alice", "Berlin").unwrap();
    let commit = next();
    assert_eq!(commit["changes"][0]["key"], "alice");
    users.put("bob", "Lima").unwrap();
    assert_eq!(next()["changes"][0]["key"], "bob");
    child.kill().unwrap();
    child.wait().unwrap();
    // With an end.
    let place = begin["place"].as_str().unwrap();
    let rest = dir.run(&["changes", "db", "--json", "--from", place, "--until-now"]);
    assert_eq!(lines(rest.ok()).len(), 3);
    let foreign = format!("{:064x}", 1);
    let refused = dir.run(&["changes", "db", "--from", &foreign]);
    refused.fails(&["not in the log any more"]);
}
