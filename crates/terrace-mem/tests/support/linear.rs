//! Histories of concurrent operations on one map, and whether they are linearizable.
//!
//! A history is linearizable when, for each key, its operations can be put in an order that
//! agrees with the times of calls and returns and in which each result is right. The search
//! tries the orders, remembering which sets of done operations with which value led nowhere.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use terrace_mem::ConcurrentHybridMap;

#[derive(Debug, Clone, Copy)]
pub enum Op {
    Get,
    Insert(u32),
    Remove,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    key: u64,
    op: Op,
    result: Option<u32>,
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
    pub fn run(&self, map: &ConcurrentHybridMap<u64, u32>, key: u64, op: Op) -> Option<u32> {
        let call = self.clock.fetch_add(1, Ordering::SeqCst);
        let result = match op {
            Op::Get => map.get(&key),
            Op::Insert(val) => map.insert(&key, val),
            Op::Remove => map.remove(&key),
        };
        let ret = self.clock.fetch_add(1, Ordering::SeqCst);
        self.events.lock().unwrap().push(Event {
            key,
            op,
            result,
            call,
            ret,
        });
        result
    }

    /// Panics where there is no order that explains what was seen.
    pub fn check(&self, start: impl Fn(u64) -> Option<u32>) {
        let events = self.events.lock().unwrap();
        let keys: HashSet<u64> = events.iter().map(|e| e.key).collect();
        for key in keys {
            let mut of_key: Vec<Event> = events.iter().filter(|e| e.key == key).copied().collect();
            of_key.sort_by_key(|e| e.call);
            assert!(of_key.len() <= 64, "too many operations on a key to check");
            let mut seen = HashSet::new();
            assert!(
                explain(&of_key, 0, start(key), &mut seen),
                "no order explains what happened to key {key}: {of_key:?}"
            );
        }
    }
}

fn explain(
    events: &[Event],
    done: u64,
    now: Option<u32>,
    seen: &mut HashSet<(u64, Option<u32>)>,
) -> bool {
    if done.count_ones() as usize == events.len() {
        return true;
    }
    if !seen.insert((done, now)) {
        return false;
    }
    let open = |i: usize| done >> i & 1 == 0;
    let first_return = (0..events.len())
        .filter(|&i| open(i))
        .map(|i| events[i].ret)
        .min()
        .unwrap_or(0);
    (0..events.len()).filter(|&i| open(i)).any(|i| {
        let e = &events[i];
        // An operation that was called after another returned cannot come before it.
        let fits = e.call < first_return && e.result == now;
        let next = match e.op {
            Op::Get => now,
            Op::Insert(val) => Some(val),
            Op::Remove => None,
        };
        fits && explain(events, done | 1 << i, next, seen)
    })
}
