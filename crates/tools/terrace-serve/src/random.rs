//! Numbers that cannot be foreseen.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

static STEP: AtomicU64 = AtomicU64::new(0);

/// Any number: a keyed hash of a counter, whose key the operating system has given.
pub fn random() -> u64 {
    use std::cell::OnceCell;
    thread_local!(static KEYS: OnceCell<RandomState> = const { OnceCell::new() });
    let step = STEP.fetch_add(1, Ordering::Relaxed);
    KEYS.with(|keys| keys.get_or_init(RandomState::new).hash_one(step))
}

/// Any number below `bound`, which is not 0.
pub fn below(bound: u64) -> u64 {
    // The bias is of one part in 2^64 over the bound.
    ((u128::from(random()) * u128::from(bound.max(1))) >> 64) as u64
}
