//! Ctrl-C while the demonstration runs: the work ends at the next visit, and the databases are deleted.

use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::output::tell;

/// The code with which a shell says that a command was ended by this signal.
pub const INTERRUPTED: u8 = 128 + 2;

static STOPPED: AtomicBool = AtomicBool::new(false);

/// What ends the work then.
#[derive(Debug)]
pub struct Stopped;

impl std::fmt::Display for Stopped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Stopped {}

/// From now on the signal ends the work; once more, it ends the command at once.
pub fn watch() {
    // Without it the signal ends the command at once, too: then the other process deletes the databases.
    let _ = ctrlc::set_handler(|| {
        if STOPPED.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        tell("\nterrace: stopping");
    });
}

/// Whether it has come.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::Relaxed)
}

/// An error once it has come.
pub fn check() -> Result<()> {
    match is_stopped() {
        true => Err(anyhow!(Stopped)),
        false => Ok(()),
    }
}
