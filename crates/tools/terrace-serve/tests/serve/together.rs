//! Several clients at a time: transactions, waiting for elements, channels.

use std::time::{Duration, Instant};

use terrace::{Database, Options};
use terrace_serve::Server;

use crate::client::{Client, Served, Value, encoded, options};
use crate::slow_syncs;

/// Far longer than anything here takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

fn wait_until_blocked(client: &mut Client, many: usize) {
    let begun = Instant::now();
    while !client
        .say("INFO clients")
        .text()
        .contains(&format!("blocked_clients:{many}\r"))
    {
        assert!(begun.elapsed() < LONG, "{many} clients do not wait");
    }
}

#[test]
fn increments_of_many_clients_are_all_counted() {
    let served = Served::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.client();
                for _ in 0..25 {
                    let mut bytes = Vec::new();
                    for _ in 0..20 {
                        bytes.extend(encoded(&[b"INCR", b"n"]));
                        bytes.extend(encoded(&[b"HINCRBY", b"h", b"f", b"1"]));
                        bytes.extend(encoded(&[b"RPUSH", b"l", b"x"]));
                    }
                    std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
                    for _ in 0..60 {
                        assert!(matches!(client.read(), Value::Integer(_)));
                    }
                }
            });
        }
    });
    let mut client = served.client();
    assert_eq!(client.say("GET n").text(), "2000");
    assert_eq!(client.say("HGET h f").text(), "2000");
    assert_eq!(client.say("LLEN l"), Value::Integer(2000));
}

#[test]
fn watched_transactions_lose_no_update() {
    let served = Served::new();
    served.client().say("SET n 0");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = served.client();
                let mut done = 0;
                while done < 50 {
                    client.say("WATCH n");
                    let n: u64 = client.say("GET n").text().parse().unwrap();
                    client.say("MULTI");
                    client.say(&format!("SET n {}", n + 1));
                    client.say("INCR others");
                    match client.say("EXEC") {
                        Value::Null => {}
                        answer => {
                            assert_eq!(answer.items().len(), 2);
                            done += 1;
                        }
                    }
                }
            });
        }
    });
    let mut client = served.client();
    assert_eq!(client.say("GET n").text(), "200");
    assert_eq!(client.say("GET others").text(), "200");
}

#[test]
fn nobody_sees_half_a_transaction() {
    let served = Served::new();
    served.client().say("MSET a 0 b 0");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = served.client();
            for i in 1..300 {
                client.say("MULTI");
                client.say(&format!("SET a {i}"));
                client.say(&format!("SET b {i}"));
                client.say("EXEC");
            }
        });
        scope.spawn(|| {
            let mut client = served.client();
            for _ in 0..300 {
                let both = client.say("MGET a b");
                assert_eq!(both.items()[0], both.items()[1]);
            }
        });
    });
}

#[test]
fn who_waits_longest_is_served_first() {
    let served = Served::new();
    let mut pusher = served.client();
    let mut waiting = Vec::new();
    for i in 0..3 {
        let mut client = served.client();
        client.send(&[b"BLPOP", b"none", b"l", b"0"]);
        waiting.push(client);
        wait_until_blocked(&mut pusher, i + 1);
    }
    for (i, client) in waiting.iter_mut().enumerate() {
        pusher.say(&format!("RPUSH l v{i}"));
        let answer = client.read();
        assert_eq!(answer.items()[0].text(), "l");
        assert_eq!(answer.items()[1].text(), format!("v{i}"));
    }
    assert_eq!(pusher.say("EXISTS l"), Value::Integer(0));
    // Several at once.
    for client in &mut waiting {
        client.send(&[b"BRPOP", b"l", b"0"]);
    }
    wait_until_blocked(&mut pusher, 3);
    pusher.say("RPUSH l 1 2 3");
    let mut got: Vec<String> = waiting
        .iter_mut()
        .map(|c| c.read().items()[1].text())
        .collect();
    got.sort();
    assert_eq!(got, ["1", "2", "3"]);
}

