//! The circles of files that there are.

/// A circle that there is.
pub struct Known {
    /// A file of it, without `crates/` and `.rs`.
    pub file: &'static str,
    /// How many files it has.
    pub files: usize,
    /// Why it is there.
    pub reason: &'static str,
}

/// All of them. Most are one type, or one suite, whose parts lie in a folder of their own.
pub const KNOWN: &[Known] = &[
    Known {
        file: "terrace-mem/src/dynamic/mod",
        files: 39,
        reason: "Stages are generic over families of keys, which name the stages that suit them.",
    },
    Known {
        file: "terrace-mem/src/concurrent/mod",
        files: 11,
        reason: "The map for many threads shows itself to placement.",
    },
    Known {
        file: "terrace-mem/src/map/mod",
        files: 5,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-mem/src/map/core",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-mem/src/key/mod",
        files: 3,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-mem/src/place/chunk",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-mem/src/slots",
        files: 2,
        reason: "Two halves of one job.",
    },
];
