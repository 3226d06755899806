//! From the first command to a reopening.

use terrace_serve::Server;

use crate::client::{Client, Served, Value, database, options};

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
