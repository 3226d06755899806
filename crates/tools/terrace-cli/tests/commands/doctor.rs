//! What would bite is said before it does, and packages find what they need.

use crate::common::Folder;

fn findings(dir: &Folder, args: &[&str]) -> serde_json::Value {
    let ran = dir.run(&[&["doctor", "--json"], args].concat());
    serde_json::from_slice(&ran.out).unwrap()
}

fn weight(report: &serde_json::Value, what: &str) -> String {
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["what"] == what);
    found.unwrap()["weight"].as_str().unwrap().to_owned()
}

#[test]
fn the_doctor_looks_before_there_is_a_database_and_leaves_nothing() {
    let dir = Folder::new();
    let report = findings(&dir, &["some/db", "--memory", "1MiB"]);
    assert_eq!(weight(&report, "memory"), "good");
    assert!(dir.names(".").is_empty());
    dir.run(&["put", "db", "a", "b"]).ok();
    let before = dir.names("db");
    let report = findings(&dir, &["db", "--memory", "1MiB"]);
    assert_eq!(weight(&report, "clock"), "good");
    assert_eq!(dir.names("db"), before);
}

#[test]
fn what_is_bad_ends_it_with_one() {
    let dir = Folder::new();
    let report = findings(&dir, &["db", "--memory", "1000TiB"]);
    assert_eq!(report["good"], false);
    assert_eq!(weight(&report, "memory"), "bad");
    let ran = dir.run(&["doctor", "db", "--memory", "1000TiB"]);
    assert_eq!(ran.code, Some(1));
    let told = String::from_utf8(ran.out).unwrap();
    assert!(
        told.contains("BAD   memory") && told.contains("--memory"),
        "{told}"
    );
}

/// A file from tomorrow: the clock was ahead when it was written.
#[test]
fn a_clock_that_went_back_is_told() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "b"]).ok();
    let tomorrow = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    let file = std::fs::File::options()
        .write(true)
        .open(dir.0.join("db/data"))
        .unwrap();
    file.set_modified(tomorrow).unwrap();
    assert_eq!(weight(&findings(&dir, &["db"]), "clock"), "note");
}

#[test]
fn completions_and_the_manual_name_every_command() {
    let dir = Folder::new();
    for shell in ["bash", "fish", "zsh"] {
        let ran = dir.run(&["completions", shell]);
        let text = ran.ok();
        assert!(
            text.contains("checkpoint") && text.contains("doctor"),
            "{shell}"
        );
    }
    dir.run(&["man", "manual"]).ok();
    let pages = dir.names("manual");
    for page in ["terrace.1", "terrace-load.1", "terrace-backup-create.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    dir.file("file", "");
    dir.run(&["man", "file"])
        .fails(&["cannot write pages of the manual to file"]);
}

#[test]
fn a_plan_says_for_people_and_programs_what_memory_comes_to() {
    let dir = Folder::new();
    let load = [
        "plan",
        "--records",
        "10M",
        "--key",
        "8",
        "--value",
        "120",
        "--memory",
        "512MiB",
    ];
    let plan = dir.run(&[&load[..], &["--json"]].concat()).json();
    assert_eq!(plan["record_bytes"], 128);
    assert_eq!(plan["theta"], 0.9);
    // 0.86 of 536,870,912 bytes, of which each record takes 134.
    assert_eq!(plan["planned"]["hot_records"], 3_445_589);
    let reads = plan["planned"]["reads"].as_f64().unwrap();
    assert!((reads - 0.124).abs() < 0.002, "{reads}");
    assert_eq!(plan["planned"]["log_bytes"], 1u64 << 30);
    let memory = plan["by_memory"].as_array().unwrap();
    let memory: Vec<u64> = memory
        .iter()
        .map(|one| one["memory_bytes"].as_u64().unwrap() >> 20)
        .collect();
    assert_eq!(memory, [64, 128, 256, 512, 1024, 2048]);
    let told = dir.run(&load);
    let told = told.ok();
    assert!(
        told.contains("1.19 GiB of keys and values") && told.contains("512.00 MiB   "),
        "{told}"
    );
    assert!(dir.names(".").is_empty());
    for (value, memory, word) in [
        ("5000", "1MiB", "pages of their own"),
        ("1", "1k", "mebibyte"),
    ] {
        dir.run(&[
            "plan",
            "--records",
            "1",
            "--value",
            value,
            "--memory",
            memory,
        ])
        .fails(&[word]);
    }
    assert_eq!(
        dir.run(&[&load[..], &["--skew", "20/80"]].concat()).code,
        Some(2)
    );
}
