//! Calls that may wait for a disk, on the runtime's threads for blocking work, a bounded number at a time.

use std::sync::Arc;

use terrace_base::{Error, Result};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinError;

/// Calls that run at a time unless another number is said: what an SSD answers well together, and few beside the
/// 512 threads that a runtime has for blocking work.
pub const MOST_THREADS: usize = 32;

/// How many calls may still begin.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    places: Arc<Semaphore>,
}

impl Pool {
    /// For `most` calls at a time.
    pub fn new(most: usize) -> Result<Pool> {
        match (1..=Semaphore::MAX_PERMITS).contains(&most) {
            true => Ok(Pool {
                places: Arc::new(Semaphore::new(most)),
            }),
            false => Err(Error::invalid(format!(
                "{most} calls cannot run at a time; choose from 1 to {}",
                Semaphore::MAX_PERMITS
            ))),
        }
    }

    /// Runs this once there is a place.
    pub async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let place = self.places.clone().acquire_owned().await;
        // It is never closed.
        let place = place.map_err(|_| ended())?;
        run_beside(move || {
            let answer = call();
            drop(place);
            answer
        })
        .await
    }

    /// Places that are free.
    #[cfg(feature = "planted-faults")]
    pub fn free(&self) -> usize {
        self.places.available_permits()
    }
}

/// Runs this on a thread of its own, whatever else runs: for what waits for long.
pub(crate) async fn run_beside<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    let runtime = Handle::try_current().map_err(|_| {
        Error::invalid("this is no thread of a Tokio runtime: terrace::aio runs on one")
    })?;
    joined(runtime.spawn_blocking(call).await)
}

/// What a task of the runtime has come to.
pub(crate) fn joined<T>(done: std::result::Result<T, JoinError>) -> Result<T> {
    match done {
        Ok(answer) => Ok(answer),
        // As if it had run on this thread.
        Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
        Err(_) => Err(ended()),
    }
}

fn ended() -> Error {
    Error::Cancelled {
        what: "a call, because the Tokio runtime is shut down; it was not begun".into(),
    }
}
