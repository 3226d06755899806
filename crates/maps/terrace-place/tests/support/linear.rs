//! Whether what threads saw of single keys can be explained by one order.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use terrace_place::{Kind, PlacedTree, Plain, Sought};

#[derive(Debug, Clone, Copy)]
pub enum Op {
    Get(u64),
    Insert(u64, u64),
    Remove(u64),
    /// Writes over what is there.
    Update(u64, u64),
    /// Puts in what is not there.
    OrInsert(u64, u64),
}

impl Op {
    fn key(self) -> u64 {
        match self {
            Op::Get(key) | Op::Insert(key, _) | Op::Remove(key) => key,
            Op::Update(key, _) | Op::OrInsert(key, _) => key,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Event {
    op: Op,
    result: Option<u64>,
    call: usize,
    ret: usize,
}

#[derive(Debug, Default)]
pub struct History {
    clock: AtomicUsize,
    events: Mutex<Vec<Event>>,
}

impl History {
    /// Runs an operation and notes it down.
    pub fn run<T: Kind<u64, u64, Plain>>(&self, tree: &PlacedTree<u64, u64, Plain, T>, op: Op)
    where
        u64: Sought<T>,
    {
        let call = self.clock.fetch_add(1, Ordering::SeqCst);
        let result = match op {
            Op::Get(key) => tree.get(&key),
            Op::Insert(key, val) => tree.insert(key, val).unwrap(),
            Op::Remove(key) => tree.remove(&key),
            Op::Update(key, val) => tree.update(&key, |old| std::mem::replace(old, val)),
            Op::OrInsert(key, val) => Some(tree.get_or_insert_with(key, || val).unwrap()),
        };
        let ret = self.clock.fetch_add(1, Ordering::SeqCst);
        self.events.lock().unwrap().push(Event {
            op,
            result,
            call,
            ret,
        });
    }

    /// Panics where no order explains the results; `start` is what each key had.
    pub fn check(&self, start: impl Fn(u64) -> Option<u64>) {
        let events = self.events.lock().unwrap();
        let keys: HashSet<u64> = events.iter().map(|e| e.op.key()).collect();
        for key in keys {
            let of: Vec<Event> = events
                .iter()
                .filter(|e| e.op.key() == key)
                .copied()
                .collect();
            assert!(
                explain(&of, 0, start(key), &mut HashSet::new()),
                "no order explains {of:?}"
            );
        }
    }
}

fn explain(
    events: &[Event],
    done: u64,
    now: Option<u64>,
    seen: &mut HashSet<(u64, Option<u64>)>,
) -> bool {
    if done.count_ones() as usize == events.len() {
        return true;
    }
    if !seen.insert((done, now)) {
        return false;
    }
    let open = |i: &usize| done >> i & 1 == 0;
    let first = (0..events.len()).filter(open).map(|i| events[i].ret).min();
    (0..events.len()).filter(open).any(|i| {
        let event = &events[i];
        let (next, result) = match event.op {
            Op::Get(_) => (now, now),
            Op::Insert(_, val) => (Some(val), now),
            Op::Remove(_) => (None, now),
            Op::Update(_, val) => (now.map(|_| val), now),
            Op::OrInsert(_, val) => (now.or(Some(val)), now.or(Some(val))),
        };
        Some(event.call) < first
            && event.result == result
            && explain(events, done | 1 << i, next, seen)
    })
}
