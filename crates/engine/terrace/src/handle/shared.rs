//! What the handles of a database share: its core, its threads, and its closing.

use std::sync::Arc;
use std::thread::JoinHandle;

use terrace_base::process::of_another_process;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use crate::core::Core;
use crate::handle::latest::Latest;
use crate::state::checkpoints::Speed;

/// Who serves others while the database is open, beside the calls of the program.
pub trait Beside: Send {
    /// Serves no client any more, and waits for what is under way.
    fn stop(self: Box<Self>);
}

/// Closes the database when the last handle is dropped.
pub struct Handle {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What closing came to; held while it goes on, so that whoever closes too is told the same.
    closed: Mutex<Option<Result<()>>>,
    snapshots: Latest<Handle>,
    /// Who serves others while it is open.
    beside: Mutex<Option<Box<dyn Beside>>>,
}

impl Handle {
    /// Of an open core. The caller starts its threads; that of a snapshot needs none.
    pub fn new(core: Arc<Core>) -> Handle {
        Handle {
            core,
            threads: Mutex::default(),
            closed: Mutex::default(),
            snapshots: Latest::default(),
            beside: Mutex::default(),
        }
    }

    #[inline]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// The snapshot that was taken last.
    pub fn snapshots(&self) -> &Latest<Handle> {
        &self.snapshots
    }

    /// Others are served from now on, until it is closed.
    #[cfg(feature = "control")]
    pub fn serve_beside(&self, beside: Box<dyn Beside>) {
        *self.beside.lock() = Some(beside);
    }

    /// Starts a thread, which closing waits for.
    pub fn start(&self, name: &str, run: impl Fn(&Core) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                let _watch = core.store().watch("a thread in the background");
                run(&core);
            })
            .map_err(|e| Error::io("starting", name, e))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Waits for the last call, stops the threads, makes the final checkpoint. Whoever closes again is
    /// told what came of it.
    pub fn close(&self) -> Result<()> {
        if !self.core.passes().is_mine() {
            return Err(of_another_process());
        }
        let closing = match self.core.reader().is_here() {
            // Another thread that closes waits for this one.
            true => self.closed.try_lock(),
            false => Some(self.closed.lock()),
        };
        let Some(mut closed) = closing else {
            let why = "another thread closes the database, and waits for this call of when_resident's to end";
            return Err(Error::invalid(why));
        };
        if let Some(result) = &*closed {
            return result.clone();
        }
        let result = self.close_once(true);
        *closed = Some(result.clone());
        result
    }

    fn close_once(&self, last_checkpoint: bool) -> Result<()> {
        let core = &self.core;
        if let Some(beside) = self.beside.lock().take() {
            beside.stop();
        }
        // When no caller can ask for another one, and while it can still be written.
        #[cfg(feature = "backup")]
        core.backups().following().stop();
        let first = core.passes().close();
        // No caller comes to it any more; who waits is told that the database is closed.
        core.reader().stop();
        if core.store().is_image() {
            return Ok(());
        }
        core.checkpoints().stop();
        core.drops().stop();
        core.rounds().stop();
        core.log().dismiss();
        for thread in self.threads.lock().drain(..) {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
        core.demotion().stop();
        if !first {
            core.checkpoints().end();
            // Dead: then this is the error that every caller gets.
            return core.passes().cause().map_or(Ok(()), Err);
        }
        let checkpoint = match last_checkpoint {
            true => {
                core.draw_in();
                let last = core.checkpoint(Speed::Fast, true).map(|_| ());
                core.store().end_compacting();
                last
            }
            false => Ok(()),
        };
        core.checkpoints().end();
        // Without the checkpoint the log still has everything that was acknowledged.
        let log = core.log().close().map_err(|e| core.failed(e));
        if last_checkpoint {
            // Last, as it takes space that the others may need.
            core.note_warm();
        }
        checkpoint.and(log)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.core.passes().is_mine() {
            // The threads are not there to be waited for, and what they were at is half done: all of it
            // stays as it is until the child ends.
            std::mem::forget(self.core.clone());
            std::mem::forget(std::mem::take(self.threads.get_mut()));
            std::mem::forget(self.beside.get_mut().take());
            return;
        }
        if std::thread::panicking() && self.closed.get_mut().is_none() {
            // It is not known what the panic has left half done.
            let result = self.close_once(false);
            *self.closed.get_mut() = Some(result);
        }
        // There is no caller to tell; what was acknowledged is in the log.
        let _ = self.close();
    }
}
