//! Ctrl-C while records are loaded: what is said to be loaded is loaded.

use std::io::Write;
use std::process::{Child, Command, Stdio};

use crate::common::Folder;

/// Begins to load this, which ends only by the signal.
fn begin(dir: &Folder, args: &[&str], input: &[u8]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command
        .args(["load", "db"])
        .args(args)
        .arg("-")
        .current_dir(&dir.0)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // More than a pipe and a buffer hold: when all is written, much of it was read.
    child.stdin.as_mut().unwrap().write_all(input).unwrap();
    child
}

/// What the command says when it is interrupted. Its input is open until then.
fn interrupt(mut child: Child) -> String {
    let input = child.stdin.take();
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    let ended = child.wait_with_output().unwrap();
    drop(input);
    let text = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(130), "{text}");
    text
}

fn first_number(text: &str) -> u64 {
    let mut words = text.split_whitespace();
    words.find_map(|word| word.parse().ok()).unwrap()
}

fn count(dir: &Folder, args: &[&str]) -> u64 {
    let args = [&["scan", "db", "--count"], args].concat();
    dir.run(&args).ok().trim().parse().unwrap()
}

fn lines(records: u64) -> String {
    let lines: String = (0..records).map(|i| format!("{i},{}\n", i % 100)).collect();
    format!("id,n\n{lines}")
}

#[test]
fn ctrl_c_while_records_are_loaded_says_what_is_loaded() {
    let csv = ["-f", "csv", "-k", "id", "--kind"];
    for (args, said) in [
        (&["table", "--index", "n=json:/n"][..], "records are loaded"),
        (&["table"], "none is loaded"),
        (&["hash"], "records are loaded"),
    ] {
        let dir = Folder::new();
        let args = [&csv[..], args].concat();
        let text = interrupt(begin(&dir, &args, lines(100_000).as_bytes()));
        assert!(text.contains(said), "{text}");
        let least = match said {
            "none is loaded" => 0,
            _ => first_number(&text),
        };
        // As many as it said, at least, and the database is whole.
        assert!(count(&dir, &[]) >= least, "{text}");
        dir.run(&["verify", "db"]).ok();
    }
}

#[test]
fn ctrl_c_in_the_second_structure_of_a_dump_says_what_is_loaded_of_the_first() {
    let dir = Folder::new();
    dir.file("few", lines(1000));
    for name in ["one", "two"] {
        let args = ["load", "from", "-s", name, "-f", "csv", "-k", "id", "few"];
        dir.run(&args).ok();
    }
    let dumped = dir.run(&["dump", "from", "--all"]).ok().to_owned();
    // The last line is a record of the second: many of it.
    let last = dumped.lines().last().unwrap();
    let input = format!("{dumped}{}", format!("{last}\n").repeat(50_000));
    let text = interrupt(begin(&dir, &["-f", "dump"], input.as_bytes()));
    assert!(
        text.contains("1000 records of the structures in front are loaded"),
        "{text}"
    );
    assert!(text.contains("none is loaded"), "{text}");
    assert_eq!(count(&dir, &["-s", "one"]), 1000);
    assert_eq!(count(&dir, &["-s", "two"]), 0);
}

#[test]
fn ctrl_c_ends_the_demonstration_and_nothing_of_it_is_left() {
    let dir = Folder::new();
    let long = ["--people", "20k", "--visits", "1G", "--seconds", "36000"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_terrace"));
    command.arg("demo").args(long);
    command
        .current_dir(&dir.0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    while !dir.0.join("terrace-demo/two-tiers/data").exists() {
        std::thread::yield_now();
    }
    let text = interrupt(child);
    assert!(
        text.contains("stopped; what was written is deleted"),
        "{text}"
    );
    assert_eq!(dir.names(""), [""; 0]);
}

#[test]
fn a_key_too_long_for_small_pages_is_a_malformed_line() {
    let dir = Folder::new();
    // No command makes one with other pages than the usual ones.
    let options = terrace::Options::new().memory(16 << 20).page_size(4096);
    let db = terrace::Database::open(dir.0.join("db"), options).unwrap();
    db.close().unwrap();
    let long = "k".repeat(2000);
    let input = format!("id,n\na,1\n{long},2\nb,3\n");
    for name in ["table", "hash"] {
        let args = [
            "load", "db", "-s", name, "--kind", name, "-f", "csv", "-k", "id", "-",
        ];
        dir.run_with(&args, input.as_bytes()).fails(&[
            "input:3",
            "2000 bytes",
            "1 records before it are loaded",
        ]);
        assert_eq!(count(&dir, &["-s", name]), 1);
        let args = [&args[..], &["--skip-bad"]].concat();
        dir.run_with(&args, input.as_bytes()).ok();
        assert_eq!(count(&dir, &["-s", name]), 2);
    }
}
