//! Databases with threads: those of a program, beside one another and in transactions, and those that the
//! database has of its own. How many threads there are in a process changes how much is kept ready for them, so
//! what is counted exactly is tested elsewhere.

#[path = "../common/mod.rs"]
mod common;

mod a_dropped_structure_gives_its_space_back;
mod a_power_cut_under_load_leaves_a_prefix;
mod changes;
mod compaction;
mod histories_of_threads_are_linearizable;
mod many_records_are_loaded;
mod many_scans_of_a_table_get_on;
mod memory_is_divided_as_before;
mod nobody_inside_waits_for_the_disk;
mod options_are_checked_first;
mod replay_by_threads_matches_a_model;
mod replay_is_fast;
mod snapshots;
mod tables_keep_their_indexes;
mod transactions;
mod transactions_at_their_limits;
