//! Following the log: a backup set that has every change soon after it was made.

use std::sync::Arc;

use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyType;
use terrace::{Error, FollowStatus};

use crate::backup::json;
use crate::errors::Failure;
use crate::long::Long;
use crate::shared::Slot;

/// What copies the log, until it is stopped or the database is closed.
type Running = Mutex<Option<Arc<terrace::Follower>>>;

/// Copies the log of a database to a backup set.
#[pyclass(frozen, module = "terrace")]
pub struct Follower {
    slot: Arc<Slot<Arc<Running>>>,
    /// How far it had come when it was stopped.
    last: Mutex<Option<FollowStatus>>,
}

fn stopped() -> Error {
    Error::invalid("it does not follow any more; begin anew with follow()")
}

impl Follower {
    pub fn new(db: &Slot<terrace::Database>, follower: terrace::Follower) -> Follower {
        let running = Arc::new(Mutex::new(Some(Arc::new(follower))));
        Follower {
            slot: db.shared.slot(running),
            last: Mutex::new(None),
        }
    }

    fn running(running: &Running) -> terrace::Result<Arc<terrace::Follower>> {
        running.lock().clone().ok_or_else(stopped)
    }
}

#[pymethods]
impl Follower {
    /// Copies all that was written so far, now; the number of the last change that the set has.
    fn archive(&self, py: Python<'_>) -> PyResult<u64> {
        let long = Long::new(None, None);
        long.run_with(py, &self.slot, |running| {
            Follower::running(&running)?.archive()
        })
    }

    fn status_json(&self, py: Python<'_>) -> PyResult<String> {
        let last = self.last.lock().clone();
        if let Some(last) = last {
            return Ok(json(&last).map_err(Failure::Engine)?);
        }
        self.slot
            .with(py, |running| json(&Follower::running(running)?.status()))
    }

    /// Copies all that was written so far, and ends it. Twice is nothing.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        if self.slot.peek().is_none() {
            return Ok(());
        }
        let long = Long::new(None, None);
        let ended = long.run_with(py, &self.slot, |running| {
            let Some(mut follower) = running.lock().take() else {
                return Ok(None);
            };
            // Whoever archives at this instant comes to its end first.
            loop {
                match Arc::try_unwrap(follower) {
                    Ok(follower) => return follower.stop().map(Some),
                    Err(busy) => follower = busy,
                }
                std::thread::yield_now();
            }
        })?;
        if ended.is_some() {
            *self.last.lock() = ended;
        }
        Ok(())
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        _raised: Option<&Bound<'_, PyType>>,
        _error: Option<&Bound<'_, PyAny>>,
        _trace: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<bool> {
        self.stop(py)?;
        Ok(false)
    }
}
