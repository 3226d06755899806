//! The conformance suite: what every access method, and every composition of them, must do.
//!
//! Two levels. [`Map`] is what a user sees of any structure, one tier or two: its tests compare
//! random operations with a model. [`Fixture`] gives an access method itself: its tests are about
//! flags, windows, sweeps, room and threads. Every test is a function of a seed and returns a
//! [`Failure`] instead of panicking, so that a test of the suite can assert that a planted fault is
//! found.

mod check;
mod effort;
mod fixture;
mod keys;
mod map;
mod methods;
mod models;
mod random;
mod runs;
mod sweeps;
mod threads;
mod windows;

use crate::AccessMethod;

use check::ensure;
use effort::{memory_pages, plenty_of_pages};

pub use check::{Check, Failure};
pub use effort::Effort;
pub use fixture::{Fixture, Subject, position, settled};
pub use keys::KeyKind;
pub use map::{Census, Map, Plain};
pub use methods::{edits_keep_their_promises, large_values_are_kept};
pub use models::{behaves_like_a_map, large_values_in_a_map};
pub use random::Random;
pub use runs::runs_are_as_one_by_one;
pub use sweeps::{sorted_loads_fill_pages, sweeps_keep_every_record};
pub use threads::threads_agree;
pub use windows::{membership_tells, windows_tile};

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
        if F::Method::CAPABILITIES.position_prefix == 0 {
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
