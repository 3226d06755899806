//! The same commands to Redis and to this server have the same answers.

use std::collections::BTreeMap;

use crate::client::{Client, Served, Value};
use crate::oracle::Redis;
use crate::random_commands::{self, About, Random, Words};

/// Commands of which the order of the answer is left open.
const UNORDERED: &[&str] = &[
    "KEYS",
    "HKEYS",
    "HVALS",
    "SMEMBERS",
    "SUNION",
    "SINTER",
    "SDIFF",
    "SPOP",
    "SRANDMEMBER",
    "HRANDFIELD",
    "ZRANDMEMBER",
];

fn key(value: &Value) -> String {
    format!("{value:?}")
}

fn sorted(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(key);
    all
}

fn pairs(all: Vec<Value>) -> Vec<Value> {
    let pairs = all.chunks(2).map(|pair| Value::Array(pair.to_vec()));
    sorted(pairs.collect())
}

/// What of an answer has to be the same.
fn essence(name: &str, value: Value) -> Value {
    match value {
        Value::Error(text) => {
            let word = text.split(' ').next().unwrap_or_default();
            // What is said exactly, because clients look at it.
            let exact = [
                "unknown command",
                "wrong number of arguments for",
                "WRONGTYPE",
            ];
            match exact.iter().any(|e| text.contains(e)) && !text.contains("subcommand") {
                true => Value::Error(text),
                false => Value::Error(word.to_owned()),
            }
        }
        // What was said as a time from now on is a little later for the second one.
        Value::Integer(at)
            if name == "PEXPIRETIME" && (1_000_000_000_000..10_000_000_000_000).contains(&at) =>
        {
            Value::Integer(at / 100_000_000)
        }
        // How long it is pending depends on the clock.
        Value::Array(all) if name == "XPENDING" => {
            Value::Array(all.into_iter().map(timeless).collect())
        }
        Value::Array(all) if UNORDERED.contains(&name) => Value::Array(sorted(all)),
        Value::Set(all) => Value::Set(sorted(all)),
        Value::Array(all) if name == "HGETALL" => Value::Array(pairs(all)),
        Value::Map(all) => Value::Map(pairs(all)),
        Value::Array(all) if name.ends_with("SCAN") && all.len() == 2 => {
            let found = all[1].items().to_vec();
            let found = match name {
                "SCAN" | "SSCAN" => sorted(found),
                _ => pairs(found),
            };
            Value::Array(vec![all[0].clone(), Value::Array(found)])
        }
        other => other,
    }
}

/// A pending entry without its age.
fn timeless(value: Value) -> Value {
    match value {
        Value::Array(mut parts) if parts.len() == 4 => {
            parts[2] = Value::Integer(0);
            Value::Array(parts)
        }
        other => other,
    }
}

struct Both {
    redis: Client,
    ours: Client,
    /// Names of the commands of a transaction.
    queued: Option<Vec<String>>,
    said: Vec<String>,
    /// What was not the same, one for each command.
    differences: BTreeMap<String, String>,
}

impl Both {
    fn ask(&mut self, words: &Words) {
        let name = String::from_utf8_lossy(&words[0]).to_ascii_uppercase();
        let parts: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let text: Vec<String> = parts.iter().map(|p| p.escape_ascii().to_string()).collect();
        self.said.push(text.join(" "));
        let (theirs, ours) = (self.redis.ask(&parts), self.ours.ask(&parts));
        let queued = match name.as_str() {
            "MULTI" if self.queued.is_none() => {
                self.queued = Some(Vec::new());
                None
            }
            "EXEC" => self.queued.take(),
            "DISCARD" => {
                self.queued = None;
                None
            }
            _ => {
                if let Some(queued) = &mut self.queued
                    && theirs == Value::Simple("QUEUED".into())
                {
                    queued.push(name.clone());
                }
                None
            }
        };
        let essence_of = |value: Value| match (&queued, value) {
            (Some(names), Value::Array(all)) if all.len() == names.len() => {
                let all = all.into_iter().zip(names);
                Value::Array(all.map(|(value, name)| essence(name, value)).collect())
            }
            (_, value) => essence(&name, value),
        };
        let (theirs, ours) = (essence_of(theirs), essence_of(ours));
        if theirs != ours {
            let before = self.said.len().saturating_sub(12);
            let said = self.said[before..].join("\n");
            let different = format!("{said}\nredis: {theirs:?}\nours:  {ours:?}\n");
            self.differences.entry(name).or_insert(different);
            // What comes of it is no difference of its own.
            for client in [&mut self.redis, &mut self.ours] {
                client.say("DISCARD");
                client.say("FLUSHALL");
                client.say("SELECT 0");
            }
            self.queued = None;
        }
    }

