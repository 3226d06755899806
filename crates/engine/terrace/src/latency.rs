//! How long calls take, by their kind.
//!
//! To ask for the time takes as long as a tenth of a hot read, so of quick calls only one in [`ONE_IN`] is timed, and
//! which of them is left to chance: a program that does the same again and again is not always timed at the same step.
//! Invariant: who is not timed counts one number of its thread down, and nothing else.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use terrace_base::checksum::mix;
use terrace_base::thread_number;

use crate::histogram::{Histogram, Shared, Summary, quantile};

/// One call of this many is timed, about.
const ONE_IN: u64 = 64;

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Call {
    /// One record is read by its key.
    Get,
    /// One record is stored or deleted, without looking what was there.
    Put,
    /// One record is changed by what was there, with the time of the function that says how: `update`, `merge`,
    /// `insert`, `remove`.
    Update,
    /// The next records of a range are read, 64 to 1,024 together.
    Range,
    /// A batch is written.
    Batch,
    /// A transaction from its beginning to its commit, with all its attempts and the time of its function; not one that
    /// is committed by hand.
    Transaction,
}

impl Call {
    /// All of them.
    pub const ALL: [Call; 6] = [
        Call::Get,
        Call::Put,
        Call::Update,
        Call::Range,
        Call::Batch,
        Call::Transaction,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Call::Get => "get",
            Call::Put => "put",
            Call::Update => "update",
            Call::Range => "range",
            Call::Batch => "batch",
            Call::Transaction => "transaction",
        }
    }

    /// Of how many calls one is timed, by chance: all batches and transactions, one in 64 of the others.
    pub fn one_in(self) -> u64 {
        match self {
            Call::Batch | Call::Transaction => 1,
            _ => ONE_IN,
        }
    }
}

/// How long calls of one kind took since the opening, those that were timed.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct CallStats {
    /// Which calls.
    pub call: Call,
    /// How long they took; the longest of those that were timed.
    pub latency: Summary,
    /// The same as counts: a duration in nanoseconds, and how many calls took at most that and longer than the one
    /// before.
    pub buckets: Vec<(u64, u64)>,
}

/// How long calls took in some stretch of time, in nanoseconds, up to a sixteenth more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// How many were timed.
    pub timed: u64,
    /// Half of them took at most this.
    pub p50_ns: u64,
    /// All but one in a hundred.
    pub p99_ns: u64,
    /// All but one in a thousand.
    pub p999_ns: u64,
    /// All of them.
    pub longest_ns: u64,
}

impl CallStats {
    /// How long the calls took that were timed since earlier figures of the same database, or since its opening if
    /// it was opened again meanwhile; `None` if there were none.
    pub fn since(&self, before: Option<&CallStats>) -> Option<Latency> {
        let before = before.filter(|before| before.latency.count <= self.latency.count);
        let old = before.map_or(&[][..], |before| &before.buckets);
        let mut old = old.iter().peekable();
        let mut grown = Vec::with_capacity(self.buckets.len());
        for &(bound, count) in &self.buckets {
            while old.next_if(|(earlier, _)| *earlier < bound).is_some() {}
            let was = old.next_if(|(earlier, _)| *earlier == bound);
            let count = count.saturating_sub(was.map_or(0, |(_, count)| *count));
            if count > 0 {
                grown.push((bound, count));
            }
        }
        let longest_ns = grown.last()?.0.min(self.latency.max_ns);
        let at_most = |share| quantile(&grown, share).min(longest_ns);
        Some(Latency {
            timed: grown.iter().map(|(_, count)| count).sum(),
            p50_ns: at_most(0.5),
            p99_ns: at_most(0.99),
            p999_ns: at_most(0.999),
            longest_ns,
        })
    }
}

thread_local! {
    /// Calls of this thread that are not timed before the next one that is.
    static UNTIMED: Cell<u64> = const { Cell::new(0) };
    /// How often that was drawn.
    static DRAWN: Cell<u64> = const { Cell::new(0) };
}

/// Whether the call that begins may be timed: if so it goes by [`Latencies::timed`], which knows.
#[inline(always)]
pub fn is_due() -> bool {
    UNTIMED.with(|untimed| {
        let left = untimed.get();
        if left == 0 {
            return true;
        }
        untimed.set(left - 1);
        false
    })
}

/// Whether a call that [`is_due`] is timed, and which one is next. The first one of a thread is as any other.
#[cold]
fn is_drawn() -> bool {
    let drawn = DRAWN.get();
    DRAWN.set(drawn + 1);
    let random = mix(thread_number() as u64, drawn);
    if drawn == 0 {
        let first = random % ONE_IN;
        UNTIMED.set(first.saturating_sub(1));
        return first == 0;
    }
    // Every number up to twice the mean, equally often.
    UNTIMED.set(random % (2 * ONE_IN - 1));
    true
}

#[cold]
fn began() -> Option<Instant> {
    is_drawn().then(Instant::now)
}

/// The times of a database's calls.
#[derive(Default)]
pub struct Latencies {
    /// Those of kinds that were not called yet take no memory.
    of: [OnceLock<Shared>; Call::ALL.len()],
}

impl Latencies {
    /// Calls, and times it if it is drawn: for those that [`is_due`] has chosen.
    #[cold]
    #[inline(never)]
    pub fn timed<T>(&self, call: Call, calls: impl FnOnce() -> T) -> T {
        if !is_drawn() {
            return calls();
        }
        self.timed_always(call, calls)
    }

    /// Calls and times it.
    pub fn timed_always<T>(&self, call: Call, calls: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let answer = calls();
        self.took(call, began.elapsed());
        answer
    }

