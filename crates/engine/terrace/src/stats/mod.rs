//! Figures of a database, and their table for people.

mod figures;
pub(crate) mod series;
mod table;

pub use figures::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, Stats, StructureStats,
};
