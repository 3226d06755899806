//! Event counters that many threads raise at once without sharing a cache line.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

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

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        let lane = LANE.with(|lane| {
            if lane.get() == usize::MAX {
                lane.set(NEXT.fetch_add(1, Ordering::Relaxed) % LANES);
            }
            lane.get()
        });
        self.lanes[lane].0.fetch_add(n, Ordering::Relaxed);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        self.lanes
            .iter()
            .map(|lane| lane.0.load(Ordering::Relaxed))
            .sum()
    }
}
