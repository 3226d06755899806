//! Databases watched live by the command: the page of `view`, `bench` and `demo`, and `top` in a terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::Folder;
use serde_json::Value;

/// A command that runs until it is dropped, and where its page is.
struct Served {
    child: Child,
    address: SocketAddr,
}

impl Served {
    /// Runs a command that says on its output or on its standard error where the page is.
    fn by(dir: &Folder, args: &[&str]) -> Served {
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 2>&1"])
            .arg(env!("CARGO_BIN_EXE_terrace"))
            .args(args)
            .current_dir(&dir.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut told = String::new();
        let address = lines.by_ref().map_while(Result::ok).find_map(|line| {
            told += &format!("{line}\n");
            let (_, rest) = line.split_once("The page is at http://")?;
            rest.split('/').next()?.parse().ok()
        });
        let Some(address) = address else {
            let _ = (child.kill(), child.wait());
            panic!("{args:?} did not say where its page is: {told}");
        };
        // A thread reads the rest, so that the command does not wait for a reader.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        Served { child, address }
    }

    fn connect(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let patience = Some(Duration::from_secs(30));
        stream.set_read_timeout(patience).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    fn send(&self, request: &str) -> String {
        let mut answer = String::new();
        self.connect(request).read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// A reader of events, and what it is answered first.
    fn reader(&self) -> (TcpStream, String) {
        let mut stream = self.connect("GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut first = [0; 12];
        stream.read_exact(&mut first).unwrap();
        (stream, String::from_utf8_lossy(&first).into_owned())
    }

    /// The next frame of the events.
    fn frame(&self) -> Value {
        let (stream, first) = self.reader();
        assert_eq!(first, "HTTP/1.1 200");
        let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
        let data = lines.find_map(|line| line.strip_prefix("data: ").map(str::to_owned));
        serde_json::from_str(&data.expect("a frame")).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = (self.child.kill(), self.child.wait());
    }
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

fn adds_up(frame: &Value) {
    let parts = frame["memory"].as_array().unwrap().iter();
    let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(frame["memory_limit"], sum, "{frame}");
}

#[test]
fn view_serves_a_page_figures_events_and_metrics() {
    let dir = Folder::new();
    dir.run(&["put", "people.db", "a", "1"]).ok();
    dir.run(&["put", "people.db", "b", "2"]).ok();
    let view = ["view", "people.db", "--http", "127.0.0.1:0"];
    let served = Served::by(&dir, &[&view[..], &["--memory", "16MiB"]].concat());
    assert!(body(&served.get("/")).starts_with("<!doctype html>"));
    assert_eq!(body(&served.get("/healthz")), "ok\n");
    let stats: Value = serde_json::from_str(body(&served.get("/api/stats"))).unwrap();
    assert_eq!(stats["structures"][0]["records"], 2, "{stats}");
    assert_eq!(stats["memory"]["limit"], 16 << 20, "{stats}");
    let metrics = served.get("/metrics");
    assert!(
        metrics.contains("\nterrace_records{structure=\"main\",tier=\"all\"} 2\n"),
        "{metrics}"
    );
    let frame = served.frame();
    assert_eq!(frame["name"], "people.db");
    assert_eq!(frame["rows"][0]["name"], "main");
    adds_up(&frame);
}

#[test]
fn view_refuses_who_may_not_ask() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "1"]).ok();
    let refused = |served: &Served, request: &str, told: &str| {
        let answer = served.send(request);
        let first = format!("HTTP/1.1 {told} ");
        assert!(answer.starts_with(&first), "{request:?}: {answer}");
    };
    let view = ["view", "db", "--http", "127.0.0.1:0"];
    let served = Served::by(&dir, &[&view[..], &["--allow-host", "db.example"]].concat());
    for (request, told) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        ("GET / HTTP/1.1\r\nHost: db.example:80\r\n\r\n", "200"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405"),
        ("GET /none HTTP/1.1\r\nHost: localhost\r\n\r\n", "404"),
    ] {
        refused(&served, request, told);
    }
    drop(served);

    for (content, words) in [
        (None, "cannot read the token"),
        (Some("short"), "no token"),
        (Some("with spaces in it, and long enough"), "no token"),
    ] {
        if let Some(content) = content {
            dir.file("token", content);
        }
        dir.run(&[&view[..], &["--token-file", "token"]].concat())
            .fails(&[words]);
    }
    dir.file("token", "0123456789abcdef\nwhat follows is not of it\n");
    let token = ["--token-file", "token"];
    let open = ["view", "db", "--http", "0.0.0.0:0"];
    let mut served = Served::by(&dir, &[&open[..], &token].concat());
    served.address.set_ip([127, 0, 0, 1].into());
    for (request, told) in [
        ("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "401"),
        (
            "GET /metrics?token=0123456789abcdeX HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "401",
        ),
        (
            "GET /metrics?token=0123456789abcdef HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "200",
        ),
        (
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n",
            "200",
        ),
    ] {
        refused(&served, request, told);
    }
}

#[test]
fn a_hundred_slow_readers_leave_room_for_a_scraper() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "1"]).ok();
    let served = Served::by(&dir, &["view", "db", "--http", "127.0.0.1:0"]);
    // None of them reads on.
    let slow: Vec<(TcpStream, String)> = (0..100).map(|_| served.reader()).collect();
    let refused = slow.iter().filter(|(_, first)| first == "HTTP/1.1 503");
    assert_eq!(refused.count(), 4);
    for path in ["/metrics", "/healthz", "/api/stats"] {
        assert!(served.get(path).starts_with("HTTP/1.1 200 "), "{path}");
    }
}

