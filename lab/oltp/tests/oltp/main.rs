//! The workloads with their oracles, and the example of order entry, whose process is killed.

mod order_entry;
mod workloads;
