//! `terrace serve`: from the start to the stop, as a service is run.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::common::Folder;

/// Far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A server; it goes with this, whatever becomes of the test.
struct Served(Child);

impl Served {
    fn wait(&mut self) -> ExitStatus {
        self.0.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended needs no killing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str], log: &Path) -> (Served, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .arg("serve")
        .args(arguments)
        .args(["--log-file", log.to_str().unwrap()])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let child = Served(child);
    let begun = Instant::now();
    loop {
        let text = std::fs::read_to_string(log).unwrap_or_default();
        if let Some(address) = text
            .split(" on ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            && text.contains("appendfsync")
        {
            return (child, address.trim_end_matches(',').to_owned());
        }
        assert!(begun.elapsed() < LONG, "it does not start: {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn say(address: &str, line: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    socket.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    BufReader::new(socket).read_line(&mut answer).unwrap();
    answer.trim_end().to_owned()
}

fn signal(child: &Served, name: &str) {
    // The shell's own: a system may have no program of this name.
    let sent = Command::new("sh")
        .args(["-c", &format!("kill {name} {}", child.0.id())])
        .status()
        .unwrap();
    assert!(sent.success());
}

#[test]
fn a_server_starts_by_its_configuration_and_stops_when_it_is_told() {
    let dir = Folder::new();
    let (db, log) = (dir.0.join("db"), dir.0.join("log"));
    let config = dir.0.join("terrace.conf");
    std::fs::write(
        &config,
        "# settings\nport 0\nmemory 64MiB\nrename-command FLUSHALL=\nappendfsync no\n",
    )
    .unwrap();
    let arguments = [
        db.to_str().unwrap(),
        "--config",
        config.to_str().unwrap(),
        "--appendfsync",
        "always",
    ];
    let (mut child, address) = start(&arguments, &log);
    assert_eq!(say(&address, "SET greeting \"hello there\""), "+OK");
    assert_eq!(say(&address, "STRLEN greeting"), ":11");
    assert!(say(&address, "FLUSHALL").starts_with("-ERR unknown command"));
    assert!(
        std::fs::read_to_string(&log)
            .unwrap()
            .contains("appendfsync always")
    );
    // The log file is moved away, and made anew.
    std::fs::rename(&log, dir.0.join("old")).unwrap();
    signal(&child, "-HUP");
    let begun = Instant::now();
    while !log.exists() {
        assert!(begun.elapsed() < LONG, "there is no new log file");
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&child, "-TERM");
    let mut told = String::new();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(child.wait().success(), "{told}");
    // It was closed: it is there, to be read only, without anything to be replayed.
    let list = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args(["list", db.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&list.stdout).contains("serve.heads.1"));
    let (mut child, address) = start(
        &[db.to_str().unwrap(), "--port", "0", "--memory", "64MiB"],
        &log,
    );
    assert_eq!(say(&address, "STRLEN greeting"), ":11");
    // And by a client.
    say(&address, "SHUTDOWN");
    assert!(child.wait().success());
}

#[test]
fn an_open_address_without_a_password_is_refused() {
    let dir = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_terrace"))
        .args([
            "serve",
            dir.0.join("db").to_str().unwrap(),
            "--bind",
            "0.0.0.0",
            "--port",
            "0",
        ])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("--requirepass-file"));
}

#[test]
fn keys_of_a_running_redis_or_of_its_file_are_imported() {
    let dir = Folder::new();
    let log = dir.0.join("log");
    let (old, new) = (dir.0.join("old"), dir.0.join("new"));
    let served = |db: &Path| {
        let _ = std::fs::remove_file(&log);
        start(
            &[db.to_str().unwrap(), "--port", "0", "--memory", "64MiB"],
            &log,
        )
    };
    // Ours speaks as Redis does.
    let (mut child, address) = served(&old);
    assert_eq!(say(&address, "SET greeting hello"), "+OK");
    assert_eq!(say(&address, "RPUSH list a b"), ":2");
    let url = format!("redis://{address}");
    let ran = dir.run(&[
        "import", "new", "--from", "redis", &url, "--memory", "64MiB",
    ]);
    assert!(ran.ok().starts_with("2 keys"), "{}", ran.ok());
    assert!(ran.ok().contains("terrace serve new"), "{}", ran.ok());
    say(&address, "SHUTDOWN");
    assert!(child.wait().success());

    // A file of Redis: one string in database 0, without a checksum.
    let mut file = b"REDIS0011\xFE\x00\x00\x03rdb\x04file\xFF".to_vec();
    file.extend([0; 8]);
    dir.file("dump.rdb", file);
    let from = [
        "import", "new", "--from", "redis", "dump.rdb", "--memory", "64MiB",
    ];
    let ran = dir.run(&[&from[..], &["--json"]].concat());
    assert_eq!(
        (&ran.json()["records"], &ran.json()["unknown"]),
        (&1.into(), &0.into())
    );
    let (mut child, address) = served(&new);
    assert_eq!(say(&address, "STRLEN greeting"), ":5");
    assert_eq!(say(&address, "LLEN list"), ":2");
    assert_eq!(say(&address, "STRLEN rdb"), ":4");
    say(&address, "SHUTDOWN");
    assert!(child.wait().success());

    dir.run(&[&from[..], &["--key", "k"]].concat())
        .fails(&["leave out --key"]);
    dir.run(&["import", "x", "--from", "redis", "nowhere"])
        .fails(&["neither a file nor the address"]);
    assert!(!dir.0.join("x").exists());
}
