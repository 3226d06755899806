//! Who may change pages: the gate, its door, what is promised there, and what ends it.

pub(crate) mod door;
pub(crate) mod gate;
pub(crate) mod halt;
pub(crate) mod health;
pub(crate) mod interrupt;
pub(crate) mod large;
pub(crate) mod promise;
pub(crate) mod signals;
