//! The background thread of a store: cleans cold pages ahead of need and keeps the accounts of the
//! memory balanced. It never enters the gate.

use std::sync::Arc;
use std::time::Duration;

use terrace_base::sync::atomic::Ordering;

use crate::store::PageStore;

/// How often the thread looks by itself.
const ROUND: Duration = Duration::from_millis(20);

/// Stops and joins the thread when dropped.
pub struct Cleaner {
    store: Arc<PageStore>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Cleaner {
    /// Starts the thread.
    pub fn start(store: Arc<PageStore>) -> terrace_base::Result<Cleaner> {
        store.stop.store(false, Ordering::Release);
        let of_thread = store.clone();
        let thread = std::thread::Builder::new()
            .name("terrace-cleaner".into())
            .spawn(move || run(&of_thread))
            .map_err(|e| terrace_base::Error::io("starting", "the cleaner thread", e))?;
        Ok(Cleaner {
            store,
            thread: Some(thread),
        })
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        self.store.stop.store(true, Ordering::Release);
        self.store.want_cleaning();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

fn run(store: &PageStore) {
    let _watch = store.watch("the thread that cleans pages");
    while !store.stop.load(Ordering::Acquire) {
        let asked = {
            let mut wanted = store.wanted.0.lock();
            if !*wanted {
                store.wanted.1.wait_for(&mut wanted, ROUND);
            }
            std::mem::take(&mut *wanted)
        };
        store.rebalance();
        // Who goes in without waiting (promotion) never grows the file; it is done here for them.
        let _ = store.make_space_ahead();
        if asked {
            // A failure has poisoned the store or is a full disk; whoever needs the frame meets it.
            let _ = store.clean_some();
        }
    }
}
