//! Files are short and say at the top what they are for, and so is the map of all of them.

use crate::{Complaints, Tree};

/// Longest file without a reason.
const MOST_LINES: usize = 700;

/// Longer files, each with the reason.
const LONGER: &[(&str, &str)] = &[];

/// No file is longer than it needs to be.
pub fn length(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        let excused = LONGER.iter().any(|(path, _)| *path == file.path);
        if lines > MOST_LINES && !excused {
            complaints.push(format!(
                "{}: {lines} lines, of {MOST_LINES} at most",
                file.path
            ));
        }
        if lines <= MOST_LINES && excused {
            complaints.push(format!("{}: needs no excuse any more", file.path));
        }
    }
    complaints
}

/// Longest text for who reads it before anything else, in bytes: as much as one reads in one sitting.
const MOST_OF_THE_MAP: usize = 17 << 10;

/// The map of the code stays one that is read.
pub fn map_length(tree: &Tree) -> Complaints {
    let path = "ARCHITECTURE.md";
    let bytes = tree.file(path).map_or(0, |file| file.text.len());
    let is_long = bytes > MOST_OF_THE_MAP;
    is_long
        .then(|| format!("{path}: {bytes} bytes, of {MOST_OF_THE_MAP} at most"))
        .into_iter()
        .collect()
}

/// Every source file opens with its one job.
pub fn opening_line(tree: &Tree) -> Complaints {
    let silent = tree.sources().filter(|file| !file.text.starts_with("//! "));
    silent
        .map(|file| format!("{}:1: does not open with a //! line", file.path))
        .collect()
}
