//! Tests of the access methods on a simulated disk: the conformance suite, planted faults, bad bytes, loads.

mod buckets;
mod bytes;
mod chains;
mod cuts;
mod faults;
mod fixture;
mod formats;
mod frame_cache;
mod heights;
mod holes;
mod links;
mod lsm;
mod lsm_cuts;
mod lsm_damage;
mod lsm_instants;
mod lsm_runs;
mod rising;
mod rows;
mod runs;
mod scans;
mod search;
mod spilling;
mod suite;
