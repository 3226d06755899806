//! The page, the figures and the frame of a terminal are those of the database; what may not ask is refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use terrace::{Database, Options, ProgramFigure};
use terrace_view::http::{Access, Server, serve};
use terrace_view::top::{Look, Sort, lines};
use terrace_view::{Watch, Watched};

const NOW: Duration = Duration::ZERO;

fn database(control: bool) -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new().memory(16 << 20).control(control);
    let db = Database::open(dir.path(), options).unwrap();
    let users = db.tree("users").unwrap();
    for i in 0..300u32 {
        users.put(i.to_be_bytes(), [7; 90]).unwrap();
    }
    let rows = db.table("rows \u{202e}<b>").unwrap();
    rows.create_index("city=json:/city".parse().unwrap())
        .unwrap();
    rows.put("a", r#"{"city":"Oslo"}"#).unwrap();
    (dir, db)
}

fn served(db: &Database, access: Access) -> Server {
    let watch = Watch::new("test.db", Watched::Own(db.clone()), NOW);
    serve("127.0.0.1:0".parse().unwrap(), access, watch).unwrap()
}

fn send(address: SocketAddr, sent: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    // Who is refused may find the connection closed before all is sent.
    let _ = stream.write_all(sent.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}

fn get(address: SocketAddr, path: &str) -> String {
    send(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
    )
}

fn body(answer: &str) -> &str {
    answer.split_once("\r\n\r\n").unwrap().1
}

#[test]
fn figures_over_http_are_those_of_the_database() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let at = server.address();
    let answer = get(at, "/api/stats");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (told, own) = (
        serde_json::from_str::<Value>(body(&answer)).unwrap(),
        serde_json::to_value(db.survey().unwrap()).unwrap(),
    );
    for part in ["structures", "log", "loaders", "opening", "drops"] {
        assert_eq!(told[part], own[part], "{part}");
    }
    let structures = told["structures"].as_array().unwrap();
    let users = structures.iter().find(|s| s["name"] == "users").unwrap();
    assert_eq!(users["records"], 300);
    let sum = |memory: &Value| {
        let parts = memory.as_object().unwrap().iter();
        let parts = parts.filter(|(name, _)| name.as_str() != "limit");
        parts.map(|(_, bytes)| bytes.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(sum(&told["memory"]), 16 << 20);

    let metrics = get(at, "/metrics");
    assert!(
        metrics.contains("Content-Type: text/plain; version=0.0.4"),
        "{metrics}"
    );
    assert!(
        metrics.contains("\nterrace_records{structure=\"users\",tier=\"all\"} 300\n"),
        "{metrics}"
    );
    let accept = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n";
    assert!(send(at, accept).ends_with("# EOF\n"));
    assert_eq!(body(&get(at, "/healthz")), "ok\n");
    let head = send(at, "HEAD /api/stats HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    assert!(
        head.starts_with("HTTP/1.1 200 OK\r\n") && body(&head).is_empty(),
        "{head}"
    );
    // A closed database is not healthy, and says so.
    db.close().unwrap();
    assert!(get(at, "/healthz").starts_with("HTTP/1.1 503 "));
}

#[test]
fn the_page_is_one_file_that_needs_nothing_else() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let (one, two) = (get(server.address(), "/"), get(server.address(), "/"));
    let page = body(&one);
    assert!(page.len() < 60 << 10, "{}", page.len());
    let nonce = |answer: &str| {
        let policy = answer
            .lines()
            .find(|line| line.starts_with("Content-Security-Policy"))
            .unwrap();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        policy.split("script-src 'nonce-").nth(1).unwrap()[..32].to_owned()
    };
    assert_ne!(nonce(&one), nonce(&two));
    assert!(page.contains(&format!("<script nonce=\"{}\">", nonce(&one))));
    assert!(!page.contains("{{nonce}}"));
    for word in [
        "https://",
        "//cdn",
        "@import",
        "innerHTML",
        " style=\"",
        "onclick=",
    ] {
        assert!(!page.contains(word), "{word}");
    }
}

#[test]
fn events_are_frames_and_their_parts_add_up() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let users = db.tree("users").unwrap();
    let frames: Vec<Value> = BufReader::new(stream)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| {
            line.strip_prefix("data: ")
                .map(|data| serde_json::from_str(data).unwrap())
        })
        .inspect(|_| {
            for i in 0..300u32 {
                users.get(i.to_be_bytes()).unwrap();
            }
        })
        .take(3)
        .collect();
    for frame in &frames {
        assert_eq!(frame["name"], "test.db");
        let parts = frame["memory"].as_array().unwrap().iter();
        let sum: u64 = parts.map(|part| part["bytes"].as_u64().unwrap()).sum();
        assert_eq!(frame["memory_limit"], sum);
        assert_eq!(frame["rows"].as_array().unwrap().len(), 3);
    }
    assert_eq!(frames[0]["operations"], 0.0);
    let last = &frames[2];
    assert!(last["operations"].as_f64().unwrap() > 0.0, "{last}");
    let row = last["rows"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "users")
        .unwrap();
    assert_eq!(row["records"], 300);
    assert!(row["reads"].as_f64().unwrap() > 0.0, "{row}");
    assert!(!last["history"].as_array().unwrap().is_empty());
    // Of 300 gets two are timed at least; the first frame has nothing to compare with.
    assert_eq!(frames[0]["calls"], serde_json::json!([]));
    let called = &last["calls"][0];
    assert_eq!(
        (&called["call"], &called["one_in"]),
        (&"get".into(), &64.into())
    );
    let figure = |name: &str| called[name].as_u64().unwrap();
    assert!(figure("timed") >= 2 && figure("p50_ns") > 0, "{called}");
    assert!(figure("p50_ns") <= figure("p99_ns") && figure("p99_ns") <= figure("longest_ns"));
}

