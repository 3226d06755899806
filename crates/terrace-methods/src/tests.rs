//! Tests of the tree on a simulated disk: the conformance suite, planted faults, bad bytes, loads.

mod bulk;
mod bytes;
mod faults;
mod fixture;
mod suite;
