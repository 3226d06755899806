//! Commands that read where nothing may be written: files of others, media that take no writes, beside other
//! readers.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::common::Folder;

const COMMAND: &str = env!("CARGO_BIN_EXE_terrace");

/// The user "nobody", who may only read what all may.
const SOMEBODY_ELSE: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

fn is_root() -> bool {
    // Written by the kernel: real, effective, saved.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.is_some_and(|uid| uid.split_whitespace().nth(1) == Some("0"))
}

/// Runs the command as a user who may not write to the folder; `None` where there is no way to.
fn run(dir: &Folder, args: &[&str]) -> Option<Output> {
    let mut command = match is_root() {
        false => Command::new(COMMAND),
        true => {
            let mut command = Command::new("setpriv");
            command.args(SOMEBODY_ELSE).arg(COMMAND);
            // Who that is must reach the command and the folder at all.
            let mut reaches = Command::new("setpriv");
            reaches.args(SOMEBODY_ELSE).args(["test", "-x", COMMAND]);
            let reached = reaches.args(["-a", "-r"]).arg(&dir.0).status();
            if !reached.is_ok_and(|status| status.success()) {
                return None;
            }
            command
        }
    };
    let output = command.args(args).current_dir(&dir.0).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!error.contains("panicked"), "{args:?}: {error}");
    Some(output)
}

/// Lets no user write in the folder of a database, or every user.
fn may_be_written(dir: &Folder, db: &str, may: bool) {
    let folder = dir.0.join(db);
    let (of_folder, of_files) = if may { (0o755, 0o644) } else { (0o555, 0o444) };
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        set_permissions(path, Permissions::from_mode(of_files)).unwrap();
    }
    set_permissions(folder, Permissions::from_mode(of_folder)).unwrap();
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const READING: [&[&str]; 8] = [
    &["get", "db", "a", "-s", "main"],
    &["scan", "db", "-s", "main"],
    &["dump", "db", "-s", "main"],
    &["dump", "db", "--all"],
    &["verify", "db"],
    &["list", "db"],
    &["stat", "db"],
    &["index", "list", "db", "rows"],
];

#[test]
fn what_takes_no_writes_is_backed_up() {
    let dir = database();
    may_be_written(&dir, "db", false);
    set_permissions(&dir.0, Permissions::from_mode(0o777)).unwrap();
    let made = run(&dir, &["backup", "create", "db", "set", "--mark", "m"]);
    may_be_written(&dir, "db", true);
    let Some(made) = made else { return };
    assert!(made.status.success(), "{}", told(&made));
    // It is of another user, and only that user may read it.
    if is_root() {
        dir.run(&["backup", "verify", "set"]).ok();
    }
    dir.run(&["restore", "set", "again", "--to-mark", "m"]).ok();
    assert_eq!(
        dir.run(&["get", "again", "a", "-s", "main"]).ok(),
        "alpha\n"
    );
}

fn database() -> Folder {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "alpha"]).ok();
    let csv = "id,city\n1,Oslo\n";
    dir.run_with(
        &[
            "load",
            "db",
            "-s",
            "rows",
            "--kind",
            "table",
            "-f",
            "csv",
            "-k",
            "id",
            "--index",
            "city=json:/city",
            "-",
        ],
        csv.as_bytes(),
    )
    .ok();
    dir
}

#[test]
fn a_closed_database_is_read_by_who_may_not_write_to_it() {
    let dir = database();
    may_be_written(&dir, "db", false);
    let before = dir.names("db");
    for args in READING {
        let Some(output) = run(&dir, args) else {
            eprintln!("not tried: nobody else reaches the folder for tests");
            break;
        };
        assert!(output.status.success(), "{args:?}: {}", told(&output));
        if args[0] == "get" {
            assert_eq!(output.stdout, b"alpha\n");
        }
    }
    if let Some(output) = run(&dir, &["put", "db", "b", "beta", "-s", "main"]) {
        assert!(!output.status.success());
    }
    assert_eq!(dir.names("db"), before);
    may_be_written(&dir, "db", true);
}

#[test]
fn commands_that_read_work_beside_a_reader_and_those_that_write_do_not() {
    let dir = database();
    let options = terrace::Options::new().memory(16 << 20);
    let reader = terrace::Database::open_read_only(dir.0.join("db"), options).unwrap();
    for args in READING {
        dir.run(args).ok();
    }
    let put = ["put", "db", "b", "beta", "-s", "main"];
    dir.run(&put).fails(&["is open elsewhere"]);
    reader.close().unwrap();
    dir.run(&put).ok();
}

#[test]
fn why_it_cannot_be_read_is_told_and_not_that_nothing_may_be_written() {
    let dir = database();
    let options = || terrace::Options::new().memory(16 << 20);
    // As a process that was killed has left it.
    let db = terrace::Database::open(dir.0.join("db"), options()).unwrap();
    db.tree("main").unwrap().put("b", "beta").unwrap();
    db.sync().unwrap();
    for copy in ["killed", "damaged"] {
        std::fs::create_dir(dir.0.join(copy)).unwrap();
        // A hint, which a thread deletes once it is used.
        for name in dir.names("db").into_iter().filter(|name| name != "warm") {
            let (from, to) = (dir.0.join("db").join(&name), dir.0.join(copy).join(&name));
            std::fs::copy(from, to).unwrap();
        }
    }
    db.close().unwrap();
    let data = dir.0.join("damaged/data");
    let mut bytes = std::fs::read(&data).unwrap();
    bytes[..8192].fill(0xA5);
    std::fs::write(data, bytes).unwrap();
    for (db, words) in [("killed", "log"), ("damaged", "is damaged")] {
        may_be_written(&dir, db, false);
        if let Some(output) = run(&dir, &["get", db, "a", "-s", "main"]) {
            let text = told(&output);
            assert!(!output.status.success(), "{db}");
            assert!(text.contains(words), "{db}: {text}");
            assert!(!text.contains("ermission denied"), "{db}: {text}");
        }
        may_be_written(&dir, db, true);
    }
    assert_eq!(
        dir.run(&["get", "killed", "b", "-s", "main"]).ok(),
        "beta\n"
    );
}

#[test]
fn a_database_on_media_that_take_no_writes_is_read_even_without_its_lock() {
    let dir = database();
    if !is_root() {
        eprintln!("not tried: only root mounts something to be read only");
        return;
    }
    for lock in [true, false] {
        if !lock {
            std::fs::remove_file(dir.0.join("db/LOCK")).unwrap();
            // Where one may write there is no such database: whoever copied it says that no process writes.
            assert!(
                terrace::Database::open_read_only(dir.0.join("db"), terrace::Options::new())
                    .is_err()
            );
        }
        for args in READING {
            // No process outside sees the mount.
            let mounted = "mount --bind . . && mount -o remount,ro,bind . && cd \"$PWD\" && \
                           ! touch new 2> /dev/null || exit 77; exec \"$0\" \"$@\"";
            let mut command = Command::new("unshare");
            command
                .args(["-m", "sh", "-c", mounted, COMMAND])
                .args(args);
            let output = command.current_dir(&dir.0).output().unwrap();
            let text = told(&output);
            if output.status.code() == Some(77) || text.contains("unshare") {
                eprintln!("not tried: nothing can be mounted here: {text}");
                return;
            }
            assert!(output.status.success(), "{args:?}: {text}");
        }
    }
}
