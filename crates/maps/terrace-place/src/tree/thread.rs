//! The thread that makes steps in the background.

use crate::engine::Steps;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Nodes of a step: some tens of microseconds.
const NODES: usize = 256;
/// Pause after a step with more to do, so that workers take little of a processor.
const PAUSE: Duration = Duration::from_millis(1);
/// Pause when there is nothing to do: a period is not shorter.
const REST: Duration = Duration::from_millis(100);
/// After so long without a period few noted lookups are enough for one.
const LONG: Duration = Duration::from_millis(500);

/// A thread that makes steps: a step of some tens of microseconds, then a pause.
#[derive(Debug)]
pub struct Worker {
    stop: Arc<AtomicBool>,
    handle: Option<JoinHandle<()>>,
}

impl Worker {
    /// Starts one. `step` is told how much to do and whether to hurry, and says whether there is
    /// more. Without threads there is none, and nodes stay where they are.
    pub fn start(mut step: impl FnMut(Steps, bool) -> bool + Send + 'static) -> Worker {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let handle = std::thread::Builder::new()
            .name("terrace-place".into())
            .spawn(move || {
                let mut rested = Instant::now();
                while !stopped.load(Relaxed) {
                    let late = rested.elapsed() > LONG;
                    if step(Steps::nodes(NODES), late) {
                        rested = Instant::now();
                        std::thread::park_timeout(PAUSE);
                    } else {
                        std::thread::park_timeout(REST);
                    }
                }
            });
        Worker {
            stop,
            handle: handle.ok(),
        }
    }

    /// Ends it and waits for that.
    pub fn stop(self) {
        self.stop.store(true, Relaxed);
        if let Some(handle) = self.handle {
            Thread::unpark(handle.thread());
            // A panic of the thread has been printed; nodes stay where they are.
            let _ = handle.join();
        }
    }
}
