//! Tests of the log, on the simulated disk unless they say otherwise.

mod basics;
mod crash;
mod errors;
mod harness;
mod model;
mod planted;
