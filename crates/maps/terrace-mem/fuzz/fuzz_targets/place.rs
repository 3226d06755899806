//! Drives maps over two memories.
//!
//! `cargo +nightly fuzz run place`, in the folder above this package.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| terrace_mem_fuzz::place(bytes));
