//! Tests of the tree on a simulated disk: the conformance suite, planted faults, bad bytes.

mod fixture;
mod suite;
