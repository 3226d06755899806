//! The control socket: what it answers, and what it refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use terrace::control::{MAX_LINE_BYTES, SOCKET};
use terrace::{Control, Database, Error, FollowOptions, Options, Rate, Stats};

fn options() -> Options {
    Options::new().memory(16 << 20).control(true)
}

/// Sends bytes, and hears what comes until the other side ends or waits.
fn talk(folder: &Path, sent: &[u8]) -> String {
    let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    // Who is refused may find the connection closed before all is sent.
    let _ = stream.write_all(sent);
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

#[test]
fn a_folder_that_got_another_name_takes_its_own_socket_away() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let first = Database::open(at("a"), options()).unwrap();
    std::fs::rename(at("a"), at("b")).unwrap();
    assert_eq!(
        Control::connect(at("b"))
            .unwrap()
            .version()
            .unwrap()
            .process,
        std::process::id()
    );
    let second = Database::open(at("a"), options()).unwrap();
    first.close().unwrap();
    assert!(!at("b").join(SOCKET).exists());
    let mut control = Control::connect(at("a")).unwrap();
    assert_eq!(control.version().unwrap().process, std::process::id());
    // One that another process has put there is left alone.
    std::fs::remove_file(at("a").join(SOCKET)).unwrap();
    std::fs::write(at("a").join(SOCKET), "of somebody else").unwrap();
    second.close().unwrap();
    assert!(at("a").join(SOCKET).exists());
}

#[test]
fn figures_are_those_of_the_database_and_work_is_done() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    let users = db.tree("users").unwrap();
    for i in 0..500u32 {
        users.put(i.to_be_bytes(), vec![7; 100]).unwrap();
    }
    users.get(3u32.to_be_bytes()).unwrap();
    let rows = db.table("rows").unwrap();
    rows.create_index("city=json:/city".parse().unwrap())
        .unwrap();
    rows.put("a", r#"{"city":"Oslo"}"#).unwrap();

    let mut control = Control::connect(dir.path()).unwrap();
    assert_eq!(control.version().unwrap().process, std::process::id());
    let (own, asked) = (db.stats(), control.stats().unwrap());
    let json = |stats: &Stats| serde_json::to_value(stats).unwrap();
    // What was not changed meanwhile.
    for part in ["structures", "loaders", "opening", "drops"] {
        assert_eq!(json(&own)[part], json(&asked)[part], "{part}");
    }
    assert_eq!(
        asked.memory.used() + asked.memory.unused,
        asked.memory.limit
    );
    let surveyed = control.survey().unwrap();
    assert_eq!(surveyed.structures.len(), 2);
    let of = |name: &str| surveyed.structures.iter().find(|s| s.info.name == name);
    assert_eq!(of("users").unwrap().records, Some(500));
    assert_eq!(of("rows").unwrap().by_index[0].records, Some(1));
    // A table for people, as in the process itself.
    assert!(surveyed.to_string().contains("users"), "{surveyed}");

    let before = db.stats().checkpoints.completed;
    let made = control.checkpoint(|_| ()).unwrap();
    assert_eq!(db.stats().checkpoints.completed, before + 1);
    assert_eq!(Some(made), db.stats().checkpoints.last);
    let mut told = 0;
    let report = control.verify(|_| told += 1).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.structures.len(), 3);
}

