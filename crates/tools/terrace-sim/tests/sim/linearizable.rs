//! The checker accepts what a register can do and refuses what it cannot.

use std::collections::BTreeMap;
use std::sync::Mutex;

use terrace_sim::{Event, History, Operation, Outcome, Rng, check_key};

fn event(called: u64, returned: u64, operation: Operation, outcome: Option<Outcome>) -> Event {
    Event {
        operation,
        outcome,
        called,
        returned,
        thread: 0,
    }
}

fn put(called: u64, returned: u64, value: &str) -> Event {
    event(
        called,
        returned,
        Operation::Put(value.into()),
        Some(Outcome::Done),
    )
}

fn get(called: u64, returned: u64, value: Option<&str>) -> Event {
    event(
        called,
        returned,
        Operation::Get,
        Some(Outcome::Value(value.map(|v| v.into()))),
    )
}

fn insert(called: u64, returned: u64, value: &str, done: bool) -> Event {
    event(
        called,
        returned,
        Operation::Insert(value.into()),
        Some(Outcome::Changed(done)),
    )
}

fn delete(called: u64, returned: u64) -> Event {
    event(called, returned, Operation::Delete, Some(Outcome::Done))
}

fn holds(events: &[Event]) -> bool {
    check_key(b"k", events, None).is_ok()
}

#[test]
fn sequential_histories_must_follow_the_register() {
    assert!(holds(&[]));
    assert!(holds(&[
        get(0, 1, None),
        put(2, 3, "a"),
        get(4, 5, Some("a")),
        delete(6, 7),
        get(8, 9, None)
    ]));
    assert!(!holds(&[get(0, 1, Some("a"))]));
    assert!(!holds(&[put(0, 1, "a"), get(2, 3, None)]), "a lost update");
    assert!(
        !holds(&[put(0, 1, "a"), put(2, 3, "b"), get(4, 5, Some("a"))]),
        "a stale read"
    );
    assert!(
        !holds(&[put(0, 1, "a"), delete(2, 3), get(4, 5, Some("a"))]),
        "a resurrected key"
    );
}

#[test]
fn concurrent_operations_may_come_in_either_order_but_in_one() {
    assert!(holds(&[
        put(0, 10, "a"),
        get(1, 2, None),
        get(3, 4, Some("a"))
    ]));
    assert!(
        !holds(&[put(0, 10, "a"), get(1, 2, Some("a")), get(3, 4, None)]),
        "time runs back"
    );
    let both = |first, second| {
        [
            put(0, 10, "a"),
            put(1, 9, "b"),
            get(11, 12, first),
            get(13, 14, second),
        ]
    };
    assert!(holds(&both(Some("a"), Some("a"))));
    assert!(holds(&both(Some("b"), Some("b"))));
    assert!(!holds(&both(Some("a"), Some("b"))));
    assert!(!holds(&both(None, None)));
}

#[test]
fn of_two_inserts_only_one_can_succeed() {
    assert!(holds(&[
        insert(0, 5, "a", true),
        insert(1, 6, "b", false),
        get(7, 8, Some("a"))
    ]));
    assert!(!holds(&[insert(0, 5, "a", true), insert(1, 6, "b", true)]));
    assert!(!holds(&[
        insert(0, 5, "a", false),
        insert(1, 6, "b", false)
    ]));
    assert!(holds(&[
        insert(0, 5, "a", true),
        delete(1, 6),
        insert(2, 7, "b", true)
    ]));
    let update = |done| {
        event(
            0,
            1,
            Operation::Update("x".into()),
            Some(Outcome::Changed(done)),
        )
    };
    let remove = |done| event(2, 3, Operation::Remove, Some(Outcome::Changed(done)));
    assert!(holds(&[update(false), remove(false)]));
    assert!(!holds(&[update(true)]) && !holds(&[remove(true)]));
}

#[test]
fn a_failed_operation_may_have_its_effect_at_any_later_time_or_never() {
    let failed = event(0, 1, Operation::Put("a".into()), None);
    assert!(holds(&[
        failed.clone(),
        get(2, 3, None),
        get(4, 5, Some("a"))
    ]));
    assert!(holds(&[failed.clone(), get(2, 3, None)]));
    assert!(!holds(&[
        failed.clone(),
        get(2, 3, Some("a")),
        get(4, 5, None)
    ]));
    assert!(
        !holds(&[
            get(0, 1, Some("a")),
            event(2, 3, Operation::Put("a".into()), None)
        ]),
        "before its call"
    );
}

#[test]
fn an_initial_value_counts() {
    assert!(check_key(b"k", &[get(0, 1, Some("x"))], Some(b"x")).is_ok());
    let violation = check_key(b"k", &[get(0, 1, None)], Some(b"x")).unwrap_err();
    assert_eq!(violation.explained, 0);
    assert!(violation.to_string().contains("not linearizable"));
}

