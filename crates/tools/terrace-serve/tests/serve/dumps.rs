//! Values in Redis' own form: from Redis to here, from here to Redis, and whole files.

use terrace_serve::ServeOptions;

use crate::client::{Client, Served, Value, options};
use crate::oracle::Redis;

/// What stands for a value, however it is stored.
fn content(client: &mut Client, key: &str) -> Vec<String> {
    let command = match client.say(&format!("TYPE {key}")).text().as_str() {
        "string" => format!("GET {key}"),
        "hash" => format!("HGETALL {key}"),
        "set" => format!("SMEMBERS {key}"),
        "zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
        "list" => format!("LRANGE {key} 0 -1"),
        "stream" => format!("XRANGE {key} - +"),
        other => return vec![other.to_owned()],
    };
    let value = client.say(&command);
    let mut all = match value {
        Value::Array(items) => items.iter().map(|i| format!("{i:?}")).collect(),
        other => vec![other.text()],
    };
    if command.starts_with("HGETALL") {
        all = all.chunks(2).map(|pair| pair.join(" ")).collect();
    }
    if command.starts_with("HGETALL") || command.starts_with("SMEMBERS") {
        all.sort();
    }
    if command.starts_with("XRANGE") {
        for more in ["XINFO GROUPS", "XINFO STREAM"] {
            let Value::Array(figures) = client.say(&format!("{more} {key}")) else {
                panic!("{more} {key}");
            };
            // How the trees of Redis look inside is its own business.
            let of_trees = |figure: &[Value]| matches!(&figure[0], Value::Bulk(name) if name.starts_with(b"radix-tree"));
            let seen = figures.chunks(2).filter(|figure| !of_trees(figure));
            all.extend(seen.map(|figure| format!("{figure:?}")));
        }
        all.push(format!("{:?}", client.say(&format!("XPENDING {key} g"))));
    }
    all
}

/// Values of all kinds, small and large, in a server.
fn fill(client: &mut Client) -> Vec<&'static str> {
    client.say("SET text hello");
    client.say("SET number -12345");
    client.ask(&[b"SET", b"empty", b""]);
    client.ask(&[b"SET", b"same", &[b'x'; 5000]]);
    client.say("SADD numbers 1 -300 70000 5000000000");
    client.say("SADD set a b 1");
    client.say("HSET hash f v g 12");
    client.say("ZADD sorted 1.5 a -inf b inf c 0.1 d");
    client.say("RPUSH list a 1 -70000 b");
    client.ask(&[b"RPUSH", b"list", &[b'y'; 10_000]]);
    for i in 0..600 {
        client.say(&format!("RPUSH many {i}"));
        client.say(&format!("HSET wide field{i} {i}"));
        client.say(&format!("SADD members member{i}"));
        client.say(&format!("ZADD scores {i}.25 member{i}"));
        client.say(&format!("XADD stream 5-{} f {i} g w{i}", i + 1));
    }
    client.say("XDEL stream 5-3 5-600");
    client.say("XGROUP CREATE stream g 5-10");
    client.say("XREADGROUP GROUP g alice COUNT 3 STREAMS stream >");
    client.say("XREADGROUP GROUP g bob COUNT 2 STREAMS stream >");
    client.say("XACK stream g 5-12");
    // Of one the last number lies before what was deleted, and of one everything is deleted.
    client.say("XADD early 1-1 f v");
    client.say("XADD early 5-1 f v");
    client.say("XDEL early 5-1");
    client.say("XSETID early 3-1");
    client.say("XADD emptied 4-1 f v");
    client.say("XDEL emptied 4-1");
    vec![
        "early", "emptied", "text", "number", "empty", "same", "numbers", "set", "hash", "sorted",
        "list", "many", "wide", "members", "scores", "stream",
    ]
}

#[test]
fn dumps_go_from_redis_to_here_and_back() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let (mut theirs, mut ours) = (Client::new(redis.address), served.client());
    for key in fill(&mut theirs) {
        let wanted = content(&mut theirs, key);
        let Value::Bulk(dump) = theirs.ask(&[b"DUMP", key.as_bytes()]) else {
            panic!("{key} is not dumped");
        };
        assert_eq!(
            ours.ask(&[b"RESTORE", key.as_bytes(), b"0", &dump]).text(),
            "OK",
            "{key}"
        );
        assert_eq!(content(&mut ours, key), wanted, "{key} from Redis");
        let Value::Bulk(dump) = ours.ask(&[b"DUMP", key.as_bytes()]) else {
            panic!("{key} is not dumped here");
        };
        let back = theirs.ask(&[b"RESTORE", key.as_bytes(), b"0", &dump, b"REPLACE"]);
        assert_eq!(back.text(), "OK", "{key}");
        assert_eq!(content(&mut theirs, key), wanted, "{key} from here");
    }
    // What is refused, and the options, in both alike.
    let dump = match ours.say("DUMP text") {
        Value::Bulk(dump) => dump,
        other => panic!("{other:?}"),
    };
    let mut broken = dump.clone();
    broken[2] ^= 1;
    let both: [&[&[u8]]; 10] = [
        &[b"RESTORE", b"text", b"0", &dump],
        &[b"RESTORE", b"new", b"0", &broken],
        &[b"RESTORE", b"new", b"0", b"short"],
        &[b"RESTORE", b"new", b"-1", &dump],
        &[b"RESTORE", b"new", b"x", &dump],
        &[b"RESTORE", b"new", b"20000000000000", &dump, b"ABSTTL"],
        &[b"PEXPIRETIME", b"new"],
        &[
            b"RESTORE", b"new", b"1", &dump, b"ABSTTL", b"REPLACE", b"FREQ", b"3",
        ],
        &[b"EXISTS", b"new"],
        &[b"RESTORE", b"new", b"0", &dump, b"NOSUCH"],
    ];
    for command in both {
        let answers = [&mut theirs, &mut ours].map(|client| client.ask(command));
        assert_eq!(
            answers[0],
            answers[1],
            "{:?}",
            String::from_utf8_lossy(command[0])
        );
    }
    assert_eq!(ours.say("DUMP nothing"), Value::Null);
    // A transaction and a script restore as well.
    ours.say("MULTI");
    ours.ask(&[b"RESTORE", b"in_multi", b"0", &dump]);
    ours.say("EXEC");
    assert_eq!(ours.say("GET in_multi").text(), "hello");
    let script = b"return redis.call('RESTORE', KEYS[1], 0, redis.call('DUMP', 'text'))";
    assert_eq!(
        ours.ask(&[b"EVAL", script, b"1", b"in_script"]).text(),
        "OK"
    );
    assert_eq!(ours.say("GET in_script").text(), "hello");
}

