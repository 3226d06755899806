//! Which structures there are: on their pages, and open in memory.

pub mod entries;
pub mod hot_places;
pub mod info;
pub mod opened;
pub mod registry;
