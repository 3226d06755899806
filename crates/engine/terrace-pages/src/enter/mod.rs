//! Who may change pages: the door of the gate, what may interrupt a change, and what ends it.

pub(crate) mod door;
pub(crate) mod halt;
pub(crate) mod interrupt;
