//! Numbers of threads, for counters that spread over cache lines.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The number of this thread: they are counted as they ask for the first time.
#[inline]
pub fn thread_number() -> usize {
    NUMBER.with(|number| {
        if number.get() == usize::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        number.get()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_number_and_keeps_it() {
        let mine = thread_number();
        let other = std::thread::spawn(|| (thread_number(), thread_number()));
        let (first, second) = other.join().unwrap();
        assert_eq!((first, thread_number()), (second, mine));
        assert_ne!(first, mine);
    }
}
