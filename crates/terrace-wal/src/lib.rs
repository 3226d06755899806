//! The log: logical, redo-only, segmented; group commit and the tail rule.

#![forbid(unsafe_code)]
