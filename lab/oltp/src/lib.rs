//! TPC-C, Voter, Articles and YCSB behind one trait, over tables of the engine.

#![forbid(unsafe_code)]

pub mod articles;
pub mod commands;
pub mod drive;
pub mod engines;
mod row;
pub mod tpcc;
pub mod txn;
pub mod voter;
pub mod work;
pub mod ycsb;
