//! Figures of a database, and their table for people.

mod figures;
mod program;
pub(crate) mod series;
mod table;

pub use figures::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, Stats, StructureStats,
};
pub(crate) use program::Program;
pub use program::ProgramFigure;
