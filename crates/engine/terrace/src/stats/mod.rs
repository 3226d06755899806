//! Figures of a database, and their table for people.

mod figures;
mod table;

pub use figures::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, Stats, StructureStats,
};
