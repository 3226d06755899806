//! Taking over all keys of a running Redis, by its own commands, or of a file of Redis.
//!
//! Invariants: memory is bounded by steps of the scans, whatever the keys hold; a key that changes while it is taken
//! over is as it was at some instants in between, so writers are to be stopped before.

use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use crate::command::streams::id::Id;

/// Elements that are asked for at a time.
const STEP: &[u8] = b"1000";
/// Longest answer: the longest string of Redis.
const LONGEST: usize = 512 << 20;
/// Commands that are sent before their answers are read.
const AHEAD: usize = 256;
/// Bytes that are sent before.
const AHEAD_BYTES: usize = 64 << 10;
/// Most parts of an answer.
const MOST_PARTS: usize = 1 << 20;

/// What was taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Keys.
    pub keys: u64,
    /// Keys of kinds that are not known.
    pub unknown: u64,
}

enum Answer {
    Text(Vec<u8>),
    Number(i64),
    All(Vec<Answer>),
    None,
}

impl Answer {
    fn text(self) -> Vec<u8> {
        match self {
            Answer::Text(text) => text,
            Answer::Number(number) => number.to_string().into_bytes(),
            _ => Vec::new(),
        }
    }

    fn all(self) -> Vec<Answer> {
        match self {
            Answer::All(all) => all,
            _ => Vec::new(),
        }
    }

    fn texts(self) -> Vec<Vec<u8>> {
        self.all().into_iter().map(Answer::text).collect()
    }
}

struct Client {
    reader: BufReader<TcpStream>,
    socket: TcpStream,
    /// Commands that were not sent yet.
    ahead: Vec<u8>,
    commands: usize,
}

/// What Redis answers to a number of a database that it does not have.
const NO_SUCH_DATABASE: &str = "DB index is out of range";

fn broken(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_owned())
}

