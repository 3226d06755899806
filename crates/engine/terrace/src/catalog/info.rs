//! What a structure is, for users.

use crate::catalog::opened::{Open, TableState};
use crate::index::definition::IndexInfo;
use crate::kinds::Kind;
use crate::kinds::spec::{Compression, Policy, Tiers};

/// What a structure is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct StructureInfo {
    /// Its name.
    pub name: String,
    /// Its number.
    pub id: u32,
    /// Its kind.
    pub kind: Kind,
    /// Its tiers.
    pub tiers: Tiers,
    /// Its policy.
    pub policy: Policy,
    /// Whether promoted records stay in the cold tier too.
    pub inclusive: bool,
    /// Whether the log keeps its changes.
    pub logged: bool,
    /// Whether the hot tier of a table is a heap, as the cold one is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hot_heap: bool,
    /// Whether the hot tier lies in memory alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hot_in_memory: bool,
    /// Whether it could, and was made to have its pages in the file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hot_in_file: bool,
    /// Whether its records may expire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expiring: bool,
    /// How pages of an LSM-tree are compressed.
    #[serde(default, skip_serializing_if = "is_none")]
    pub compression: Compression,
    /// The indexes of a table, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<IndexInfo>,
}

fn is_none(compression: &Compression) -> bool {
    *compression == Compression::None
}

impl StructureInfo {
    /// That of no structure.
    pub(crate) fn nameless() -> StructureInfo {
        StructureInfo {
            name: String::new(),
            id: 0,
            kind: Kind::Tree,
            tiers: Tiers::One,
            policy: Policy::Default,
            inclusive: false,
            logged: false,
            hot_heap: false,
            hot_in_memory: false,
            hot_in_file: false,
            expiring: false,
            compression: Compression::None,
            indexes: Vec::new(),
        }
    }

    pub(crate) fn of(open: &Open) -> StructureInfo {
        StructureInfo {
            name: open.name(),
            id: open.id().0,
            kind: open.spec.kind,
            tiers: open.spec.tiers,
            policy: open.spec.policy,
            inclusive: open.spec.inclusive,
            logged: open.spec.logged,
            hot_heap: open.spec.hot_heap,
            hot_in_memory: open.spec.in_memory,
            hot_in_file: open.spec.stays_in_file,
            expiring: open.spec.expiring,
            compression: open.compression(),
            indexes: open.table.as_ref().map_or_else(Vec::new, TableState::infos),
        }
    }
}
