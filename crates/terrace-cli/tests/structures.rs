//! Structures as wholes: `list`, `drop` and `rename`.

mod common;

use common::Folder;

#[test]
fn structures_are_listed_renamed_and_dropped() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "1", "-s", "one"]).ok();
    dir.run(&["put", "db", "k", "2", "-s", "two", "--kind", "hash"])
        .ok();
    assert_eq!(
        dir.run(&["list", "db"]).ok(),
        "one\ttree\t2\ntwo\thash\t2\n"
    );
    let listed = dir.run(&["list", "db", "--json"]);
    let lines: Vec<serde_json::Value> = listed
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((&lines[0]["name"], lines.len()), (&"one".into(), 2));
    let renamed = dir.run(&["rename", "db", "one", "three", "--json"]).json();
    assert_eq!(
        (&renamed["from"], &renamed["to"]),
        (&"one".into(), &"three".into())
    );
    assert_eq!(dir.run(&["get", "db", "k", "-s", "three"]).ok(), "1\n");
    dir.run(&["rename", "db", "three", "two"])
        .fails(&["\"two\" exists already", "another name"]);
    let dropped = dir.run(&["drop", "db", "two", "--json"]).json();
    assert_eq!(dropped["dropped"], "two");
    assert_eq!(dir.run(&["list", "db"]).ok(), "three\ttree\t2\n");
    assert_eq!(dir.run(&["get", "db", "k"]).ok(), "1\n");
    dir.run(&["drop", "db", "two"])
        .fails(&["\"two\"", "\"three\""]);
    dir.run(&["rename", "db", "two", "x"])
        .fails(&["\"two\"", "\"three\""]);
    assert_eq!(dir.run(&["drop", "db"]).code, Some(2));
    dir.run(&["drop", "db", "three"]).ok();
    assert_eq!(dir.run(&["list", "db"]).ok(), "");
    assert_eq!(dir.run(&["verify", "db", "--json"]).json()["ok"], true);
    dir.run(&["list", "nodb"]).fails(&["no database at nodb"]);
}
