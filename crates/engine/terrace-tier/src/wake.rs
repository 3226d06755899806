//! Where the thread that merges waits until there is something to do.

use std::time::Duration;

use terrace_base::sync::atomic::{AtomicBool, Ordering};
use terrace_base::sync::{Condvar, Mutex};

/// How often a thread in the background looks by itself.
pub(crate) const ROUND: Duration = Duration::from_millis(10);

/// The place where the thread that merges waits for something to do.
#[derive(Default)]
pub(crate) struct Wake {
    /// Whether it is to go on without waiting.
    awake: AtomicBool,
    waiting: Mutex<()>,
    woken: Condvar,
}

impl Wake {
    /// Wakes it. Cheap where it is awake.
    pub fn notify(&self) {
        if !self.awake.load(Ordering::Relaxed) && !self.awake.swap(true, Ordering::AcqRel) {
            self.look();
        }
    }

    /// Lets those who wait look whether they are to end: there may be an old thread beside a new one.
    pub fn look(&self) {
        drop(self.waiting.lock());
        self.woken.notify_all();
    }

    /// Waits for that, or for `stop`; or for a while, where there is anything to look after.
    pub fn wait(&self, for_ever: bool, stop: &AtomicBool) {
        let mut waiting = self.waiting.lock();
        while !self.awake.load(Ordering::Acquire) && !stop.load(Ordering::Acquire) {
            if !for_ever {
                self.woken.wait_for(&mut waiting, ROUND);
                break;
            }
            self.woken.wait(&mut waiting);
        }
        if !stop.load(Ordering::Acquire) {
            self.awake.store(false, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A new thread takes the place of an old one, which ends though both wait at the same place.
    #[test]
    fn an_old_thread_ends_beside_a_new_one() {
        let wake = Arc::new(Wake::default());
        let start = || {
            let (wake, stop) = (wake.clone(), Arc::new(AtomicBool::new(false)));
            let stopped = stop.clone();
            let thread = std::thread::spawn(move || {
                while !stopped.load(Ordering::Acquire) {
                    wake.wait(true, &stopped);
                }
            });
            (stop, thread)
        };
        let mut old = start();
        for _ in 0..100 {
            let new = start();
            wake.notify();
            old.0.store(true, Ordering::Release);
            wake.look();
            old.1.join().unwrap();
            old = new;
        }
        old.0.store(true, Ordering::Release);
        wake.look();
        old.1.join().unwrap();
    }
}
