//! A program opens a database by a relative path and then changes its working directory, as daemons and
//! test runners do.

use std::collections::BTreeMap;
use std::path::Path;

use terrace::{
    Database, Durability, FollowOptions, Options, RestoreOptions, backup_contents, encode, restore,
};

const RECORDS: u64 = 6000;
const LOADED: u64 = 3000;

/// So small that log segments, map files and the files of loaders come and go.
fn options() -> Options {
    Options::new()
        .memory(2 << 20)
        .page_size(4096)
        .log_segment(64 << 10)
        .log_limit(256 << 10)
}

/// All files below a folder, with what is in them.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).unwrap();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    entries.map(file).collect()
}

/// Opens `rel`, goes to where another folder has that name, works, and ends by closing or as if killed.
fn work(directory: &Path, close: bool) {
    std::env::set_current_dir(directory).unwrap();
    let db = Database::open("rel", options()).unwrap();
    let tree = db.tree("tree").unwrap();
    std::env::set_current_dir("other").unwrap();
    for i in 0..RECORDS {
        tree.put(encode::u64(i), [1; 100]).unwrap();
    }
    db.checkpoint().unwrap();
    let loaded = db.hash("loaded").unwrap();
    let mut loader = loaded.loader().unwrap();
    for i in (0..LOADED).rev() {
        loader.put(encode::u64(i), [2; 200]).unwrap();
    }
    loader.finish().unwrap();
    tree.put_with(b"last", b"", Durability::Sync).unwrap();
    drop((tree, loaded));
    if close {
        db.close().unwrap();
    } else {
        std::process::abort();
    }
}

fn moves(name: &str, close: bool) {
    if let Some(directory) = super::child() {
        return work(&directory, close);
    }
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other/rel");
    std::fs::create_dir_all(&other).unwrap();
    // As another database has them.
    for name in ["data", "map-1", "map-2", "LOCK"] {
        std::fs::write(other.join(name), name).unwrap();
    }
    for number in 0..200 {
        std::fs::write(other.join(format!("log-{number:08x}")), "log").unwrap();
        std::fs::write(other.join(format!("load-{number:016x}")), "load").unwrap();
    }
    let before = files(&other);
    let status = super::run_child(&format!("working_directory::{name}"), directory.path());
    assert_eq!(status.success(), close, "{status}");
    assert!(files(&other) == before, "another database was changed");
    let options = options().create(false);
    let db = Database::open(directory.path().join("rel"), options).unwrap();
    assert_eq!(
        db.tree("tree").unwrap().iter().unwrap().count() as u64,
        RECORDS + 1
    );
    let loaded = db.hash("loaded").unwrap();
    assert_eq!(loaded.iter_unordered().unwrap().count() as u64, LOADED);
    assert!(db.verify().unwrap().is_clean());
}

#[test]
fn a_database_that_is_closed_elsewhere_is_whole() {
    moves("a_database_that_is_closed_elsewhere_is_whole", true);
}

#[test]
fn a_database_that_is_killed_elsewhere_is_whole() {
    moves("a_database_that_is_killed_elsewhere_is_whole", false);
}

/// Follows to `set` and goes to where another folder has that name.
fn follows(directory: &Path) {
    std::env::set_current_dir(directory).unwrap();
    // However slowly it is copied, nothing is given up meanwhile.
    let options = options().archive_lag(64 << 20);
    let db = Database::open("rel", options).unwrap();
    let tree = db.tree("tree").unwrap();
    let follower = db.follow("set", FollowOptions::new()).unwrap();
    std::env::set_current_dir("other").unwrap();
    for i in 0..RECORDS {
        tree.put(encode::u64(i), [1; 100]).unwrap();
    }
    follower.archive().unwrap();
    tree.put("last", "").unwrap();
    let status = follower.stop().unwrap();
    assert_eq!(status.error, None);
    db.close().unwrap();
}

#[test]
fn a_log_is_followed_to_the_folder_that_was_named() {
    let name = "a_log_is_followed_to_the_folder_that_was_named";
    if let Some(directory) = super::child() {
        return follows(&directory);
    }
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("other");
    std::fs::create_dir_all(other.join("set")).unwrap();
    let status = super::run_child(&format!("working_directory::{name}"), directory.path());
    assert!(status.success(), "{status}");
    assert!(
        files(&other.join("set")).is_empty(),
        "another folder was used"
    );
    let set = directory.path().join("set");
    assert_eq!(backup_contents(&set).unwrap().logs.len(), 1);
    let again = directory.path().join("again");
    let to_restore = RestoreOptions::new().options(options());
    restore(&set, &again, to_restore).unwrap();
    let db = Database::open(&again, options().create(false)).unwrap();
    let found = db.tree("tree").unwrap().iter().unwrap().count() as u64;
    assert_eq!(found, RECORDS + 1);
}
