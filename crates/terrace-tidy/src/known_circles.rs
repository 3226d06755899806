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
        file: "terrace/src/backup/mod",
        files: 49,
        reason: "Everything that a user holds leads to `Core`, and `Core` to all of it: to be divided into what owns which state.",
    },
    Known {
        file: "terrace-pages/src/allocate",
        files: 15,
        reason: "`PageStore` has all state, and each of these files a part of what it does: to be divided.",
    },
    Known {
        file: "terrace-tier/src/bury",
        files: 15,
        reason: "`Tiered` and its context know each other's parts.",
    },
    Known {
        file: "terrace-access/src/conformance",
        files: 8,
        reason: "One suite over several files.",
    },
    Known {
        file: "terrace-methods/src/heap/mod",
        files: 6,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-bench/src/buckets",
        files: 5,
        reason: "A command or report, and its parts in files beside it.",
    },
    Known {
        file: "terrace-methods/src/btree/mod",
        files: 5,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-methods/src/hash/mod",
        files: 5,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace/src/transaction/mod",
        files: 4,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-methods/src/lsm/mod",
        files: 4,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-cli/src/engine",
        files: 3,
        reason: "A command or report, and its parts in files beside it.",
    },
    Known {
        file: "terrace-cli/src/load/mod",
        files: 3,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace/src/backup/maps",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace/src/load/mod",
        files: 2,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-cli/src/bench/mod",
        files: 2,
        reason: "A type, and its parts in files beside it.",
    },
    Known {
        file: "terrace-metrics/src/families",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-pages/src/map/map_file",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-pages/src/map/page_map",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-pages/src/map/tests/world",
        files: 2,
        reason: "Two halves of one job.",
    },
    Known {
        file: "terrace-sim/src/history",
        files: 2,
        reason: "Two halves of one job.",
    },
];
