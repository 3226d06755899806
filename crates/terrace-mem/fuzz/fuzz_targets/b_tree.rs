//! Drives a map of the B+tree and its compact form from bytes and compares it with a `BTreeMap`.
//!
//! `cargo +nightly fuzz run b_tree`, in the folder above this package.
#![no_main]

#[allow(dead_code, reason = "maps of one pair alone are driven")]
#[path = "../../tests/support/drive.rs"]
mod drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| drive::drive_pair(terrace_mem::Pair::BTree, bytes));
