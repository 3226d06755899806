//! What the server promises, each as a scenario that says what is wrong: shown to hold, and to find the fault that is
//! planted against it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::client::{Client, Served, Value, database, encoded, options};
use crate::slow_syncs;
use terrace::Database;
use terrace_serve::{AppendFsync, ServeOptions, Server};

/// What a scenario finds.
pub type Found = Result<(), String>;

/// Far longer than anything here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(60);

/// Whether a fault is planted: then who waits for an answer that does not come gives up soon.
pub static PLANTED: AtomicBool = AtomicBool::new(false);

fn same(got: &Value, wanted: Value, what: &str) -> Found {
    match *got == wanted {
        true => Ok(()),
        false => Err(format!("{what}: {got:?}, not {wanted:?}")),
    }
}

fn ok() -> Value {
    Value::Simple("OK".into())
}

fn text(text: &str) -> Value {
    Value::Bulk(text.as_bytes().to_vec())
}

/// Answers come in the order of the commands, also behind one that waits in the pool.
pub fn answers_are_in_order() -> Found {
    let served = Served::new();
    let mut client = served.client();
    for i in 0..20 {
        let number = i.to_string();
        let mut bytes = encoded(&[b"DBSIZE"]);
        bytes.extend(encoded(&[b"ECHO", number.as_bytes()]));
        std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
        same(&client.read(), Value::Integer(0), "DBSIZE")?;
        same(&client.read(), text(&number), "ECHO behind it")?;
    }
    Ok(())
}

/// A watched key that was changed and changed back counts as changed.
pub fn a_value_written_back_is_a_change() -> Found {
    let served = Served::new();
    let (mut one, mut other) = (served.client(), served.client());
    one.say("SET k 1");
    one.say("WATCH k");
    other.say("SET k 2");
    other.say("SET k 1");
    one.say("MULTI");
    one.say("SET k 3");
    same(&one.say("EXEC"), Value::Null, "EXEC behind a change")?;
    // And one that was not goes through.
    one.say("WATCH k");
    one.say("MULTI");
    one.say("SET k 3");
    same(
        &one.say("EXEC"),
        Value::Array(vec![ok()]),
        "EXEC without a change",
    )
}

/// Each collection has elements of its own.
pub fn a_number_is_used_once() -> Found {
    let served = Served::new();
    let mut client = served.client();
    client.say("HSET a f v");
    client.say("HSET b g w");
    same(
        &client.say("HGET b f"),
        Value::Null,
        "a field of another hash",
    )?;
    same(
        &client.say("HGETALL b"),
        Value::Array(vec![text("g"), text("w")]),
        "another hash",
    )?;
    client.say("DEL a");
    client.say("HSET a x y");
    same(&client.say("HLEN a"), Value::Integer(1), "a hash made anew")
}

/// With `always` nothing is answered before the sync that makes it durable.
pub fn always_waits_for_the_sync() -> Found {
    let dir = tempfile::tempdir().unwrap();
    let (disk, gate) = slow_syncs::disk(dir.path());
    let db = Database::open_on(disk, terrace::Options::new().memory(64 << 20)).unwrap();
    let options = ServeOptions {
        appendfsync: AppendFsync::Always,
        ..options()
    };
    let server = Server::start(db, options).unwrap();
    let address = server.addresses()[0];
    let (mut one, mut other) = (Client::new(address), Client::new(address));
    same(&one.say("SET first 1"), ok(), "SET")?;
    let _opens = gate.close();
    one.send(&[b"SET", b"k", b"v"]);
    let begun = Instant::now();
    while other.say("GET k") == Value::Null {
        assert!(begun.elapsed() < LONG, "it is not written");
    }
    // It is written; its answer is as near as the next lines of the loop, if it does not wait.
    std::thread::sleep(Duration::from_millis(200));
    one.socket.set_nonblocking(true).unwrap();
    let early = one.socket.peek(&mut [0]).is_ok();
    one.socket.set_nonblocking(false).unwrap();
    gate.open();
    let answer = one.read();
    drop(server);
    match early {
        true => Err("it was answered before the sync".into()),
        false => same(&answer, ok(), "SET behind the sync"),
    }
}

/// What is there all the while comes out of a scan.
pub fn scans_leave_nothing_out() -> Found {
    let served = Served::new();
    let mut client = served.client();
    for i in 0..500 {
        client.say(&format!("SADD s m{i}"));
        client.say(&format!("SET k{i} v"));
    }
    for scan in ["SSCAN s", "SCAN"] {
        let mut seen = std::collections::BTreeSet::new();
        let mut cursor = "0".to_owned();
        for step in 0.. {
            let answer = client.say(&format!("{scan} {cursor} COUNT 7"));
            cursor = answer.items()[0].text();
            seen.extend(answer.items()[1].items().iter().map(Value::text));
            // Comes and goes beside it.
            client.say(&format!("SADD s other{step}"));
            client.say(&format!("SREM s other{step}"));
            if cursor == "0" {
                break;
            }
        }
        let all = (0..500).filter(|i| {
            let name = if scan == "SCAN" { "k" } else { "m" };
            seen.contains(&format!("{name}{i}"))
        });
        let all = all.count();
        if all != 500 {
            return Err(format!("{scan} has found {all} of 500"));
        }
    }
    Ok(())
}

