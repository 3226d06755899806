//! Much that is removed at a time goes in steps, and what is left is right.

use crate::client::{Client, Served, Value, encoded};

/// More than are gathered before some are written.
const MANY: usize = 20_000;

fn records(served: &Served) -> u64 {
    served.server.host().store.db.stats().log.records
}

/// Adds many, a thousand with one command: what `words` says of each.
fn add(client: &mut Client, start: &[&str], words: impl Fn(usize) -> Vec<String>) {
    for from in (0..MANY).step_by(1000) {
        let all: Vec<String> = (from..from + 1000).flat_map(&words).collect();
        let mut command: Vec<&[u8]> = start.iter().map(|word| word.as_bytes()).collect();
        command.extend(all.iter().map(|word| word.as_bytes()));
        assert!(matches!(client.ask(&command), Value::Integer(_)));
    }
}

fn number(i: usize) -> Vec<String> {
    vec![format!("{i:05}")]
}

fn scored(i: usize) -> Vec<String> {
    vec![i.to_string(), format!("{i:05}")]
}

/// Says a command, which has to be written in several steps.
fn in_steps(served: &Served, client: &mut Client, command: &str) -> Value {
    let before = records(served);
    let answer = client.say(command);
    let steps = records(served) - before;
    assert!(steps >= 2, "{command} was written in {steps} steps");
    answer
}

#[test]
fn parts_of_sorted_sets_go_in_steps() {
    let served = Served::new();
    let mut client = served.client();
    let most = MANY as i64 - 2000;
    for (command, first, last) in [
        (
            format!("ZREMRANGEBYRANK z 1000 {}", MANY - 1001),
            "00999",
            "19000",
        ),
        (
            format!("ZREMRANGEBYSCORE z (999 {}", MANY - 1001),
            "00999",
            "19000",
        ),
        (format!("ZREMRANGEBYRANK z {} -1", 2000), "01999", ""),
        (format!("ZREMRANGEBYRANK z 0 {}", MANY - 2001), "", "18000"),
    ] {
        client.say("DEL z");
        add(&mut client, &["ZADD", "z"], scored);
        assert_eq!(
            in_steps(&served, &mut client, &command),
            Value::Integer(most),
            "{command}"
        );
        assert_eq!(client.say("ZCARD z"), Value::Integer(2000));
        let left = client.say("ZRANGE z 0 -1");
        let left: Vec<String> = left.items().iter().map(Value::text).collect();
        assert_eq!(left.len(), 2000);
        if !first.is_empty() {
            assert!(left.iter().any(|m| m == first), "{command}");
        }
        if !last.is_empty() {
            assert!(left.iter().any(|m| m == last), "{command}");
        }
        let gone = [first, last].iter().filter(|m| !m.is_empty()).count();
        let beside = match (first, last) {
            ("", last) => last.parse::<usize>().unwrap() - 1,
            (first, _) => first.parse::<usize>().unwrap() + 1,
        };
        assert!(gone > 0 && !left.contains(&format!("{beside:05}")));
        assert_eq!(client.say(&format!("ZSCORE z {beside:05}")), Value::Null);
    }
    client.say("DEL z");
    add(&mut client, &["ZADD", "z"], |i| {
        vec!["7".to_owned(), format!("{i:05}")]
    });
    let command = "ZREMRANGEBYLEX z [00500 (19000";
    let answer = in_steps(&served, &mut client, command);
    assert_eq!(answer, Value::Integer(18_500));
    assert_eq!(client.say("ZCOUNT z -inf +inf"), Value::Integer(1500));
    client.say("DEL z");
    add(&mut client, &["ZADD", "z"], scored);
    let popped = in_steps(&served, &mut client, "ZPOPMAX z 15000");
    assert_eq!(popped.items().len(), 30_000);
    assert_eq!(popped.items()[0].text(), "19999");
    assert_eq!(popped.items()[29_998].text(), "05000");
    let popped = client.say("ZPOPMIN z 6000");
    assert_eq!(popped.items().len(), 10_000);
    assert_eq!(client.say("EXISTS z"), Value::Integer(0));
}

