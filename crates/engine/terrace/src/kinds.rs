//! The kinds of structures: one row for each, which is all that the database knows of it.
//!
//! What a method can do and what it costs is told by its traits; a row says how users and files name the
//! kind, which methods its tiers are made of, and what may be chosen.

pub mod methods;
pub mod spec;
pub mod structures;

use std::marker::PhantomData;

use terrace_methods::{Apart, BTree, HashTable, Heap, Lsm};

use crate::kinds::methods::{Methods, Pair};

/// The kinds of structures.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Kind {
    /// An ordered map: a B+tree in each tier.
    Tree,
    /// A map without order: a hash table in each tier.
    Hash,
    /// A table: rows by a primary key, and indexes over them.
    Table,
    /// An ordered map for many writes: an LSM-tree, below a B+tree of what is hot.
    Lsm,
}

impl Kind {
    /// One word for it, as the command line and figures have it.
    pub fn as_str(self) -> &'static str {
        self.row().word
    }

    pub(crate) fn row(self) -> &'static Row {
        &KINDS[self as usize]
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.row().name)
    }
}

/// What users hold of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// A [`crate::Tree`]: an order of keys.
    Tree,
    /// A [`crate::Hash`]: none.
    Hash,
    /// A [`crate::Table`]: an order of keys, and indexes.
    Table,
}

/// Which of its variants a structure is; they are for comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Variant {
    /// Each tier has a hash function of its own.
    pub apart: bool,
    /// The hot tier is made like the cold one, and not of what suits it better.
    pub hot_heap: bool,
}

/// What there is to know of a kind.
pub struct Row {
    /// The kind.
    pub kind: Kind,
    /// Its number in the catalog and in the log.
    pub byte: u8,
    /// One word for it.
    pub word: &'static str,
    /// What sentences call it.
    pub name: &'static str,
    /// What users hold.
    pub view: View,
    /// Whether each of two tiers may have a hash function of its own.
    pub may_be_apart: bool,
    /// Whether the hot one of two tiers may be a heap, as the cold one is.
    pub may_have_hot_heap: bool,
    /// Whether its pages can be compressed.
    pub may_be_compressed: bool,
    /// Why two tiers of it must include one another, if they must.
    pub inclusive_only: Option<&'static str>,
    /// The methods of its tiers.
    pub methods: fn(Variant) -> &'static dyn Methods,
}

/// All of them; the place of a row is the number of its variant.
pub static KINDS: [Row; 4] = [
    Row {
        kind: Kind::Tree,
        byte: 0,
        word: "tree",
        name: "tree",
        view: View::Tree,
        may_be_apart: false,
        may_have_hot_heap: false,
        may_be_compressed: false,
        inclusive_only: None,
        methods: |_| &Pair::<BTree, BTree>(PhantomData),
    },
    Row {
        kind: Kind::Hash,
        byte: 1,
        word: "hash",
        name: "hash table",
        view: View::Hash,
        may_be_apart: true,
        may_have_hot_heap: false,
        may_be_compressed: false,
        inclusive_only: None,
        methods: |variant| match variant.apart {
            false => &Pair::<HashTable, HashTable>(PhantomData),
            true => &Pair::<HashTable, Apart>(PhantomData),
        },
    },
    Row {
        kind: Kind::Table,
        byte: 2,
        word: "table",
        name: "table",
        view: View::Table,
        may_be_apart: false,
        may_have_hot_heap: true,
        may_be_compressed: false,
        inclusive_only: None,
        methods: |variant| match variant.hot_heap {
            false => &Pair::<BTree, Heap>(PhantomData),
            true => &Pair::<Heap, Heap>(PhantomData),
        },
    },
    Row {
        kind: Kind::Lsm,
        byte: 3,
        word: "lsm",
        name: "LSM-tree",
        view: View::Tree,
        may_be_apart: false,
        may_have_hot_heap: false,
        may_be_compressed: true,
        inclusive_only: Some(
            "the tiers of an LSM-tree include one another: a record that is promoted would leave a mark of its deletion below; leave MapOptions::inclusive as it is",
        ),
        methods: |_| &Pair::<BTree, Lsm>(PhantomData),
    },
];

/// Rows are found by number.
const _: () = {
    let mut place = 0;
    while place < KINDS.len() {
        assert!(KINDS[place].kind as usize == place);
        place += 1;
    }
};

/// The kind of this number in files; `None` if there is none.
pub fn kind_of_byte(byte: u8) -> Option<Kind> {
    let row = KINDS.iter().find(|row| row.byte == byte);
    row.map(|row| row.kind)
}

#[cfg(test)]
mod card;
#[cfg(test)]
mod tests;
