//! The kinds of structures, as they are said on the command line.

use clap::ValueEnum;

use crate::engine::{Compression, Kind};

/// What a structure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindName {
    /// An ordered map: a B+tree
    Tree,
    /// A map without order: a hash table
    Hash,
    /// Rows by a primary key, with indexes over them
    Table,
    /// An ordered map for many writes: an LSM-tree
    Lsm,
    /// A map in persistent memory: a file of its own, where a database is a folder
    Pm,
}

impl KindName {
    /// As it is said on the command line.
    pub fn name(self) -> &'static str {
        match self {
            KindName::Tree => "tree",
            KindName::Hash => "hash",
            KindName::Table => "table",
            KindName::Lsm => "lsm",
            KindName::Pm => "pm",
        }
    }

    /// The kind.
    pub fn kind(self) -> Kind {
        match self {
            // A map in persistent memory is no structure of a database; it has commands of its own.
            KindName::Tree | KindName::Pm => Kind::Tree,
            KindName::Hash => Kind::Hash,
            KindName::Table => Kind::Table,
            KindName::Lsm => Kind::Lsm,
        }
    }
}

/// How pages are compressed.
pub fn parse_compression(text: &str) -> Result<Compression, String> {
    let levels = match text.split_once(':') {
        None if text == "none" => return Ok(Compression::None),
        None if text == "lz4" => return Ok(Compression::LZ4),
        Some(("lz4", levels)) => levels.parse().unwrap_or(0),
        _ => 0,
    };
    match levels {
        1..=8 => Ok(Compression::Lz4 { levels }),
        _ => {
            Err("pages are compressed by none, lz4, or lz4:N for the last N levels, 1 to 8".into())
        }
    }
}

/// The same as it is said.
pub fn compression_name(compression: Compression) -> String {
    match compression.levels() {
        0 => "none".into(),
        1 => "lz4".into(),
        levels => format!("lz4:{levels}"),
    }
}
