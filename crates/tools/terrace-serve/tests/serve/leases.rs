//! Fields of hashes that expire, by a clock in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_serve::Server;

use crate::client::{Client, Served, Value, database, options};

/// When the clock begins.
const BEGIN: u64 = 1_000_000_000_000;

fn served() -> (Served, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(BEGIN));
    let dir = tempfile::tempdir().unwrap();
    let served = serve(dir, &now);
    (served, now)
}

fn serve(dir: tempfile::TempDir, now: &Arc<AtomicU64>) -> Served {
    serve_within(dir, now, 64 << 20)
}

fn serve_within(dir: tempfile::TempDir, now: &Arc<AtomicU64>, memory: u64) -> Served {
    let told = now.clone();
    let clock = Box::new(move || told.load(Ordering::SeqCst));
    let db = database(dir.path(), memory);
    let server = Server::start_with(db, options(), clock, Vec::new()).unwrap();
    let address = server.addresses()[0];
    Served {
        server,
        address,
        dir,
    }
}

/// Asks, and compares the answers to all fields.
fn all(client: &mut Client, command: &str, wanted: &[i64]) {
    let wanted = wanted.iter().map(|n| Value::Integer(*n)).collect();
    assert_eq!(client.say(command), Value::Array(wanted), "{command}");
}

#[test]
fn fields_expire_and_are_gone_for_everybody() {
    let (served, now) = served();
    let mut client = served.client();
    client.say("HSET h a 1 b 2 c 3");
    all(&mut client, "HEXPIRE h 10 FIELDS 2 a nothing", &[1, -2]);
    all(&mut client, "HTTL h FIELDS 3 a b nothing", &[10, -1, -2]);
    all(&mut client, "HPEXPIRE h 5000 GT FIELDS 2 a b", &[0, 0]);
    all(&mut client, "HPEXPIRE h 5000 LT FIELDS 2 a b", &[1, 1]);
    all(&mut client, "HEXPIRE h 50 NX FIELDS 2 a c", &[0, 1]);
    all(&mut client, "HEXPIRE h 40 XX FIELDS 1 c", &[1]);
    all(&mut client, "HPTTL h FIELDS 3 a b c", &[5000, 5000, 40_000]);
    all(
        &mut client,
        "HPEXPIRETIME h FIELDS 1 a",
        &[BEGIN as i64 + 5000],
    );
    all(
        &mut client,
        "HEXPIRETIME h FIELDS 1 a",
        &[BEGIN as i64 / 1000 + 5],
    );
    all(&mut client, "HPEXPIRE nothing 5000 FIELDS 2 a b", &[-2, -2]);
    // What is written anew stays; what is added to keeps its lease.
    client.say("HSET h b 9");
    client.say("HINCRBY h a 1");
    all(&mut client, "HPTTL h FIELDS 2 a b", &[5000, -1]);
    all(&mut client, "HPERSIST h FIELDS 3 b c nothing", &[-1, 1, -2]);
    now.fetch_add(4999, Ordering::SeqCst);
    assert_eq!(client.say("HGET h a").text(), "2");
    now.fetch_add(1, Ordering::SeqCst);
    assert_eq!(client.say("HGET h a"), Value::Null);
    assert_eq!(client.say("HLEN h"), Value::Integer(2));
    assert_eq!(client.say("HGETALL h").items().len(), 4);
    assert_eq!(client.say("HEXISTS h a"), Value::Integer(0));
    assert_eq!(client.say("HSETNX h a new"), Value::Integer(1));
    all(&mut client, "HPTTL h FIELDS 1 a", &[-1]);
    // Into the past: it goes at once, and the key with its last field.
    all(&mut client, "HPEXPIREAT h 1 FIELDS 3 a b c", &[2, 2, 2]);
    assert_eq!(client.say("EXISTS h"), Value::Integer(0));
    for wrong in [
        "HEXPIRE h 10 FIELDS 2 a",
        "HEXPIRE h 10 FIELD 1 a",
        "HEXPIRE h 10 FIELDS 0 a",
        "HEXPIRE h -1 FIELDS 1 a",
        "HEXPIRE h 10 NX GT FIELDS 1 a",
        "HTTL h FIELDS x a",
    ] {
        assert!(client.say(wrong).text().starts_with("ERR "), "{wrong}");
    }
    client.say("SET text 1");
    assert!(
        client
            .say("HTTL text FIELDS 1 a")
            .text()
            .starts_with("WRONGTYPE")
    );
}

