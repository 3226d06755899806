//! Dropped structures, and taking them apart.

mod take_apart;
#[cfg(test)]
mod tests;