    fn say(&mut self, words: &str) {
        self.ask(&words.split(' ').map(|w| w.as_bytes().to_vec()).collect());
    }

    /// Everything that is there.
    fn compare_all(&mut self) {
        for db in 0..2 {
            self.say(&format!("SELECT {db}"));
            let keys = self.redis.say("KEYS *");
            for key in keys.items() {
                let Value::Bulk(key) = key else { panic!() };
                // The registers of a HyperLogLog are stored in another form.
                if key.starts_with(b"p") {
                    continue;
                }
                let kind = self.redis.ask(&[b"TYPE", key]).text();
                let read: &[&[u8]] = match kind.as_str() {
                    "string" => &[b"GET"],
                    "hash" => &[b"HGETALL"],
                    "set" => &[b"SMEMBERS"],
                    "stream" => &[b"XRANGE", b"-", b"+"],
                    "zset" => &[b"ZRANGE", b"0", b"-1", b"WITHSCORES"],
                    _ => &[b"LRANGE", b"0", b"-1"],
                };
                let mut words: Words = vec![read[0].to_vec(), key.clone()];
                words.extend(read[1..].iter().map(|w| w.to_vec()));
                self.ask(&words);
                self.ask(&vec![b"PEXPIRETIME".to_vec(), key.clone()]);
                self.ask(&vec![b"TYPE".to_vec(), key.clone()]);
            }
            self.say("KEYS *");
        }
        self.say("SELECT 0");
    }
}

/// Commands of each kind in each version of the protocol.
fn commands() -> u64 {
    let factor = std::env::var("TERRACE_TEST_FACTOR").ok();
    let factor = factor.and_then(|f| f.parse::<f64>().ok()).unwrap_or(1.0);
    (20_000.0 / (2.0 * random_commands::ALL.len() as f64) * factor) as u64
}

#[test]
fn random_commands_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let seed = std::env::var("TERRACE_TEST_SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(1);
    let mut different = Vec::new();
    for protocol in ["2", "3"] {
        for about in random_commands::ALL {
            let mut both = Both {
                redis: Client::new(redis.address),
                ours: served.client(),
                queued: None,
                said: Vec::new(),
                differences: BTreeMap::new(),
            };
            both.redis.say("FLUSHALL");
            both.ours.say("FLUSHALL");
            for client in [&mut both.redis, &mut both.ours] {
                client.ask(&[b"HELLO", protocol.as_bytes()]);
            }
            let mut random = Random(seed * 100 + *about as u64);
            println!("{about:?} in protocol {protocol}, seed {seed}");
            for i in 0..commands() {
                both.ask(&random_commands::command(&mut random, *about));
                if i % 500 == 499 && both.queued.is_none() {
                    both.compare_all();
                }
            }
            if both.queued.is_some() {
                both.say("DISCARD");
            }
            both.compare_all();
            different.extend(both.differences.into_values());
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn pipelines_are_answered_as_by_redis() {
    let Some(redis) = Redis::start() else {
        return;
    };
    let served = Served::new();
    let mut clients = [Client::new(redis.address), served.client()];
    let mut random = Random(5);
    let kinds = [
        About::Strings,
        About::Hashes,
        About::Sorted,
        About::Lists,
        About::Sets,
    ];
    for round in 0..60 {
        let mut commands: Vec<Words> = Vec::new();
        while commands.len() < 50 {
            let about = kinds[random.below(kinds.len() as u64) as usize];
            let command = random_commands::command(&mut random, about);
            // What waits makes the round long.
            if !command[0].starts_with(b"B") {
                commands.push(command);
            }
        }
        let mut answers = Vec::new();
        for client in &mut clients {
            let mut bytes = Vec::new();
            for command in &commands {
                let parts: Vec<&[u8]> = command.iter().map(Vec::as_slice).collect();
                bytes.extend(crate::client::encoded(&parts));
            }
            std::io::Write::write_all(&mut client.socket, &bytes).unwrap();
            answers.push(
                (0..commands.len())
                    .map(|_| client.read())
                    .collect::<Vec<_>>(),
            );
        }
        for (i, command) in commands.iter().enumerate() {
            let name = String::from_utf8_lossy(&command[0]).to_ascii_uppercase();
            let (theirs, ours) = (answers[0][i].clone(), answers[1][i].clone());
            assert_eq!(
                essence(&name, theirs),
                essence(&name, ours),
                "round {round}, {:?}",
                command
                    .iter()
                    .map(|w| w.escape_ascii().to_string())
                    .collect::<Vec<_>>()
            );
        }
    }
}
