//! Maps in simulated memory and in real files: answers, limits, damage, latches, what opening finds.
#![cfg(not(feature = "shuttle"))]

mod damage;
mod earlier_versions;
mod file;
mod full;
mod hooked;
mod latches;
mod model;
mod opening;
mod properties;
