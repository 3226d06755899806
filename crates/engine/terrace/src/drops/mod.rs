//! Dropped structures: those that wait, and taking them apart.

pub mod queue;
mod take_apart;
#[cfg(test)]
mod tests;