#[test]
fn the_socket_is_the_owners_alone_and_goes_with_the_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(SOCKET);
    // Without being asked for there is none.
    let db = Database::open(dir.path(), options().control(false)).unwrap();
    assert!(!path.exists());
    let refused = Control::connect(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("Options::control(true)"), "{refused}");
    db.close().unwrap();
    // One that a dead process has left is no bar.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let refused = Control::connect(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("no process answers"), "{refused}");
    for _ in 0..20 {
        let db = Database::open(dir.path(), options()).unwrap();
        let about = std::fs::symlink_metadata(&path).unwrap();
        assert!(about.file_type().is_socket());
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        let mut control = Control::connect(dir.path()).unwrap();
        control.stats().unwrap();
        let idle = UnixStream::connect(&path).unwrap();
        // Neither of those who are connected keeps it open: the next opening finds it unlocked.
        let began = Instant::now();
        db.close().unwrap();
        assert!(began.elapsed() < Duration::from_secs(5));
        assert!(!path.exists());
        assert!(control.stats().is_err());
        drop(idle);
    }
    // Dropped, not closed.
    let db = Database::open(dir.path(), options()).unwrap();
    let idle = UnixStream::connect(&path).unwrap();
    drop(db);
    assert!(!path.exists());
    Database::open(dir.path(), options()).unwrap();
    drop(idle);
}

