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

#[test]
fn streams_are_taken_over_with_all_that_is_known_of_them() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut from = Client::new(redis.address);
    for command in [
        "XADD x 1-1 f v",
        "XADD x 2-1 f v",
        "XADD x 3-1 f v",
        "XADD x 9-1 f v",
        "XGROUP CREATE x g 0",
        "XGROUP CREATE x h 2-1",
        "XGROUP CREATECONSUMER x g idle",
        "XREADGROUP GROUP g c COUNT 2 STREAMS x >",
        "XREADGROUP GROUP g d COUNT 1 STREAMS x >",
        "XDEL x 9-1",
        "XADD empty 5-1 f v",
        "XDEL empty 5-1",
        "XGROUP CREATE empty g $",
    ] {
        from.say(command);
    }
    // Few and many registers.
    from.say("PFADD few a b c");
    for i in 0..200 {
        let all: Vec<String> = (0..100).map(|j| format!("{i}-{j}")).collect();
        from.say(&format!("PFADD many {}", all.join(" ")));
    }
    let imported =
        terrace_serve::import((redis.address, None), (served.address, None), &mut |_| ()).unwrap();
    assert_eq!((imported.keys, imported.unknown), (4, 0));
    let mut to = served.client();
    let known = |client: &mut Client, key: &str| {
        let state = client.say(&format!("XINFO STREAM {key}"));
        let names = [
            "length",
            "last-generated-id",
            "max-deleted-entry-id",
            "entries-added",
            "groups",
        ];
        let pairs = state.items().chunks(2);
        let mut all: Vec<Value> = pairs
            .filter(|pair| names.contains(&&*pair[0].text()))
            .map(|pair| pair[1].clone())
            .collect();
        all.push(client.say(&format!("XINFO GROUPS {key}")));
        all.push(client.say(&format!("XPENDING {key} g")));
        all
    };
    for key in ["x", "empty"] {
        assert_eq!(known(&mut from, key), known(&mut to, key), "{key}");
    }
    for command in [
        "PFCOUNT few",
        "PFCOUNT many",
        "PFCOUNT few many",
        "PFADD few a",
        "PFADD many 1-1",
    ] {
        assert_eq!(from.say(command), to.say(command), "{command}");
    }
    for command in [
        "PFADD few d e",
        "PFCOUNT few",
        "PFMERGE all few many",
        "PFCOUNT all",
    ] {
        assert_eq!(from.say(command), to.say(command), "{command}");
    }
    // The last one of them says that its estimate is none, so it is looked at.
    for broken in [
        b"HYLL".as_slice(),
        b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80",
        b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f",
    ] {
        for client in [&mut from, &mut to] {
            client.ask(&[b"SET", b"broken", broken]);
        }
        assert_eq!(
            from.say("PFCOUNT broken"),
            to.say("PFCOUNT broken"),
            "{broken:?}"
        );
    }
}

#[test]
fn fields_that_expire_are_taken_over() {
    // Redis 7.0 has none: from one server of this kind to another.
    let (old, new) = (Served::new(), Served::new());
    let mut from = old.client();
    from.say("HSET h a 1 b 2 c 3");
    from.say("HPEXPIREAT h 20000000000000 FIELDS 2 a b");
    terrace_serve::import((old.address, None), (new.address, None), &mut |_| ()).unwrap();
    let asked = "HPEXPIRETIME h FIELDS 3 a b c";
    assert_eq!(new.client().say(asked), from.say(asked));
    assert_eq!(
        from.say(asked).items()[0],
        Value::Integer(20_000_000_000_000)
    );
}