#[test]
fn waiting_ends_by_time_by_others_and_by_going() {
    let served = Served::new();
    let mut client = served.client();
    assert_eq!(client.say("BLPOP l 0.01"), Value::Null);
    assert_eq!(client.say("BLMOVE l m LEFT RIGHT 0.01"), Value::Null);
    let id = client.say("CLIENT ID").text();
    client.send(&[b"BLPOP", b"l", b"0"]);
    let mut other = served.client();
    wait_until_blocked(&mut other, 1);
    assert_eq!(
        other.say(&format!("CLIENT UNBLOCK {id} ERROR")),
        Value::Integer(1)
    );
    assert!(client.read().text().starts_with("UNBLOCKED"));
    client.send(&[b"BZPOPMIN", b"z", b"0"]);
    wait_until_blocked(&mut other, 1);
    drop(client);
    wait_until_blocked(&mut other, 0);
    other.say("ZADD z 1 m");
    assert_eq!(other.say("ZCARD z"), Value::Integer(1));
    // What comes behind a command that waits is answered behind it.
    let mut client = served.client();
    let mut bytes = encoded(&[b"BLPOP", b"l", b"0"]);
    bytes.extend(encoded(&[b"ECHO", b"behind"]));
    std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
    wait_until_blocked(&mut other, 1);
    other.say("RPUSH l x");
    assert_eq!(client.read().items()[1].text(), "x");
    assert_eq!(client.read().text(), "behind");
}

#[test]
fn who_is_woken_while_its_answers_cannot_go_is_served_behind_them() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, gate) = slow_syncs::disk(dir.path());
    let db = Database::open_on(disk, Options::new().memory(64 << 20)).unwrap();
    let options = terrace_serve::ServeOptions {
        loops: 1,
        ..options()
    };
    let server = Server::start(db, options).unwrap();
    let address = server.addresses()[0];
    let (mut waits, mut other) = (Client::new(address), Client::new(address));
    other.say("CONFIG SET appendfsync always");
    // Its first answer waits for a sync while it is woken.
    let _opens = gate.close();
    let both = [
        encoded(&[b"SET", b"a", b"1"]),
        encoded(&[b"BLPOP", b"q", b"0"]),
    ]
    .concat();
    std::io::Write::write_all(&mut waits.socket, &both).unwrap();
    wait_until_blocked(&mut other, 1);
    other.send(&[b"RPUSH", b"q", b"x"]);
    // The loop has seen to both when it answers this.
    let mut third = Client::new(address);
    let begun = Instant::now();
    while third.say("EXISTS q") == Value::Integer(0) {
        assert!(begun.elapsed() < LONG, "nothing is pushed");
    }
    assert_eq!(third.say("PING").text(), "PONG");
    gate.open();
    assert_eq!(waits.read().text(), "OK");
    assert_eq!(waits.read().items()[1].text(), "x");
    assert_eq!(other.read(), Value::Integer(1));
    // It is woken while its socket takes no more: so much is unread that only a part of the last answers has gone.
    other.say("CONFIG SET appendfsync no");
    other.ask(&[b"SET", b"long", &vec![b'x'; 100_000]]);
    for many in 20..200 {
        let mut deaf = Client::new(address);
        let mut all = encoded(&[b"GET", b"long"]).repeat(many);
        all.extend(encoded(&[b"BLPOP", b"q", b"0"]));
        std::io::Write::write_all(&mut deaf.socket, &all).unwrap();
        let begun = Instant::now();
        let is_blocked = |client: &mut Client| {
            let clients = client.say("INFO clients").text();
            clients.contains("blocked_clients:1\r")
        };
        let mut waits = is_blocked(&mut other);
        while !waits && begun.elapsed() < Duration::from_secs(1) {
            waits = is_blocked(&mut other);
        }
        // Who comes behind it does not wait for it to read.
        let both = [
            encoded(&[b"RPUSH", b"q", b"y", b"z"]),
            encoded(&[b"BLPOP", b"q", b"0"]),
        ]
        .concat();
        std::io::Write::write_all(&mut other.socket, &both).unwrap();
        assert_eq!(other.read(), Value::Integer(2), "{many}");
        let first = other.read().items()[1].text();
        for _ in 0..many {
            assert_eq!(deaf.read().text().len(), 100_000);
        }
        let second = deaf.read().items()[1].text();
        // From here on it did not even begin to wait.
        if !waits {
            break;
        }
        assert_eq!((&*first, &*second), ("z", "y"), "{many}");
    }
    // No client is kept from what comes next.
    other.say("RPUSH q z");
    assert_eq!(other.say("BLPOP q 0").items()[1].text(), "z");
}

