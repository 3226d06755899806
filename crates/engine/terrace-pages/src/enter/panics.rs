//! A panic in the middle of a change: what it has left half done no thread reads, no thread adds to, and no
//! checkpoint makes durable. The next opening finds the last checkpoint and the log.
//!
//! Invariants: once a store is halted, no thread goes in to change pages, and the latch of a page that
//! was being changed stays held for ever, so that no thread reads its bytes. Whoever waits for it is
//! told. Who panics for reasons of his own and only lets go of what he has not changed halts nothing.

use terrace_base::sync::{panicking, yield_now};
use terrace_base::{Error, Result};

use crate::parts::common::Common;

/// Halts the store if a panic goes through it: if it is dropped by one that had not begun when it was made.
pub struct Watch<'s> {
    common: &'s Common,
    work: &'static str,
    unwinding: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if panicking() && !self.unwinding {
            self.common.halt(self.work);
        }
    }
}

impl Common {
    pub fn on_halt(&self, hook: impl Fn(&Error) + Send + Sync + 'static) {
        self.health.set_hook(Box::new(hook));
    }

    #[cold]
    pub fn halt(&self, work: &str) {
        let error = self.poison(&Error::Poisoned {
            cause: format!("a thread has panicked in {work}"),
        });
        self.health.halt(&error);
        self.signals.note_progress();
    }

    pub fn watch(&self, work: &'static str) -> Watch<'_> {
        Watch {
            common: self,
            work,
            unwinding: panicking(),
        }
    }

    pub fn back_off(&self) -> Result<()> {
        if self.health.is_halted() {
            return self.health.check_poison();
        }
        yield_now();
        Ok(())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use terrace_base::sync::atomic::{AtomicBool, Ordering};
    use terrace_sim::SimDisk;

    use crate::enter::retry::Retry;
    use crate::frames::copy::Purpose;
    use crate::frames::frame::Class;
    use crate::parts::pace::Pace;
    use crate::store::PageStore;
    use crate::testing::{info, options, store};

    fn panics(f: impl FnOnce()) {
        assert!(catch_unwind(AssertUnwindSafe(f)).is_err());
    }

    fn is_halted(store: &PageStore) -> bool {
        let refused = matches!(store.enter().err(), Some(Error::Poisoned { .. }));
        assert_eq!(refused, store.is_halted());
        refused
    }

    #[test]
    fn a_panic_while_the_gate_is_closed_leaves_it_open_and_the_store_halted() {
        let store = store();
        panics(|| {
            let _ = store.checkpoint(Pace::Fast, &mut || panic!("at the cut"));
        });
        assert!(is_halted(&store));
        assert!(
            store.storage().gate().try_pass().is_some(),
            "the gate is closed for ever"
        );
        assert!(store.checkpoint(Pace::Fast, &mut info).is_err());
    }

    #[test]
    fn a_panic_while_a_page_is_read_lets_others_read_it() {
        let disk = SimDisk::new(1);
        let store = PageStore::create(disk.shared(), options(), 1, &info()).unwrap();
        let door = store.enter().unwrap();
        let pid = store.allocate(&door, Class::Cold).unwrap().pid();
        drop(door);
        store.checkpoint(Pace::Fast, &mut info).unwrap();
        drop(store);
        let store = PageStore::open(disk.shared(), options()).unwrap();
        let (reads, done) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !reads.load(Ordering::SeqCst) {
                    yield_now();
                }
                store.fault_in(pid).unwrap();
                done.store(true, Ordering::SeqCst);
            });
            panics(|| {
                let _ = store.pager().bring_in(pid, &|_| {
                    reads.store(true, Ordering::SeqCst);
                    panic!("halfway")
                });
            });
            // For ever, if the page is still taken to be read.
            while !done.load(Ordering::SeqCst) {
                yield_now();
            }
        });
        assert!(store.is_resident(pid) && !is_halted(&store));
    }

    #[test]
    fn a_page_that_is_half_changed_is_read_by_nobody_and_nobody_waits_for_it() {
        let store = store();
        let told = std::sync::Arc::new(AtomicBool::new(false));
        let hears = told.clone();
        store.on_halt(move |_| hears.store(true, Ordering::SeqCst));
        let pid = store
            .allocate(&store.enter().unwrap(), Class::Cold)
            .unwrap()
            .pid();
        let (latched, waits) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !latched.load(Ordering::SeqCst) {
                    yield_now();
                }
                waits.store(true, Ordering::SeqCst);
                assert!(matches!(store.shared(pid).err(), Some(Retry::Conflict)));
                assert!(store.settle(Retry::Conflict).is_err());
            });
            panics(|| {
                let door = store.enter().unwrap();
                let mut page = store.exclusive(pid, &door).unwrap();
                page.change(100, 1).unwrap()[0] = 1;
                latched.store(true, Ordering::SeqCst);
                while !waits.load(Ordering::SeqCst) {
                    yield_now();
                }
                panic!("halfway");
            });
        });
        assert!(is_halted(&store) && told.load(Ordering::SeqCst));
        assert!(store.optimistic(pid).is_err());
        let frame = store.storage().frames().resident(pid).unwrap();
        let done = store.storage().write_pages(&[frame], Purpose::Clean);
        assert_eq!(done.unwrap(), 0);
    }

    #[test]
    fn who_lets_go_of_pages_because_of_a_panic_before_halts_nothing() {
        struct Changes<'s>(&'s PageStore);
        impl Drop for Changes<'_> {
            fn drop(&mut self) {
                let door = self.0.enter().unwrap();
                let mut page = self.0.allocate(&door, Class::Cold).unwrap();
                page.change(100, 1).unwrap()[0] = 1;
            }
        }
        let store = store();
        panics(|| {
            let _changes = Changes(&store);
            panic!("a fault of the program");
        });
        assert!(!is_halted(&store));
        store.checkpoint(Pace::Fast, &mut info).unwrap();
        panics(|| {
            let _door = store.enter().unwrap();
            panic!("behind the door");
        });
        assert!(is_halted(&store));
    }
}