#[test]
fn what_is_no_request_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options()).unwrap();
    for (sent, told) in [
        (&b"{\"command\":\"drop\"}\n"[..], "there are version, stat"),
        (b"stat\n", "not a request"),
        (b"\n", "not a request"),
        (b"\xff\xfe\n", "not a request"),
        (b"{\"command\":\"stat\",\"key\":1}\n", "unknown field"),
        (b"{\"command\":{}}\n", "not a request"),
        (b"[[[[[[[[[[\n", "not a request"),
    ] {
        let answer = talk(dir.path(), sent);
        assert!(answer.contains(told), "{answer}");
        assert!(
            answer.starts_with(r#"{"error":{"kind":"invalid","#),
            "{answer}"
        );
    }
    let long = talk(dir.path(), &vec![b'x'; MAX_LINE_BYTES]);
    assert!(long.contains("65536 bytes at most"), "{long}");
    // A line of exactly the limit is a line.
    let mut line = vec![b' '; MAX_LINE_BYTES - 1];
    line[..18].copy_from_slice(br#"{"command":"stat"}"#);
    line.push(b'\n');
    let answer = talk(dir.path(), &line);
    assert!(answer.starts_with(r#"{"ok":{"structures""#), "{answer}");
    // Two requests at once are two answers.
    let mut stream = UnixStream::connect(dir.path().join(SOCKET)).unwrap();
    stream
        .write_all(b"{\"command\":\"version\"}\n{\"command\":\"version\"}\n")
        .unwrap();
    let mut lines = BufReader::new(stream).lines();
    let (one, two) = (lines.next().unwrap().unwrap(), lines.next().unwrap());
    assert_eq!(one, two.unwrap());
    drop(db);
}

#[test]
fn more_connections_than_there_are_places_are_refused_and_places_come_free() {
    let dir = tempfile::tempdir().unwrap();
    let _db = Database::open(dir.path(), options()).unwrap();
    let connect = || Control::connect(dir.path()).unwrap();
    let mut all: Vec<_> = (0..8).map(|_| connect()).collect();
    all.iter_mut().for_each(|one| drop(one.stats().unwrap()));
    let refused = connect().stats().unwrap_err().to_string();
    assert!(
        refused.contains("8 connections are open already"),
        "{refused}"
    );
    all.pop();
    let began = Instant::now();
    while connect().stats().is_err() {
        assert!(began.elapsed() < Duration::from_secs(5));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_connection_that_says_nothing_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let _db = Database::open(dir.path(), options()).unwrap();
    let mut slow = UnixStream::connect(dir.path().join(SOCKET)).unwrap();
    slow.write_all(b"{\"command\"").unwrap();
    slow.set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let began = Instant::now();
    assert_eq!(slow.read(&mut [0; 9]).unwrap(), 0);
    assert!(began.elapsed() > Duration::from_secs(5));
}

#[test]
fn a_folder_with_a_long_path_has_a_socket_and_a_disk_without_folder_has_none() {
    let dir = tempfile::tempdir().unwrap();
    let long = dir.path().join("x".repeat(120)).join("y".repeat(120));
    let db = Database::open(&long, options()).unwrap();
    assert_eq!(
        Control::connect(&long)
            .unwrap()
            .stats()
            .unwrap()
            .pages
            .page_bytes,
        16384
    );
    db.close().unwrap();
    assert!(!long.join(SOCKET).exists());

    let sim = terrace_sim::SimDisk::new(1).shared();
    match Database::open_on(sim, options().foreground(true)) {
        Err(Error::Invalid { what }) => assert!(what.contains("needs a folder"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backup_is_made_by_the_process_that_has_the_database_open() {
    let dir = tempfile::tempdir().unwrap();
    let (path, set, again) = (
        dir.path().join("db"),
        dir.path().join("set"),
        dir.path().join("again"),
    );
    let db = Database::open(&path, options()).unwrap();
    db.tree("users").unwrap().put("alice", "1").unwrap();
    let mut control = Control::connect(&path).unwrap();
    let report = control
        .backup(&set, false, Rate::Fast, None, |_| ())
        .unwrap();
    assert_eq!((report.point, report.stored_pages), (1, report.live_pages));
    db.tree("users").unwrap().put("alice", "2").unwrap();
    let report = control.backup(&set, false, Rate::BytesPerSecond(1 << 30), None, |_| ());
    assert_eq!(report.unwrap().point, 2);
    terrace::restore(&set, &again, terrace::RestoreOptions::new()).unwrap();
    let then = Database::open(&again, options()).unwrap();
    let found = then.tree("users").unwrap().get("alice").unwrap();
    then.close().unwrap();
    assert_eq!(found.as_deref(), Some(&b"2"[..]));
    let told = control
        .backup("set", false, Rate::Gentle, None, |_| ())
        .unwrap_err();
    assert!(told.to_string().contains("no whole path"), "{told}");
    let told = control
        .backup(&path, false, Rate::Fast, None, |_| ())
        .unwrap_err();
    assert!(told.to_string().contains("refuses"), "{told}");
    let told = talk(&path, b"{\"command\":\"backup\"}\n");
    assert!(told.contains("needs the folder"), "{told}");
    // Marks, following and compaction, too.
    let told = control
        .follow("set", &FollowOptions::new())
        .unwrap_err()
        .to_string();
    assert!(told.contains("no whole path"), "{told}");
    let status = control.follow(&set, &FollowOptions::new()).unwrap();
    // Who follows marks the time, too.
    assert!(status.sequence <= db.sequence().unwrap());
    let told = control
        .follow(&set, &FollowOptions::new())
        .unwrap_err()
        .to_string();
    assert!(told.contains("already"), "{told}");
    let mark = control.mark("before").unwrap();
    assert!(mark.sequence <= db.sequence().unwrap());
    assert_eq!(mark.name, "before");
    let told = control.mark("").unwrap_err().to_string();
    assert!(told.contains("name of a mark"), "{told}");
    db.tree("users").unwrap().put("alice", "3").unwrap();
    let report = control.backup(&set, false, Rate::Fast, Some("three"), |_| ());
    assert!(report.unwrap().sequence > mark.sequence);
    let compacted = control.compact(0.9, Rate::Gentle, |_| ()).unwrap();
    assert!(compacted.pages_after <= compacted.pages_before);
    assert!(control.compact(7.0, Rate::Fast, |_| ()).is_err());
    // All that goes on as before.
    assert!(control.verify(|_| ()).unwrap().is_clean());
    db.close().unwrap();
    let all = terrace::backup_contents(&set).unwrap();
    assert_eq!(all.logs[0].marks[0], mark);
    let to = terrace::RestoreTo::Mark("three".into());
    std::fs::remove_dir_all(&again).unwrap();
    terrace::restore(&set, &again, terrace::RestoreOptions::new().to(to)).unwrap();
}

/// A database of some pages, so that what goes at a byte a second takes hours.
fn some_pages(folder: &Path) -> Database {
    let db = Database::open(folder, options()).unwrap();
    let tree = db.tree("t").unwrap();
    for i in 0..3000u32 {
        tree.put(i.to_be_bytes(), vec![7; 100]).unwrap();
    }
    db
}

/// Asks for something that takes hours, and waits until it is under way.
fn begin(folder: &Path, request: &str) -> UnixStream {
    let mut stream = UnixStream::connect(folder.join(SOCKET)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream.write_all(b"\n").unwrap();
    let mut line = String::new();
    let mut hears = BufReader::new(stream.try_clone().unwrap());
    // It is told again and again, also where nothing gets on.
    for _ in 0..3 {
        line.clear();
        hears.read_line(&mut line).unwrap();
        assert!(line.contains("progress"), "{line}");
    }
    stream
}

/// Requests that take hours.
fn slow(set: &Path) -> [String; 2] {
    let backup = serde_json::json!({
        "command": "backup", "backup": { "set": set, "full": true, "rate": 1 },
    });
    let compact = serde_json::json!({ "command": "compact", "rate": 1 });
    [backup, compact].map(|request| request.to_string())
}

#[test]
fn closing_ends_what_others_have_begun_and_would_take_hours() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, set) = (dir.path().join("db"), dir.path().join("set"));
    for request in slow(&set) {
        let db = some_pages(&folder);
        let mut asks = begin(&folder, &request);
        let began = Instant::now();
        db.close().unwrap();
        // So that a failure ends. It takes the last checkpoint and a moment.
        assert!(began.elapsed() < Duration::from_secs(60), "{request}");
        let mut rest = Vec::new();
        // Whether the reason is heard before the end does not matter.
        let _ = asks.read_to_end(&mut rest);
    }
    assert!(terrace::list_backup(&set).is_err(), "a set was begun");
}

#[test]
fn what_takes_long_ends_when_who_asked_goes_away() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, set) = (dir.path().join("db"), dir.path().join("set"));
    let db = some_pages(&folder);
    for request in slow(&set) {
        drop(begin(&folder, &request));
    }
    // One backup is made at a time, so this waits for the end of the other.
    let began = Instant::now();
    let fast = terrace::BackupOptions::new().rate(Rate::Fast);
    assert_eq!(db.backup(&set, fast).unwrap().point, 1);
    assert!(began.elapsed() < Duration::from_secs(60));
    db.close().unwrap();
}

#[test]
fn who_follows_is_seen_and_stopped_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, set) = (dir.path().join("db"), dir.path().join("set"));
    let db = some_pages(&folder);
    let mut control = Control::connect(&folder).unwrap();
    let told = control.stop_following(&set).unwrap_err().to_string();
    assert!(told.contains("nobody"), "{told}");
    let often = FollowOptions::new().every(Duration::from_millis(5));
    control.follow(&set, &often).unwrap();
    db.tree("t").unwrap().put("a", "1").unwrap();
    let reached = db.sequence().unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let seen = loop {
        let stats = control.stats().unwrap();
        let [following] = &stats.following[..] else {
            panic!("{:?}", stats.following);
        };
        assert_eq!(following.set.as_deref(), Some(&*set));
        if following.sequence >= reached && following.point.is_some() {
            break stats;
        }
        assert!(Instant::now() < end, "{following:?}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(seen.last_backup.unwrap().point, 1);
    let shown = seen.to_string();
    assert!(shown.contains(&set.display().to_string()), "{shown}");

    // What goes wrong is seen, too.
    let away = dir.path().join("away");
    std::fs::rename(&set, &away).unwrap();
    while control.stats().unwrap().following[0].error.is_none() {
        assert!(Instant::now() < end);
        std::thread::sleep(Duration::from_millis(5));
    }
    std::fs::rename(&away, &set).unwrap();
    let status = control.stop_following(&set).unwrap();
    assert_eq!((status.error, status.breaks), (None, 0));
    assert!(control.stats().unwrap().following.is_empty());
    // What the program itself follows it ends itself.
    let follower = db.follow(&set, FollowOptions::new()).unwrap();
    assert_eq!(control.stats().unwrap().following.len(), 1);
    assert!(control.stop_following(&set).is_err());
    follower.stop().unwrap();
    db.close().unwrap();
}
