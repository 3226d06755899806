//! A consistent cut made durable, how fast, and images that stay readable.

pub(crate) mod checkpoint;
pub(crate) mod image;
pub(crate) mod pause;
pub(crate) mod pin;
