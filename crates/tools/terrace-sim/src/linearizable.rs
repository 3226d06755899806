//! Is a history of one key linearizable? The search of Wing and Gong, with Lowe's memory of what
//! has been tried.
//!
//! It goes through orders of the operations, always taking next one that was called before any
//! other open one returned. What has been tried is remembered as the set of operations taken and
//! what there is then, because what can follow depends on nothing else.

use std::collections::HashSet;

use crate::event::{Event, Operation, Outcome};

/// A history with no order that explains it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The key.
    pub key: Vec<u8>,
    /// Its operations in the order of their calls, readable.
    pub events: Vec<String>,
    /// The most operations that some order explains.
    pub explained: usize,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(
            f,
            "the operations on key {:?} are not linearizable: no order explains more than {} of {}:",
            String::from_utf8_lossy(&self.key),
            self.explained,
            self.events.len()
        )?;
        self.events
            .iter()
            .try_for_each(|event| writeln!(f, "  {event}"))
    }
}

impl std::error::Error for Violation {}

/// What there is of a key.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    value: Option<Vec<u8>>,
    /// The value is gone from this time on.
    until: u64,
    now: u64,
}

impl State {
    /// The value as a reader sees it.
    fn seen(&self) -> Option<&Vec<u8>> {
        self.value.as_ref().filter(|_| self.now < self.until)
    }

    /// With another value, which is there until this time.
    fn with(&self, value: Option<&Vec<u8>>, until: u64) -> State {
        State {
            value: value.cloned(),
            // So that what differs in nothing is the same.
            until: value.map_or(NEVER, |_| until),
            now: self.now,
        }
    }
}

/// A value with this end stays.
const NEVER: u64 = u64::MAX;

/// What there is after an operation with this outcome, or `None` if it cannot have come now.
///
/// An operation whose outcome is unknown has done what it does in this state.
fn step(operation: &Operation, outcome: Option<&Outcome>, state: &State) -> Option<State> {
    let seen = state.seen();
    let changed = |changes: bool, value: &Vec<u8>, until: u64| match changes {
        true => (state.with(Some(value), until), Outcome::Changed(true)),
        false => (state.clone(), Outcome::Changed(false)),
    };
    let (after, answer) = match operation {
        Operation::Get => (state.clone(), Outcome::Value(seen.cloned())),
        Operation::Put(new) => (state.with(Some(new), NEVER), Outcome::Done),
        Operation::PutUntil(new, until) => (state.with(Some(new), *until), Outcome::Done),
        Operation::Delete => (state.with(None, NEVER), Outcome::Done),
        Operation::Insert(new) => changed(seen.is_none(), new, NEVER),
        Operation::Update(new) => changed(seen.is_some(), new, state.until),
        Operation::Remove => (state.with(None, NEVER), Outcome::Changed(seen.is_some())),
        Operation::ExpireAt(until) => match seen {
            Some(value) => changed(true, value, *until),
            None => (state.clone(), Outcome::Changed(false)),
        },
        Operation::Time(now) => {
            let later = State {
                now: state.now.max(*now),
                ..state.clone()
            };
            // What has expired is nothing.
            (later.with(later.seen(), later.until), Outcome::Done)
        }
    };
    outcome.is_none_or(|o| *o == answer).then_some(after)
}

/// A set of operations, by their index.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Taken(Vec<u64>);

impl Taken {
    fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 == 1
    }

    fn with(&self, i: usize) -> Taken {
        let mut more = self.clone();
        more.0[i / 64] |= 1 << (i % 64);
        more
    }

    fn first_missing(&self) -> usize {
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        full * 64
            + self
                .0
                .get(full)
                .map_or(0, |word| word.trailing_ones() as usize)
    }
}

/// Checks the operations on one key, which begins with `initial`.
pub fn check(key: &[u8], events: &[Event], initial: Option<&[u8]>) -> Result<(), Violation> {
    let mut events: Vec<&Event> = events.iter().collect();
    events.sort_by_key(|e| e.called);
    // What failed may have its effect at any later time.
    let returned = |e: &Event| {
        if e.outcome.is_none() {
            u64::MAX
        } else {
            e.returned
        }
    };
    let needed = events.iter().filter(|e| e.outcome.is_some()).count();

    let start = Taken(vec![0; events.len().div_ceil(64)]);
    let mut tried: HashSet<(Taken, State)> = HashSet::new();
    let begin = State {
        value: initial.map(<[u8]>::to_vec),
        until: NEVER,
        now: 0,
    };
    let mut open = vec![(start, begin, 0)];
    let mut explained = 0;
    while let Some((taken, state, done)) = open.pop() {
        if done == needed {
            return Ok(());
        }
        explained = explained.max(done);
        let mut earliest_return = u64::MAX;
        for (i, event) in events.iter().enumerate().skip(taken.first_missing()) {
            if event.called > earliest_return {
                // Something not taken had returned before this and all later ones were called.
                break;
            }
            if taken.has(i) {
                continue;
            }
            earliest_return = earliest_return.min(returned(event));
            let Some(after) = step(&event.operation, event.outcome.as_ref(), &state) else {
                continue;
            };
            let next = (taken.with(i), after);
            if tried.insert(next.clone()) {
                open.push((next.0, next.1, done + usize::from(event.outcome.is_some())));
            }
        }
    }
    Err(Violation {
        key: key.to_vec(),
        events: events.iter().map(|e| show(e)).collect(),
        explained,
    })
}

fn show(event: &Event) -> String {
    let outcome = match &event.outcome {
        Some(outcome) => format!("{outcome:?}"),
        None => "failed".to_owned(),
    };
    format!(
        "{}..{} thread {}: {:?} -> {outcome}",
        event.called, event.returned, event.thread, event.operation
    )
}