#[test]
fn any_dump_is_taken_or_refused_as_a_whole() {
    let served = Served::new();
    let mut client = served.client();
    fill(&mut client);
    client.say("HPEXPIREAT hash 20000000000000 FIELDS 1 f");
    let mut state = 7u64;
    for key in ["list", "hash", "sorted", "set", "stream"] {
        let Value::Bulk(dump) = client.ask(&[b"DUMP", key.as_bytes()]) else {
            panic!("{key} is not dumped");
        };
        for _ in 0..200 {
            let mut broken = dump.clone();
            for _ in 0..2 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % (broken.len() - 10);
                broken[at] = (state >> 56) as u8;
            }
            let end = broken.len() - 8;
            let sum = terrace_serve::rdb::crc::crc64(0, &broken[..end]);
            broken[end..].copy_from_slice(&sum.to_le_bytes());
            match client.ask(&[b"RESTORE", b"broken", b"0", &broken, b"REPLACE"]) {
                Value::Simple(_) => {}
                Value::Error(text) => {
                    assert!(text.starts_with("ERR Bad data format"), "{text}");
                    // What was there before goes only for what takes its place.
                    client.say("DEL broken");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(client.say("PING").text(), "PONG");
}

#[test]
fn a_dump_that_stands_for_too_much_is_refused() {
    let restored = |served: &Served, elements: usize| {
        let mut client = served.client();
        client.say(&format!("RPUSH list{}", " 1".repeat(elements)));
        let Value::Bulk(dump) = client.say("DUMP list") else {
            panic!("it is not dumped");
        };
        let answer = client.ask(&[b"RESTORE", b"copy", b"0", &dump]);
        client.say("DEL list");
        (answer.text(), client.say("LLEN copy"))
    };
    let served = Served::with(ServeOptions {
        max_value: 64 << 10,
        ..options()
    });
    // Some 20 KB, which would take twice as much as is allowed here.
    let refused = "ERR Bad data format".to_owned();
    assert_eq!(restored(&served, 10_000), (refused, Value::Integer(0)));
    assert_eq!(
        restored(&served, 3_000),
        ("OK".to_owned(), Value::Integer(3_000))
    );
    // A loop begins with it and leaves it to the pool.
    assert_eq!(
        restored(&Served::new(), 30_000),
        ("OK".to_owned(), Value::Integer(30_000))
    );
}

#[test]
fn numbers_of_entries_are_restored_however_far_apart() {
    let served = Served::new();
    let mut client = served.client();
    for id in ["1-0", "2-18446744073709551615", "18446744073709551615-1"] {
        assert_eq!(client.say(&format!("XADD s {id} f v")).text(), id);
    }
    let Value::Bulk(dump) = client.say("DUMP s") else {
        panic!("it is not dumped");
    };
    let answer = client.ask(&[b"RESTORE", b"copy", b"0", &dump]);
    assert_eq!(answer.text(), "OK");
    assert_eq!(client.say("XRANGE copy - +"), client.say("XRANGE s - +"));
}

#[test]
fn a_file_of_redis_is_taken_over() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let (mut theirs, mut ours) = (Client::new(redis.address), served.client());
    let keys = fill(&mut theirs);
    theirs.say("PEXPIREAT text 20000000000000");
    theirs.ask(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=lib\nredis.register_function('f', function() return 'known' end)",
    ]);
    theirs.say("SELECT 3");
    theirs.say("SET other db");
    theirs.say("SELECT 0");
    assert_eq!(theirs.say("SAVE").text(), "OK");
    let file = redis.dir.path().join("dump.rdb");
    let imported = terrace_serve::import_file(&file, (served.address, None), &mut |_| ()).unwrap();
    assert_eq!(
        (imported.keys, imported.unknown),
        (keys.len() as u64 + 1, 0)
    );
    for key in keys {
        assert_eq!(content(&mut ours, key), content(&mut theirs, key), "{key}");
    }
    assert_eq!(
        ours.say("PEXPIRETIME text"),
        Value::Integer(20_000_000_000_000)
    );
    assert_eq!(ours.say("FCALL f 0").text(), "known");
    ours.say("SELECT 3");
    assert_eq!(ours.say("GET other").text(), "db");
    // One that breaks off is refused.
    let bytes = std::fs::read(&file).unwrap();
    let short = redis.dir.path().join("short.rdb");
    std::fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    assert!(terrace_serve::import_file(&short, (served.address, None), &mut |_| ()).is_err());
}
