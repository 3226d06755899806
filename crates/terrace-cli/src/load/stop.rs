//! Ctrl-C while records are loaded: what is loaded by then is said, and the command ends.
//!
//! The database needs no closing for that: what was written is in its log. So the process just ends.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

use crate::output::tell;

/// The code with which a shell says that a command was ended by this signal.
const INTERRUPTED: i32 = 128 + 2;

/// Where the loading stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Records go in batches, in the order of the file.
    Batches = 0,
    /// Records are read and sorted; nothing of them is written.
    Sorting = 1,
    /// They are written in the order of their keys.
    Writing = 2,
}

static PHASE: AtomicU8 = AtomicU8::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// From now on the signal ends the command with a word on what is loaded.
pub fn watch() {
    // Without it the signal ends the command, too, and says nothing.
    let _ = ctrlc::set_handler(|| {
        tell(&format!("\nterrace: stopped: {}", said()));
        std::process::exit(INTERRUPTED);
    });
}

/// The loading is at this.
pub fn enter(phase: Phase) {
    PHASE.store(phase as u8, Relaxed);
}

/// So many records were taken from the file so far; where they go in batches, written.
pub fn taken(records: u64) {
    TAKEN.store(records, Relaxed);
}

/// So many were written in order.
pub fn written(records: u64) {
    WRITTEN.store(records, Relaxed);
}

fn said() -> String {
    let (taken, written) = (TAKEN.load(Relaxed), WRITTEN.load(Relaxed));
    match PHASE.load(Relaxed) {
        phase if phase == Phase::Sorting as u8 => format!(
            "of {taken} records that were read none is loaded, but for very long values: they are written \
             when all are read"
        ),
        phase if phase == Phase::Writing as u8 => format!(
            "of {taken} records about {written} are loaded, those with the lowest keys; loading the same \
             again completes them"
        ),
        _ => format!(
            "{taken} records are loaded, those that came first, and perhaps some more behind them"
        ),
    }
}
