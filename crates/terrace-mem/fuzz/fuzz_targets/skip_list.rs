//! Drives a map of the skip list and its compact form from bytes and compares it with a `BTreeMap`.
//!
//! `cargo +nightly fuzz run skip_list`, in the folder above this package.
#![no_main]

#[allow(dead_code, reason = "maps of one pair alone are driven")]
#[path = "../../tests/support/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::drive_pair(terrace_mem::Pair::SkipList, bytes));
