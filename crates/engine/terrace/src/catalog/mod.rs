//! Which structures there are: on their pages, open in memory, and how that changes.

pub mod change;
pub mod entries;
pub mod opened;
pub mod registry;
