//! `backup`, `restore` and `compact` as processes: what they print, what they refuse, and what is left when they
//! are killed.

use crate::common::Folder;
use std::process::{Command, Stdio};
use std::time::Duration;

fn csv(from: u32, to: u32, round: u32) -> String {
    let mut text = String::from("key,value\n");
    for i in from..to {
        text += &format!(
            "{:06},{round}-{i}-{}\n",
            i * 7919 % 1_000_000,
            "x".repeat(60)
        );
    }
    text
}

fn load(folder: &Folder, from: u32, to: u32, round: u32) {
    let args = [
        "load", "db", "--format", "csv", "--key", "key", "--json", "-",
    ];
    folder.run_with(&args, csv(from, to, round).as_bytes()).ok();
}

#[test]
fn a_database_is_backed_up_and_restored() {
    let folder = Folder::new();
    load(&folder, 0, 3000, 1);
    let first = folder.run(&["dump", "db"]).out;
    let made = folder
        .run(&["backup", "create", "db", "set", "--json"])
        .json();
    assert_eq!(made["point"], 1);
    assert_eq!(made["live_pages"], made["stored_pages"]);
    load(&folder, 0, 30, 2);
    let said = folder.run(&["backup", "create", "db", "set"]);
    assert!(said.ok().starts_with("point 2: "), "{}", said.ok());
    let listed = folder.run(&["backup", "list", "set", "--json"]);
    let points: Vec<serde_json::Value> = listed
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((points.len(), &points[1]["point"]), (2, &2.into()));
    assert!(
        folder
            .run(&["backup", "list", "set"])
            .ok()
            .contains("stored bytes")
    );
    let verified = folder.run(&["backup", "verify", "set", "--json"]).json();
    assert_eq!(
        (&verified["ok"], &verified["report"]["whole"][1]),
        (&true.into(), &2.into())
    );
    let said = folder.run(&["restore", "set", "old", "--point", "1", "--no-verify"]);
    assert!(said.ok().contains("not verified"), "{}", said.ok());
    assert_eq!(folder.run(&["dump", "old"]).out, first);
    let restored = folder.run(&["restore", "set", "new", "--json"]).json();
    assert_eq!(restored["verified"], true);
    assert_eq!(
        folder.run(&["dump", "new"]).out,
        folder.run(&["dump", "db"]).out
    );
    folder.run(&["verify", "new"]).ok();
    assert_eq!(folder.names("."), ["db", "new", "old", "set"]);
    // Nothing is overwritten, and nothing is guessed.
    folder
        .run(&["restore", "set", "old"])
        .fails(&["old", "not empty"]);
    folder
        .run(&["restore", "set", "x", "--point", "7"])
        .fails(&["no point 7", "1, 2"]);
    folder
        .run(&["restore", "db", "x"])
        .fails(&["manifest.json"]);
    folder
        .run(&["backup", "list", "nowhere"])
        .fails(&["nowhere"]);
    folder
        .run(&["restore", "set", "x", "-s", "no"])
        .fails(&["\"no\"", "main"]);
    assert_eq!(folder.names("."), ["db", "new", "old", "set"]);
    folder
        .run(&["backup", "create", "new", "set"])
        .fails(&["another database"]);
    let pruned = folder
        .run(&["backup", "prune", "set", "--keep", "1", "--json"])
        .json();
    assert_eq!(pruned["forgotten"], serde_json::json!([1]));
    // Whatever the last year needs: all that is left.
    let pruned = folder
        .run(&["backup", "prune", "set", "--keep-for", "365d", "--json"])
        .json();
    assert_eq!(pruned["forgotten"], serde_json::json!([]));
    for (args, word) in [(&["--keep-for", "a while"][..], "7d"), (&[], "--keep")] {
        let told = folder.run(&[&["backup", "prune", "set"], args].concat());
        assert_eq!(told.code, Some(2), "{}", told.error);
        assert!(told.error.contains(word), "{}", told.error);
    }
    folder.run(&["restore", "set", "again"]).ok();
    assert_eq!(
        folder.run(&["dump", "again"]).out,
        folder.run(&["dump", "db"]).out
    );
}

