//! Sorted sets.

pub mod add;
pub mod combine;
pub mod find;
pub mod range;
pub mod take;
