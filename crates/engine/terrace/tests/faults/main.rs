//! Faults that are planted on purpose: each is found by a scenario that passes without it. A fault is planted in a
//! whole process, so each test here runs again in processes of its own.

#[path = "../common/mod.rs"]
mod common;

mod faults_of_transactions_are_caught;
mod planted_faults_are_caught;
mod the_order_of_a_write_is_kept;
