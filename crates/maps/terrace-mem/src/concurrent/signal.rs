//! What tells the background thread which parts are due.

use super::part::Part;
use crate::family::Family;
use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};

/// Parts that wait to be merged, and whether the worker is to stop.
pub struct Signal<F: Family, V> {
    queue: Mutex<Queue<F, V>>,
    wake: Condvar,
}

struct Queue<F: Family, V> {
    /// Weak, for a part that has left the directory meanwhile is of no use, and full of entries.
    parts: VecDeque<Weak<Part<F, V>>>,
    stop: bool,
}

/// More waiting parts than this are not remembered: their next change tells of them again.
const QUEUE: usize = 1024;

impl<F: Family, V> Default for Signal<F, V> {
    fn default() -> Self {
        Signal {
            queue: Mutex::new(Queue {
                parts: VecDeque::new(),
                stop: false,
            }),
            wake: Condvar::new(),
        }
    }
}

impl<F: Family, V> Signal<F, V> {
    /// Tells of a part that is due; false where too many others wait.
    pub fn send(&self, part: &Arc<Part<F, V>>) -> bool {
        // Most changes of a part that is due find it waiting, and do not wait for each other here.
        // It is written nevertheless, so that the worker, which takes the mark away before it
        // looks at the part, sees their change.
        let (waits, order) = (&part.waits, (Ordering::AcqRel, Ordering::Relaxed));
        if waits.compare_exchange(true, true, order.0, order.1).is_ok() {
            return true;
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let room = queue.parts.len() < QUEUE;
        if room && !waits.swap(true, Ordering::AcqRel) {
            queue.parts.push_back(Arc::downgrade(part));
            self.wake.notify_one();
        }
        room
    }

    /// Bytes on the heap.
    pub fn heap(&self) -> usize {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.parts.capacity() * size_of::<Weak<Part<F, V>>>()
    }

    /// Ends the worker.
    pub fn stop(&self) {
        self.queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .stop = true;
        self.wake.notify_one();
    }

    /// Takes the mark of a waiting part away, before a thread looks at the part; none where it is no
    /// more.
    pub fn begin(part: &Weak<Part<F, V>>) -> Option<Arc<Part<F, V>>> {
        let part = part.upgrade()?;
        part.waits.swap(false, Ordering::AcqRel);
        Some(part)
    }

    /// A part that is due, to be taken up by [`Signal::begin`]; none when the worker is to stop. Calls
    /// `idle` before it waits for one.
    pub fn next(&self, idle: impl FnOnce()) -> Option<Weak<Part<F, V>>> {
        let lock = || self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let mut queue = lock();
        if queue.parts.is_empty() && !queue.stop {
            drop(queue);
            idle();
            queue = lock();
        }
        loop {
            if queue.stop {
                return None;
            }
            if let Some(part) = queue.parts.pop_front() {
                return Some(part);
            }
            queue = self
                .wake
                .wait(queue)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::Signal;
    use crate::{ConcurrentHybridMap, Options, Trigger};
    use crossbeam_epoch as epoch;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    #[test]
    fn a_write_to_a_part_that_is_due_does_not_wait_for_a_new_directory() {
        let options = Options {
            trigger: Trigger::Constant(20),
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let turn = map.shared.turn();
            scope.spawn(|| {
                (0..30).for_each(|i| assert_eq!(map.insert(&i, i), None));
                done.store(true, Ordering::SeqCst);
            });
            let end = Instant::now() + Duration::from_secs(10);
            while !done.load(Ordering::SeqCst) && Instant::now() < end {
                std::thread::yield_now();
            }
            let waited = !done.load(Ordering::SeqCst);
            drop(turn);
            assert!(!waited, "it waits for the directory");
        });
    }

    #[test]
    fn a_part_that_is_due_waits_once() {
        let options = Options {
            merging: crate::Merging::Manual,
            ..Options::default()
        };
        let map = ConcurrentHybridMap::<u64, u64>::with_options(options).unwrap();
        let part = map.shared.directory.load(&epoch::pin()).parts[0].clone();
        let signal = &map.shared.signal;
        for _ in 0..3 {
            assert!(signal.send(&part) && signal.send(&part));
            assert_eq!(signal.queue.lock().unwrap().parts.len(), 1);
            let next = signal.next(|| panic!("one waits")).unwrap();
            assert!(Signal::begin(&next).is_some());
        }
    }
}