/// The count of a collection is what is in it.
pub fn counts_are_right() -> Found {
    let served = Served::new();
    let mut client = served.client();
    client.say("HSET h a 1 b 2 c 3");
    client.say("HDEL h b x");
    same(&client.say("HLEN h"), Value::Integer(2), "HLEN")?;
    client.say("ZADD z 1 a 2 b 3 c");
    client.say("ZREM z a");
    same(&client.say("ZCARD z"), Value::Integer(2), "ZCARD")
}

/// A key whose expiry was taken away stays, whatever the queue says.
pub fn a_kept_key_stays() -> Found {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(1_700_000_000_000));
    let clock = {
        let now = now.clone();
        Box::new(move || now.load(Ordering::SeqCst))
    };
    let db = database(dir.path(), 64 << 20);
    let server = Server::start_with(db, options(), clock, Vec::new()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    for key in ["kept", "later", "again", "hash"] {
        client.say(&format!("SET {key} v PX 1000"));
    }
    client.say("SET goes v PX 1001");
    client.say("PERSIST kept");
    client.say("PEXPIRE later 5000");
    client.say("SET again w");
    client.say("DEL hash");
    client.say("HSET hash f v");
    now.fetch_add(2000, Ordering::SeqCst);
    same(&client.say("GET goes"), Value::Null, "what has expired")?;
    let begun = Instant::now();
    while !client.say("INFO stats").text().contains("expired_keys:") || {
        let info = client.say("INFO stats").text();
        info.contains("expired_keys:0")
    } {
        if begun.elapsed() > LONG {
            return Err("nothing is removed".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    same(&client.say("GET kept"), text("v"), "PERSIST")?;
    same(&client.say("GET later"), text("v"), "PEXPIRE")?;
    same(&client.say("GET again"), text("w"), "SET over it")?;
    same(
        &client.say("HGET hash f"),
        text("v"),
        "another key of the name",
    )?;
    same(&client.say("PTTL later"), Value::Integer(3000), "PTTL")
}

/// The elements of a collection that a string was written over are removed.
pub fn nothing_is_left_over() -> Found {
    let dir = tempfile::tempdir().unwrap();
    let db = database(dir.path(), 64 << 20);
    let server = Server::start(db.clone(), options()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    client.say("HSET h a 1 b 2 c 3");
    client.say("SADD other x");
    client.say("SET h text");
    let name = db
        .structures()
        .into_iter()
        .find(|s| s.name.contains("elements"));
    let elements = db.tree(&name.unwrap().name).unwrap();
    let begun = Instant::now();
    // The set has its owner and a member.
    while elements.iter().unwrap().count() != 2 {
        // The planted fault is one that lasts; so a short while will do to find it.
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("elements of no key are left".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    same(
        &client.say("SMEMBERS other"),
        Value::Array(vec![text("x")]),
        "the other",
    )
}

/// Nothing is taken for a client that is gone.
pub fn nothing_is_taken_for_who_is_gone() -> Found {
    // One loop: what is said after the push is answered after whoever was woken has looked.
    let served = Served::with(ServeOptions {
        loops: 1,
        ..options()
    });
    let mut pusher = served.client();
    let mut gone = served.client();
    gone.send(&[b"BLPOP", b"l", b"0"]);
    let begun = Instant::now();
    while !pusher
        .say("INFO clients")
        .text()
        .contains("blocked_clients:1")
    {
        assert!(begun.elapsed() < LONG, "it does not wait");
    }
    drop(gone);
    pusher.say("RPUSH l x");
    same(&pusher.say("LLEN l"), Value::Integer(1), "LLEN")
}

/// A field that is written anew does not expire, whatever it did before.
pub fn a_field_written_anew_stays() -> Found {
    let dir = tempfile::tempdir().unwrap();
    let now = Arc::new(AtomicU64::new(1_700_000_000_000));
    let clock = {
        let now = now.clone();
        Box::new(move || now.load(Ordering::SeqCst))
    };
    let db = database(dir.path(), 64 << 20);
    let server = Server::start_with(db, options(), clock, Vec::new()).unwrap();
    let mut client = Client::new(server.addresses()[0]);
    client.say("HSET h written 1 goes 2");
    client.say("HPEXPIRE h 1000 FIELDS 2 written goes");
    client.say("HSET h written 3");
    now.fetch_add(1000, Ordering::SeqCst);
    same(&client.say("HGET h goes"), Value::Null, "what has expired")?;
    same(&client.say("HGET h written"), text("3"), "HSET over it")
}

/// What a transaction publishes is heard once, though it runs again in the pool.
pub fn a_message_is_heard_once() -> Found {
    let served = Served::new();
    let (mut listener, mut client) = (served.client(), served.client());
    listener.say("SUBSCRIBE news");
    // The loop leaves so large a dump to the pool.
    client.ask(&[b"SET", b"large", &[b'x'; 100_000]]);
    let Value::Bulk(dump) = client.say("DUMP large") else {
        return Err("no dump".into());
    };
    client.say("MULTI");
    client.say("PUBLISH news first");
    client.ask(&[b"RESTORE", b"copy", b"0", &dump]);
    let answers = Value::Array(vec![Value::Integer(1), ok()]);
    same(&client.say("EXEC"), answers, "EXEC")?;
    // A script that runs for long, and begins again.
    let script = b"redis.call('PUBLISH', 'news', 'second') local t = 0 for i = 1, 5000000 do t = t + i end return 1";
    same(
        &client.ask(&[b"EVAL", script, b"0"]),
        Value::Integer(1),
        "EVAL",
    )?;
    client.say("PUBLISH news third");
    for wanted in ["first", "second", "third"] {
        same(&listener.read().items()[2], text(wanted), "what is heard")?;
    }
    Ok(())
}

/// A client that waits for two lists is woken for each of them. The fault lets it look in the pool, as it does where it
/// has to wait for the disk or for others: there it is served for the first, and woken for the second meanwhile.
pub fn who_is_woken_while_it_is_served_gets_its_answer() -> Found {
    let served = Served::with(ServeOptions {
        loops: 1,
        ..options()
    });
    let (mut waits, mut pusher) = (served.client(), served.client());
    waits.send(&[b"BLPOP", b"a", b"b", b"0"]);
    let begun = Instant::now();
    while !pusher
        .say("INFO clients")
        .text()
        .contains("blocked_clients:1")
    {
        assert!(begun.elapsed() < LONG, "it does not wait");
    }
    for command in ["MULTI", "RPUSH a x", "RPUSH b y", "EXEC"] {
        pusher.say(command);
    }
    let patience = match PLANTED.load(Ordering::SeqCst) {
        true => Duration::from_secs(5),
        false => LONG,
    };
    waits.socket.set_read_timeout(Some(patience)).unwrap();
    match waits.socket.peek(&mut [0]) {
        Ok(1) => {}
        other => return Err(format!("BLPOP has no answer: {other:?}")),
    }
    same(&waits.read().items()[0], text("a"), "what BLPOP has from")
}

/// Two transactions that each watch what the other one writes: one of them sees that.
pub fn what_is_watched_stands_still() -> Found {
    let served = Served::new();
    let (mut one, mut other) = (served.client(), served.client());
    // The fault shows while the first one sleeps; a busy machine may take longer than that.
    for _ in 0..10 {
        one.say("MSET x 0 y 0");
        one.say("WATCH x");
        other.say("WATCH y");
        for (client, command) in [(&mut one, "SET y 1"), (&mut other, "SET x 1")] {
            client.say("MULTI");
            client.say(command);
        }
        // It has its keys, has looked, and has not written yet.
        one.say("DEBUG SLEEP 0.5");
        let parked = || served.server.host().counts.parked.load(Ordering::SeqCst);
        let before = parked();
        one.send(&[b"EXEC"]);
        let begun = Instant::now();
        while parked() == before {
            assert!(begun.elapsed() < LONG, "it does not run in the pool");
        }
        std::thread::sleep(Duration::from_millis(100));
        let other = other.say("EXEC");
        let one = one.read();
        if one != Value::Null && other != Value::Null {
            return Err("both transactions have passed over what the other one wrote".into());
        }
        if one == Value::Null && other == Value::Null {
            return Err("neither has happened".into());
        }
        if !PLANTED.load(Ordering::SeqCst) {
            break;
        }
    }
    Ok(())
}

/// What a loop hands to the pool after the stop was asked for is answered too.
pub fn what_was_begun_is_answered_at_a_stop() -> Found {
    let served = Served::with(ServeOptions {
        loops: 1,
        ..options()
    });
    let mut client = served.client();
    for key in [b"a", b"b"] {
        client.ask(&[b"SET", key, &[key[0]; 2000]]);
    }
    // Work for the loop, until the stop was asked for and the threads of the pool have looked; then for the pool.
    let many = 40;
    let mut bytes = encoded(&[b"PING"]).repeat(2);
    bytes.extend(encoded(&[b"LCS", b"a", b"b", b"LEN"]).repeat(many));
    bytes.extend(encoded(&[b"DBSIZE"]));
    let commands = || served.server.host().counts.commands.load(Ordering::SeqCst);
    let before = commands();
    std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
    let begun = Instant::now();
    while commands() == before {
        assert!(begun.elapsed() < LONG, "the loop does not begin");
    }
    served.server.stop().map_err(|error| error.to_string())?;
    for i in 0..many + 2 {
        client
            .try_read()
            .map_err(|error| format!("command {i}: {error}"))?;
    }
    match client.try_read() {
        Ok(answer) => same(&answer, Value::Integer(2), "DBSIZE"),
        Err(error) => Err(format!("the last command has no answer: {error}")),
    }
}