#[test]
fn who_may_not_ask_is_refused() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let at = server.address();
    for (sent, told) in [
        ("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403"),
        (
            "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n",
            "403",
        ),
        ("GET / HTTP/1.1\r\n\r\n", "403"),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
            "400",
        ),
        (
            "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        (
            "DELETE /api/stats HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "405",
        ),
        (
            "GET /../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "404",
        ),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400"),
        ("*1\r\n$4\r\nPING\r\n\r\n", "400"),
    ] {
        let answer = send(at, sent);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {told} ")),
            "{sent:?}: {answer}"
        );
    }
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(40_000)
    );
    let answer = send(at, &long);
    // Closed with something unread, the answer may be lost on its way.
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431 "),
        "{answer}"
    );

    let watch = || Watch::new("x", Watched::Own(db.clone()), NOW);
    let open = serve("0.0.0.0:0".parse().unwrap(), Access::new(), watch());
    let refused = open.err().unwrap().to_string();
    assert!(refused.contains("give a token"), "{refused}");

    let mut access = Access::new();
    access.token = Some("0123456789abcdef".into());
    access.hosts = vec!["db.example".into()];
    let server = serve("0.0.0.0:0".parse().unwrap(), access, watch()).unwrap();
    let at = SocketAddr::from(([127, 0, 0, 1], server.address().port()));
    for (sent, told) in [
        ("GET /healthz HTTP/1.1\r\nHost: db.example\r\n\r\n", "401"),
        (
            "GET /healthz?token=0123456789abcdeX HTTP/1.1\r\nHost: db.example\r\n\r\n",
            "401",
        ),
        (
            "GET /healthz?token=0123456789abcdef HTTP/1.1\r\nHost: db.example:80\r\n\r\n",
            "200",
        ),
        (
            "GET /healthz HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer 0123456789abcdef\r\n\r\n",
            "200",
        ),
        (
            "GET /healthz?token=0123456789abcdef HTTP/1.1\r\nHost: other.example\r\n\r\n",
            "403",
        ),
    ] {
        let answer = send(at, sent);
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {told} ")),
            "{sent:?}: {answer}"
        );
    }
}

/// A reader of events, and the first line of what it is answered.
fn reader(at: SocketAddr) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(at).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .write_all(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).unwrap();
    (stream, String::from_utf8_lossy(&first).into_owned())
}

