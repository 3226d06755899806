//! A client that says what it is told and reads any answer, and a server to talk to.
#![allow(dead_code)] // Each binary of tests uses its own part of this.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use terrace::{Database, Options};
use terrace_serve::{ServeOptions, Server};

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Value>),
    Map(Vec<Value>),
    Set(Vec<Value>),
    Push(Vec<Value>),
    Double(String),
    Boolean(bool),
    Verbatim(Vec<u8>),
}

impl Value {
    pub fn text(&self) -> String {
        match self {
            Value::Simple(text) | Value::Error(text) | Value::Double(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            Value::Bulk(bytes) | Value::Verbatim(bytes) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            other => format!("{other:?}"),
        }
    }

    pub fn items(&self) -> &[Value] {
        match self {
            Value::Array(all) | Value::Map(all) | Value::Set(all) | Value::Push(all) => all,
            other => panic!("no array: {other:?}"),
        }
    }
}

/// A connection.
pub struct Client {
    pub socket: TcpStream,
    reader: BufReader<TcpStream>,
}

/// The bytes of a command.
pub fn encoded(command: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for part in command {
        bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
        bytes.extend_from_slice(part);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    pub fn new(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        // Far longer than any answer takes on a busy machine.
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        socket.set_nodelay(true).unwrap();
        let reader = BufReader::new(socket.try_clone().unwrap());
        Client { socket, reader }
    }

    pub fn send(&mut self, command: &[&[u8]]) {
        self.socket.write_all(&encoded(command)).unwrap();
    }

    /// Says a command in words, and reads the answer.
    pub fn say(&mut self, words: &str) -> Value {
        let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
        self.ask(&words)
    }

    pub fn ask(&mut self, command: &[&[u8]]) -> Value {
        self.send(command);
        self.read()
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            self.reader.read_exact(&mut byte)?;
            if byte[0] == b'\n' {
                line.pop();
                return Ok(String::from_utf8_lossy(&line).into_owned());
            }
            line.push(byte[0]);
        }
    }

    pub fn read(&mut self) -> Value {
        self.try_read().unwrap()
    }

    pub fn try_read(&mut self) -> std::io::Result<Value> {
        let line = self.line()?;
        let (kind, rest) = line.split_at(1);
        let length = rest.parse::<i64>();
        let many = |client: &mut Client, many: i64| -> std::io::Result<Vec<Value>> {
            (0..many).map(|_| client.try_read()).collect()
        };
        Ok(match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(length.unwrap()),
            "," | "(" => Value::Double(rest.to_owned()),
            "#" => Value::Boolean(rest == "t"),
            "_" => Value::Null,
            "$" | "=" => match length.unwrap() {
                -1 => Value::Null,
                length => {
                    let mut bytes = vec![0; length as usize + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(length as usize);
                    match kind {
                        "$" => Value::Bulk(bytes),
                        _ => Value::Verbatim(bytes.split_off(4)),
                    }
                }
            },
            "*" => match length.unwrap() {
                -1 => Value::Null,
                length => Value::Array(many(self, length)?),
            },
            "%" => Value::Map(many(self, 2 * length.unwrap())?),
            "~" => Value::Set(many(self, length.unwrap())?),
            ">" => Value::Push(many(self, length.unwrap())?),
            other => panic!("an answer begins with {other:?}: {line}"),
        })
    }

    /// Whether the server has closed the connection.
    pub fn is_closed(&mut self) -> bool {
        match self.reader.read(&mut [0]) {
            Ok(read) => read == 0,
            // Nothing came, for a long time: it is open.
            Err(e) => !matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }
}

/// Options with any free port.
pub fn options() -> ServeOptions {
    ServeOptions {
        addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        loops: 2,
        pool: 2,
        debug: true,
        ..ServeOptions::new()
    }
}

/// A database in a folder.
pub fn database(path: &Path, memory: u64) -> Database {
    Database::open(path, Options::new().memory(memory).direct_io(false)).unwrap()
}

/// A server of a database of its own.
pub struct Served {
    pub server: Server,
    pub address: SocketAddr,
    pub dir: tempfile::TempDir,
}

impl Served {
    pub fn new() -> Served {
        Served::with(options())
    }

    pub fn with(options: ServeOptions) -> Served {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(database(dir.path(), 64 << 20), options).unwrap();
        let address = server.addresses()[0];
        Served {
            server,
            address,
            dir,
        }
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }
}
