//! Tests of the log, on the simulated disk unless they say otherwise.

mod basics;
mod bytes;
mod crash;
mod errors;
mod files;
mod harness;
mod model;
mod planted;
mod threads;
