//! Which folders are taken for a database, and what an opening that fails leaves there.

use crate::common::Folder;

#[test]
fn options_that_cannot_be_leave_nothing_behind() {
    let dir = Folder::new();
    std::fs::create_dir(dir.0.join("empty")).unwrap();
    for db in ["new", "empty"] {
        dir.run(&["put", db, "k", "v", "--memory", "100TiB"])
            .fails(&["memory limit"]);
    }
    let bench = ["bench", "new", "--records", "1k", "--seconds", "0.1"];
    dir.run(&[&bench[..], &["--page-size", "5000"]].concat())
        .fails(&["page size"]);
    dir.run(&[&bench[..], &["--log-limit", "1k"]].concat())
        .fails(&["log limit"]);
    assert!(!dir.0.join("new").exists());
    assert!(dir.names("empty").is_empty());
}

#[test]
fn a_database_without_its_data_is_not_said_to_be_none() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    std::fs::remove_file(dir.0.join("db/data")).unwrap();
    for command in ["stat", "verify", "scan"] {
        let error = dir.run(&[command, "db"]);
        let error = error.fails(&["not the one called data", "backup"]);
        assert!(!error.contains("no database"), "{error}");
    }
}

#[test]
fn a_link_is_no_file_of_a_database() {
    let dir = Folder::new();
    dir.run(&["put", "db", "k", "v"]).ok();
    std::fs::create_dir(dir.0.join("linked")).unwrap();
    std::os::unix::fs::symlink("../db/data", dir.0.join("linked/data")).unwrap();
    for args in [
        &["get", "linked", "k"][..],
        &["put", "linked", "k", "v"],
        &["stat", "linked"],
    ] {
        let error = dir.run(args);
        let error = error.fails(&["is a link", "give the folder"]);
        assert!(!error.contains("Options::"), "{error}");
    }
    assert_eq!(dir.names("linked"), ["data"]);
}