#[test]
fn ends_of_lists_and_members_of_sets_go_in_steps() {
    let served = Served::new();
    let mut client = served.client();
    add(&mut client, &["RPUSH", "l"], number);
    let answer = in_steps(&served, &mut client, "LTRIM l 9500 10499");
    assert_eq!(answer.text(), "OK");
    let left = client.say("LRANGE l 0 -1");
    let left: Vec<String> = left.items().iter().map(Value::text).collect();
    let wanted: Vec<String> = (9500..10_500).flat_map(number).collect();
    assert_eq!(left, wanted);
    client.say("DEL l");
    add(&mut client, &["RPUSH", "l"], number);
    let popped = in_steps(&served, &mut client, "RPOP l 19000");
    assert_eq!(popped.items().len(), 19_000);
    assert_eq!(popped.items()[18_999].text(), "01000");
    assert_eq!(client.say("LLEN l"), Value::Integer(1000));
    assert_eq!(client.say("LINDEX l -1").text(), "00999");
    add(&mut client, &["SADD", "s"], number);
    let popped = in_steps(&served, &mut client, "SPOP s 19000");
    assert_eq!(popped.items().len(), 19_000);
    assert_eq!(client.say("SCARD s"), Value::Integer(1000));
    assert_eq!(client.say("SMEMBERS s").items().len(), 1000);
    assert_eq!(client.say("SPOP s 5000").items().len(), 1000);
    assert_eq!(client.say("EXISTS s"), Value::Integer(0));
    // Named one by one.
    let all: Vec<String> = (0..MANY - 10).flat_map(number).collect();
    let all = all.join(" ");
    add(&mut client, &["SADD", "s"], number);
    let removed = in_steps(&served, &mut client, &format!("SREM s {all}"));
    assert_eq!(removed, Value::Integer(19_990));
    add(&mut client, &["HSET", "h"], |i| {
        [number(i), number(i)].concat()
    });
    let removed = in_steps(&served, &mut client, &format!("HDEL h {all}"));
    assert_eq!(removed, Value::Integer(19_990));
    add(&mut client, &["ZADD", "z"], scored);
    let removed = in_steps(&served, &mut client, &format!("ZREM z {all}"));
    assert_eq!(removed, Value::Integer(19_990));
    for count in ["SCARD s", "HLEN h", "ZCARD z"] {
        assert_eq!(client.say(count), Value::Integer(10), "{count}");
    }
}

#[test]
fn entries_of_streams_and_what_is_pending_go_in_steps() {
    let served = Served::new();
    let mut client = served.client();
    let fill = |client: &mut Client| {
        let add =
            |i: usize| encoded(&[b"XADD", b"s", format!("{}-1", i + 1).as_bytes(), b"f", b"v"]);
        for from in (0..MANY).step_by(1000) {
            let bytes: Vec<u8> = (from..from + 1000).flat_map(add).collect();
            std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
            (0..1000).for_each(|_| assert!(matches!(client.read(), Value::Bulk(_))));
        }
    };
    fill(&mut client);
    client.say("XGROUP CREATE s g 0");
    client.say("XGROUP CREATE s h 0");
    for group in ["g", "h"] {
        let given = client.say(&format!("XREADGROUP GROUP {group} c STREAMS s >"));
        assert_eq!(given.items()[0].items()[1].items().len(), MANY);
    }
    client.say("XGROUP CREATECONSUMER s h other");
    let had = in_steps(&served, &mut client, "XGROUP DELCONSUMER s h c");
    assert_eq!(had, Value::Integer(MANY as i64));
    assert_eq!(client.say("XPENDING s h").items()[0], Value::Integer(0));
    assert_eq!(client.say("XINFO CONSUMERS s h").items().len(), 1);
    let gone = in_steps(&served, &mut client, "XGROUP DESTROY s g");
    assert_eq!(gone, Value::Integer(1));
    client.say("XGROUP CREATE s g 0");
    assert_eq!(client.say("XPENDING s g").items()[0], Value::Integer(0));
    assert_eq!(client.say("XINFO CONSUMERS s g").items().len(), 0);
    let gone = in_steps(&served, &mut client, "XTRIM s MAXLEN 1000");
    assert_eq!(gone, Value::Integer(19_000));
    assert_eq!(client.say("XLEN s"), Value::Integer(1000));
    let first = client.say("XRANGE s - + COUNT 1");
    assert_eq!(first.items()[0].items()[0].text(), "19001-1");
    let gone = client.say("XTRIM s MINID 19501-1");
    assert_eq!(gone, Value::Integer(500));
    assert_eq!(client.say("XRANGE s - +").items().len(), 500);
    // A name that is longer than any consumer's can be.
    let name = vec![b'n'; 5000];
    client.say("MULTI");
    client.ask(&[b"XGROUP", b"DELCONSUMER", b"s", b"g", &name]);
    client.say("SET k v");
    let answers = client.say("EXEC");
    assert_eq!(answers.items()[0], Value::Integer(0));
    assert_eq!(client.say("GET k").text(), "v");
}
