//! All keys of a running Redis are taken over.

use crate::client::{Client, Served, Value};
use crate::oracle::Redis;

#[test]
fn every_kind_of_key_is_taken_over_with_its_expiry() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut from = Client::new(redis.address);
    for command in [
        "SET a 1",
        "SET b 2 PXAT 20000000000000",
        "HSET h f v g w",
        "SADD s x y",
        "ZADD z 1.5 a -inf b",
        "RPUSH l 1 2 3",
        "XADD x 1-1 f v",
        "XADD x 2-1 g w",
        "XGROUP CREATE x group 1-1",
        "SELECT 2",
        "SET other db",
    ] {
        from.say(command);
    }
    for i in 0..2500 {
        from.say(&format!("RPUSH long {i}"));
        from.say(&format!("HSET wide f{i} {i}"));
    }
    let imported =
        terrace_serve::import((redis.address, None), (served.address, None), &mut |_| ()).unwrap();
    assert_eq!((imported.keys, imported.unknown), (10, 0));
    let mut to = served.client();
    from.say("SELECT 0");
    for command in [
        "GET a",
        "GET b",
        "HGET h f",
        "HGET h g",
        "SCARD s",
        "ZRANGE z 0 -1 WITHSCORES",
        "LRANGE l 0 -1",
        "XRANGE x - +",
        "SELECT 2",
        "GET other",
        "LRANGE long 0 -1",
        "HLEN wide",
        "HGET wide f2499",
    ] {
        assert_eq!(from.say(command), to.say(command), "{command}");
    }
    to.say("SELECT 0");
    assert!(matches!(to.say("PTTL b"), Value::Integer(left) if left > 1_000_000));
    assert_eq!(
        to.say("XREADGROUP GROUP group c STREAMS x >").items().len(),
        1
    );
}
