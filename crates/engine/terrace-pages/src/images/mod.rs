//! The image of a checkpoint: kept readable, and read by a store of its own.

pub(crate) mod image;
pub(crate) mod pin;
