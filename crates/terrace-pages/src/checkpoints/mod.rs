//! A consistent cut made durable, how fast, and images that stay readable.

pub(crate) mod checkpoint;
pub(crate) mod cut;
pub(crate) mod durable;
pub(crate) mod image;
pub(crate) mod pace;
pub(crate) mod pause;
pub(crate) mod pin;
pub(crate) mod pinned;
