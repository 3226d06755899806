//! Sequences of commands that Redis answers in a way of its own: each answer is the same here.

use crate::client::{Client, Served, Value, encoded};
use crate::oracle::Redis;

/// Commands one after the other, each beginning with an empty server.
const SEQUENCES: &[(&str, &[&str])] = &[
    (
        "what is counted of a group",
        &[
            "XADD s 1-1 a b",
            "XADD s 2-1 a b",
            "XADD s 3-1 a b",
            "XGROUP CREATE s g 0",
            "XINFO GROUPS s",
            "XREADGROUP GROUP g c COUNT 2 STREAMS s >",
            "XINFO GROUPS s",
            "XADD s 4-1 a b",
            "XDEL s 2-1",
            "XINFO GROUPS s",
            "XDEL s 4-1",
            "XINFO GROUPS s",
            "XADD s 5-1 a b",
            "XREADGROUP GROUP g c COUNT 9 STREAMS s >",
            "XINFO GROUPS s",
            "XGROUP CREATE s h $",
            "XGROUP CREATE s i 3-1 ENTRIESREAD 3",
            "XGROUP CREATE s j 1-1",
            "XGROUP CREATE s k 0-1",
            "XGROUP CREATE s l 9-9",
            "XINFO GROUPS s",
            "XTRIM s MAXLEN 1",
            "XINFO GROUPS s",
            "XINFO STREAM s",
            "XTRIM s MAXLEN 0",
            "XINFO GROUPS s",
            "XINFO STREAM s",
        ],
    ),
    (
        "trimming is no deletion",
        &[
            "XADD s 1-1 a b",
            "XADD s 2-1 a b",
            "XADD s MAXLEN 1 3-1 a b",
            "XGROUP CREATE s g 0",
            "XINFO STREAM s",
            "XREADGROUP GROUP g c STREAMS s >",
            "XINFO GROUPS s",
            "XTRIM s MINID 9",
            "XADD s 9-1 a b",
            "XGROUP CREATE s m 3-1",
            "XINFO GROUPS s",
            "XREADGROUP GROUP g c NOACK STREAMS s >",
            "XINFO GROUPS s",
        ],
    ),
    (
        "the last number of a stream and what was deleted",
        &[
            "XADD s 1-1 a b",
            "XADD s 5-1 a b",
            "XDEL s 5-1",
            "XSETID s 3-1",
            "XSETID s 0-1",
            "XSETID s 6-1 ENTRIESADDED 9 MAXDELETEDID 7-1",
            "XSETID s 6-1 ENTRIESADDED 9 MAXDELETEDID 0-0",
            "XINFO STREAM s",
            "XSETID s 6-1 ENTRIESADDED 3 MAXDELETEDID 2-0",
            "XINFO STREAM s",
        ],
    ),
    (
        "an entry that is gone is nobody's, however long it was pending",
        &[
            "XADD s 1-1 a b",
            "XADD s 2-1 a b",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XDEL s 1-1",
            "XCLAIM s g d 100000 1-1 2-1",
            "XPENDING s g",
            "XDEL s 2-1",
            "XAUTOCLAIM s g d 100000 0",
            "XPENDING s g",
            "XGROUP DELCONSUMER s g nobody",
            "XGROUP DELCONSUMER s g c",
        ],
    ),
    (
        "groups and consumers may be named as options are",
        &[
            "XADD s 1-1 a b",
            "XADD other 1-1 a b",
            "XGROUP CREATE s streams 0",
            "XREADGROUP GROUP streams count COUNT 1 STREAMS s >",
            "XREADGROUP GROUP streams streams STREAMS s 0",
            "COMMAND GETKEYS XREADGROUP GROUP streams streams COUNT 1 NOACK STREAMS s other > >",
            "COMMAND GETKEYS XREAD BLOCK 1 COUNT 1 STREAMS s other 0 0",
        ],
    ),
    (
        "numbers without sign that are too large",
        &[
            "BITFIELD b OVERFLOW SAT SET u8 0 -1 GET u8 0",
            "BITFIELD b OVERFLOW FAIL SET u8 0 -1",
            "BITFIELD b OVERFLOW WRAP SET u8 0 -300 GET u8 0",
            "BITFIELD b OVERFLOW SAT SET i8 0 -300 GET i8 0",
            "BITFIELD b OVERFLOW SAT SET u63 8 -1 GET u63 8",
        ],
    ),
    (
        "what only reads stores nothing",
        &[
            "GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b",
            "GEORADIUS_RO g 15 37 200 km STORE x",
            "GEORADIUS_RO g 15 37 200 km STOREDIST x",
            "GEORADIUSBYMEMBER_RO g a 200 km STORE x",
            "GEORADIUSBYMEMBER_RO g a 200 km STOREDIST x",
            "EXISTS x",
            "GEORADIUS_RO g 15 37 200 km ASC",
            "GEORADIUSBYMEMBER_RO g a 200 km ASC",
            "GEORADIUS g 15 37 200 km ASC STORE x",
            "ZCARD x",
        ],
    ),
    (
        "a transaction sees what it has done",
        &[
            "SET a 1",
            "SET b 1",
            "MULTI",
            "DEL a",
            "SET c 1",
            "SADD d m",
            "DBSIZE",
            "SCAN 0 TYPE set COUNT 1000",
            "SCAN 0 MATCH a* COUNT 1000",
            "DEL b",
            "DEL d",
            "RANDOMKEY",
            "DBSIZE",
            "DEL c",
            "RANDOMKEY",
            "SCAN 0 COUNT 1000",
            "DBSIZE",
            "EXEC",
        ],
    ),
    (
        "an empty text is no number but zero",
        &["RPUSH l 3 -1", "LPUSH l ", "SORT l", "SORT l DESC"],
    ),
    (
        "what was deleted counts among what a claim looks at, and one that is forced was given once",
        &[
            "XADD s 1-1 a b",
            "XADD s 2-1 a b",
            "XADD s 3-1 a b",
            "XADD s 4-1 a b",
            "XADD s 5-1 a b",
            "XADD s 6-1 a b",
            "XGROUP CREATE s g 0",
            "XREADGROUP GROUP g c STREAMS s >",
            "XDEL s 1-1 2-1 3-1",
            "XAUTOCLAIM s g d 0 0 COUNT 2 JUSTID",
            "XAUTOCLAIM s g d 0 3-1 COUNT 2",
            "XPENDING s g",
            "XINFO CONSUMERS s g",
            "XINFO GROUPS s",
            "XADD s 7-1 a b",
            "XCLAIM s g d 0 7-1 FORCE JUSTID",
            "XADD s 8-1 a b",
            "XCLAIM s g d 0 8-1 FORCE",
            "XPENDING s g 7-1 + 9",
            "XGROUP CREATE x",
            "XINFO STREAM",
        ],
    ),
    (
        "nothing times infinity",
        &[
            "ZADD za 5 m",
            "ZADD zb inf m",
            "ZINTER 2 za zb WEIGHTS 1 0 WITHSCORES",
            "ZINTER 2 za zb WEIGHTS 1 0 AGGREGATE MIN WITHSCORES",
            "ZINTER 2 za zb WEIGHTS 1 0 AGGREGATE MAX WITHSCORES",
            "ZINTER 2 zb za WEIGHTS 0 1 AGGREGATE MIN WITHSCORES",
            "ZUNION 2 za zb WEIGHTS 1 0 AGGREGATE MIN WITHSCORES",
            "ZUNION 2 za zb WEIGHTS 1 0 WITHSCORES",
            "ZINTERCARD 2 za zb",
            "ZINTERCARD 3 za zb none",
        ],
    ),
    (
        "numbers that are out of range, or in hexadecimal digits",
        &[
            "ZADD z 1e400 m",
            "ZADD z 1e-400 m",
            "ZADD z 0x10 m 0x1p3 n -Infinity o 1e-310 p",
            "ZRANGE z 0 -1 WITHSCORES",
            "ZRANGEBYSCORE z 1e400 2e400",
            "ZCOUNT z -1e400 1e400",
            "SET n 0x10",
            "INCRBYFLOAT n 1",
            "INCRBYFLOAT n 1e-400",
        ],
    ),
    (
        "an order that is left as it is, and fields that are named behind the star",
        &[
            "SADD s b a c",
            "SORT s BY nosort STORE d",
            "LRANGE d 0 -1",
            "SORT s BY nosort DESC STORE d",
            "LRANGE d 0 -1",
            "RPUSH l b",
            "HSET a->b f v",
            "SORT l ALPHA GET a->*->f",
        ],
    ),
    (
        "settings are changed all together or not at all",
        &[
            "CONFIG SET slowlog-max-len 60",
            "CONFIG SET slowlog-max-len 100 timeout abc",
            "CONFIG SET slowlog-max-len 100 timeout 18446744073709552",
            "CONFIG SET slowlog-max-len 100 slowlog-max-len 101",
            "CONFIG GET slowlog-max-len",
            "CONFIG SET slowlog-max-len 128 timeout 0",
            "CONFIG GET slowlog-max-len",
        ],
    ),
    (
        "what is not for a transaction spoils it",
        &["MULTI", "SHUTDOWN", "EXEC", "GET k"],
    ),
    (
        "moves that come to nothing, and keys that stand behind a word",
        &[
            "BLMOVE l m LEFT LEFT 0.01",
            "BRPOPLPUSH l m 0.01",
            "MULTI",
            "BLMOVE l m LEFT LEFT 0.01",
            "EXEC",
            "COMMAND GETKEYS GEORADIUS k 1 2 3 km STORE store ASC",
            "COMMAND GETKEYS GEORADIUS k 1 2 3 km STORE a STOREDIST b",
            "COMMAND GETKEYS SORT k BY STORE GET STORE STORE d",
        ],
    ),
    (
        "channels that nobody listens to",
        &["PUBSUB NUMSUB a b", "PUBSUB NUMSUB"],
    ),
    (
        "scripts that are none",
        &[
            "SCRIPT LOAD x",
            "SCRIPT EXISTS 11f6ad8ec52a2984abaafd7c3b516503785c2072",
            "SCRIPT FLUSH FOO",
        ],
    ),
    (
        "places of lists, from both ends",
        &[
            "RPUSH l a b a c a b a",
            "LREM l -1 b",
            "LREM l 1 a",
            "LRANGE l 0 -1",
            "LREM l 2 a",
            "LRANGE l 0 -1",
            "LINSERT l BEFORE c x",
            "LINSERT l AFTER a y",
            "LINSERT l AFTER none y",
            "LRANGE l 0 -1",
            "RPUSH l 1 2 3 4 x x 5",
            "LREM l -2 x",
            "LPUSH l z",
            "LRANGE l 0 -1",
            "LREM l 0 z",
            "LRANGE l 0 -1",
            "LPOS l a RANK -1",
            "LLEN l",
        ],
    ),
    (
        "types of clients",
        &[
            "CLIENT LIST TYPE nonsense",
            "CLIENT LIST TYPE master",
            "CLIENT LIST TYPE pubsub",
            "CLIENT KILL TYPE nonsense",
            "CLIENT KILL TYPE pubsub",
        ],
    ),
];

