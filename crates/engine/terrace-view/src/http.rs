//! A database over HTTP, for a person and for collectors of metrics: a page, JSON, events, metrics.
//!
//! | path | what |
//! | --- | --- |
//! | `/` | the page |
//! | `/api/stats` | the figures as JSON, as [`terrace::Database::survey`] gives them, with numbers of records some seconds old |
//! | `/api/events` | a [`crate::Frame`] twice a second, as server-sent events |
//! | `/metrics` | Prometheus text, or OpenMetrics if asked for |
//! | `/healthz` | `ok`, or 503 with the reason |
//!
//! It only reads. It answers only requests for the hosts `localhost`, `127.0.0.1`, `::1` and those it is told
//! of, so that no page of another site can ask through its reader's browser; and beyond the loopback
//! interface only who shows a token. The server is our own, of threads and the standard library alone, because
//! it has to be bounded in every way: connections, bytes and time of a request, time that an answer may take.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use terrace_metrics::Format;

use crate::counted::Counted;
use crate::course::{self, Point};
use crate::frame::Watch;
use crate::request::{Request, Unread, read};

/// Connections at a time; more are refused. Each has a thread with a small stack.
const MAX_CONNECTIONS: usize = 128;
/// Stack of such a thread: an answer is made on the heap.
const STACK_BYTES: usize = 256 << 10;
/// How long a client may take to take what was sent, before it is dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for a whole answer: figures of thousands of structures over a slow line.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(30);
/// Time between two frames.
const EVERY: Duration = Duration::from_millis(500);
/// How old numbers of records in the metrics may be.
const COUNTED: Duration = Duration::from_secs(60);
/// How old they may be in `/api/stats`, and the proof that pages can be read in `/healthz`: who asks often
/// is to be no load.
const FRESH: Duration = Duration::from_secs(2);
/// Who wants frames stays, so they get this many of the connections and leave the others to who asks once.
const MAX_READERS: usize = 96;
/// Bytes that wait for a reader in the kernel (which takes twice as many): a reader that does not read is
/// known by what is not taken.
const SEND_BYTES: usize = 16 << 10;

/// The page, with a place for the secret that allows its own script and style.
const PAGE: &str = include_str!("page.html");

/// Who may ask.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Access {
    /// Hosts that are answered besides those of the loopback interface.
    pub hosts: Vec<String>,
    /// What every client has to show.
    pub token: Option<String>,
}

impl Access {
    /// The hosts of the loopback interface, without a token.
    pub fn new() -> Access {
        Access::default()
    }
}

/// A server that runs until it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    access: Access,
    watch: Mutex<Watch>,
    /// What counts the records of it, which is done before the watch is taken; how often for frames.
    counted: (Arc<Counted>, Duration),
    /// The last frame, and how many there were.
    frame: Mutex<(u64, Arc<str>)>,
    framed: Condvar,
    /// Those who want frames.
    readers: AtomicUsize,
    connections: AtomicUsize,
    stopped: AtomicBool,
}

/// Serves a database at an address.
///
/// # Errors
/// When the address is not of the loopback interface and there is no token; when it cannot be had.
pub fn serve(address: SocketAddr, access: Access, watch: Watch) -> io::Result<Server> {
    if !address.ip().is_loopback() && access.token.is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "{address} can be reached from other machines, and anybody there could read the names and \
                 figures of the database: give a token, or an address of the loopback interface"
            ),
        ));
    }
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    let shared = Arc::new(Shared {
        access,
        counted: watch.counted(),
        watch: Mutex::new(watch),
        frame: Mutex::new((0, "".into())),
        framed: Condvar::new(),
        readers: AtomicUsize::new(0),
        connections: AtomicUsize::new(0),
        stopped: AtomicBool::new(false),
    });
    let (accepting, framing) = (shared.clone(), shared.clone());
    let threads = vec![
        std::thread::Builder::new()
            .name("terrace-http".into())
            .spawn(move || accept(&listener, &accepting))?,
        std::thread::Builder::new()
            .name("terrace-frames".into())
            .spawn(move || make_frames(&framing))?,
    ];
    Ok(Server {
        address,
        shared,
        threads,
    })
}