#[test]
fn flushes_and_swaps_wait_for_the_sync_too() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, gate) = slow_syncs::disk(dir.path());
    let db = Database::open_on(disk, Options::new().memory(64 << 20)).unwrap();
    let server = Server::start(db, options()).unwrap();
    let (mut one, mut other) = (
        Client::new(server.addresses()[0]),
        Client::new(server.addresses()[0]),
    );
    for command in ["FLUSHDB", "FLUSHALL", "SWAPDB 0 1"] {
        other.say("CONFIG SET appendfsync no");
        other.say("SET k v");
        other.say("CONFIG SET appendfsync always");
        let _opens = gate.close();
        one.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        let begun = Instant::now();
        while other.say("GET k") != Value::Null {
            assert!(begun.elapsed() < LONG, "{command} is not done");
        }
        std::thread::sleep(Duration::from_millis(100));
        one.socket.set_nonblocking(true).unwrap();
        let early = one.socket.peek(&mut [0]).is_ok();
        one.socket.set_nonblocking(false).unwrap();
        gate.open();
        assert_eq!(one.read().text(), "OK");
        assert!(!early, "{command} was answered before the sync");
    }
}

#[test]
fn who_wants_no_answers_has_none_of_what_it_waited_for() {
    let served = Served::new();
    for (before, behind) in [
        ("CLIENT REPLY SKIP", ""),
        ("CLIENT REPLY OFF", "CLIENT REPLY ON"),
        (
            "CLIENT REPLY OFF|CLIENT REPLY SKIP|ECHO a",
            "CLIENT REPLY ON",
        ),
    ] {
        let mut client = served.client();
        let text = format!("{before}|BLPOP none 0.02|{behind}|PING");
        let bytes = text
            .split('|')
            .filter(|one| !one.is_empty())
            .map(|one| encoded(&one.split(' ').map(str::as_bytes).collect::<Vec<_>>()));
        let bytes: Vec<u8> = bytes.flatten().collect();
        std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
        if !behind.is_empty() {
            assert_eq!(client.read().text(), "OK", "{before}");
        }
        assert_eq!(client.read().text(), "PONG", "{before}");
    }
}

#[test]
fn events_come_in_their_order_and_have_their_names() {
    let Some(redis) = crate::oracle::Redis::start() else {
        return;
    };
    let served = Served::new();
    let heard = [redis.address, served.address].map(|address| {
        let (mut listener, mut client) = (Client::new(address), Client::new(address));
        client.say("CONFIG SET notify-keyspace-events EA");
        listener.say("PSUBSCRIBE __keyevent@0__:*");
        for command in [
            "RPUSH l a",
            "LMOVE l m LEFT RIGHT",
            "RPOPLPUSH m m",
            "SADD s a",
            "SMOVE s t a",
            "GEOADD g 1 1 a",
            "GEORADIUS g 1 1 9 km STORE h",
            "GEOSEARCHSTORE i g FROMLONLAT 1 1 BYRADIUS 9 km",
            "XADD x 1-1 a b",
            "XADD x 2-1 a b",
            "XGROUP CREATE x g 0",
            "XREADGROUP GROUP g c COUNT 1 STREAMS x >",
            "XREADGROUP GROUP g c COUNT 1 STREAMS x >",
            "XCLAIM x g d 0 1-1",
            "XAUTOCLAIM x g e 0 0",
            "SET end 1",
        ] {
            client.say(command);
        }
        let mut all = Vec::new();
        loop {
            let one: Vec<String> = listener.read().items()[2..]
                .iter()
                .map(Value::text)
                .collect();
            if one[1] == "end" {
                return all;
            }
            all.push(one.join(" "));
        }
    });
    assert_eq!(heard[0], heard[1]);
}

