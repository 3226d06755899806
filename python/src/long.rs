//! Calls that take long: Ctrl-C is heard while they go on, others may end them, and they tell how far they are.
//!
//! Python handles signals in the main thread alone, and only while that runs Python. So long work of the engine is
//! done in a thread beside it, and loops over what Python hands over ask in between.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pyo3::prelude::*;
use terrace::Progress;

use crate::shared::Slot;

/// So often it is asked whether there is a signal to handle.
const EVERY: Duration = Duration::from_millis(10);
/// Turns of a loop between looks at the clock.
const TURNS: u32 = 32;

/// Ends work that goes on elsewhere: `backup`, `compact`, `restore` take it.
#[pyclass(frozen, module = "terrace")]
pub struct Cancel {
    cancel: terrace::Cancel,
}

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Cancel {
        let cancel = terrace::Cancel::new();
        Cancel { cancel }
    }

    /// The work ends soon, with `Cancelled`.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }
}

/// Of loops that hold the interpreter.
pub struct Ear {
    last: Instant,
    turns: u32,
}

impl Ear {
    pub fn new() -> Ear {
        Ear {
            last: Instant::now(),
            turns: 0,
        }
    }

    /// Raises what a signal raises, if there was one.
    pub fn listen(&mut self, py: Python<'_>) -> PyResult<()> {
        self.turns = self.turns.wrapping_add(1);
        if self.turns.is_multiple_of(TURNS) && self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            py.check_signals()?;
        }
        Ok(())
    }
}

/// One long call of the engine.
pub struct Long {
    pub cancel: terrace::Cancel,
    progress: Option<Py<PyAny>>,
    /// What ends the call: a signal's, or what `progress` has raised.
    raised: Mutex<Option<PyErr>>,
}

impl Long {
    pub fn new(cancel: Option<&Cancel>, progress: Option<Py<PyAny>>) -> Long {
        Long {
            cancel: cancel.map_or_else(terrace::Cancel::new, |given| given.cancel.clone()),
            progress,
            raised: Mutex::new(None),
        }
    }

    fn end_with(&self, error: PyErr) {
        self.raised.lock().get_or_insert(error);
        self.cancel.cancel();
    }

    /// Tells Python how far it has come: what goes on, how much is done, and how much there is.
    pub fn tell(&self, progress: Progress) {
        let Some(call) = &self.progress else {
            return;
        };
        let work = serde_json::to_value(progress.work).unwrap_or_default();
        let work = work.as_str().unwrap_or("work").to_owned();
        let told = Python::attach(|py| {
            call.call1(py, (work, progress.done, progress.total))
                .map(drop)
        });
        if let Err(error) = told {
            self.end_with(error);
        }
    }

    /// Does the work in a thread beside this one. What a signal raises ends it by `cancel`, and is raised when it
    /// has ended.
    pub fn run<R: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce() -> PyResult<R> + Send,
    ) -> PyResult<R> {
        let done = py.detach(|| {
            std::thread::scope(|threads| {
                let (ended, end) = channel::<()>();
                let worker = threads.spawn(move || {
                    let done = work();
                    drop(ended);
                    done
                });
                while let Err(RecvTimeoutError::Timeout) = end.recv_timeout(EVERY) {
                    if let Err(error) = Python::attach(|py| py.check_signals()) {
                        self.end_with(error);
                    }
                }
                worker.join()
            })
        });
        let raised = self.raised.lock().take();
        match (raised, done) {
            (Some(error), _) => Err(error),
            (None, Ok(done)) => done,
            // The engine's panics are errors by then.
            (None, Err(panic)) => std::panic::resume_unwind(panic),
        }
    }

    /// The same with what is in a slot: closing does not wait for it, and the engine answers it with an error.
    pub fn run_with<T: Send + Sync + Clone + 'static, R: Send>(
        &self,
        py: Python<'_>,
        slot: &Slot<T>,
        work: impl FnOnce(T) -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        let value = slot.take_clone()?;
        self.run(py, || Ok(slot.shared.guarded(|| work(value))?))
    }
}
