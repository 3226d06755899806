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
static BEFORE: AtomicU64 = AtomicU64::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// From now on the signal ends the command with a word on what is loaded.
pub fn watch() {
    // Without it the signal ends the command, too, and says nothing.
    let _ = ctrlc::set_handler(|| {
        let counts = [&BEFORE, &TAKEN, &WRITTEN].map(|count| count.load(Relaxed));
        let said = said(PHASE.load(Relaxed), counts);
        tell(&format!("\nterrace: stopped: {said}"));
        std::process::exit(INTERRUPTED);
    });
}

/// The loading is at this, in the structure behind this many records, which are loaded.
pub fn enter(phase: Phase, before: u64) {
    BEFORE.store(before, Relaxed);
    PHASE.store(phase as u8, Relaxed);
}

/// This many records, of all structures, were taken from the file so far; where they go in batches,
/// written.
pub fn taken(records: u64) {
    TAKEN.store(records, Relaxed);
}

/// This many records, of all structures, were written in order.
pub fn written(records: u64) {
    WRITTEN.store(records, Relaxed);
}

/// What is loaded: of the records of structures before, taken and written, all of them with those before.
fn said(phase: u8, [before, taken, written]: [u64; 3]) -> String {
    // Counts are behind for a moment where one structure follows the other.
    let (taken, written) = (taken.max(before), written.max(before));
    let in_front = match before {
        0 => String::new(),
        _ => format!("{before} records of the structures in front are loaded; "),
    };
    let (here, done) = (taken - before, written - before);
    match phase {
        phase if phase == Phase::Sorting as u8 => format!(
            "{in_front}of {here} records that were read none is loaded, but for very long values: they are \
             written when all are read"
        ),
        phase if phase == Phase::Writing as u8 => format!(
            "{in_front}of {here} records about {done} are loaded, those with the lowest keys; loading the same \
             again completes them"
        ),
        _ => format!(
            "{taken} records are loaded, those that came first, and perhaps some more behind them"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_is_said_of_all_structures() {
        let sorting = said(Phase::Sorting as u8, [0, 7, 0]);
        assert!(sorting.starts_with("of 7 records that were read none is loaded"));
        let second = said(Phase::Sorting as u8, [5, 7, 5]);
        assert!(
            second.starts_with("5 records of the structures in front are loaded; of 2 records")
        );
        let writing = said(Phase::Writing as u8, [5, 9, 8]);
        assert!(writing.starts_with("5 records"), "{writing}");
        assert!(
            writing.contains("of 4 records about 3 are loaded"),
            "{writing}"
        );
        // Not one that was taken, and not fewer than before.
        let batches = said(Phase::Batches as u8, [5, 0, 0]);
        assert!(batches.starts_with("5 records are loaded"), "{batches}");
    }
}