#[test]
fn channels_and_events_are_heard() {
    let served = Served::new();
    let (mut listener, mut speaker) = (served.client(), served.client());
    listener.say("SUBSCRIBE news");
    assert_eq!(listener.say("PSUBSCRIBE n*").items()[2], Value::Integer(2));
    assert_eq!(speaker.say("PUBLISH news hello"), Value::Integer(2));
    let heard = listener.read();
    assert_eq!(heard.items()[0].text(), "message");
    assert_eq!(heard.items()[2].text(), "hello");
    assert_eq!(listener.read().items()[0].text(), "pmessage");
    assert!(
        listener
            .say("GET a")
            .text()
            .starts_with("ERR Can't execute 'get'")
    );
    assert_eq!(listener.say("PING").items()[0].text(), "pong");
    assert_eq!(
        speaker.say("PUBSUB NUMSUB news").items()[1],
        Value::Integer(1)
    );
    listener.say("UNSUBSCRIBE news");
    listener.say("PUNSUBSCRIBE n*");
    assert_eq!(speaker.say("PUBLISH news hello"), Value::Integer(0));
    speaker.say("CONFIG SET notify-keyspace-events KEA");
    listener.say("PSUBSCRIBE __key*__:*");
    speaker.say("SET k v");
    let heard = listener.read();
    assert_eq!(heard.items()[2].text(), "__keyspace@0__:k");
    assert_eq!(heard.items()[3].text(), "set");
    assert_eq!(listener.read().items()[2].text(), "__keyevent@0__:set");
}

#[test]
fn a_value_of_another_kind_is_nothing_to_who_waits() {
    let served = Served::new();
    let mut other = served.client();
    let mut waiting = Vec::new();
    for (i, command) in [
        "BLPOP k 0",
        "BZPOPMIN k 0",
        "BLMOVE k to LEFT LEFT 0",
        "XREAD BLOCK 0 STREAMS k 0",
        "BLMPOP 0 2 none k LEFT",
        "BZMPOP 0 1 k MIN",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = served.client();
        client.send(&command.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        waiting.push(client);
        wait_until_blocked(&mut other, i + 1);
    }
    other.say("SET k text");
    other.say("DEL k");
    other.say("HSET k f v");
    other.say("DEL k");
    // The first of each kind is served, though others of another kind have come before.
    other.say("ZADD k 1 m");
    assert_eq!(waiting[1].read().items()[1].text(), "m");
    other.say("RPUSH k a b c");
    assert_eq!(waiting[0].read().items()[1].text(), "a");
    assert_eq!(waiting[2].read().text(), "b");
    assert_eq!(waiting[4].read().items()[1].items()[0].text(), "c");
    wait_until_blocked(&mut other, 2);
    other.say("ZADD k 2 n");
    assert_eq!(
        waiting[5].read().items()[1].items()[0].items()[0].text(),
        "n"
    );
    other.say("XADD k 1-1 f v");
    assert_eq!(waiting[3].read().items()[0].items()[0].text(), "k");
    // Who comes when it is there is told.
    assert!(other.say("BLPOP k 0").text().starts_with("WRONGTYPE"));
    // A group of a stream that is gone is told, as in Redis.
    other.say("XGROUP CREATE k g $");
    waiting[0].send(&[
        b"XREADGROUP",
        b"GROUP",
        b"g",
        b"c",
        b"BLOCK",
        b"0",
        b"STREAMS",
        b"k",
        b">",
    ]);
    wait_until_blocked(&mut other, 1);
    other.say("SET k text");
    assert!(waiting[0].read().text().starts_with("UNBLOCKED"));
}

#[test]
fn a_backup_that_takes_long_keeps_nobody_waiting() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, gate) = slow_syncs::disk(dir.path());
    let db = Database::open_on(disk, Options::new().memory(64 << 20)).unwrap();
    let server = Server::start(db, options()).unwrap();
    let mut other = Client::new(server.addresses()[0]);
    for command in ["SAVE", "BGSAVE", "BGREWRITEAOF"] {
        other.say("SET a v");
        let mut saves = Client::new(server.addresses()[0]);
        let parked = || {
            let parked = &server.host().counts.parked;
            parked.load(std::sync::atomic::Ordering::SeqCst)
        };
        let before = parked();
        let _opens = gate.close();
        saves.send(&[command.as_bytes()]);
        let begun = Instant::now();
        while parked() == before {
            assert!(begun.elapsed() < LONG, "{command} does not begin");
        }
        // It has its thread now, and waits for the disk there. These have to be alone.
        for _ in 0..20 {
            assert_eq!(
                other.say("COPY a b REPLACE"),
                Value::Integer(1),
                "{command}"
            );
            assert_eq!(other.say("GET b").text(), "v");
        }
        gate.open();
        assert!(!saves.read().text().starts_with("ERR"), "{command}");
    }
}
