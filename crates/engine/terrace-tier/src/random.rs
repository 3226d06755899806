//! Cheap random numbers for choices where only the distribution matters.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// Threads seen so far: each gets a sequence of its own, and the first one always the same, so that
/// a run on one thread can be repeated.
static THREADS: AtomicU64 = AtomicU64::new(1);

/// The next 32 random bits of this thread (xorshift64*).
pub fn next() -> u32 {
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            x = terrace_base::checksum::mix(THREADS.fetch_add(1, Ordering::Relaxed), 1) | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    })
}
