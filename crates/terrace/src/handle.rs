//! What the handles of a database share: its core, its threads, and its closing.

use std::sync::Arc;
use std::thread::JoinHandle;

use crate::checkpointer::Speed;
use parking_lot::Mutex;
use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::core::Core;
use crate::options::Options;

/// Closes the database when the last handle is dropped.
pub struct Handle {
    pub core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// What closing came to; held while it goes on, so that whoever closes too is told the same.
    closed: Mutex<Option<Result<()>>>,
}

impl Handle {
    /// Opens the database and starts its threads.
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<Handle> {
        let core = Core::open(disk, options)?;
        let handle = Handle {
            core,
            threads: Mutex::default(),
            closed: Mutex::default(),
        };
        if !handle.core.options.foreground {
            *handle.core.demoter.lock() = Some(handle.core.tiers.start_demoter()?);
            handle.start("terrace-checkpointer", |core| core.run_checkpoints())?;
            handle.start("terrace-log", |core| {
                core.log.attend();
                if let Some(e) = core.log.poisoned() {
                    core.failed(e);
                }
            })?;
            handle.start("terrace-drops", |core| core.run_drops())?;
        }
        Ok(handle)
    }

    fn start(&self, name: &str, run: impl Fn(&Core) + Send + 'static) -> Result<()> {
        let core = self.core.clone();
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || run(&core))
            .map_err(|e| Error::io("starting", name, e))?;
        self.threads.lock().push(thread);
        Ok(())
    }

    /// Waits for the last call, stops the threads, makes the final checkpoint. Whoever closes again is
    /// told what came of it.
    pub fn close(&self) -> Result<()> {
        let mut closed = self.closed.lock();
        if let Some(result) = &*closed {
            return result.clone();
        }
        let result = self.close_once();
        *closed = Some(result.clone());
        result
    }

    fn close_once(&self) -> Result<()> {
        let core = &self.core;
        let first = core.passes.close();
        core.checkpoints.stop();
        core.drops.stop();
        core.log.dismiss();
        for thread in self.threads.lock().drain(..) {
            // A panic of the thread has been reported by the panic hook already.
            let _ = thread.join();
        }
        drop(core.demoter.lock().take());
        if !first {
            // Dead: then this is the error that everybody gets.
            return core.passes.cause().map_or(Ok(()), Err);
        }
        let checkpoint = core.checkpoint(Speed::Fast, true).map(|_| ());
        // Without the checkpoint the log still has everything that was acknowledged.
        let log = core.log.close().map_err(|e| core.failed(e));
        checkpoint.and(log)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // There is nobody to tell; what was acknowledged is in the log.
        let _ = self.close();
    }
}