    /// When a call has begun, if it is to be timed.
    #[inline(always)]
    pub fn begin(&self) -> Option<Instant> {
        match is_due() {
            true => began(),
            false => None,
        }
    }

    /// Ends it.
    #[inline(always)]
    pub fn end(&self, call: Call, began: Option<Instant>) {
        if let Some(began) = began {
            self.took(call, began.elapsed());
        }
    }

    /// A call has taken so long.
    #[cold]
    pub fn took(&self, call: Call, time: Duration) {
        self.of[call as usize]
            .get_or_init(Shared::default)
            .record(time);
    }

    /// The figures, of all kinds in the order of [`Call::ALL`].
    pub fn stats(&self) -> Vec<CallStats> {
        let one = |call: Call| {
            let counted = self.of[call as usize].get();
            let counted = counted.map_or_else(Histogram::default, Shared::snapshot);
            CallStats {
                call,
                latency: counted.summary(),
                buckets: counted.buckets(),
            }
        };
        Call::ALL.map(one).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_timed() -> bool {
        is_due() && is_drawn()
    }

    #[test]
    fn one_call_in_so_many_is_timed_and_none_is_preferred() {
        // Threads of one call each, and one of many: the same share of either.
        let of_one = (0..6400)
            .filter(|_| std::thread::spawn(is_timed).join().unwrap())
            .count();
        let of_many = (0..640_000).filter(|_| is_timed()).count();
        assert!((50..170).contains(&of_one), "{of_one}");
        assert!((9_700..10_300).contains(&of_many), "{of_many}");
        // Every second call is of another kind: each is timed as often as the other.
        let kinds = [0, 1].map(|kind| (0..320_000).filter(|n| is_timed() && n % 2 == kind).count());
        assert!(
            kinds.iter().all(|n| (2_300..2_700).contains(n)),
            "{kinds:?}"
        );
    }

    #[test]
    fn kinds_are_counted_apart_and_stretches_of_time_too() {
        let latencies = Latencies::default();
        (1..=1000).for_each(|n| latencies.took(Call::Get, Duration::from_nanos(n)));
        latencies.took(Call::Batch, Duration::from_millis(3));
        let early = latencies.stats();
        let of = |stats: &[CallStats], call: Call| stats[call as usize].clone();
        assert!(
            early
                .iter()
                .zip(Call::ALL)
                .all(|(one, call)| one.call == call)
        );
        let gets = of(&early, Call::Get).since(None).unwrap();
        assert_eq!((gets.timed, gets.longest_ns), (1000, 1000));
        assert!((500..=532).contains(&gets.p50_ns), "{gets:?}");
        assert!((990..=1000).contains(&gets.p99_ns), "{gets:?}");
        assert_eq!(of(&early, Call::Batch).latency.max_ns, 3_000_000);
        assert_eq!(of(&early, Call::Put).since(None), None);

        // Nothing came, then slow ones: they are not hidden behind the thousand before.
        assert_eq!(of(&early, Call::Get).since(early.first()), None);
        (0..10).for_each(|_| latencies.took(Call::Get, Duration::from_micros(70)));
        latencies.took(Call::Get, Duration::from_nanos(500));
        let late = of(&latencies.stats(), Call::Get);
        let since = late.since(early.first()).unwrap();
        assert_eq!(since.timed, 11);
        assert!((70_000..74_375).contains(&since.p50_ns), "{since:?}");
        // Opened again, it counts from nothing.
        assert_eq!(of(&early, Call::Get).since(Some(&late)), Some(gets));
    }

    #[test]
    fn every_call_is_counted_under_its_kind() {
        let dir = tempfile::tempdir().unwrap();
        let db = crate::Database::open(dir.path(), crate::Options::new().memory(16 << 20)).unwrap();
        let users = db.tree("users").unwrap();
        let counted = || -> Vec<u64> {
            let calls = db.stats().calls;
            calls.iter().map(|one| one.latency.count).collect()
        };
        let mut before = counted();
        let mut check = |call: Call, calls: &dyn Fn()| {
            // Between two that are timed there are 126 at most.
            (0..400).for_each(|_| calls());
            let after = counted();
            for other in Call::ALL {
                let grown = after[other as usize] - before[other as usize];
                let fits = match other {
                    _ if other != call => grown == 0,
                    Call::Batch | Call::Transaction => grown == 400,
                    _ => (3..200).contains(&grown),
                };
                assert!(fits, "{call:?}: {grown} of {other:?}");
            }
            before = after;
        };
        check(Call::Put, &|| users.put("a", "b").unwrap());
        check(Call::Put, &|| users.delete("c").unwrap());
        check(Call::Get, &|| assert!(users.get("a").unwrap().is_some()));
        check(Call::Get, &|| {
            assert_eq!(
                users.get_if_resident("a", &mut Vec::new()).unwrap(),
                Some(true)
            );
        });
        check(Call::Update, &|| {
            users.merge("n", crate::Merge::Add(1)).unwrap();
        });
        check(Call::Update, &|| assert!(!users.insert("a", "c").unwrap()));
        check(Call::Range, &|| {
            assert_eq!(users.iter().unwrap().count(), 2)
        });
        check(Call::Range, &|| {
            assert_eq!(users.iter().unwrap().rev().count(), 2)
        });
        check(Call::Batch, &|| {
            let mut batch = db.batch();
            batch.put(&users, "a", "b");
            db.write(batch, None).unwrap();
        });
        check(Call::Transaction, &|| {
            db.transaction(|t| t.put(&users, "a", "c")).unwrap();
        });
    }
}
