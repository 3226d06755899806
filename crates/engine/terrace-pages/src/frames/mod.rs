//! Pages in memory: frames and their latches, how they are found, read in and held.

pub(crate) mod ahead;
pub(crate) mod blocks;
pub(crate) mod cause;
pub(crate) mod fault;
pub(crate) mod find;
pub(crate) mod frame;
pub(crate) mod guard;
pub(crate) mod latch;
pub(crate) mod lending;
pub(crate) mod page;
pub(crate) mod prefetch;
pub(crate) mod quota;
pub(crate) mod region;
pub(crate) mod view;
