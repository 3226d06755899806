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
fn a_transaction_that_changes_more_than_fits_the_memory_is_told_to_be_divided() {
    let served = Served::new();
    let mut client = served.client();
    client.say("MULTI");
    for i in 0..6 {
        // An eighth of the memory is 8 MiB.
        client.say(&format!("SETRANGE k{i} 3000000 x"));
    }
    let answers = client.say("EXEC");
    let answers = answers.items();
    assert_eq!(answers[0], Value::Integer(3_000_001));
    assert!(answers[5].text().contains("divide it"), "{answers:?}");
    assert_eq!(client.say("STRLEN k0"), Value::Integer(3_000_001));
    assert_eq!(client.say("EXISTS k5"), Value::Integer(0));
    // One by one, and in a pipeline, they may be as many as there is room for.
    let all: Vec<u8> = (0..30)
        .flat_map(|i| encoded(&[b"SETRANGE", format!("p{i}").as_bytes(), b"1500000", b"x"]))
        .collect();
    client.socket.write_all(&all).unwrap();
    for _ in 0..30 {
        assert_eq!(client.read(), Value::Integer(1_500_001));
    }
    // Sources of which many are the same are put together one after the other.
    let keys = vec![b"k0".as_slice(); 100];
    let words = [&[b"BITOP".as_slice(), b"OR", b"to"], keys.as_slice()].concat();
    assert_eq!(client.ask(&words), Value::Integer(3_000_001));
}

#[test]
fn what_a_command_gathers_is_bounded() {
    let served = Served::with(ServeOptions {
        max_buffers: 1 << 20,
        ..options()
    });
    let mut client = served.client();
    // 20 MB in each: more than an answer takes, and than is gathered to be stored.
    for part in 0..20 {
        let member = |i: usize| format!("{part:02}{i:04}{}", "x".repeat(1000));
        let members: Vec<String> = (0..1000).map(member).collect();
        let words = |first: &[&'static str], score: &[&'static str]| {
            let mut all: Vec<String> = first.iter().map(|word| (*word).to_owned()).collect();
            for member in &members {
                all.extend(score.iter().map(|word| (*word).to_owned()));
                all.push(member.clone());
            }
            all
        };
        for command in [
            words(&["SADD", "s"], &[]),
            words(&["ZADD", "z"], &["1"]),
            words(&["RPUSH", "l"], &[]),
        ] {
            for some in command[2..].chunks(200) {
                let all = [&command[..2], some].concat();
                let all: Vec<&[u8]> = all.iter().map(String::as_bytes).collect();
                assert!(matches!(client.ask(&all), Value::Integer(_)));
            }
        }
    }
    client.say("RPUSH l last");
    client.say("LPUSH l first");
    for (command, wanted) in [
        ("SINTERCARD 2 s s", 20_000),
        ("SINTERCARD 2 s s LIMIT 7", 7),
        ("ZINTERCARD 2 z s", 20_000),
        ("ZINTERCARD 2 z s LIMIT 7", 7),
        ("LPOS l first", 0),
        ("LPOS l last RANK -1", 20_001),
        ("LINSERT l AFTER first second", 20_003),
        ("LINSERT l BEFORE last x", 20_004),
        ("LREM l 0 second", 1),
        ("LREM l -1 x", 1),
        ("LREM l 0 last", 1),
        ("LREM l 0 first", 1),
        ("LLEN l", 20_000),
    ] {
        assert_eq!(client.say(command), Value::Integer(wanted), "{command}");
    }
    for command in [
        "SORT s ALPHA LIMIT 0 1",
        "SORT s ALPHA STORE t",
        "SUNIONSTORE t s none",
        "ZUNIONSTORE t 2 z none",
        "ZUNION 2 z none",
    ] {
        let refused = client.say(command).text();
        assert!(
            refused.starts_with("ERR the answer is too"),
            "{command}: {refused:.80}"
        );
    }
}

