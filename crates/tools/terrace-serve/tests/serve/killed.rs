//! A server that is killed keeps its word: what was answered is there, and transactions are whole.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use terrace_serve::{AppendFsync, ServeOptions, Server};

use crate::client::{Client, Value, database, encoded, options};

/// Where the child finds its database, and says its port.
const FOLDER: &str = "TERRACE_TEST_SERVED_FOLDER";
/// With which durability it serves.
const FSYNC: &str = "TERRACE_TEST_SERVED_FSYNC";
/// Far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// The child: this test serves until it is killed, if it is told what.
#[test]
#[ignore = "it is run by the test that kills it"]
fn serves_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let fsync = std::env::var(FSYNC).unwrap();
    let options = ServeOptions {
        appendfsync: AppendFsync::parse(&fsync).unwrap(),
        ..options()
    };
    let server = Server::start(database(&folder.join("db"), 64 << 20), options).unwrap();
    let address = server.addresses()[0].to_string();
    std::fs::write(folder.join("new"), address).unwrap();
    std::fs::rename(folder.join("new"), folder.join("address")).unwrap();
    // Who forgets it does not keep it for ever.
    std::thread::sleep(LONG);
}

fn start(folder: &Path, fsync: &str) -> (Child, SocketAddr) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "killed::serves_until_it_is_killed", "--ignored"])
        .env(FOLDER, folder)
        .env(FSYNC, fsync)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let address = loop {
        if let Ok(text) = std::fs::read_to_string(folder.join("address")) {
            break Some(text);
        }
        if begun.elapsed() >= LONG {
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    match address.and_then(|text| text.parse().ok()) {
        Some(address) => (child, address),
        None => {
            let _ = (child.kill(), child.wait());
            panic!("it does not start");
        }
    }
}

/// Writes until the server is gone; how many transactions were answered.
fn write(address: SocketAddr, name: &str) -> u64 {
    let mut client = Client::new(address);
    let mut answered = 0;
    for i in 1u64.. {
        let number = i.to_string();
        let list = format!("l{name}");
        let mut bytes = encoded(&[b"MULTI"]);
        bytes.extend(encoded(&[b"INCR", name.as_bytes()]));
        bytes.extend(encoded(&[b"RPUSH", list.as_bytes(), number.as_bytes()]));
        bytes.extend(encoded(&[
            b"HSET",
            b"all",
            format!("{name}:{i}").as_bytes(),
            b"1",
        ]));
        bytes.extend(encoded(&[b"EXEC"]));
        if client.socket.write_all(&bytes).is_err() {
            break;
        }
        let answers: Vec<_> = (0..5).map_while(|_| client.try_read().ok()).collect();
        match answers.last() {
            Some(Value::Array(_)) if answers.len() == 5 => answered = i,
            _ => break,
        }
    }
    answered
}

fn kill_while_it_is_written_to(fsync: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, address) = start(dir.path(), fsync);
    let answered: Vec<u64> = std::thread::scope(|scope| {
        let writers = ["a", "b", "c"].map(|name| scope.spawn(move || write(address, name)));
        let mut client = Client::new(address);
        let begun = Instant::now();
        // Some work of all of them, so that the kill is in the midst of it.
        while ["a", "b", "c"].iter().any(|name| {
            let done = client.say(&format!("GET {name}"));
            done == Value::Null || done.text().parse::<u64>().unwrap() < 30
        }) {
            assert!(begun.elapsed() < LONG, "nothing gets on");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        writers
            .into_iter()
            .map(|writer| writer.join().unwrap())
            .collect()
    });
    let server = Server::start(database(&dir.path().join("db"), 64 << 20), options()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    for (name, answered) in ["a", "b", "c"].iter().zip(answered) {
        let there: u64 = client.say(&format!("GET {name}")).text().parse().unwrap();
        assert!(
            there >= answered,
            "{there} of {answered} that were answered are there"
        );
        assert_eq!(
            client.say(&format!("LLEN l{name}")),
            Value::Integer(there as i64)
        );
        assert_eq!(
            client.say(&format!("LINDEX l{name} -1")).text(),
            there.to_string()
        );
        assert_eq!(
            client.say(&format!("HEXISTS all {name}:{there}")),
            Value::Integer(1)
        );
        let next = there + 1;
        assert_eq!(
            client.say(&format!("HEXISTS all {name}:{next}")),
            Value::Integer(0)
        );
    }
    // Numbers go on where none was used.
    client.say("SADD new x");
    assert_eq!(client.say("SMEMBERS new").items().len(), 1);
}

#[test]
fn a_killed_server_has_what_it_answered_with_everysec() {
    kill_while_it_is_written_to("everysec");
}

#[test]
fn a_killed_server_has_what_it_answered_with_always() {
    kill_while_it_is_written_to("always");
}
