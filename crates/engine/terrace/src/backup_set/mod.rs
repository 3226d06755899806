//! A backup set as it lies in its folder: its files, byte by byte, and what is asked of it; no database is needed to
//! read one. `docs/format-backup.md` has the files.

pub mod archive;
pub mod chains;
pub mod damage;
pub mod folder;
pub mod follow_options;
pub mod leftovers;
pub mod manifest;
pub mod maps;
pub mod names;
pub mod options;
pub mod pages;
pub mod place;
pub mod text;
