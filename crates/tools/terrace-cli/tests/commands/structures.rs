//! Structures as wholes: `list`, `drop` and `rename`.

use crate::common::Folder;

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

/// Compression is said where a structure is made, dumped along, and can be said otherwise later.
#[test]
fn an_lsm_tree_is_compressed_as_it_is_told() {
    let dir = Folder::new();
    let rows: String = (0..20_000)
        .map(|i| format!("{:05},value {:0>90}\n", i * 7919 % 20_000, i))
        .collect();
    let lines = format!("k,v\n{rows}");
    let fields = ["-s", "l", "-f", "csv", "-k", "k", "--value", "v", "-"];
    let load = ["load", "db", "--kind", "lsm", "--compress", "lz4"];
    dir.run_with(&[&load[..], &fields].concat(), lines.as_bytes())
        .ok();
    let compression =
        |db: &str| dir.run(&["list", db, "--json"]).json()["compression"]["lz4"]["levels"].clone();
    assert_eq!(compression("db"), 1);
    // All of it is still in memory otherwise.
    dir.run(&["compact", "db"]).ok();
    let stat = dir.run(&["stat", "db", "--json"]).json();
    let levels = stat["structures"][0]["lsm"]["levels"].as_array().unwrap();
    let level = levels.last().unwrap();
    let bytes = |field: &str| level[field].as_u64().unwrap();
    assert!(bytes("bytes") > 2 * bytes("page_bytes"), "{level}");
    let dumped = dir.run(&["dump", "db", "--all"]).ok().to_owned();
    dir.run_with(&["load", "again", "-f", "dump", "-"], dumped.as_bytes())
        .ok();
    assert_eq!(compression("again"), 1);
    assert_eq!(dir.run(&["verify", "again", "--json"]).json()["ok"], true);
    for (how, levels) in [("lz4:3", 3.into()), ("none", serde_json::Value::Null)] {
        dir.run(&["put", "db", "-s", "l", "a", "b", "--compress", how])
            .ok();
        assert_eq!(compression("db"), levels, "{how}");
    }
    let told = dir.run(&["put", "db", "-s", "l", "a", "b", "--compress", "zip"]);
    assert_eq!(told.code, Some(2));
    assert!(told.error.contains("lz4:N"), "{}", told.error);
    dir.run(&["put", "db", "-s", "t", "a", "b", "--compress", "lz4"])
        .fails(&["a tree cannot be compressed"]);
}

#[test]
fn an_lsm_tree_is_loaded_read_checked_and_dropped() {
    let dir = Folder::new();
    let rows: String = (0..20_000)
        .map(|i| format!("{:05},value {i}\n", i * 7919 % 20_000))
        .collect();
    let lines = format!("k,v\n{rows}");
    let load = ["load", "db", "--kind", "lsm", "-s", "events", "-f", "csv"];
    let fields = ["-k", "k", "--value", "v", "-"];
    dir.run_with(&[&load[..], &fields].concat(), lines.as_bytes())
        .ok();
    assert_eq!(dir.run(&["list", "db"]).ok(), "events\tlsm\t2\n");
    assert_eq!(dir.run(&["scan", "db", "--count"]).ok(), "20000\n");
    assert_eq!(dir.run(&["get", "db", "00001"]).ok(), "value 17679\n");
    dir.run(&["delete", "db", "00001"]).ok();
    dir.run(&["put", "db", "00002", "changed"]).ok();
    let first = dir.run(&["scan", "db", "--limit", "3"]);
    let keys: Vec<&str> = first.ok().lines().map(|line| &line[..5]).collect();
    assert_eq!(keys, ["00000", "00002", "00003"]);
    assert!(dir.run(&["stat", "db"]).ok().contains("LSM-trees"));
    let stat = dir.run(&["stat", "db", "--json"]).json();
    let lsm = &stat["structures"][0]["lsm"];
    assert!(lsm["levels"].as_array().is_some_and(|all| !all.is_empty()));
    assert_eq!(dir.run(&["verify", "db", "--json"]).json()["ok"], true);
    // It is no tree, though it does what one does.
    dir.run(&["rename", "db", "events", "log"]).ok();
    dir.run(&["drop", "db", "log"]).ok();
    assert_eq!(dir.run(&["verify", "db", "--json"]).json()["ok"], true);
}
