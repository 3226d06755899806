//! Drives maps over two memories from bytes, and compares them with a `BTreeMap`.
//!
//! `cargo +nightly fuzz run place`, in the folder above this package.
#![no_main]

#[path = "../../tests/support/drive_place.rs"]
mod drive_place;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive_place::drive(bytes));
