//! Figures of a database, and their table for people.

mod figures;
mod left;
mod table;

pub use figures::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, Stats, StructureStats,
};
pub use left::{PageStays, PagesLeft};
