//! Histories of concurrent operations on one map, and whether they are linearizable.
//!
//! A history is linearizable when its operations can be put in an order that agrees with the times
//! of calls and returns and in which each result is right. The search tries the orders, remembering
//! which sets of done operations with which entries led nowhere. Where all operations are on one key
//! each, those of each key are put in order for themselves, which comes to the same.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use terrace_mem::ConcurrentHybridMap;

/// What the map that is checked has in it.
pub type State = BTreeMap<u64, u32>;

#[derive(Debug, Clone, Copy)]
pub enum Op {
    Get(u64),
    Insert(u64, u32),
    Remove(u64),
    /// Sets the value if there is none.
    GetOrInsert(u64, u32),
    /// Adds to the value if there is one.
    Add(u64, u32),
    /// Removes the entry if it has this value.
    RemoveIf(u64, u32),
    First,
    Last,
    PopFirst,
    PopLast,
    Clear,
}

use Op::*;

impl Op {
    /// The key, where it is an operation on one.
    pub fn key(self) -> Option<u64> {
        match self {
            Get(key) | Insert(key, _) | Remove(key) => Some(key),
            GetOrInsert(key, _) | Add(key, _) | RemoveIf(key, _) => Some(key),
            First | Last | PopFirst | PopLast | Clear => None,
        }
    }

    fn act(self, map: &ConcurrentHybridMap<u64, u32>) -> Option<(u64, u32)> {
        let val = match self {
            First => return map.first(),
            Last => return map.last(),
            PopFirst => return map.pop_first(),
            PopLast => return map.pop_last(),
            Clear => {
                map.clear();
                return None;
            }
            Get(key) => map.get(&key),
            Insert(key, val) => map.insert(&key, val),
            Remove(key) => map.remove(&key),
            GetOrInsert(key, val) => Some(map.get_or_insert_with(&key, || val)),
            Add(key, n) => map.update(&key, |old| old.map(|val| val + n)),
            RemoveIf(key, val) => map.remove_if(&key, |old| *old == val),
        };
        Some((self.key()?, val?))
    }

    /// What it does to the entries, and returns, when nothing else happens meanwhile.
    fn act_alone(self, state: &mut State) -> Option<(u64, u32)> {
        let val = match self {
            First => return state.first_key_value().map(|(k, v)| (*k, *v)),
            Last => return state.last_key_value().map(|(k, v)| (*k, *v)),
            PopFirst => return state.pop_first(),
            PopLast => return state.pop_last(),
            Clear => {
                state.clear();
                return None;
            }
            Get(key) => state.get(&key).copied(),
            Insert(key, val) => state.insert(key, val),
            Remove(key) => state.remove(&key),
            GetOrInsert(key, val) => Some(*state.entry(key).or_insert(val)),
            Add(key, n) => state.get_mut(&key).map(|val| {
                *val += n;
                *val
            }),
            RemoveIf(key, val) if state.get(&key) == Some(&val) => state.remove(&key),
            RemoveIf(..) => None,
        };
        Some((self.key()?, val?))
    }
}

#[derive(Debug, Clone, Copy)]
struct Event {
    op: Op,
    result: Option<(u64, u32)>,
    call: usize,
    ret: usize,
}

#[derive(Default)]
pub struct History {
    clock: AtomicUsize,
    events: Mutex<Vec<Event>>,
}

impl History {
    /// Runs an operation and notes it down.
    pub fn run(&self, map: &ConcurrentHybridMap<u64, u32>, op: Op) -> Option<(u64, u32)> {
        let call = self.clock.fetch_add(1, Ordering::SeqCst);
        let result = op.act(map);
        let ret = self.clock.fetch_add(1, Ordering::SeqCst);
        let mut events = self.events.lock().unwrap();
        events.push(Event {
            op,
            result,
            call,
            ret,
        });
        result
    }

    /// Panics where there is no order that explains what was seen of a map that had `start`.
    pub fn check(&self, start: &State) {
        let mut events = self.events.lock().unwrap().clone();
        events.sort_by_key(|e| e.call);
        let keys: Option<BTreeSet<u64>> = events.iter().map(|e| e.op.key()).collect();
        let Some(keys) = keys else {
            return explain_all(&events, start.clone());
        };
        for key in keys {
            let of_key = events.iter().filter(|e| e.op.key() == Some(key));
            let start = start.get_key_value(&key).map(|(k, v)| (*k, *v));
            explain_all(
                &of_key.copied().collect::<Vec<_>>(),
                State::from_iter(start),
            );
        }
    }
}

fn explain_all(events: &[Event], start: State) {
    assert!(events.len() <= 64, "too many operations to check");
    assert!(
        explain(events, 0, start, &mut HashSet::new()),
        "no order explains what happened: {events:?}"
    );
}

fn explain(events: &[Event], done: u64, now: State, seen: &mut HashSet<(u64, State)>) -> bool {
    if done.count_ones() as usize == events.len() {
        return true;
    }
    if !seen.insert((done, now.clone())) {
        return false;
    }
    let open = |i: usize| done >> i & 1 == 0;
    let first_return = (0..events.len())
        .filter(|&i| open(i))
        .map(|i| events[i].ret)
        .min()
        .unwrap_or(0);
    (0..events.len()).filter(|&i| open(i)).any(|i| {
        let (e, mut next) = (&events[i], now.clone());
        // An operation that was called after another returned cannot come before it.
        e.call < first_return
            && e.op.act_alone(&mut next) == e.result
            && explain(events, done | 1 << i, next, seen)
    })
}
