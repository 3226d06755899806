//! Transactions of many clients happen one after the other, in an order that agrees with when they were seen.
//!
//! Each transaction reads some keys and writes a value of its own to all of them; so the values that were read say
//! which transaction came behind which one, and nothing has to be searched for.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Instant;

use crate::client::{Client, Served, Value, encoded};

/// What a client saw of a transaction.
#[derive(Clone, Debug)]
struct Seen {
    called: Instant,
    returned: Instant,
    read: String,
    /// Nothing if it only looked.
    wrote: Option<String>,
}

const KEYS: [&str; 3] = ["a", "b", "c"];

fn texts(answers: &[Value]) -> String {
    let first = answers[0].text();
    for other in answers {
        assert_eq!(other.text(), first, "half of a transaction was seen");
    }
    first
}

/// Reads all keys, and writes a value to them; alone, or behind a WATCH, or as a script.
fn change(client: &mut Client, how: usize, value: &str) -> Option<String> {
    let mut commands = Vec::new();
    let set = |key: &str| encoded(&[b"SET", key.as_bytes(), value.as_bytes()]);
    let get = |key: &str| encoded(&[b"GET", key.as_bytes()]);
    match how {
        0 => {
            commands.push(encoded(&[b"MULTI"]));
            commands.extend(KEYS.map(get));
            commands.extend(KEYS.map(set));
            commands.push(encoded(&[b"EXEC"]));
            std::io::Write::write_all(&mut client.socket, &commands.concat()).unwrap();
            let last = (0..commands.len()).map(|_| client.read()).last().unwrap();
            Some(texts(&last.items()[..KEYS.len()]))
        }
        1 => {
            client.say("WATCH a b c");
            let read = client.say("MGET a b c");
            client.say("MULTI");
            for key in KEYS {
                client.ask(&[b"SET", key.as_bytes(), value.as_bytes()]);
            }
            match client.say("EXEC") {
                Value::Null => None,
                _ => Some(texts(read.items())),
            }
        }
        _ => {
            let script = b"local all = redis.call('MGET', unpack(KEYS)) for _, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1]) end return all";
            let read = client.ask(&[b"EVAL", script, b"3", b"a", b"b", b"c", value.as_bytes()]);
            Some(texts(read.items()))
        }
    }
}

fn look(client: &mut Client) -> String {
    let mut commands = vec![encoded(&[b"MULTI"])];
    commands.extend(KEYS.map(|key| encoded(&[b"GET", key.as_bytes()])));
    commands.push(encoded(&[b"EXEC"]));
    std::io::Write::write_all(&mut client.socket, &commands.concat()).unwrap();
    let last = (0..commands.len()).map(|_| client.read()).last().unwrap();
    texts(last.items())
}

/// What is wrong with a history, if anything is.
fn check(history: &[Seen], last: &str) -> Result<(), String> {
    let mut behind: HashMap<&str, &Seen> = HashMap::new();
    for seen in history.iter().filter(|seen| seen.wrote.is_some()) {
        if behind.insert(&seen.read, seen).is_some() {
            return Err(format!(
                "two transactions have read {}: a change is lost",
                seen.read
            ));
        }
    }
    // The place of each value: the changes one behind the other.
    let (mut places, mut at) = (HashMap::from([("0", 0)]), "0");
    let mut order: Vec<&Seen> = Vec::new();
    while let Some(next) = behind.get(at) {
        order.push(next);
        at = next.wrote.as_deref().unwrap_or_default();
        places.insert(at, order.len());
    }
    if order.len() != behind.len() || at != last {
        return Err(format!(
            "{} of {} changes are in the order",
            order.len(),
            behind.len()
        ));
    }
    // No call comes before one that had returned before it was called: changes, and the reads between them.
    let place = |seen: &Seen| match &seen.wrote {
        Some(wrote) => places.get(wrote.as_str()).map(|at| 2 * at),
        None => places.get(seen.read.as_str()).map(|at| 2 * at + 1),
    };
    let mut all = Vec::new();
    for seen in history {
        let place = place(seen).ok_or(format!("{} was read and never written", seen.read))?;
        all.push((place, seen));
    }
    all.sort_by_key(|(place, seen)| (*place, seen.called));
    let mut latest: Option<Instant> = None;
    let mut of_this_place = (0, None);
    for (place, seen) in all {
        if place != of_this_place.0 {
            latest = latest.max(of_this_place.1);
            of_this_place = (place, None);
        }
        // Those behind it in the order must not have returned before one in front was called.
        if latest.is_some_and(|called| seen.returned < called) {
            return Err(format!("{seen:?} happens behind one that was called later"));
        }
        of_this_place.1 = of_this_place.1.max(Some(seen.called));
    }
    Ok(())
}