#[test]
fn slow_readers_are_dropped_and_leave_room_for_who_asks_once() {
    const READERS: usize = 96;
    let (_dir, db) = database(false);
    // Frames of tens of kilobytes, so that it takes no minutes until a reader has not taken them.
    for i in 0..200 {
        db.tree(&format!("a structure with a rather long name {i:03}"))
            .unwrap();
    }
    let server = served(&db, Access::new());
    let at = server.address();
    let mut slow: Vec<TcpStream> = (0..READERS)
        .map(|_| {
            let (stream, first) = reader(at);
            assert_eq!(first, "HTTP/1.1 200");
            stream
        })
        .collect();
    assert_eq!(reader(at).1, "HTTP/1.1 503");
    for path in ["/metrics", "/healthz", "/api/stats"] {
        assert!(get(at, path).starts_with("HTTP/1.1 200 "), "{path}");
    }
    // Nor does it help to take a byte now and then.
    let mut trickle = slow.pop().unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let is_over = over.clone();
    let trickling = std::thread::spawn(move || {
        while !is_over.load(Ordering::Relaxed) && matches!(trickle.read(&mut [0]), Ok(1)) {
            std::thread::sleep(Duration::from_millis(50));
        }
    });
    let began = Instant::now();
    let again = loop {
        // All at once: those that were let in and do not read are dropped themselves after a while.
        let mut again = Vec::new();
        while again.len() < READERS
            && let (stream, first) = reader(at)
            && first == "HTTP/1.1 200"
        {
            again.push(stream);
        }
        if again.len() == READERS {
            break again;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "{} of {READERS} slow readers are gone",
            again.len()
        );
        drop(again);
        std::thread::sleep(Duration::from_millis(500));
    };
    drop((slow, again, server));
    over.store(true, Ordering::Relaxed);
    trickling.join().unwrap();
}

