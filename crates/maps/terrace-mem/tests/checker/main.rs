//! The concurrent map under a randomised scheduler, and the faults that it must find.

#[path = "../support/linear.rs"]
mod linear;
mod orders;
#[cfg(feature = "planted-faults")]
mod planted;
#[path = "../support/scenes.rs"]
mod scenes;