#[test]
fn transactions_happen_one_after_the_other() {
    let served = Served::new();
    let mut client = served.client();
    client.say("MSET a 0 b 0 c 0");
    let history = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (served, history) = (&served, &history);
            scope.spawn(move || {
                let mut client = served.client();
                for i in 0..80 {
                    let called = Instant::now();
                    let wrote = format!("{thread}-{i}");
                    let (read, wrote) = match i % 4 {
                        3 => (Some(look(&mut client)), None),
                        how => (change(&mut client, how, &wrote), Some(wrote)),
                    };
                    let returned = Instant::now();
                    if let Some(read) = read {
                        history.lock().unwrap().push(Seen {
                            called,
                            returned,
                            read,
                            wrote,
                        });
                    }
                }
            });
        }
    });
    let history = history.into_inner().unwrap();
    let last = client.say("GET a").text();
    assert_eq!(check(&history, &last), Ok(()));
    assert!(history.len() > 200, "{}", history.len());
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let begin = Instant::now();
    let at = |ms: u64| begin + std::time::Duration::from_millis(ms);
    let seen = |called, returned, read: &str, wrote: Option<&str>| Seen {
        called: at(called),
        returned: at(returned),
        read: read.to_owned(),
        wrote: wrote.map(str::to_owned),
    };
    let good = vec![
        seen(0, 10, "0", Some("x")),
        seen(5, 20, "x", Some("y")),
        seen(8, 30, "x", None),
        seen(25, 30, "y", None),
    ];
    assert_eq!(check(&good, "y"), Ok(()));
    // A change is lost; what was written is not there; an old value is read after a new one.
    let lost = vec![seen(0, 10, "0", Some("x")), seen(0, 10, "0", Some("y"))];
    assert!(check(&lost, "y").is_err());
    assert!(check(&good, "x").is_err());
    let mut stale = good.clone();
    stale.push(seen(40, 50, "x", None));
    assert!(check(&stale, "y").is_err());
    let backwards = vec![seen(20, 30, "0", Some("x")), seen(0, 10, "x", Some("y"))];
    assert!(check(&backwards, "y").is_err());
}

#[test]
fn of_two_that_watch_what_the_other_writes_one_happens_at_most() {
    let served = Served::new();
    let start = std::sync::Barrier::new(2);
    let both: Vec<Vec<bool>> = std::thread::scope(|scope| {
        let (served, start) = (&served, &start);
        let threads = [("x", "y"), ("y", "x")].map(|(own, other)| {
            scope.spawn(move || {
                let mut client = served.client();
                let mut happened = Vec::new();
                for round in 0..150 {
                    let (own, other) = (format!("{own}{round}"), format!("{other}{round}"));
                    start.wait();
                    client.say(&format!("WATCH {own}"));
                    let was_there = client.say(&format!("GET {own}")) != Value::Null;
                    start.wait();
                    client.say("MULTI");
                    client.say(&format!("SET {other} 1"));
                    let happens = client.say("EXEC") != Value::Null;
                    happened.push(happens && !was_there);
                }
                happened
            })
        });
        threads.map(|thread| thread.join().unwrap()).into()
    });
    for (round, (one, other)) in both[0].iter().zip(&both[1]).enumerate() {
        assert!(one != other, "round {round}: {one} and {other}");
    }
    // A watched key of another database counts as well.
    let (mut one, mut other) = (served.client(), served.client());
    one.say("WATCH elsewhere");
    one.say("SELECT 3");
    one.say("MULTI");
    one.say("SET k 1");
    other.say("SET elsewhere 1");
    assert_eq!(one.say("EXEC"), Value::Null);
    one.say("MULTI");
    one.say("SET k 1");
    assert_eq!(one.say("EXEC").items().len(), 1);
}
