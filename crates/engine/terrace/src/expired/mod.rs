//! Records that have expired, on their way out: what tells tiers and merges of them, and the rounds that look for
//! them where nobody else comes by.

pub mod counts;
pub mod pause;
pub mod rounds;
