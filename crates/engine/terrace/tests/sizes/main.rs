//! What databases take: at the defaults, on small disks, and files that are short however long is written.

#[path = "../common/mod.rs"]
mod common;

mod hot_pages_take_no_place;
mod no_cliffs_at_the_defaults;
mod the_data_file_stays_short;
