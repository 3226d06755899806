//! Keys that have expired and are still there, by a clock in hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_serve::Server;

use crate::client::{Client, Value, database, options};

#[test]
fn what_had_expired_before_it_was_watched_is_no_change() {
    let now = Arc::new(AtomicU64::new(1_000_000_000_000));
    let told = now.clone();
    let clock = Box::new(move || told.load(Ordering::SeqCst));
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), 64 << 20);
    let server = Server::start_with(db, options(), clock, Vec::new()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    let mut listener = Client::new(server.addresses()[0]);
    client.say("CONFIG SET notify-keyspace-events Ex");
    listener.say("SUBSCRIBE __keyevent@0__:expired");
    for round in 0..20 {
        // The one that removes what is due may be first or not.
        client.say("SET k v PX 1000");
        client.say("RPUSH l x");
        client.say("PEXPIRE l 1000");
        now.fetch_add(1000, Ordering::SeqCst);
        assert_eq!(client.say("WATCH k l").text(), "OK");
        // It is removed and told once, whoever did it.
        let mut told: Vec<String> = (0..2).map(|_| listener.read().items()[2].text()).collect();
        told.sort();
        assert_eq!(told, ["k", "l"]);
        client.say("MULTI");
        client.say("SET k w");
        client.say("SADD l y");
        let done = client.say("EXEC");
        assert_ne!(done, Value::Null, "round {round}");
        assert_eq!(client.say("SMEMBERS l").items().len(), 1);
        client.say("DEL l");
    }
    // One that expires while it is watched is a change.
    client.say("SET k v PX 1000");
    client.say("WATCH k");
    now.fetch_add(1000, Ordering::SeqCst);
    client.say("MULTI");
    client.say("SET k w");
    assert_eq!(client.say("EXEC"), Value::Null);
}

#[test]
fn what_a_string_takes_the_place_of_leaves_nothing_behind() {
    let now = Arc::new(AtomicU64::new(1_000_000_000_000));
    let told = now.clone();
    let clock = Box::new(move || told.load(Ordering::SeqCst));
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), 64 << 20);
    let server = Server::start_with(db.clone(), options(), clock, Vec::new()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    // In one transaction, so that nothing else removes it first.
    client.say("SADD s a b c");
    client.say("PEXPIRE s 1000");
    client.say("MULTI");
    now.fetch_add(1000, Ordering::SeqCst);
    client.say("GETSET s text");
    assert_eq!(client.say("EXEC").items()[0], Value::Null);
    assert_eq!(client.say("GET s").text(), "text");
    let all = db.structures();
    let name = all.iter().find(|s| s.name.contains("elements")).unwrap();
    let elements = db.tree(&name.name).unwrap();
    let begun = Instant::now();
    while elements.iter().unwrap().count() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "some are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}