impl Client {
    fn new(address: SocketAddr, password: Option<&str>) -> Result<Client> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut client = Client {
            reader: BufReader::new(socket.try_clone()?),
            socket,
            ahead: Vec::new(),
            commands: 0,
        };
        if let Some(password) = password {
            client.ask(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(client)
    }

    fn ask(&mut self, words: &[&[u8]]) -> Result<Answer> {
        let mut bytes = Vec::new();
        encode(&mut bytes, words);
        self.socket.write_all(&bytes)?;
        self.read(0)
    }

    /// Says a command, whose answer is read later, with those of others.
    fn say(&mut self, words: &[&[u8]]) -> Result<()> {
        encode(&mut self.ahead, words);
        self.commands += 1;
        match self.commands >= AHEAD || self.ahead.len() >= AHEAD_BYTES {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Reads the answers to all that was said.
    fn settle(&mut self) -> Result<()> {
        self.socket.write_all(&self.ahead)?;
        self.ahead.clear();
        for _ in 0..std::mem::take(&mut self.commands) {
            self.read(0)?;
        }
        Ok(())
    }

    fn read(&mut self, depth: usize) -> Result<Answer> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(64 << 10);
        limited.read_until(b'\n', &mut line)?;
        let line = line
            .strip_suffix(b"\r\n")
            .ok_or_else(|| broken("an answer breaks off"))?;
        let (kind, rest) = line
            .split_first()
            .ok_or_else(|| broken("an empty answer"))?;
        let number = || crate::text::parse_i64(rest).ok_or_else(|| broken("a length that is none"));
        Ok(match kind {
            b'+' => Answer::Text(rest.to_vec()),
            b'-' => return Err(broken(&String::from_utf8_lossy(rest))),
            b':' => Answer::Number(number()?),
            b'$' => match usize::try_from(number()?) {
                Ok(length) if length <= LONGEST => {
                    let mut text = Vec::new();
                    (&mut self.reader)
                        .take(length as u64 + 2)
                        .read_to_end(&mut text)?;
                    if text.len() != length + 2 {
                        return Err(broken("an answer breaks off"));
                    }
                    text.truncate(length);
                    Answer::Text(text)
                }
                Ok(_) => return Err(broken("an answer is too long")),
                Err(_) => Answer::None,
            },
            b'*' => match usize::try_from(number()?) {
                Ok(parts) if parts <= MOST_PARTS && depth < 8 => {
                    let mut all = Vec::new();
                    for _ in 0..parts {
                        all.push(self.read(depth + 1)?);
                    }
                    Answer::All(all)
                }
                Ok(_) => return Err(broken("an answer has too many parts")),
                Err(_) => Answer::None,
            },
            _ => return Err(broken("an answer of no known kind")),
        })
    }
}

fn encode(bytes: &mut Vec<u8>, words: &[&[u8]]) {
    bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
}

/// Copies all keys of a file of Redis (RDB) to a server. `tell` hears now and then how many there are so far.
///
/// # Errors
/// What is wrong with the file, and errors that the server answers; what was copied before stays.
pub fn import_file(
    from: &Path,
    to: (SocketAddr, Option<&str>),
    tell: &mut dyn FnMut(u64),
) -> Result<Imported> {
    let mut file = BufReader::new(std::fs::File::open(from)?);
    let mut to = Client::new(to.0, to.1)?;
    let now = crate::host::seconds() * 1000;
    let (mut failed, mut keys) = (None, 0);
    let held = crate::rdb::file::file(&mut file, now, &mut |words| {
        if words.first().is_some_and(|name| name == b"DEL") {
            keys += 1;
            if keys % 1000 == 0 {
                tell(keys);
            }
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        to.say(&words).map_err(|error| {
            let text = error.to_string();
            failed = Some(error);
            text
        })
    });
    match (failed, held) {
        (Some(error), _) => Err(error),
        (None, Err(why)) => Err(broken(&why)),
        (None, Ok(held)) => {
            to.settle()?;
            Ok(Imported {
                keys: held.keys,
                unknown: held.unknown,
            })
        }
    }
}

/// Copies all keys of all databases from one server to another. `tell` hears now and then how many there are so far.
///
/// # Errors
/// Connections that fail, and errors that either server answers; what was copied before stays.
pub fn import(
    from: (SocketAddr, Option<&str>),
    to: (SocketAddr, Option<&str>),
    tell: &mut dyn FnMut(u64),
) -> Result<Imported> {
    let mut from = Client::new(from.0, from.1)?;
    let mut to = Client::new(to.0, to.1)?;
    let mut imported = Imported::default();
    // Redis 7.4 has fields that expire. Who may not ask gets none.
    let known = from.ask(&[b"COMMAND", b"INFO", b"HPEXPIRETIME"]);
    let leases = known.is_ok_and(|known| matches!(known.all().first(), Some(Answer::All(_))));
    for db in 0..crate::store::keyspace::DATABASES {
        let number = db.to_string();
        match from.ask(&[b"SELECT", number.as_bytes()]) {
            Ok(_) => {}
            // Redis may have fewer.
            Err(error) if db > 0 && error.to_string().contains(NO_SUCH_DATABASE) => break,
            Err(error) => return Err(error),
        }
        to.ask(&[b"SELECT", number.as_bytes()])?;
        let mut cursor = b"0".to_vec();
        loop {
            let step = from.ask(&[b"SCAN", &cursor, b"COUNT", STEP])?.all();
            let [next, keys] =
                <[Answer; 2]>::try_from(step).map_err(|_| broken("no step of a scan"))?;
            for key in keys.texts() {
                match copy(&mut from, &mut to, &key, leases)? {
                    true => imported.keys += 1,
                    false => imported.unknown += 1,
                }
                if imported.keys % 1000 == 0 {
                    tell(imported.keys);
                }
            }
            cursor = next.text();
            if cursor == b"0" {
                break;
            }
        }
    }
    Ok(imported)
}

/// Copies a key; whether its kind is known. `leases` says whether fields may expire there.
fn copy(from: &mut Client, to: &mut Client, key: &[u8], leases: bool) -> Result<bool> {
    let kind = from.ask(&[b"TYPE", key])?.text();
    let kind = kind.as_slice();
    // It may be there twice in a scan, and be added to.
    to.ask(&[b"DEL", key])?;
    match kind {
        b"none" => return Ok(true),
        b"string" => {
            if let Answer::Text(text) = from.ask(&[b"GET", key])? {
                to.ask(&[b"SET", key, &text])?;
            }
        }
        b"list" => {
            let mut at = 0u64;
            loop {
                let (first, last) = (at.to_string(), (at + 999).to_string());
                let some = from
                    .ask(&[b"LRANGE", key, first.as_bytes(), last.as_bytes()])?
                    .texts();
                at += some.len() as u64;
                if some.is_empty() {
                    break;
                }
                add(to, b"RPUSH", key, &some)?;
            }
        }
        b"hash" | b"set" | b"zset" => {
            let (scan, command): (&[u8], &[u8]) = match kind {
                b"hash" => (b"HSCAN", b"HSET"),
                b"set" => (b"SSCAN", b"SADD"),
                _ => (b"ZSCAN", b"ZADD"),
            };
            let mut cursor = b"0".to_vec();
            loop {
                let step = from.ask(&[scan, key, &cursor, b"COUNT", STEP])?.all();
                let [next, some] =
                    <[Answer; 2]>::try_from(step).map_err(|_| broken("no step of a scan"))?;
                let mut some = some.texts();
                if kind == b"zset" {
                    // Scores come behind members, and go before them.
                    some.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
                }
                if !some.is_empty() {
                    add(to, command, key, &some)?;
                    if kind == b"hash" && leases {
                        copy_leases(from, to, key, &some)?;
                    }
                }
                cursor = next.text();
                if cursor == b"0" {
                    break;
                }
            }
        }
        b"stream" => copy_stream(from, to, key)?,
        _ => return Ok(false),
    }
    if let Answer::Number(left) = from.ask(&[b"PTTL", key])?
        && left >= 0
    {
        let left = left.max(1).to_string();
        to.ask(&[b"PEXPIRE", key, left.as_bytes()])?;
    }
    Ok(true)
}

fn add(to: &mut Client, command: &[u8], key: &[u8], some: &[Vec<u8>]) -> Result<()> {
    let mut words: Vec<&[u8]> = vec![command, key];
    words.extend(some.iter().map(Vec::as_slice));
    to.ask(&words).map(|_| ())
}

/// Copies when fields expire; each stands before its value.
fn copy_leases(from: &mut Client, to: &mut Client, key: &[u8], some: &[Vec<u8>]) -> Result<()> {
    let fields = || some.iter().step_by(2).map(Vec::as_slice);
    let many = fields().count().to_string();
    let mut words: Vec<&[u8]> = vec![b"HPEXPIRETIME", key, b"FIELDS", many.as_bytes()];
    words.extend(fields());
    let times = from.ask(&words)?.all();
    for (field, time) in fields().zip(times) {
        if let Answer::Number(time) = time
            && time >= 0
        {
            let time = time.to_string();
            to.ask(&[b"HPEXPIREAT", key, time.as_bytes(), b"FIELDS", b"1", field])?;
        }
    }
    Ok(())
}

/// What stands behind a name.
fn field(parts: &[Vec<u8>], name: &[u8]) -> Option<Vec<u8>> {
    let mut pairs = parts.chunks_exact(2);
    pairs
        .find(|pair| pair[0] == name)
        .map(|pair| pair[1].clone())
}

fn copy_stream(from: &mut Client, to: &mut Client, key: &[u8]) -> Result<()> {
    let mut low = b"-".to_vec();
    loop {
        let some = from
            .ask(&[b"XRANGE", key, &low, b"+", b"COUNT", STEP])?
            .all();
        if some.is_empty() {
            break;
        }
        for entry in some {
            let mut entry = entry.all().into_iter();
            let id = entry.next().map(Answer::text).unwrap_or_default();
            let fields = entry.next().map(Answer::texts).unwrap_or_default();
            let mut words: Vec<&[u8]> = vec![b"XADD", key, &id];
            words.extend(fields.iter().map(Vec::as_slice));
            to.ask(&words)?;
            low = [b"(", id.as_slice()].concat();
        }
    }
    if low == b"-" {
        // It is made, and its only entry goes at once.
        to.ask(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"", b""])?;
    }
    let state = from.ask(&[b"XINFO", b"STREAM", key])?.texts();
    if let Some(last) = field(&state, b"last-generated-id") {
        // Redis before 7.0 knows no more.
        let added = field(&state, b"entries-added");
        let deleted = field(&state, b"max-deleted-entry-id");
        if let (Some(added), Some(deleted)) = (added, deleted) {
            let id = |text: &[u8]| Id::parse(text, 0).unwrap_or(Id::MIN);
            let high = if id(&last) < id(&deleted) {
                &deleted
            } else {
                &last
            };
            let words = [
                b"XSETID",
                key,
                high,
                b"ENTRIESADDED",
                &added,
                b"MAXDELETEDID",
                &deleted,
            ];
            to.ask(&words)?;
        }
        to.ask(&[b"XSETID", key, &last])?;
    }
    for group in from.ask(&[b"XINFO", b"GROUPS", key])?.all() {
        let parts = group.texts();
        if let (Some(name), Some(last)) =
            (field(&parts, b"name"), field(&parts, b"last-delivered-id"))
        {
            let mut words: Vec<&[u8]> = vec![b"XGROUP", b"CREATE", key, &name, &last];
            // None if it is not known.
            let read = field(&parts, b"entries-read").filter(|read| !read.is_empty());
            if let Some(read) = &read {
                words.extend([b"ENTRIESREAD".as_slice(), read]);
            }
            to.ask(&words)?;
            copy_consumers(from, to, key, &name)?;
        }
    }
    Ok(())
}

/// Copies the consumers of a group, and what they have not acknowledged.
fn copy_consumers(from: &mut Client, to: &mut Client, key: &[u8], group: &[u8]) -> Result<()> {
    for consumer in from.ask(&[b"XINFO", b"CONSUMERS", key, group])?.all() {
        if let Some(name) = field(&consumer.texts(), b"name") {
            to.ask(&[b"XGROUP", b"CREATECONSUMER", key, group, &name])?;
        }
    }
    let mut low = b"-".to_vec();
    loop {
        let some = from
            .ask(&[b"XPENDING", key, group, &low, b"+", STEP])?
            .all();
        if some.is_empty() {
            return Ok(());
        }
        for pending in some {
            let [id, consumer, idle, times] = <[Vec<u8>; 4]>::try_from(pending.texts())
                .map_err(|_| broken("no pending entry"))?;
            to.ask(&[
                b"XCLAIM",
                key,
                group,
                &consumer,
                b"0",
                &id,
                b"IDLE",
                &idle,
                b"RETRYCOUNT",
                &times,
                b"FORCE",
                b"JUSTID",
            ])?;
            low = [b"(", id.as_slice()].concat();
        }
    }
}
