//! From the first command to a reopening.

use terrace::{Database, Options};
use terrace_serve::Server;

use crate::client::{Client, Served, Value, database, encoded, options};
use crate::slow_syncs;

#[test]
fn what_was_written_is_there_after_a_restart() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.say("SET a 1"), Value::Simple("OK".into()));
    assert_eq!(client.say("HSET h f v g w"), Value::Integer(2));
    assert_eq!(client.say("RPUSH l x y"), Value::Integer(2));
    assert_eq!(client.say("ZADD z 2 b 1 a"), Value::Integer(2));
    client.say("SELECT 3");
    client.say("SET b 2");
    let Served { server, dir, .. } = served;
    server.stop().unwrap();
    let server = Server::start(database(dir.path(), 64 << 20), options()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    assert_eq!(client.say("GET a").text(), "1");
    assert_eq!(client.say("HGET h g").text(), "w");
    assert_eq!(client.say("LRANGE l 0 -1").items().len(), 2);
    assert_eq!(client.say("ZRANGE z 0 0").items()[0].text(), "a");
    client.say("SELECT 3");
    assert_eq!(client.say("GET b").text(), "2");
    assert_eq!(client.say("SADD s m"), Value::Integer(1));
}

#[test]
fn what_could_not_be_written_is_not_acknowledged() {
    // Enough that they are written in several steps.
    let elements: Vec<String> = (0..20_000).map(|i| i.to_string()).collect();
    let mut words: Vec<&[u8]> = vec![b"RPUSH", b"l"];
    words.extend(elements.iter().map(String::as_bytes));
    let push = encoded(&words);
    let (mut closed, mut done) = (false, false);
    for writes in 0..40 {
        let dir = tempfile::tempdir().unwrap();
        let (disk, gate) = slow_syncs::disk(dir.path());
        let db = Database::open_on(disk, Options::new().memory(64 << 20)).unwrap();
        let server = Server::start(db, options()).unwrap();
        let mut client = Client::new(server.addresses()[0]);
        client.say("SET before 1");
        gate.fail_after(writes);
        std::io::Write::write_all(&mut client.socket, &push).unwrap();
        match client.try_read() {
            Ok(Value::Error(_)) => {}
            Err(_) => closed = true,
            answer => {
                assert_eq!(answer.unwrap(), Value::Integer(20_000));
                done = true;
                // It is there.
                assert_eq!(client.say("LINDEX l -1").text(), "19999");
                break;
            }
        }
    }
    assert!(closed && done, "closed {closed}, done {done}");
}