#[test]
fn a_damaged_set_is_told_by_file_and_point() {
    let folder = Folder::new();
    load(&folder, 0, 500, 1);
    folder.run(&["backup", "create", "db", "set"]).ok();
    let path = folder.0.join("set/point-1.pages");
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&path, bytes).unwrap();
    let told = folder.run(&["backup", "verify", "set"]);
    told.fails(&["set is damaged at point 1"]);
    assert!(String::from_utf8_lossy(&told.out).contains("point-1.pages"));
    folder
        .run(&["restore", "set", "new"])
        .fails(&["point-1.pages", "damaged"]);
    assert_eq!(folder.names("."), ["db", "set"]);
}

/// Starts a command and kills it when that much has been done of it.
fn killed(folder: &Folder, args: &[&str], after: Duration) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(args)
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    std::thread::sleep(after);
    let _ = child.kill();
    child.wait().unwrap();
}

#[test]
fn whatever_is_killed_leaves_both_sides_whole() {
    let folder = Folder::new();
    load(&folder, 0, 6000, 1);
    let dump = folder.run(&["dump", "db"]).out;
    folder.run(&["backup", "create", "db", "set"]).ok();
    // Whenever it comes: what must hold does so at every moment.
    for millis in [1, 5, 15, 40, 80] {
        let after = Duration::from_millis(millis);
        killed(
            &folder,
            &["backup", "create", "db", "set", "--full", "--rate", "4MiB"],
            after,
        );
        folder.run(&["backup", "verify", "set"]).ok();
        killed(&folder, &["restore", "set", "new"], after);
        if folder.0.join("new").exists() {
            folder.run(&["verify", "new"]).ok();
            std::fs::remove_dir_all(folder.0.join("new")).unwrap();
        }
        killed(&folder, &["compact", "db", "--fill", "90"], after);
        folder.run(&["verify", "db"]).ok();
        killed(&folder, &["backup", "prune", "set", "--keep", "2"], after);
        folder.run(&["backup", "verify", "set"]).ok();
    }
    folder.run(&["backup", "create", "db", "set"]).ok();
    folder.run(&["restore", "set", "new"]).ok();
    assert_eq!(folder.run(&["dump", "new"]).out, dump);
    assert_eq!(folder.run(&["dump", "db"]).out, dump);
    assert!(!folder.0.join("new.restoring").exists());
}

#[test]
fn compaction_makes_the_file_short() {
    let folder = Folder::new();
    load(&folder, 0, 20_000, 1);
    let dump = folder.run(&["dump", "db"]).out;
    let text = folder.run(&["compact", "db", "--fill", "100"]);
    assert!(text.ok().contains("pages were"), "{}", text.ok());
    let done = folder.run(&["compact", "db", "--json"]).json();
    assert!(done["pages_after"].as_u64() <= done["pages_before"].as_u64());
    assert_eq!(folder.run(&["dump", "db"]).out, dump);
    folder.run(&["verify", "db"]).ok();
    let code = folder.run(&["compact", "db", "--fill", "20"]).code;
    assert_eq!(code, Some(2));
}