#[test]
fn benchmarks_and_the_demonstration_serve_a_page_while_they_run() {
    let dir = Folder::new();
    let small = ["--records", "5k", "--memory", "16MiB", "--seconds", "600"];
    let bench = ["bench", "b", "--workload", "f", "--http", "127.0.0.1:0"];
    let served = Served::by(&dir, &[&bench[..], &small].concat());
    let frame = served.frame();
    assert_eq!(frame["name"], "b");
    adds_up(&frame);
    // Writes are counted for the structure that took them.
    let writes = || {
        let metrics = served.get("/metrics");
        let line = metrics
            .lines()
            .find_map(|line| line.strip_prefix("terrace_writes_total{structure=\"bench\"} "));
        line.expect("a figure").parse::<u64>().unwrap()
    };
    let before = writes();
    while writes() <= before {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(served);

    let long = ["--people", "20k", "--visits", "1G", "--seconds", "36000"];
    let demo = [&["demo", "--view=127.0.0.1:0"][..], &long].concat();
    let served = Served::by(&dir, &demo);
    assert!(body(&served.get("/")).starts_with("<!doctype html>"));
    adds_up(&served.frame());
}

#[test]
fn top_in_a_terminal_takes_its_size_and_its_keys() {
    let dir = Folder::new();
    dir.run(&["put", "db", "a", "1"]).ok();
    for (columns, rows) in [(80, 24), (200, 50)] {
        // The keys wait in the terminal until they are read.
        let shell = format!(
            "stty cols {columns} rows {rows}; exec '{}' top db",
            env!("CARGO_BIN_EXE_terrace")
        );
        let mut child = Command::new("script")
            .args(["-qec", &shell, "/dev/null"])
            .env("LC_ALL", "C")
            .env("NO_COLOR", "1")
            .current_dir(&dir.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script, of util-linux");
        let mut keys = child.stdin.take().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut told = String::new();
        for (key, shown) in [
            ("s", "s sort: name"),
            ("p", "s sort: reads"),
            ("q", "paused"),
        ] {
            while !told.contains(shown) {
                let taken = out.fill_buf().unwrap();
                assert!(!taken.is_empty(), "{shown}: {told}");
                let length = taken.len();
                told += &String::from_utf8_lossy(taken);
                out.consume(length);
            }
            keys.write_all(key.as_bytes()).unwrap();
        }
        out.read_to_string(&mut told).unwrap();
        assert!(child.wait().unwrap().success(), "{told}");
        // What was on the screen before is there again, and the cursor.
        assert!(told.ends_with("\x1b[?25h\x1b[?1049l"), "{told}");
        let frame = told.split("\x1b[H").nth(1).unwrap();
        let lines: Vec<&str> = frame.lines().collect();
        assert!(lines.len() <= rows, "{} lines: {frame}", lines.len());
        let bar = lines
            .iter()
            .find(|line| line.starts_with("memory "))
            .unwrap();
        let bar = bar.trim_end().trim_end_matches("\x1b[K");
        assert_eq!(bar.len(), columns, "{bar}");
    }
}

#[test]
fn top_prints_frames_for_programs() {
    let dir = Folder::new();
    dir.run(&["put", "db", "alice", "Berlin"]).ok();
    let frame = dir.run(&["top", "db", "--json", "--once"]).json();
    assert_eq!(frame["name"], "db");
    assert_eq!(frame["rows"][0]["name"], "main");
    assert_eq!(frame["rows"][0]["records"], 1);
    let parts = frame["memory"].as_array().unwrap().iter();
    let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
    assert_eq!(Some(sum), frame["memory_limit"].as_u64());
    // One a line, until no process reads any more.
    let ran = Command::new("sh")
        .args(["-c", "\"$0\" top db --json | head -n 2"])
        .arg(env!("CARGO_BIN_EXE_terrace"))
        .current_dir(&dir.0)
        .output()
        .unwrap();
    let lines = String::from_utf8(ran.stdout).unwrap();
    let frames: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(frames.len(), 2);
    assert_eq!(frames[1]["operations"], 0.0);
}