#[test]
fn leases_go_where_their_hash_goes() {
    let (served, now) = served();
    let mut client = served.client();
    client.say("HSET h a 1 b 2");
    all(&mut client, "HPEXPIRE h 100 FIELDS 1 a", &[1]);
    assert_eq!(client.say("COPY h copy"), Value::Integer(1));
    let Value::Bulk(dump) = client.say("DUMP h") else {
        panic!("it is not dumped");
    };
    assert_eq!(
        client.ask(&[b"RESTORE", b"restored", b"0", &dump]).text(),
        "OK"
    );
    // One that has no lease any more is dumped as any other.
    client.say("HSET kept a 1");
    all(&mut client, "HPEXPIRE kept 100 FIELDS 1 a", &[1]);
    all(&mut client, "HPERSIST kept FIELDS 1 a", &[1]);
    let Value::Bulk(plain) = client.say("DUMP kept") else {
        panic!("it is not dumped");
    };
    assert_eq!(plain[0], terrace_serve::rdb::kind::HASH);
    client.say("RENAME h renamed");
    client.say("MOVE copy 1");
    // Over a restart, too.
    let Served { server, dir, .. } = served;
    server.stop().unwrap();
    let served = serve(dir, &now);
    let mut client = served.client();
    for key in ["renamed", "restored"] {
        all(
            &mut client,
            &format!("HPTTL {key} FIELDS 2 a b"),
            &[100, -1],
        );
    }
    now.fetch_add(100, Ordering::SeqCst);
    for key in ["renamed", "restored"] {
        assert_eq!(
            client.say(&format!("HKEYS {key}")).items().len(),
            1,
            "{key}"
        );
    }
    client.say("SELECT 1");
    assert_eq!(client.say("HGET copy a"), Value::Null);
    assert_eq!(client.say("HGET copy b").text(), "2");
}

#[test]
fn what_nobody_looks_at_goes_too() {
    let (served, now) = served();
    let mut client = served.client();
    for i in 0..300 {
        client.say(&format!("HSET h f{i} {i}"));
        all(
            &mut client,
            &format!("HPEXPIRE h {} FIELDS 1 f{i}", 1 + i),
            &[1],
        );
    }
    now.fetch_add(200, Ordering::SeqCst);
    // More than an event loop removes at once.
    assert_eq!(client.say("HLEN h"), Value::Integer(100));
    now.fetch_add(1000, Ordering::SeqCst);
    let begun = Instant::now();
    while client.say("DBSIZE") != Value::Integer(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn more_fields_than_a_batch_takes_go_behind_another_key() {
    // A batch is refused from 8 MiB on: these fields are three records each, 11 MiB together.
    const FIELDS: usize = 12_000;
    let now = Arc::new(AtomicU64::new(BEGIN));
    let served = serve_within(tempfile::tempdir().unwrap(), &now, 16 << 20);
    let mut client = served.client();
    assert_eq!(
        client.say("HSETEX first PX 100 FIELDS 1 a 1"),
        Value::Integer(1)
    );
    for from in (0..FIELDS).step_by(1000) {
        let mut command = String::from("HSETEX many PX 200 FIELDS 1000");
        for i in from..from + 1000 {
            command += &format!(" {i:0300} v");
        }
        assert_eq!(client.say(&command), Value::Integer(1));
    }
    now.fetch_add(1000, Ordering::SeqCst);
    // No client looks at it.
    let begun = Instant::now();
    while client.say("DBSIZE") != Value::Integer(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn long_fields_go_where_memory_is_little() {
    // A batch is refused from 8 MiB on. Of each kind there are 9 MiB.
    const FIELDS: usize = 2250;
    let now = Arc::new(AtomicU64::new(BEGIN));
    let served = serve_within(tempfile::tempdir().unwrap(), &now, 16 << 20);
    let mut client = served.client();
    for from in (0..FIELDS).step_by(50) {
        let mut leased = String::from("HSETEX leased PX 200 FIELDS 50");
        let mut plain = String::from("HSET plain");
        for i in from..from + 50 {
            leased += &format!(" {i:04000} v");
            plain += &format!(" {i:04000} v");
        }
        assert_eq!(client.say(&leased), Value::Integer(1));
        assert_eq!(client.say(&plain), Value::Integer(50));
    }
    now.fetch_add(1000, Ordering::SeqCst);
    client.say("DEL plain");
    let db = served.server.host().store.db.clone();
    let name = db.structures().into_iter().map(|s| s.name);
    let name = name.into_iter().find(|name| name.contains("elements"));
    let elements = db.tree(&name.unwrap()).unwrap();
    let begun = Instant::now();
    while client.say("DBSIZE") != Value::Integer(0) || elements.iter().unwrap().next().is_some() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it stays");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn fields_are_taken_and_set_with_leases() {
    let (served, now) = served();
    let mut client = served.client();
    assert_eq!(
        client.say("HSETEX h PX 100 FIELDS 2 a 1 b 2"),
        Value::Integer(1)
    );
    all(&mut client, "HPTTL h FIELDS 2 a b", &[100, 100]);
    assert_eq!(
        client.say("HSETEX h FNX FIELDS 2 a 1 c 2"),
        Value::Integer(0)
    );
    assert_eq!(
        client.say("HSETEX h FXX KEEPTTL FIELDS 1 a 3"),
        Value::Integer(1)
    );
    all(&mut client, "HPTTL h FIELDS 1 a", &[100]);
    assert_eq!(
        client.say("HGETEX h PERSIST FIELDS 1 a").items()[0].text(),
        "3"
    );
    now.fetch_add(100, Ordering::SeqCst);
    assert_eq!(
        client.say("HGETEX h EX 5 FIELDS 2 a b").items()[1],
        Value::Null
    );
    all(&mut client, "HTTL h FIELDS 1 a", &[5]);
    let taken = client.say("HGETDEL h FIELDS 2 a b");
    assert_eq!(
        (taken.items()[0].text().as_str(), &taken.items()[1]),
        ("3", &Value::Null)
    );
    assert_eq!(client.say("EXISTS h"), Value::Integer(0));
    assert!(
        client
            .say("HSETEX h EX 1 KEEPTTL FIELDS 1 a 1")
            .text()
            .starts_with("ERR syntax")
    );
}
