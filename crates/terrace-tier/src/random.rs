//! Cheap random numbers for choices where only the distribution matters.

use std::cell::Cell;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// The next 32 random bits of this thread (xorshift64*, seeded by the thread's own address).
pub fn next() -> u32 {
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            x = terrace_base::checksum::mix(std::ptr::from_ref(state).addr() as u64, 1) | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        (x.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as u32
    })
}