#[test]
fn what_is_slow_is_what_the_setting_says() {
    let served = Served::new();
    let mut client = served.client();
    client.say("CONFIG SET slowlog-log-slower-than 0");
    client.say("SET k v");
    let noted = client.say("SLOWLOG GET 10");
    let noted = noted.items().iter().map(|one| format!("{one:?}"));
    assert!(
        noted.clone().any(|one| one.contains("Bulk")),
        "{:?}",
        noted.collect::<Vec<_>>()
    );
    let listed = client.say("CLIENT LIST").text();
    assert!(listed.contains(" cmd=client "), "{listed}");
    let mut waits = served.client();
    waits.send(&[b"BLPOP", b"none", b"0"]);
    let begun = Instant::now();
    while !client.say("CLIENT LIST").text().contains(" cmd=blpop ") {
        assert!(begun.elapsed() < LONG, "it is not shown");
    }
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
    // A script may run, and remove something; what adds is refused in it too.
    let release = b"if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
    assert_eq!(
        client.ask(&[b"EVAL", release, b"1", b"k", b"v"]),
        Value::Integer(1)
    );
    let adds = b"return redis.call('SET', KEYS[1], 'v')";
    let refused = client.ask(&[b"EVAL", adds, b"1", b"k"]).text();
    assert!(refused.contains("OOM command"), "{refused}");
    client.ask(&[
        b"FUNCTION",
        b"LOAD",
        b"#!lua name=l\nlocal f = function(keys) return redis.call('DEL', keys[1]) end\nredis.register_function('plain', f)\nredis.register_function{function_name='allowed', callback=f, flags={'allow-oom'}}",
    ]);
    assert!(
        client
            .say("FCALL plain 1 k")
            .text()
            .starts_with("OOM command")
    );
    assert_eq!(client.say("FCALL allowed 1 k"), Value::Integer(0));
    assert_eq!(client.say("DEL k"), Value::Integer(0));
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

#[test]
fn before_the_password_a_client_may_say_little() {
    let served = Served::with(ServeOptions {
        password: Some("secret".into()),
        ..options()
    });
    let mut client = served.client();
    client.socket.write_all(b"*11\r\n").unwrap();
    assert!(
        client
            .read()
            .text()
            .contains("unauthenticated multibulk length")
    );
    assert!(client.is_closed());
    let mut client = served.client();
    client
        .socket
        .write_all(b"*2\r\n$4\r\nECHO\r\n$16385\r\n")
        .unwrap();
    assert!(client.read().text().contains("unauthenticated bulk length"));
    assert!(client.is_closed());
    // With it in the same breath, everything.
    let mut client = served.client();
    let mut bytes = encoded(&[b"AUTH", b"secret"]);
    bytes.extend(encoded(&[b"SET", b"k", &[b'x'; 100_000]]));
    bytes.extend(encoded(&[&b"EXISTS"[..], b"k"].repeat(10)));
    client.socket.write_all(&bytes).unwrap();
    assert_eq!(client.read().text(), "OK");
    assert_eq!(client.read().text(), "OK");
    assert!(matches!(client.read(), Value::Integer(_)));
}

#[test]
fn what_is_kept_of_commands_and_transactions_is_counted() {
    let served = Served::new();
    let mut other = served.client();
    let mut client = served.client();
    // The places of many arguments, of which the last one is not there yet.
    let mut bytes = b"*300000\r\n$6\r\nEXISTS\r\n".to_vec();
    bytes.extend(b"$0\r\n\r\n".repeat(299_998));
    client.socket.write_all(&bytes).unwrap();
    let wait_for = |other: &mut crate::client::Client, fits: &dyn Fn(usize) -> bool, what: &str| {
        let begun = Instant::now();
        while !fits(buffered(&served)) {
            assert!(begun.elapsed() < LONG, "{what}: {}", buffered(&served));
            other.say("PING");
        }
    };
    let places = 299_000 * 8;
    wait_for(&mut other, &|now| now >= bytes.len() + places, "a command");
    client.socket.write_all(b"$1\r\nk\r\n").unwrap();
    assert_eq!(client.read(), Value::Integer(0));
    wait_for(&mut other, &|now| now < 1 << 20, "behind the command");
    // What waits for EXEC.
    client.say("MULTI");
    for _ in 0..20 {
        client.ask(&[b"SET", b"k", &[b'x'; 100_000]]);
    }
    wait_for(&mut other, &|now| now > 2_000_000, "a transaction");
    client.say("DISCARD");
    client.say("PING");
    wait_for(&mut other, &|now| now < 1 << 20, "behind the transaction");
}

/// As `printf 'PING\r\n' | nc` does it: the end comes with the last command.
#[test]
fn who_says_that_nothing_more_comes_is_answered_and_let_go() {
    let served = Served::with(ServeOptions {
        loops: 1,
        ..options()
    });
    // It keeps the loop busy meanwhile, so that both are told at once.
    let mut busy = served.client();
    let (many, mut answers) = (b"PING\r\n".repeat(20_000), vec![0; 20_000 * 7]);
    for i in 0..20 {
        let mut client = served.client();
        client.say("PING");
        let socket = &mut client.socket;
        socket.set_read_timeout(Some(LONG)).unwrap();
        busy.socket.write_all(&many).unwrap();
        let commands: &[u8] = match i % 2 {
            0 => b"PING\r\n",
            _ => b"PING\r\nBLPOP nothing 0\r\n",
        };
        socket.write_all(commands).unwrap();
        socket.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        socket.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, b"+PONG\r\n");
        busy.socket.read_exact(&mut answers).unwrap();
    }
}

