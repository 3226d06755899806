//! Tests of the log, on the simulated disk unless they say otherwise.

mod basics;
