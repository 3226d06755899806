//! Tests of the log, on the simulated disk unless they say otherwise.
//!
//! Under the concurrency checker the log works only inside of it, so all others are left out then.

#[cfg(not(feature = "shuttle"))]
mod background;
#[cfg(not(feature = "shuttle"))]
mod basics;
#[cfg(not(feature = "shuttle"))]
mod bytes;
#[cfg(not(feature = "shuttle"))]
mod crash;
#[cfg(not(feature = "shuttle"))]
mod ends;
#[cfg(not(feature = "shuttle"))]
mod errors;
#[cfg(not(feature = "shuttle"))]
mod files;
#[cfg(not(feature = "shuttle"))]
mod format;
#[cfg(not(feature = "shuttle"))]
mod harness;
#[cfg(not(feature = "shuttle"))]
mod lane;
#[cfg(not(feature = "shuttle"))]
mod model;
#[cfg(not(feature = "shuttle"))]
mod planted;
#[cfg(feature = "shuttle")]
mod shuttle;
#[cfg(feature = "shuttle")]
mod shuttle_lane;
#[cfg(not(feature = "shuttle"))]
mod threads;