#[test]
fn an_answer_that_is_too_large_is_refused_and_nothing_is_taken() {
    let served = Served::with(ServeOptions {
        max_buffers: 1 << 20,
        ..options()
    });
    let mut client = served.client();
    // More than a buffer each.
    for i in 0..150 {
        let (name, value) = (format!("{i:03}{}", "x".repeat(3900)), vec![b'v'; 10_000]);
        let name = name.as_bytes();
        client.ask(&[b"HSET", b"h", name, &value]);
        client.ask(&[b"RPUSH", b"l", &value]);
        client.ask(&[b"XADD", b"x", b"*", b"f", &value]);
        for copy in [b'a', b'b'] {
            let name = [&[copy], &name[..name.len() - 1]].concat();
            client.ask(&[b"SADD", b"s", &name]);
            client.ask(&[b"ZADD", b"z", b"1", &name]);
            client.ask(&[b"SET", &name, b"v"]);
        }
    }
    client.say("HSET small f v");
    for command in [
        "HRANDFIELD small -16777216",
        "HRANDFIELD h -1000",
        "HRANDFIELD h 150 WITHVALUES",
        "HGETALL h",
        "HVALS h",
        "LRANGE l 0 -1",
        "LPOP l 1500",
        "RPOP l 1500",
        "SMEMBERS s",
        "SUNION s none",
        "SDIFF s none",
        "SPOP s 299",
        "ZRANGE z 0 -1",
        "ZPOPMIN z 2000",
        "ZPOPMAX z 2000",
        "XRANGE x - +",
        "KEYS *",
        "SORT z ALPHA",
    ] {
        let answer = client.say(command).text();
        assert!(
            answer.starts_with("ERR the answer is too large"),
            "{command}: {answer:.80}"
        );
    }
    for (count, wanted) in [("LLEN l", 150), ("SCARD s", 300), ("ZCARD z", 300)] {
        assert_eq!(client.say(count), Value::Integer(wanted), "{count}");
    }
    // Of a short name and a long score nothing is lost either.
    let short: Vec<String> = (0..30_000).map(|i| format!("0.{i}123456789 {i}")).collect();
    for some in short.chunks(5000) {
        client.say(&format!("ZADD many {}", some.join(" ")));
    }
    let refused = client.say("ZPOPMIN many 30000").text();
    assert!(
        refused.starts_with("ERR the answer is too"),
        "{refused:.80}"
    );
    assert_eq!(client.say("ZCARD many"), Value::Integer(30_000));
    // A few of what is large are none of it.
    assert_eq!(client.say("HRANDFIELD h 3").items().len(), 3);
    assert!(matches!(client.say("SPOP s"), Value::Bulk(_)));
    assert_eq!(client.say("COPY h copied"), Value::Integer(1));
    assert_eq!(client.say("HLEN copied"), Value::Integer(150));
    // What is stored is no answer.
    assert_eq!(client.say("SUNIONSTORE t s none"), Value::Integer(299));
    assert_eq!(client.say("ZRANGESTORE y z 0 -1"), Value::Integer(300));
    // However near its end an error comes, it is whole, and the next command is not taken for it.
    client.ask(&[b"SET", b"k", &[b'v'; 1000]]);
    client.say("MULTI");
    for _ in 0..1200 {
        client.say("GET k");
    }
    client.say("SET late 1");
    client.say("BLPOP nothing 1");
    let all = client.say("EXEC");
    let all = all.items();
    assert_eq!(all.len(), 1202);
    assert!(all[1199].text().starts_with("ERR the answer is too large"));
    assert_eq!(all[1200].text(), "OK");
    assert_eq!(client.say("GET late").text(), "1");
    // All answers of a transaction are one; what changes something happens.
    client.say("MULTI");
    for _ in 0..3 {
        client.say("LRANGE l 0 59");
    }
    client.say("SET k v");
    let answers = client.say("EXEC");
    assert_eq!(answers.items()[0].items().len(), 60);
    assert!(answers.items()[2].text().starts_with("ERR the answer"));
    assert_eq!(answers.items()[3].text(), "OK");
    assert_eq!(client.say("HLEN h"), Value::Integer(150));
    assert_eq!(client.say("LRANGE l 0 49").items().len(), 50);
}
