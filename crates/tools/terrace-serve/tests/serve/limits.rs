//! Clients that mean no good, or forget to read.

use std::io::{Read, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use terrace_serve::{ServeOptions, Server};

use crate::client::{Served, Value, database, encoded, options};

/// Far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn buffered(served: &Served) -> usize {
    served.server.host().buffered.load(Ordering::SeqCst)
}

#[test]
fn a_header_of_a_gibibyte_and_an_endless_line_take_nothing() {
    let served = Served::new();
    let mut other = served.client();
    let mut client = served.client();
    client
        .socket
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1073741824\r\n")
        .unwrap();
    assert!(client.read().text().contains("invalid bulk length"));
    assert!(client.is_closed());
    let mut client = served.client();
    client.socket.write_all(b"*1000000000\r\n").unwrap();
    assert!(client.read().text().contains("invalid multibulk length"));
    // Within the limits, and nothing of it comes: nothing is allocated.
    let mut client = served.client();
    client
        .socket
        .write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\nabc")
        .unwrap();
    assert_eq!(other.say("PING").text(), "PONG");
    assert!(buffered(&served) < 1 << 20);
    let mut client = served.client();
    // The server closes it somewhere in between.
    let _ = client.socket.write_all(&vec![b'a'; 1 << 20]);
    let mut answer = Vec::new();
    let _ = client.socket.read_to_end(&mut answer);
    assert_eq!(other.say("PING").text(), "PONG");
    let mut client = served.client();
    client
        .socket
        .write_all(b"POST / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    assert!(client.is_closed());
}

#[test]
fn a_client_that_does_not_read_is_bounded_and_others_are_served() {
    let served = Served::with(ServeOptions {
        max_buffers: 8 << 20,
        ..options()
    });
    let mut other = served.client();
    let value = vec![b'x'; 100_000];
    other.ask(&[b"SET", b"k", &value]);
    let mut slow = served.client();
    slow.socket
        .set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let mut most = 0;
    for _ in 0..2000 {
        if slow
            .socket
            .write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
            .is_err()
        {
            break;
        }
        most = most.max(buffered(&served));
    }
    assert_eq!(other.say("PING").text(), "PONG");
    assert!(most < 8 << 20, "{most} bytes are buffered");
    // Once it reads, it goes on, or was sent away; others did not notice.
    drop(slow);
    let begun = Instant::now();
    while buffered(&served) > 1 << 20 {
        assert!(begun.elapsed() < LONG);
        other.say("PING");
    }
    // A listener that does not read is sent away.
    let mut deaf = served.client();
    deaf.say("SUBSCRIBE c");
    let begun = Instant::now();
    while other.ask(&[b"PUBLISH", b"c", &value]) == Value::Integer(1) {
        assert!(begun.elapsed() < LONG, "it listens for ever");
    }
}

/// How many files this process may have open.
fn most_files() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let soft = line.and_then(|line| line.split_whitespace().next());
    match soft {
        Some("unlimited") => usize::MAX,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or(1024),
    }
}

#[test]
fn thousands_of_idle_clients_take_little() {
    let served = Served::new();
    // Each takes two files here, and one of the server; tests beside this one have some as well.
    let many = 2_000_usize.min(most_files().saturating_sub(300) / 3);
    let mut clients: Vec<_> = (0..many).map(|_| served.client()).collect();
    for client in &mut clients {
        assert_eq!(client.say("SET k v").text(), "OK");
    }
    // Buffers are those of clients that say something now.
    assert!(buffered(&served) < 1 << 20, "{} bytes", buffered(&served));
    assert_eq!(clients[0].say("PING").text(), "PONG");
    assert!(
        clients[0]
            .say("INFO clients")
            .text()
            .contains(&format!("connected_clients:{many}\r"))
    );
}

#[test]
fn what_waits_for_a_key_stays_within_the_buffers() {
    const CLIENTS: usize = 64;
    const SETS: usize = 500;
    const MOST: usize = 1 << 20;
    let served = Served::with(ServeOptions {
        max_buffers: MOST,
        ..options()
    });
    let mut other = served.client();
    other.say("CONFIG SET lua-time-limit 1500");
    let mut script = served.client();
    // It has the key until it is ended.
    script.send(&[b"EVAL", b"while true do end", b"1", b"k"]);
    let begun = Instant::now();
    while served.server.host().counts.parked.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < LONG, "it does not run in the pool");
    }
    // Four times what may be buffered.
    let one = encoded(&[b"SET", b"k", &[b'x'; 100]]);
    let clients: Vec<_> = (0..CLIENTS).map(|_| served.client()).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            let bytes = one.repeat(SETS);
            scope.spawn(move || {
                client.socket.write_all(&bytes).unwrap();
                (0..SETS).for_each(|_| assert_eq!(client.read().text(), "OK"));
            });
        }
        for _ in 0..100 {
            let now = buffered(&served);
            assert!(now <= MOST, "{now} bytes are buffered");
            assert_eq!(other.say("PING").text(), "PONG");
        }
        assert!(script.read().text().contains("too long"));
    });
}

