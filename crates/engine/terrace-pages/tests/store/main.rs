//! A whole store on a simulated disk: power cuts, full disks, limits, pages that rot, several threads.
#![cfg(not(feature = "shuttle"))]

#[path = "../common/mod.rs"]
mod common;

mod crash;
mod full_disk;
mod limits;
mod planted;
mod rot;
mod stress;
mod together;
