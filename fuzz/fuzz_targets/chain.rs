//! The chain of pages of a large value in a store, a few bytes of which are others than they were: it is
//! read whole or not at all, and freeing it ends.
#![no_main]

use std::sync::OnceLock;
use terrace_fuzz::damaged::{Chain, chain, drive_chain};

static CHAIN: OnceLock<Chain> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    drive_chain(CHAIN.get_or_init(chain), bytes);
});
