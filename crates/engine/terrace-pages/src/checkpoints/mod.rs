//! A consistent cut made durable, and how fast.

pub(crate) mod checkpoint;
pub(crate) mod pause;