/// Without what depends on the clock, and on how Redis builds its tree.
fn timeless(mut value: Value) -> Value {
    if let Value::Array(all) | Value::Map(all) = &mut value {
        let left_out = |name: &Value| {
            ["idle", "inactive", "radix-tree-keys", "radix-tree-nodes"].contains(&&*name.text())
        };
        for i in 1..all.len() {
            if matches!(all[i - 1], Value::Bulk(_)) && left_out(&all[i - 1]) {
                all[i] = Value::Null;
            }
        }
        // A pending entry: its number, whose it is, for how long, how often it was given.
        if let [
            Value::Bulk(_),
            Value::Bulk(_),
            age @ Value::Integer(_),
            Value::Integer(_),
        ] = all.as_mut_slice()
        {
            *age = Value::Null;
        }
        all.iter_mut()
            .for_each(|one| *one = timeless(std::mem::replace(one, Value::Null)));
    }
    value
}

#[test]
fn sequences_are_answered_exactly_as_by_redis() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut wrong = Vec::new();
    let both = ["2", "3"].into_iter();
    for ((about, commands), protocol) in SEQUENCES
        .iter()
        .flat_map(|one| both.clone().map(move |protocol| (one, protocol)))
    {
        let mut clients = [Client::new(redis.address), served.client()];
        clients.iter_mut().for_each(|client| {
            client.say("FLUSHALL");
            client.ask(&[b"HELLO", protocol.as_bytes()]);
        });
        for command in *commands {
            let [theirs, ours] = clients
                .each_mut()
                .map(|client| timeless(client.say(command)));
            if theirs != ours {
                wrong.push(format!(
                    "{about}: {command}\nredis: {theirs:?}\nours:  {ours:?}"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn commands_of_a_pipeline_and_a_script_see_those_before_them() {
    let served = Served::new();
    let mut client = served.client();
    let mut several = |commands: &[&[&[u8]]]| {
        let bytes: Vec<u8> = commands.iter().flat_map(|c| encoded(c)).collect();
        std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
        (0..commands.len())
            .map(|_| client.read())
            .collect::<Vec<_>>()
    };
    let keys = |keys: &[&str]| {
        let keys = keys.iter().map(|key| Value::Bulk(key.as_bytes().to_vec()));
        Value::Array(keys.collect())
    };
    let answers = several(&[
        &[b"SET", b"a", b"1"],
        &[b"SCAN", b"0", b"COUNT", b"1000"],
        &[b"RANDOMKEY"],
        &[b"DBSIZE"],
        &[b"DEL", b"a"],
        &[b"RANDOMKEY"],
        &[b"SCAN", b"0", b"COUNT", b"1000"],
    ]);
    assert_eq!(answers[1].items()[1], keys(&["a"]));
    assert_eq!(answers[2].text(), "a");
    assert_eq!(answers[3], Value::Integer(1));
    assert_eq!(answers[5], Value::Null);
    assert_eq!(answers[6].items()[1], keys(&[]));
    let script = b"redis.call('SET', 'b', 1) redis.call('SET', 'c', 1) redis.call('DEL', 'b')
        return {redis.call('DBSIZE'), redis.call('SCAN', 0, 'COUNT', 1000)[2], redis.call('RANDOMKEY')}";
    let answer = several(&[&[b"EVAL", script, b"0"]]);
    assert_eq!(answer[0].items()[0], Value::Integer(1));
    assert_eq!(answer[0].items()[1], keys(&["c"]));
    assert_eq!(answer[0].items()[2].text(), "c");
    // What is there all the while comes out, whatever a transaction does to it between two steps.
    for i in 0..200 {
        client.say(&format!("SET k{i} v"));
    }
    let script = b"local seen, cursor = {}, '0'
        repeat
          local step = redis.call('SCAN', cursor, 'COUNT', 7)
          cursor = step[1]
          for _, key in ipairs(step[2]) do seen[key] = true end
          for i = 0, 199 do redis.call('SET', 'k' .. i, cursor) end
        until cursor == '0'
        local many = 0
        for i = 0, 199 do if seen['k' .. i] then many = many + 1 end end
        return many";
    assert_eq!(client.ask(&[b"EVAL", script, b"0"]), Value::Integer(200));
}
