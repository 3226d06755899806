//! Calls of Python for who waits for a page of the database.
//!
//! Invariant: the thread of the database that reads for many neither waits for the interpreter nor lets go of what is
//! Python's. So it can be waited for with the interpreter held, as happens where the last handle is lost.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, ThreadId};
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;

/// Who closes waits so long at most for what is called: it may wait for who closes.
const MOST: Duration = Duration::from_secs(1);

pub enum Wake {
    Call(Py<PyAny>),
    /// All that were sent before have been called.
    Settled(Sender<()>),
}

/// The thread that calls, from the first one on; it ends with the last sender.
#[derive(Default)]
pub struct Wakes {
    thread: Mutex<Option<(Sender<Wake>, ThreadId)>>,
}

impl Wakes {
    /// Where to send what is to be called, if there can be a thread.
    pub fn sender(&self) -> Option<Sender<Wake>> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (sender, wakes) = channel();
            let name = "terrace-wakes".into();
            let begun = Builder::new().name(name).spawn(move || run(&wakes)).ok()?;
            *thread = Some((sender, begun.thread().id()));
        }
        thread.as_ref().map(|(sender, _)| sender.clone())
    }

    /// Until all that were sent have been called. The caller has let go of the interpreter.
    pub fn settle(&self) {
        let thread = self.thread.lock().clone();
        let Some((sender, id)) = thread else {
            return;
        };
        let (settled, settles) = channel();
        if id != std::thread::current().id() && sender.send(Wake::Settled(settled)).is_ok() {
            let _ = settles.recv_timeout(MOST);
        }
    }
}

fn run(wakes: &Receiver<Wake>) {
    while let Ok(first) = wakes.recv() {
        // The interpreter is asked for once for all that are there. At its end there is none.
        Python::try_attach(|py| {
            for wake in std::iter::once(first).chain(wakes.try_iter()) {
                match wake {
                    Wake::Call(call) => {
                        if let Err(error) = call.call0(py) {
                            error.write_unraisable(py, Some(call.bind(py)));
                        }
                    }
                    Wake::Settled(settled) => {
                        let _ = settled.send(());
                    }
                }
            }
        });
    }
}
