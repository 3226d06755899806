//! Drives a map of the adaptive radix tree and its compact form.
//!
//! `cargo +nightly fuzz run art`, in the folder above this package.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_mem_fuzz::pair(terrace_mem::Pair::Art, bytes));
