//! How long calls took lately, by their kind.
//!
//! Invariant: figures are of the last minute, or since the first look where that is less; what was slow an hour ago is
//! not in them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace::{CallStats, Latency};

/// How far the figures look back.
const LATELY: Duration = Duration::from_secs(60);
/// Time between two looks that are kept.
const EVERY: Duration = Duration::from_secs(5);

/// How long calls of one kind took lately.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Called {
    /// Which calls.
    pub call: &'static str,
    /// Of how many calls one is timed.
    pub one_in: u64,
    /// How long those took that were timed.
    #[serde(flatten)]
    pub latency: Latency,
}

/// Figures of before, to tell what has come since.
#[derive(Debug, Default)]
pub struct Lately {
    kept: VecDeque<(Instant, Vec<CallStats>)>,
}

impl Lately {
    /// Kinds that were called lately, by figures of now. None at the first look.
    pub fn look(&mut self, now: Instant, calls: &[CallStats]) -> Vec<Called> {
        let young = |(then, _): &(Instant, _)| now.duration_since(*then) < LATELY;
        // The youngest of the old ones is what to compare with.
        while self.kept.len() > 1 && !self.kept.get(1).is_some_and(young) {
            self.kept.pop_front();
        }
        let called = self
            .kept
            .front()
            .map_or_else(Vec::new, |(_, before)| since(calls, before));
        let last = self.kept.back();
        if last.is_none_or(|(then, _)| now.duration_since(*then) >= EVERY) {
            self.kept.push_back((now, calls.to_vec()));
        }
        called
    }
}

/// What has come since figures of before.
pub fn since(calls: &[CallStats], before: &[CallStats]) -> Vec<Called> {
    let each = calls.iter().filter_map(|one| {
        let before = before.iter().find(|before| before.call == one.call);
        Some(Called {
            call: one.call.as_str(),
            one_in: one.call.one_in(),
            latency: one.since(before)?,
        })
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::{Database, Options};

    #[test]
    fn what_was_called_more_than_a_minute_ago_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), Options::new().memory(16 << 20)).unwrap();
        let users = db.tree("users").unwrap();
        let begin = Instant::now();
        let mut lately = Lately::default();
        let mut look = |seconds| {
            let called = lately.look(begin + Duration::from_secs(seconds), &db.stats().calls);
            let each = called.iter();
            each.map(|one| (one.call, one.latency.timed))
                .collect::<Vec<_>>()
        };
        let write = || {
            let mut batch = db.batch();
            batch.put(&users, "a", "b");
            db.write(batch, None).unwrap();
        };
        write();
        // When those were that came before the first look is not known.
        assert_eq!(look(0), []);
        write();
        db.transaction(|t| t.put(&users, "a", "c")).unwrap();
        assert_eq!(look(2), [("batch", 1), ("transaction", 1)]);
        assert_eq!(look(20), [("batch", 1), ("transaction", 1)]);
        write();
        assert_eq!(look(58), [("batch", 2), ("transaction", 1)]);
        // Since the look at 20 s.
        assert_eq!(look(81), [("batch", 1)]);
        assert_eq!(look(200), []);
    }
}
