//! Commands of Redis as a client says them, in any order, with arguments of any kind: each is answered, and the
//! server goes on.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use terrace::{Database, Options};
use terrace_serve::{AppendFsync, COMMANDS, ServeOptions, Server};

/// What arguments are made of, beside bytes of the input.
const WORDS: &[&str] = &[
    "k", "h", "l", "s", "z", "x", "0", "1", "-1", "2", "10", "9223372036854775807", "1.5", "inf", "(1", "[a", "-", "+", "*", "$", ">",
    "EX", "PX", "NX", "XX", "GT", "LT", "GET", "KEEPTTL", "COUNT", "MATCH", "LIMIT", "WITHSCORES", "BYSCORE", "BYLEX", "REV", "STORE",
    "FIELDS", "STREAMS", "GROUP", "g", "c", "MKSTREAM", "CREATE", "BLOCK", "MAXLEN", "~", "FORCE", "JUSTID", "LEFT", "RIGHT",
    "BEFORE", "BY", "ASC", "ALPHA", "AGGREGATE", "SUM", "WEIGHTS", "m", "FROMLONLAT", "BYRADIUS", "km", "OVERFLOW", "SAT", "u8", "#1",
    "return redis.call('SET', KEYS[1], ARGV[1])", "return {1,{2}}", "LOAD", "LIST", "INFO", "LEN", "IDX", "REPLACE", "PERSIST",
];
/// Commands that end the server, or wait.
const NOT: &[&str] = &["shutdown", "debug", "bgsave", "save", "bgrewriteaof", "terrace.backup"];

fn server() -> SocketAddr {
    static SERVER: OnceLock<(Server, SocketAddr)> = OnceLock::new();
    SERVER
        .get_or_init(|| {
            let dir = std::env::temp_dir().join(format!("terrace-fuzz-{}", std::process::id()));
            let db = Database::open(&dir, Options::new().memory(64 << 20)).expect("a database");
            let options = ServeOptions {
                addresses: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
                appendfsync: AppendFsync::No,
                loops: 1,
                pool: 1,
                ..ServeOptions::new()
            };
            let server = Server::start(db, options).expect("a server");
            let address = server.addresses()[0];
            (server, address)
        })
        .1
}

fuzz_target!(|data: &[u8]| {
    let mut bytes = Vec::new();
    let mut rest = data;
    let mut commands = 0;
    while let [command, arguments, after @ ..] = rest {
        rest = after;
        let command = &COMMANDS[usize::from(*command) % COMMANDS.len()];
        if NOT.contains(&command.name) {
            continue;
        }
        let mut words: Vec<Vec<u8>> = vec![command.name.as_bytes().to_vec()];
        for _ in 0..arguments % 12 {
            let Some((&word, after)) = rest.split_first() else { break };
            rest = after;
            words.push(match WORDS.get(usize::from(word)) {
                Some(word) => word.as_bytes().to_vec(),
                None => {
                    let length = usize::from(word - WORDS.len() as u8).min(rest.len());
                    let (own, after) = rest.split_at(length);
                    rest = after;
                    own.to_vec()
                }
            });
        }
        bytes.extend(format!("*{}\r\n", words.len()).into_bytes());
        for word in words {
            bytes.extend(format!("${}\r\n", word.len()).into_bytes());
            bytes.extend(word);
            bytes.extend(b"\r\n");
        }
        commands += 1;
        if commands == 64 {
            break;
        }
    }
    let mut socket = TcpStream::connect(server()).expect("it listens");
    // It may send us away in between.
    let _ = socket.write_all(&bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
    let mut other = TcpStream::connect(server()).expect("it listens");
    other.write_all(b"PING\r\n").expect("it reads");
    let mut answer = [0; 7];
    other.read_exact(&mut answer).expect("it answers");
    assert_eq!(&answer, b"+PONG\r\n");
});
