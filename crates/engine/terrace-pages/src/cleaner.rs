//! The background thread of a store: cleans cold pages ahead of need and keeps the accounts of the
//! memory balanced. It never enters the gate.

use std::sync::Arc;
use std::time::Duration;

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
        store.storage().common().signals.set_stopped(false);
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
        let signals = &self.store.storage().common().signals;
        signals.set_stopped(true);
        signals.want_cleaning();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
    }
}

#[cfg(feature = "planted-faults")]
impl PageStore {
    /// One round of what the cleaner does; how many pages became clean.
    ///
    /// # Errors
    /// Those of writing.
    pub fn clean_now(&self) -> terrace_base::Result<usize> {
        self.storage().clean_some()
    }
}

fn run(store: &PageStore) {
    let _watch = store.watch("the thread that cleans pages");
    let storage = store.storage();
    let signals = &storage.common().signals;
    while !signals.is_stopped() {
        let asked = signals.wait_to_clean(ROUND);
        store.rebalance();
        // Who goes in without waiting (promotion) never grows the file; it is done here for them.
        let _ = storage.make_space_ahead();
        if asked {
            // A failure has poisoned the store or is a full disk; whoever needs the frame meets it.
            let _ = storage.clean_some();
        }
    }
}
