//! Large values that are being written or freed, and the cut that waits for them: until one is done there
//! may be pages that nothing points to.
//!
//! Invariants: while a cut is being made no thread has a guard; while one waits, only threads that have a guard
//! already get another one, so that it need not wait for ever, and no thread waits for itself.

use std::cell::Cell;

use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Condvar, Mutex, thread_local};

thread_local! {
    /// Guards of this kind that the thread holds, of any store.
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// The guards of large values that are being written or freed, and the cuts that wait for them.
#[derive(Default)]
pub(crate) struct Large {
    state: Mutex<State>,
    changed: Condvar,
    /// How many were begun.
    numbers: AtomicU64,
}

#[derive(Default)]
struct State {
    guards: u64,
    /// Cuts that wait, or are being made.
    cuts: u64,
}

/// A large value is being written or freed. See [`crate::PageStore::large_guard`].
pub struct LargeGuard<'a>(&'a Large);

/// A cut is being made.
pub(crate) struct Exclusion<'a>(&'a Large);

impl Large {
    /// A number for a large value: another one each time.
    pub fn number_large_value(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Waits for a cut, unless this thread has a guard.
    pub fn large_guard(&self) -> LargeGuard<'_> {
        let nested = HELD.with(|held| held.replace(held.get() + 1)) > 0;
        let mut state = self.state.lock();
        while state.cuts > 0 && !nested {
            self.changed.wait(&mut state);
        }
        state.guards += 1;
        LargeGuard(self)
    }

    /// The same where that takes no waiting.
    pub fn try_large_guard(&self) -> Option<LargeGuard<'_>> {
        let mut state = self.state.lock();
        if state.cuts > 0 && HELD.with(Cell::get) == 0 {
            return None;
        }
        HELD.with(|held| held.set(held.get() + 1));
        state.guards += 1;
        Some(LargeGuard(self))
    }

    /// Waits until no thread has a guard.
    pub fn cut(&self) -> Exclusion<'_> {
        let mut state = self.state.lock();
        state.cuts += 1;
        while state.guards > 0 {
            self.changed.wait(&mut state);
        }
        Exclusion(self)
    }
}

impl Drop for LargeGuard<'_> {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get().saturating_sub(1)));
        let mut state = self.0.state.lock();
        state.guards -= 1;
        if state.guards == 0 && state.cuts > 0 {
            self.0.changed.notify_all();
        }
    }
}

impl Drop for Exclusion<'_> {
    fn drop(&mut self) {
        self.0.state.lock().cuts -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_cut_waits_for_guards_and_newcomers_for_the_cut() {
        let large = Large::default();
        let cut_made = AtomicBool::new(false);
        std::thread::scope(|threads| {
            let first = large.large_guard();
            threads.spawn(|| {
                let _cut = large.cut();
                cut_made.store(true, Ordering::SeqCst);
            });
            while large.state.lock().cuts == 0 {
                std::thread::yield_now();
            }
            // This thread has one, and so gets another one, which may outlive the first.
            let second = large.large_guard();
            assert!(large.try_large_guard().is_some());
            threads
                .spawn(|| assert!(large.try_large_guard().is_none()))
                .join()
                .unwrap();
            drop(first);
            threads.spawn(|| {
                let _newcomer = large.large_guard();
                assert!(cut_made.load(Ordering::SeqCst));
            });
            assert!(!cut_made.load(Ordering::SeqCst));
            drop(second);
        });
        assert!(cut_made.load(Ordering::SeqCst));
    }
}
