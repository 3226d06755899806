//! Structures as users work with them: looking up, writing, and going through what is there.

pub mod asking;
pub mod expiring;
pub mod hash;
pub mod hash_scan;
pub mod index;
pub mod map;
pub mod ordered;
pub mod range;
mod resident;
pub mod table;
pub mod tree;
pub mod unordered;