#[test]
fn an_open_database_is_marked_followed_and_compacted_by_its_process() {
    use terrace::{Database, Options};
    let folder = Folder::new();
    load(&folder, 0, 300, 1);
    let follow = ["backup", "create", "db", "set", "--follow"];
    folder.run(&follow).fails(&["Options::control"]);
    folder
        .run(&["backup", "follow", "db"])
        .fails(&["Options::control"]);
    let options = Options::new().memory(16 << 20).control(true);
    let db = Database::open(folder.0.join("db"), options).unwrap();
    folder.run(&["backup", "create", "db", "set"]).ok();
    // Begun, seen and ended from here.
    let all = folder.run(&["backup", "follow", "db"]);
    assert!(all.ok().contains("to no backup set"), "{}", all.ok());
    let begin = ["backup", "follow", "db", "set", "--every", "0.05"];
    let said = folder.run(&begin);
    assert!(said.ok().contains("until the database is closed"));
    folder.run(&begin).fails(&["already"]);
    let all = folder.run(&["backup", "follow", "db"]);
    assert!(all.ok().contains("/set: change "), "{}", all.ok());
    let all = folder.run(&["backup", "follow", "db", "--json"]).json();
    assert_eq!(all["breaks"], 0);
    let shown = folder.run(&["stat", "db"]);
    assert!(
        shown.ok().contains("the log is copied to "),
        "{}",
        shown.ok()
    );
    let stop = ["backup", "follow", "db", "set", "--stop"];
    assert_eq!(
        folder.run(&[&stop[..], &["--json"]].concat()).json()["breaks"],
        0
    );
    folder.run(&stop).fails(&["nobody was told"]);
    for wrong in [
        &["--stop"][..],
        &["set", "--every", "0"],
        &["set", "--stop", "--rate", "1"],
    ] {
        let args = [&["backup", "follow", "db"], wrong].concat();
        assert_eq!(folder.run(&args).code, Some(2), "{wrong:?}");
    }
    let said = folder.run(&follow);
    assert!(said.ok().contains("until the database is closed"));
    let map = db.map("main").unwrap();
    map.put("new", "1").unwrap();
    let mark = folder.run(&["mark", "db", "m", "--json"]).json();
    // Who follows marks the time, too.
    assert!(mark["sequence"].as_u64().unwrap() <= db.sequence().unwrap());
    map.put("new", "2").unwrap();
    folder.run(&["mark", "db", ""]).fails(&["name of a mark"]);
    for rate in ["gentle", "fast", "100MiB"] {
        folder.run(&["compact", "db", "--rate", rate]).ok();
    }
    assert_eq!(folder.run(&["compact", "db", "--rate", "0"]).code, Some(2));
    folder
        .run(&["backup", "create", "db", "set", "--mark", "p"])
        .ok();
    map.put("new", "3").unwrap();
    let last = db.sequence().unwrap();
    db.close().unwrap();
    let listed = folder.run(&["backup", "list", "set"]);
    for told in ["log of changes", "mark m at change", "  p\n"] {
        assert!(listed.ok().contains(told), "{told}: {}", listed.ok());
    }
    let listed = folder.run(&["backup", "list", "set", "--json"]);
    let log: serde_json::Value = serde_json::from_str(listed.ok().lines().last().unwrap()).unwrap();
    assert_eq!(log["marks"][0]["name"], "m");
    folder.run(&["backup", "verify", "set"]).ok();
    let value = |to: &[&str]| {
        let args = [&["restore", "set", "x", "--json"], to].concat();
        folder.run(&args).json();
        let value = folder.run(&["get", "x", "new"]).ok().trim().to_owned();
        std::fs::remove_dir_all(folder.0.join("x")).unwrap();
        value
    };
    assert_eq!(value(&[]), "3");
    assert_eq!(value(&["--to-sequence", &last.to_string()]), "3");
    assert_eq!(value(&["--to-mark", "p"]), "2");
    let until = log["until"].as_str().unwrap();
    assert_eq!(value(&["--to-time", until]), "3");
    for (to, told) in [
        (["--to-mark", "q"], "\"m\""),
        (["--to-sequence", "99999999"], "it has point 1"),
        (["--to-time", "2001-01-01T00:00:00Z"], "it has point 1"),
    ] {
        let args = [&["restore", "set", "x"], &to[..]].concat();
        folder.run(&args).fails(&[told]);
    }
    let code = folder
        .run(&["restore", "set", "x", "--to-time", "noon"])
        .code;
    assert_eq!(code, Some(2));
    // One that no process has open is opened.
    drop(map);
    let said = folder.run(&["mark", "db", "later"]);
    assert!(said.ok().starts_with("later is change "), "{}", said.ok());
}
