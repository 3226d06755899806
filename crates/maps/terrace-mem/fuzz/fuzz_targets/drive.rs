//! Drives a map of any kind.
//!
//! `cargo +nightly fuzz run drive`, in the folder above this package.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_mem_fuzz::map(bytes));
