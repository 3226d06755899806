//! One tier and two over every method.

#[path = "../common/mod.rs"]
mod common;

mod cold_leaves_are_full;
mod cold_pages_stay_full;
mod every_composition_conforms;
mod full_hot_tier;
mod hot_records_stay;
mod hot_root_that_stays_is_no_secret;
mod large_values;
mod memory_follows_the_misses;
mod model_of_the_protocols;
mod one_tier_agrees_with_a_map;
mod papers_policy_of_lsm_trees;
mod planted_faults;
mod structures_are_small;
mod sweep_orders;
mod threads;
mod tiers_with_own_hashes;
mod two_tiers_agree_with_a_map;
