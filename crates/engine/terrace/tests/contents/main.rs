//! What users find in a database, by one thread: every structure, tables, loads, limits and figures.

#[path = "../common/mod.rs"]
mod common;

mod a_put_waits_for_one_step;
mod calls_are_futures;
mod every_structure_conforms;
mod expiry_beside_the_rest;
mod figures_add_up;
mod futures_wait_without_a_thread;
mod hash_tables_go_in_steps;
mod indexes_agree_with_rows;
mod long_work_tells_how_far_it_is;
mod lsm_trees_are_compressed;
mod pages_are_read_together;
mod random_scripts_match_a_model;
mod ranges_are_removed;
mod records_expire;
mod structures_mirror_one_another;
mod values_may_be_long;
mod what_goes_in_comes_out;
