//! An event counter that many threads raise at once without sharing a cache line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::thread_number;

/// Cache lines over which the threads spread.
const LANES: usize = 16;

#[derive(Default)]
#[repr(align(64))]
struct Lane(AtomicU64);

/// A counter; exact once its users have stopped.
#[derive(Default)]
pub struct Counter {
    lanes: [Lane; LANES],
}

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let mine = &self.lanes[thread_number() % LANES].0;
        mine.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        let counts = self.lanes.iter().map(|lane| &lane.0);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}