#[test]
fn a_transaction_without_end_is_discarded() {
    let served = Served::with(ServeOptions {
        max_buffers: 8 << 20,
        ..options()
    });
    let mut client = served.client();
    let value = vec![b'x'; 100_000];
    client.say("MULTI");
    assert_eq!(client.ask(&[b"SET", b"k", &value]).text(), "QUEUED");
    for _ in 0..100 {
        client.ask(&[b"SET", b"k", &value]);
    }
    assert!(client.say("GET k").text().contains("too large"));
    assert!(client.say("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(client.say("GET k"), Value::Null);
}

#[test]
fn too_many_clients_are_told() {
    let served = Served::with(ServeOptions {
        max_clients: 2,
        ..options()
    });
    let (mut one, mut two) = (served.client(), served.client());
    assert_eq!(one.say("PING").text(), "PONG");
    assert_eq!(two.say("PING").text(), "PONG");
    let mut three = served.client();
    assert_eq!(three.read().text(), "ERR max number of clients reached");
}

#[test]
fn a_password_is_asked_for() {
    let served = Served::with(ServeOptions {
        password: Some("secret".into()),
        ..options()
    });
    let mut client = served.client();
    assert!(client.say("GET k").text().starts_with("NOAUTH"));
    assert!(client.say("AUTH wrong").text().starts_with("WRONGPASS"));
    std::thread::sleep(Duration::from_millis(150));
    assert!(client.say("HELLO 3").text().starts_with("NOAUTH"));
    assert_eq!(client.say("AUTH default secret").text(), "OK");
    assert_eq!(client.say("GET k"), Value::Null);
    assert_eq!(client.say("ACL WHOAMI").text(), "default");
    assert!(served.client().say("NOSUCH").text().starts_with("NOAUTH"));
    let open = ServeOptions {
        addresses: vec!["0.0.0.0:0".parse().unwrap()],
        ..options()
    };
    assert!(open.check().is_err());
}

#[test]
fn commands_are_renamed_and_refused() {
    let served = Served::with(ServeOptions {
        renamed: vec![
            ("FLUSHALL".into(), String::new()),
            ("get".into(), "fetch".into()),
        ],
        ..options()
    });
    let mut client = served.client();
    client.say("SET k v");
    assert!(
        client
            .say("FLUSHALL")
            .text()
            .starts_with("ERR unknown command 'FLUSHALL'")
    );
    assert_eq!(client.say("FETCH k").text(), "v");
    for refused in [
        "REPLICAOF a 1",
        "CLUSTER SLOTS",
        "MODULE LOAD x",
        "DEBUG OBJECT k",
        "CLIENT TRACKING ON",
    ] {
        assert!(client.say(refused).text().starts_with("ERR "), "{refused}");
    }
    assert!(
        client
            .ask(&[b"SET", &vec![b'k'; 10_000], b"v"])
            .text()
            .starts_with("ERR key is longer than")
    );
}

#[test]
fn a_full_database_refuses_what_adds() {
    let served = Served::with(ServeOptions {
        max_data: 1,
        ..options()
    });
    let mut client = served.client();
    let begun = Instant::now();
    while !client
        .say("SET k v")
        .text()
        .starts_with("OOM command not allowed")
    {
        assert!(begun.elapsed() < LONG, "it takes more");
    }
    assert_eq!(client.say("DEL k"), Value::Integer(1));
}

#[test]
fn a_socket_that_was_handed_over_is_no_open_door() {
    let dir = tempfile::tempdir().unwrap();
    let start = |address: &str, password: Option<&str>| {
        let socket = std::net::TcpListener::bind(address).unwrap();
        let options = ServeOptions {
            password: password.map(str::to_owned),
            ..options()
        };
        let db = database(dir.path(), 16 << 20);
        Server::start_with(db, options, terrace_serve::wall_clock(), vec![socket])
    };
    let refused = start("0.0.0.0:0", None).err().unwrap().to_string();
    assert!(refused.contains("from other machines"), "{refused}");
    start("0.0.0.0:0", Some("secret")).unwrap().stop().unwrap();
    start("127.0.0.1:0", None).unwrap().stop().unwrap();
}