impl Server {
    /// Where it listens; with the port that was chosen if none was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        self.shared.framed.notify_all();
        // Whoever waits for a connection gets one; if that fails, the next one ends it.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(1));
        for thread in self.threads.drain(..) {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
        // Those who are being answered end by themselves within their time, and hold the database until
        // then; they are few and at their end.
        for _ in 0..200 {
            if self.shared.connections.load(Ordering::SeqCst) == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else {
            // Too many open files, for example: it passes.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let _ = stream.set_nodelay(true);
        let Some(place) = Place::take(shared, |shared| &shared.connections, MAX_CONNECTIONS) else {
            let _ = Answer::refusal(503, "too many connections").send(&mut stream, false);
            continue;
        };
        let ours = shared.clone();
        // Without a thread the place comes free, and the connection ends.
        let _ = std::thread::Builder::new()
            .name("terrace-answer".into())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                let _place = place;
                // Whoever has gone needs no answer.
                let _ = answer(&mut stream, &ours);
            });
    }
}

/// A place among those that there are; it comes free however the thread ends that has it.
struct Place {
    shared: Arc<Shared>,
    of: fn(&Shared) -> &AtomicUsize,
}

impl Place {
    fn take(shared: &Arc<Shared>, of: fn(&Shared) -> &AtomicUsize, most: usize) -> Option<Place> {
        let taken = of(shared).fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        let place = Place { shared, of };
        (taken < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        (self.of)(&self.shared).fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes a frame twice a second for those who want it.
fn make_frames(shared: &Shared) {
    let mut made: Option<Instant> = None;
    while !shared.stopped.load(Ordering::SeqCst) {
        // Whether or not a client looks: who comes later wants to see what was. Where it fails there is a gap.
        let _ = shared.watch.lock().note();
        // Who comes between two frames wakes us; rates of so short a time would mean nothing.
        let due = made.is_none_or(|made| made.elapsed() >= EVERY / 2);
        if due && shared.readers.load(Ordering::SeqCst) > 0 {
            made = Some(Instant::now());
            // Counted before others have to wait for the watch. If that fails the frame says so.
            let _ = shared.counted.0.at_most(shared.counted.1);
            let frame = shared.watch.lock().frame();
            let text = match frame {
                Ok(frame) => serde_json::to_string(&frame).unwrap_or_default(),
                Err(e) => serde_json::json!({ "error": e.to_string() }).to_string(),
            };
            let mut last = shared.frame.lock();
            *last = (last.0 + 1, text.into());
            shared.framed.notify_all();
        }
        let mut last = shared.frame.lock();
        if !shared.stopped.load(Ordering::SeqCst) {
            shared.framed.wait_for(&mut last, EVERY);
        }
    }
}

/// An answer.
struct Answer {
    status: u16,
    kind: &'static str,
    more: String,
    body: String,
}

impl Answer {
    fn ok(kind: &'static str, body: String) -> Answer {
        let more = String::new();
        Answer {
            status: 200,
            kind,
            more,
            body,
        }
    }

    fn refusal(status: u16, why: &str) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            more: String::new(),
            body: format!("{why}\n"),
        }
    }

    fn send(&self, stream: &mut TcpStream, head_only: bool) -> io::Result<()> {
        let head = head(self.status, self.kind, Some(self.body.len()), &self.more);
        let body = if head_only { "" } else { &self.body };
        send_within(stream, (head + body).as_bytes(), PATIENCE_WITH_ALL)
    }
}

fn head(status: u16, kind: &str, length: Option<usize>, more: &str) -> String {
    let said = match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        431 => "Request Header Fields Too Large",
        _ => "Service Unavailable",
    };
    let length = length.map_or(String::new(), |length| {
        format!("Content-Length: {length}\r\n")
    });
    format!(
        "HTTP/1.1 {status} {said}\r\nContent-Type: {kind}\r\n{length}Connection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n{more}\r\n"
    )
}

fn answer(stream: &mut TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let request = match read(stream) {
        Ok(request) => request,
        Err(Unread::Gone) => return Ok(()),
        Err(Unread::Bad) => return Answer::refusal(400, "this is no request").send(stream, false),
        Err(Unread::TooLong) => {
            return Answer::refusal(431, "the request is too long").send(stream, false);
        }
    };
    let head_only = request.method == "HEAD";
    if let Some(refusal) = refused(&request, &shared.access) {
        return refusal.send(stream, head_only);
    }
    let answer = match request.path.as_str() {
        "/" => page(),
        "/api/stats" => stats(shared),
        "/api/history" => history(shared),
        "/metrics" => metrics(shared, &request),
        "/healthz" => health(shared),
        "/api/events" if head_only => Answer::ok("text/event-stream", String::new()),
        "/api/events" => return events(stream, shared),
        _ => Answer::refusal(
            404,
            "there is /, /api/stats, /api/history, /api/events, /metrics and /healthz",
        ),
    };
    answer.send(stream, head_only)
}

