//! What happens to the disk, by one thread: calls that fail, power cuts, full disks, files that are damaged, and
//! the space that structures take and give back.

#[path = "../common/mod.rs"]
mod common;

mod a_dropped_handle_loses_nothing;
mod a_failing_call_loses_nothing;
mod a_full_disk_at_the_limit;
mod a_full_disk_is_no_disaster;
mod a_full_page_table_is_no_disaster;
mod a_power_cut_leaves_a_prefix;
mod bad_files_are_errors;
mod deletes_give_space_back;
mod files_of_earlier_versions;
mod hot_tiers_are_brought_over;
mod hot_tiers_are_saved;
mod one_bad_page_is_no_bar_to_others;
mod slots_for_saving_are_kept;
mod what_was_opened_is_durable;
mod what_was_saved_comes_when_asked_for;
mod without_log_the_last_checkpoint_counts;