/// Threads on one real register.
fn record(seed: u64) -> bool {
    let history = History::new();
    let register = Mutex::new(None::<Vec<u8>>);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (history, register) = (&history, &register);
            scope.spawn(move || {
                let mut rng = Rng::new(seed * 4 + thread);
                let mut recorder = history.recorder();
                for i in 0..200u64 {
                    let value = (thread * 1000 + i).to_le_bytes().to_vec();
                    match rng.below(4) {
                        0 => recorder.record(b"k", Operation::Get, || {
                            Some(Outcome::Value(register.lock().unwrap().clone()))
                        }),
                        1 => recorder.record(b"k", Operation::Put(value.clone()), || {
                            *register.lock().unwrap() = Some(value);
                            Some(Outcome::Done)
                        }),
                        2 => recorder.record(b"k", Operation::Remove, || {
                            Some(Outcome::Changed(register.lock().unwrap().take().is_some()))
                        }),
                        _ => recorder.record(b"k", Operation::Insert(value.clone()), || {
                            let mut held = register.lock().unwrap();
                            let free = held.is_none();
                            if free {
                                *held = Some(value);
                            }
                            Some(Outcome::Changed(free))
                        }),
                    };
                }
            });
        }
    });
    assert_eq!(history.len(), 800);
    history.check(&BTreeMap::new()).is_ok()
}

#[test]
fn recorded_histories_of_a_real_register_hold() {
    for seed in 0..20 {
        assert!(record(seed), "seed {seed}");
    }
}

#[test]
fn random_histories_with_one_answer_changed_are_refused() {
    // Made from an order, so that it must hold; the changed answer is a value that was never
    // written.
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut value: Option<String> = None;
        let mut events = Vec::new();
        for i in 0..60u64 {
            // Effects come at 10, 20, 30...; calls and returns reach over the neighbours.
            let (called, returned) = (i * 10 + 100 - rng.below(40), i * 10 + 100 + rng.below(40));
            let new = format!("v{i}");
            events.push(match rng.below(4) {
                0 => get(called, returned, value.as_deref()),
                1 => {
                    value = Some(new.clone());
                    put(called, returned, &new)
                }
                2 => {
                    value = None;
                    delete(called, returned)
                }
                _ => {
                    let free = value.is_none();
                    if free {
                        value = Some(new.clone());
                    }
                    insert(called, returned, &new, free)
                }
            });
        }
        assert!(holds(&events), "seed {seed}");
        events.push(get(2000, 2001, Some("nobody")));
        assert!(!holds(&events), "seed {seed}");
        events.pop();
        events.push(get(2000, 2001, value.as_deref()));
        events.push(get(
            2002,
            2003,
            if value.is_none() { Some("v0") } else { None },
        ));
        assert!(!holds(&events), "seed {seed}");
    }
}

fn time(called: u64, returned: u64, now: u64) -> Event {
    event(called, returned, Operation::Time(now), Some(Outcome::Done))
}

#[test]
fn what_expires_is_gone_from_its_time_on() {
    let until = |called, returned, value: &str, end| {
        let put = Operation::PutUntil(value.into(), end);
        event(called, returned, put, Some(Outcome::Done))
    };
    let expire = |called, returned, end, done| {
        let operation = Operation::ExpireAt(end);
        event(called, returned, operation, Some(Outcome::Changed(done)))
    };
    let put = || until(0, 1, "a", 10);
    assert!(holds(&[put(), time(2, 3, 9), get(4, 5, Some("a"))]));
    assert!(holds(&[put(), time(2, 3, 10), get(4, 5, None)]));
    assert!(!holds(&[put(), time(2, 3, 9), get(4, 5, None)]), "early");
    assert!(
        !holds(&[put(), time(2, 3, 10), get(4, 5, Some("a"))]),
        "shown behind its time"
    );
    // While the time goes on, either, but not back.
    for (first, second) in [(Some("a"), None), (Some("a"), Some("a")), (None, None)] {
        let gets = [get(3, 4, first), get(5, 6, second)];
        assert!(holds(&[&[put(), time(2, 9, 10)][..], &gets[..]].concat()));
    }
    let back = [put(), time(2, 9, 10), get(3, 4, None), get(5, 6, Some("a"))];
    assert!(!holds(&back), "it comes back");
    // What it is until is kept by an update, and by nothing else.
    let update = event(
        2,
        3,
        Operation::Update("b".into()),
        Some(Outcome::Changed(true)),
    );
    let kept = [put(), update, time(4, 5, 10), get(6, 7, None)];
    assert!(holds(&kept));
    let stays = [put(), expire(2, 3, u64::MAX, true), time(4, 5, 10)];
    assert!(holds(&[&stays[..], &[get(6, 7, Some("a"))]].concat()));
    let late = [put(), time(2, 3, 10), expire(4, 5, 20, true)];
    assert!(!holds(&late), "what is gone is not there to expire later");
    let late = [
        put(),
        time(2, 3, 10),
        expire(4, 5, 20, false),
        insert(6, 7, "b", true),
    ];
    assert!(holds(&late));
}
