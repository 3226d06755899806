//! Terrace: an embedded, durable key-value engine that keeps hot records, not pages, in memory.
#![forbid(unsafe_code)]
