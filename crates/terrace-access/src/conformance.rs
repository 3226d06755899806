//! The conformance suite: what every access method, and every composition of them, must do.
//!
//! Two levels. [`Map`] is what a user sees of any structure, one tier or two: its tests compare
//! random operations with a model. [`Fixture`] gives an access method itself: its tests are about
//! flags, windows, sweeps, room and threads. Every test is a function of a seed and returns a
//! [`Failure`] instead of panicking, so that a test of the suite can assert that a planted fault is
//! found.

mod keys;
mod map;
mod methods;
mod models;
mod random;
mod runs;
mod sweeps;
mod threads;
mod windows;

use std::sync::Arc;

use terrace_base::{Error, Result};
use terrace_pages::PageStore;

use crate::{Attempt, Interrupt, LargeRef, Ordered, Sweep, Tier};

pub use keys::KeyKind;
pub use map::{Census, Map, Plain};
pub use methods::{edits_keep_their_promises, large_values_are_kept};
pub use models::{behaves_like_a_map, large_values_in_a_map};
pub use random::Random;
pub use runs::runs_are_as_one_by_one;
pub use sweeps::{sorted_loads_fill_pages, sweeps_keep_every_record};
pub use threads::threads_agree;
pub use windows::{membership_tells, windows_tile};

/// What was not as it should be.
#[derive(Debug)]
pub struct Failure(pub String);

/// Result of a test.
pub type Check = std::result::Result<(), Failure>;

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure(e.to_string())
    }
}

/// Returns a [`Failure`] unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::conformance::Failure(format!($($what)+)));
        }
    };
}
pub(crate) use ensure;

/// An access method in a store, and whatever must live as long as they do.
pub struct Subject<M> {
    /// The method under test; dropped first.
    pub method: M,
    /// The store it lies in.
    pub store: Arc<PageStore>,
    /// Kept alive: a cleaner thread, a disk.
    pub keep: Box<dyn std::any::Any + Send + Sync>,
}

/// Makes access methods to be tested.
pub trait Fixture: Sync {
    /// What is tested.
    type Method: Sweep + Tier;

    /// An empty one, in a store of its own with pages of this size and memory for `pages` of them.
    fn create(&self, page_bytes: usize, pages: usize) -> Result<Subject<Self::Method>>;

    /// Makes a checkpoint, closes the store, opens it again.
    fn reopen(&self, subject: Subject<Self::Method>) -> Result<Subject<Self::Method>>;

    /// Whether all pages stay in memory (a hot tier), so that a test must fit.
    fn resident(&self) -> bool;

    /// Longest inline value.
    fn max_inline(&self, page_bytes: usize) -> usize;

    /// Writes a large value; the caller holds the store's guard for them until it is linked.
    fn write_large(&self, store: &PageStore, value: &[u8]) -> Result<LargeRef>;

    /// Reads a large value; `Conflict` when the chain is not that any more.
    fn read_large(&self, store: &PageStore, large: LargeRef, out: &mut Vec<u8>) -> Attempt<()>;

    /// Frees a large value.
    fn free_large(&self, store: &PageStore, large: LargeRef) -> Result<()>;
}

/// The position of a key in a subject.
pub fn position<M: Ordered>(subject: &Subject<M>, key: &[u8]) -> Result<Vec<u8>> {
    settled(&subject.store, || {
        let mut place = Vec::new();
        Ok(subject.method.try_position(key, &mut place)?.to_vec())
    })
}

/// How much is tested.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Operations of each random run.
    pub operations: usize,
    /// Records of each load.
    pub records: usize,
    /// Page sizes.
    pub page_sizes: &'static [usize],
    /// Seeds begin here.
    pub seed: u64,
}

impl Effort {
    /// A few seconds.
    pub const SHORT: Effort = Effort {
        operations: 3_000,
        records: 3_000,
        page_sizes: &[4096, 16384],
        seed: 1,
    };
    /// A minute or so.
    pub const FULL: Effort = Effort {
        operations: 12_000,
        records: 12_000,
        page_sizes: &[4096, 8192, 16384, 65536],
        seed: 1,
    };
}

/// Everything that an access method must do; what is about the order of keys, if it keeps that.
///
/// # Errors
/// What it did not do, with the seed or the page size.
pub fn run<F: Fixture>(fixture: &F, effort: Effort) -> Check {
    for &page_bytes in effort.page_sizes {
        let named = |check: Check, what: &str| {
            check.map_err(|Failure(why)| Failure(format!("{what}, pages of {page_bytes}: {why}")))
        };
        named(edits_keep_their_promises(fixture, page_bytes), "edits")?;
        named(large_values_are_kept(fixture, page_bytes), "large values")?;
        named(windows_tile(fixture, page_bytes, effort), "windows")?;
        named(membership_tells(fixture, page_bytes, effort), "membership")?;
        named(
            sweeps_keep_every_record(fixture, page_bytes, effort),
            "sweeps",
        )?;
        named(runs_are_as_one_by_one(fixture, page_bytes, effort), "runs")?;
        if F::Method::POSITION_PREFIX == 0 {
            named(
                sorted_loads_fill_pages(fixture, page_bytes, effort),
                "sorted loads",
            )?;
        }
        for kind in KeyKind::ALL {
            let map = || {
                Plain::create(
                    fixture,
                    page_bytes,
                    memory_pages(fixture, page_bytes, effort),
                )
            };
            named(
                behaves_like_a_map(&map, kind, effort),
                &format!("{kind:?} keys"),
            )?;
        }
        let map = || {
            Plain::create(
                fixture,
                page_bytes,
                memory_pages(fixture, page_bytes, effort),
            )
        };
        named(
            large_values_in_a_map(&map, page_bytes, effort),
            "large values in a map",
        )?;
        named(threads_agree(fixture, page_bytes, effort), "threads")?;
    }
    Ok(())
}

/// Frames for a test: everything for a tier that stays in memory, or else so few that pages come
/// and go.
fn memory_pages<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> usize {
    if fixture.resident() {
        plenty_of_pages(page_bytes, effort)
    } else {
        160
    }
}

/// Frames for everything that a test makes, and more.
fn plenty_of_pages(page_bytes: usize, effort: Effort) -> usize {
    // A kilobyte for each record is more than any test has, twice over.
    400 + effort.records * 2048 / page_bytes
}

/// Runs an attempt to its end, doing the waiting between tries. Gives up after so many tries that
/// it must be going round in circles.
pub fn settled<T>(store: &PageStore, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
    for _ in 0..1_000_000 {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(Interrupt::HotFull) => {
                return Err(Error::invalid("the test does not fit into its hot tier"));
            }
            Err(interrupt) => store.settle(interrupt)?,
        }
    }
    Err(Error::invalid("an attempt never came to an end"))
}