/// Why the request is not answered, if so.
fn refused(request: &Request, access: &Access) -> Option<Answer> {
    let host = request.host_name();
    let is_local = host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !is_local
        && !access
            .hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(host))
    {
        let why = "this host is not answered; allow it with --allow-host";
        return Some(Answer::refusal(403, why));
    }
    if let Some(token) = &access.token
        && !same(token.as_bytes(), request.token().as_bytes())
    {
        let why = "show the token: Authorization: Bearer TOKEN, or ?token=TOKEN";
        return Some(Answer::refusal(401, why));
    }
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let mut refusal = Answer::refusal(405, "there is only GET and HEAD");
        refusal.more = "Allow: GET, HEAD\r\n".into();
        return Some(refusal);
    }
    None
}

/// Compares in a time that does not tell where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

fn page() -> Answer {
    let random = RandomState::new();
    let nonce = format!("{:016x}{:016x}", random.hash_one(1), random.hash_one(2));
    let mut page = Answer::ok(
        "text/html; charset=utf-8",
        PAGE.replace("{{nonce}}", &nonce),
    );
    page.more = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; \
         connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    );
    page
}

/// The figures, with numbers of records that are at most so old.
fn counted(shared: &Shared, at_most: Duration) -> terrace::Result<terrace::Stats> {
    // Made while no thread has to wait for the watch; if it fails there are no numbers.
    let _ = shared.counted.0.at_most(at_most);
    shared.watch.lock().stats(at_most)
}

fn stats(shared: &Shared) -> Answer {
    match counted(shared, FRESH) {
        Ok(stats) => Answer::ok(
            "application/json",
            serde_json::to_string(&stats).unwrap_or_default(),
        ),
        Err(e) => Answer::refusal(503, &e.to_string()),
    }
}

/// The course of the last two hours.
fn history(shared: &Shared) -> Answer {
    let points: Vec<Point> = shared.watch.lock().course().points().copied().collect();
    let every = course::EVERY.as_secs();
    Answer::ok(
        "application/json",
        serde_json::json!({ "every_seconds": every, "points": points }).to_string(),
    )
}

fn metrics(shared: &Shared, request: &Request) -> Answer {
    let format = Format::accepted(&request.accept);
    match counted(shared, COUNTED) {
        Ok(stats) => Answer::ok(
            format.content_type(),
            terrace_metrics::render(&stats, format),
        ),
        Err(e) => Answer::refusal(503, &e.to_string()),
    }
}

fn health(shared: &Shared) -> Answer {
    let counted = shared.counted.0.at_most(FRESH);
    match counted.and_then(|_| shared.watch.lock().check(FRESH)) {
        Ok(stats) => match stats.checkpoints.last_error {
            None => Answer::ok("text/plain; charset=utf-8", "ok\n".into()),
            Some(e) => Answer::refusal(503, &format!("the last checkpoint failed: {e}")),
        },
        Err(e) => Answer::refusal(503, &e.to_string()),
    }
}

/// Sends frames until the reader has gone, or takes too long to take one; between two it may miss some.
fn events(stream: &mut TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    let Some(_place) = Place::take(shared, |shared| &shared.readers, MAX_READERS) else {
        let refusal = Answer::refusal(503, "too many read events already; close some of the pages");
        return refusal.send(stream, false);
    };
    rustix::net::sockopt::set_socket_send_buffer_size(&*stream, SEND_BYTES)?;
    send_within(
        stream,
        head(200, "text/event-stream", None, "").as_bytes(),
        PATIENCE,
    )?;
    // The first one need not wait.
    shared.framed.notify_all();
    let mut seen = 0;
    loop {
        let text = {
            let mut last = shared.frame.lock();
            while last.0 == seen && !shared.stopped.load(Ordering::SeqCst) {
                shared.framed.wait_for(&mut last, EVERY);
            }
            seen = last.0;
            last.1.clone()
        };
        if shared.stopped.load(Ordering::SeqCst) {
            return Ok(());
        }
        send_within(stream, format!("data: {text}\n\n").as_bytes(), PATIENCE)?;
    }
}

/// Sends all of it in that time, however the reader takes it.
fn send_within(stream: &mut TcpStream, mut bytes: &[u8], most: Duration) -> io::Result<()> {
    let until = Instant::now() + most;
    while !bytes.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(sent) => bytes = &bytes[sent..],
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
