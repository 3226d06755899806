//! Maps and sets against models of them, for one thread and for many, in one memory and in two.
#![cfg(not(feature = "shuttle"))]

#[cfg(feature = "concurrent")]
#[path = "../support/linear.rs"]
mod linear;

mod api;
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
