//! Drives a concurrent map.
//!
//! `cargo +nightly fuzz run concurrent`, in the folder above this package.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_mem_fuzz::concurrent(bytes));