#[test]
fn too_many_connections_are_refused() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let at = server.address();
    let began = Instant::now();
    let mut idle = Vec::new();
    // Each has five seconds to say something.
    while !get(at, "/healthz").starts_with("HTTP/1.1 503 ") {
        idle.extend((0..16).map(|_| TcpStream::connect(at).unwrap()));
        assert!(began.elapsed() < Duration::from_secs(20));
    }
    drop(idle);
    let began = Instant::now();
    while !get(at, "/healthz").starts_with("HTTP/1.1 200 ") {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    // Ending does not wait for those who are connected.
    let _idle = TcpStream::connect(at).unwrap();
    let began = Instant::now();
    drop(server);
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn who_asks_often_is_no_load() {
    let (_dir, db) = database(false);
    let server = served(&db, Access::new());
    let at = server.address();
    assert_eq!(body(&get(at, "/healthz")), "ok\n");
    let users = db.tree("users").unwrap();
    let records = || {
        let told: Value = serde_json::from_str(body(&get(at, "/api/stats"))).unwrap();
        let structures = told["structures"].as_array().unwrap();
        let users = structures.iter().find(|s| s["name"] == "users").unwrap();
        users["records"].as_u64().unwrap()
    };
    // Counted again only after a while, however often it is asked for.
    let began = Instant::now();
    let mut kept = 0;
    for i in 300..340u32 {
        let before = records();
        users.put(i.to_be_bytes(), "1").unwrap();
        kept += usize::from(records() == before);
    }
    let counted = 1 + began.elapsed().as_secs() as usize / 2;
    assert!(40 - kept <= counted, "kept {kept} of 40, {counted} surveys");
    let began = Instant::now();
    while records() != 340 {
        assert!(began.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn another_process_is_watched_over_its_socket_also_after_it_was_started_again() {
    let (dir, db) = database(true);
    let mut watch = Watch::new("x", Watched::other(dir.path()).unwrap(), NOW);
    assert_eq!(watch.frame().unwrap().rows.len(), 3);
    db.close().unwrap();
    assert!(watch.frame().is_err());
    let options = Options::new().memory(16 << 20).control(true);
    let _db = Database::open(dir.path(), options).unwrap();
    let frame = watch.frame().unwrap();
    assert_eq!(frame.rows.len(), 3);
    // The figures begin anew, and no rate is below nothing.
    assert!(frame.operations >= 0.0 && frame.page_reads >= 0.0);
}

/// Columns of a line whose colours take none.
fn columns(line: &str) -> usize {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap().chars().count();
    first
        + parts
            .map(|part| part.split_once('m').unwrap().1.chars().count())
            .sum::<usize>()
}

#[test]
fn a_frame_fits_every_terminal_and_prints_no_control_characters() {
    let (_dir, db) = database(false);
    for i in 0..30 {
        db.tree(&format!("tree-{i:02}")).unwrap();
    }
    let mut watch = Watch::new("a\x1b]0;b", Watched::Own(db), NOW);
    watch.frame().unwrap();
    let frame = watch.frame().unwrap();
    for (width, height) in [
        (1, 1),
        (10, 3),
        (40, 12),
        (80, 24),
        (80, 25),
        (120, 40),
        (200, 50),
        (500, 200),
    ] {
        for colour in [false, true] {
            for sort in [Sort::Name, Sort::Reads, Sort::Moves, Sort::Records] {
                let mut look = Look::plain(width, height);
                (look.colour, look.unicode, look.keys, look.sort) = (colour, colour, true, sort);
                let drawn = lines(&frame, &look);
                assert!(drawn.len() <= height, "{width}x{height}: {}", drawn.len());
                for line in &drawn {
                    assert!(columns(line) <= width, "{width}x{height}: {line:?}");
                    let plain = line.replace("\x1b[", "");
                    assert!(!plain.chars().any(char::is_control), "{line:?}");
                    assert!(colour || line.is_ascii(), "{line:?}");
                }
            }
        }
    }
    let drawn = lines(&frame, &Look::plain(80, 24)).join("\n");
    for told in [
        "memory   ",
        "hot pages",
        "of 256 MiB",
        "rows .<b>",
        "by city",
        "and 2",
        "300",
    ] {
        assert!(drawn.contains(told), "{told}: {drawn}");
    }
    let mut look = Look::plain(120, 60);
    look.indexes = false;
    assert!(!lines(&frame, &look).join("\n").contains("by city"));
}

#[test]
fn figures_of_the_program_are_beside_those_of_the_database() {
    let (_dir, db) = database(true);
    let counted = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(5));
    let of = counted.clone();
    db.show_figures(move || {
        let count = of.load(std::sync::atomic::Ordering::SeqCst) as f64;
        let figure = |name: &str, counts, value| ProgramFigure {
            name: name.into(),
            help: "Help\nof two lines.".into(),
            counts,
            value,
            ..ProgramFigure::default()
        };
        let mut jobs = figure("jobs", true, count);
        jobs.word = Some("jobs \u{1b}".into());
        let mut labelled = figure("queue", false, 3.0);
        labelled.labels = vec![("of".into(), "a\"b".into())];
        vec![jobs, labelled, figure("no name", false, 1.0)]
    });
    // Over the socket as well as within the process.
    for watched in [
        Watched::Own(db.clone()),
        Watched::other(_dir.path()).unwrap(),
    ] {
        let mut watch = Watch::new("test.db", watched, NOW);
        watch.frame().unwrap();
        counted.fetch_add(1000, std::sync::atomic::Ordering::SeqCst);
        let frame = watch.frame().unwrap();
        assert_eq!(frame.program.len(), 1);
        assert!(frame.program[0].is_rate && frame.program[0].value > 0.0);
        let drawn = lines(&frame, &Look::plain(80, 24)).join("\n");
        assert!(drawn.contains("program  jobs ."), "{drawn}");
    }
    let server = served(&db, Access::new());
    let metrics = get(server.address(), "/metrics");
    let wanted = "# HELP jobs_total Help of two lines.\n# TYPE jobs_total counter\njobs_total 2005\n\
        # HELP queue Help of two lines.\n# TYPE queue gauge\nqueue{of=\"a\\\"b\"} 3\n";
    assert!(metrics.contains(wanted), "{metrics}");
    assert!(!metrics.contains("no name"));
}
