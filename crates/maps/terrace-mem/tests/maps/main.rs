//! Maps and sets against models of them, for one thread and for many, in one memory and in two.
#![cfg(not(feature = "shuttle"))]

/// How often a test is to run: so often usually, more with `TERRACE_TEST_FACTOR`, less under Miri.
fn runs(usual: u64, miri: u64) -> u64 {
    let factor = std::env::var("TERRACE_TEST_FACTOR").ok();
    let factor: u64 = factor.map_or(1, |f| f.parse().expect("TERRACE_TEST_FACTOR is a number"));
    if cfg!(miri) { miri } else { usual * factor }
}

#[cfg(feature = "concurrent")]
#[path = "../support/linear.rs"]
mod linear;

mod api;
mod bytes;
#[cfg(feature = "concurrent")]
mod concurrent;
#[cfg(feature = "concurrent")]
mod concurrent_whole;
mod model;
mod multi;
mod panics;
#[cfg(feature = "place")]
mod place;
#[cfg(feature = "place")]
mod place_one;
#[cfg(feature = "serde")]
mod serde;
