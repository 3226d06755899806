//! Is a history of one key linearizable? The search of Wing and Gong, with Lowe's memory of what
//! has been tried.
//!
//! It goes through orders of the operations, always taking next one that was called before any
//! other open one returned. What has been tried is remembered as the set of operations taken and
//! the value then, because what can follow depends on nothing else.

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

/// The value after an operation with this outcome, or `None` if it cannot have come now.
///
/// An operation whose outcome is unknown has done what it does in this state.
fn step(
    operation: &Operation,
    outcome: Option<&Outcome>,
    value: Option<&[u8]>,
) -> Option<Option<Vec<u8>>> {
    let now = || value.map(<[u8]>::to_vec);
    let (after, answer) = match operation {
        Operation::Get => (now(), Outcome::Value(now())),
        Operation::Put(new) => (Some(new.clone()), Outcome::Done),
        Operation::Delete => (None, Outcome::Done),
        Operation::Insert(new) if value.is_none() => (Some(new.clone()), Outcome::Changed(true)),
        Operation::Update(new) if value.is_some() => (Some(new.clone()), Outcome::Changed(true)),
        Operation::Insert(_) | Operation::Update(_) => (now(), Outcome::Changed(false)),
        Operation::Remove => (None, Outcome::Changed(value.is_some())),
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
    let mut tried: HashSet<(Taken, Option<Vec<u8>>)> = HashSet::new();
    let mut open = vec![(start, initial.map(<[u8]>::to_vec), 0)];
    let mut explained = 0;
    while let Some((taken, value, done)) = open.pop() {
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
            let Some(after) = step(&event.operation, event.outcome.as_ref(), value.as_deref())
            else {
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
