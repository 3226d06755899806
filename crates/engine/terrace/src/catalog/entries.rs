//! The catalog: which structures there are. A tree of its own whose root is in the superblock.
//!
//! Keyed by structure id, so that a rename or a new hot root is a change in place. Everything here
//! is an attempt inside the gate, so that an entry and the pages that it names change in one cut.

use std::sync::Arc;

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, NoRoom, Ordered, Plan, Value, Window, WriteGuard,
};
use terrace_base::codec::Reader;
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_methods::BTree;
use terrace_pages::{Class, PageStore};
use terrace_tier::Roots;

use crate::index::definition::{IndexEntry, Stored};
use crate::kinds::spec::{SPEC_BYTES, Spec, check_name, decode_spec};

/// Version of the encoding of an entry.
const ENTRY_VERSION: u8 = 1;
/// The states of an entry, as bits.
const DROPPING: u8 = 1;
const UNFINISHED: u8 = 2;
const INDEX: u8 = 4;

/// What the catalog knows of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub id: StructureId,
    /// What it is.
    pub spec: Spec,
    /// What it is called.
    pub name: String,
    /// Where its tiers begin.
    pub roots: Roots,
    /// Whether it was dropped and only its pages are still there.
    pub dropping: bool,
    /// Whether its making was begun and is not done: an index whose entries are not all there, a
    /// table whose indexes are not. The next opening drops it.
    pub unfinished: bool,
    /// What it is an index of, if it is one.
    pub index: Option<IndexEntry>,
}

impl Entry {
    /// Version, state, spec, hot and cold root (8 bytes each), what an index is, then the name.
    pub fn encode(&self) -> Vec<u8> {
        let bit = |is, bit| if is { bit } else { 0 };
        let state = bit(self.dropping, DROPPING)
            | bit(self.unfinished, UNFINISHED)
            | bit(self.index.is_some(), INDEX);
        let mut out = vec![ENTRY_VERSION, state];
        self.spec.encode(&mut out);
        out.extend_from_slice(&self.roots.hot.unwrap_or(PageId::NONE).0.to_le_bytes());
        out.extend_from_slice(&self.roots.cold.0.to_le_bytes());
        if let Some(index) = &self.index {
            // At most `MAX_SOURCE_BYTES`, which one byte holds.
            let source = index.source.to_string();
            out.extend_from_slice(&index.table.0.to_le_bytes());
            out.push(index.unique.into());
            out.push(source.len() as u8);
            out.extend_from_slice(source.as_bytes());
        }
        out.extend_from_slice(self.name.as_bytes());
        out
    }

    /// Takes any bytes.
    pub fn decode(key: &[u8], value: &[u8]) -> Option<Entry> {
        let id = StructureId(u32::from_be_bytes(key.try_into().ok()?));
        let mut reader = Reader::new(value);
        if reader.u8()? != ENTRY_VERSION {
            return None;
        }
        let state = reader.u8()?;
        if state & !(DROPPING | UNFINISHED | INDEX) != 0 {
            return None;
        }
        let spec = decode_spec(&mut reader.bytes(SPEC_BYTES)?)?;
        let hot = PageId(reader.u64()?);
        let cold = PageId(reader.u64()?);
        let index = match state & INDEX {
            0 => None,
            _ => Some(decode_index(&mut reader)?),
        };
        let name = std::str::from_utf8(reader.rest()).ok()?;
        if cold > PageId::MAX || (hot > PageId::MAX && !hot.is_none()) || check_name(name).is_err()
        {
            return None;
        }
        let roots = Roots {
            hot: (!hot.is_none()).then_some(hot),
            cold,
        };
        Some(Entry {
            id,
            spec,
            name: name.into(),
            roots,
            dropping: state & DROPPING != 0,
            unfinished: state & UNFINISHED != 0,
            index,
        })
    }
}

fn decode_index(reader: &mut Reader<'_>) -> Option<IndexEntry> {
    let table = StructureId(reader.u32()?);
    let unique = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let len = usize::from(reader.u8()?);
    let source = Stored::parse(std::str::from_utf8(reader.bytes(len)?).ok()?)?;
    Some(IndexEntry {
        table,
        unique,
        source,
    })
}

/// The tree that says which structures there are.
pub struct Catalog {
    tree: BTree,
}

impl Catalog {
    /// Makes an empty one.
    pub fn create(store: &Arc<PageStore>) -> Result<Catalog> {
        loop {
            let door = store.enter()?;
            match BTree::create(store, &door, Class::Cold) {
                Ok(tree) => return Ok(Catalog { tree }),
                Err(interrupt) => {
                    drop(door);
                    store.settle(interrupt)?;
                }
            }
        }
    }

    /// The one with this root.
    pub fn open(store: &Arc<PageStore>, root: PageId) -> Catalog {
        Catalog {
            tree: BTree::open(store.clone(), root, Class::Cold),
        }
    }

    /// Its root page, which never changes.
    pub fn root(&self) -> PageId {
        self.tree.root()
    }

    /// All entries, in the order of their numbers.
    pub fn load(&self) -> Result<Vec<Entry>> {
        let store = self.tree.store();
        // Who waits for a page that is none waits for ever.
        let check = |owner: &str, root: PageId| match store.exists(root) {
            true => Ok(()),
            false => {
                let what = format!("the root of {owner} is to be {root}, which is none");
                Err(Error::corrupt("data", None, what))
            }
        };
        check("the catalog", self.root())?;
        let (mut entries, mut window, mut from) = (Vec::new(), Window::new(), Vec::new());
        loop {
            while let Err(interrupt) = self.tree.try_window(Edge::From(&from), &mut window) {
                store.settle(interrupt)?;
            }
            for i in window.lower_bound(&from)..window.len() {
                let entry = Entry::decode(window.key(i), window.value(i));
                let entry = entry.ok_or_else(|| damaged(window.key(i)))?;
                for root in [Some(entry.roots.cold), entry.roots.hot]
                    .into_iter()
                    .flatten()
                {
                    check(&entry.name, root)?;
                }
                entries.push(entry);
            }
            match window.high.take() {
                Some(high) => from = high,
                None => return Ok(entries),
            }
        }
    }

    /// Stores an entry. `commit` is called once, when nothing can fail any more.
    pub fn put(
        &self,
        door: &WriteGuard<'_>,
        entry: &Entry,
        commit: &mut dyn FnMut(),
    ) -> Attempt<()> {
        let value = entry.encode();
        self.edit(door, entry.id, commit, || {
            Plan::Put(Value::Inline(&value), Flags::NONE)
        })
    }

    /// Removes an entry.
    pub fn remove(&self, door: &WriteGuard<'_>, id: StructureId) -> Attempt<()> {
        self.edit(door, id, &mut || (), || Plan::Erase)
    }

    fn edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        id: StructureId,
        commit: &mut dyn FnMut(),
        plan: impl Fn() -> Plan<'v>,
    ) -> Attempt<()> {
        let mut commit = || {
            commit();
            Ok(())
        };
        let mut plan = |_: Option<(Flags, Value<'_>)>| Ok(plan());
        self.tree.try_edit(
            door,
            &id.0.to_be_bytes(),
            &mut plan,
            &mut NoRoom,
            &mut commit,
        )?;
        Ok(())
    }

    /// Checks its invariants; calls `page` for each of its pages.
    pub fn verify(&self, page: &mut dyn FnMut(PageId) -> Result<()>) -> Result<()> {
        let mut each = |key: &[u8], _: Flags, value: Value<'_>| match value {
            Value::Inline(bytes) if Entry::decode(key, bytes).is_some() => Ok(()),
            _ => Err(damaged(key)),
        };
        self.tree.verify(&mut each, page)
    }
}

fn damaged(key: &[u8]) -> Error {
    Error::corrupt(
        "data",
        None,
        format!("the catalog's entry {key:02x?} makes no sense"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use crate::kinds::spec::TreeOptions;

    #[test]
    fn an_entry_comes_back_and_damage_does_not() {
        let entry = Entry {
            id: StructureId(9),
            spec: TreeOptions::new().logged(false).spec(Kind::Hash),
            name: "users".into(),
            roots: Roots {
                hot: None,
                cold: PageId(3),
            },
            dropping: false,
            unfinished: false,
            index: None,
        };
        let key = entry.id.0.to_be_bytes();
        let value = entry.encode();
        assert_eq!(Entry::decode(&key, &value), Some(entry.clone()));
        let dropping = Entry {
            dropping: true,
            roots: Roots {
                hot: Some(PageId(8)),
                cold: PageId(3),
            },
            ..entry
        };
        assert_eq!(Entry::decode(&key, &dropping.encode()), Some(dropping));
        for at in [0, 1, 2, 5, 13, 21] {
            let mut bad = value.clone();
            bad[at] = 0x77;
            assert_eq!(Entry::decode(&key, &bad), None, "byte {at}");
        }
        for len in 0..=22 {
            assert_eq!(Entry::decode(&key, &value[..len]), None, "{len} bytes");
        }
        assert_eq!(Entry::decode(&key[1..], &value), None);
    }

    #[test]
    fn an_index_comes_back_and_damage_does_not() {
        let entry = Entry {
            id: StructureId(9),
            spec: TreeOptions::new().spec(Kind::Tree),
            name: "city".into(),
            roots: Roots {
                hot: None,
                cold: PageId(3),
            },
            dropping: false,
            unfinished: true,
            index: Some(IndexEntry {
                table: StructureId(8),
                unique: true,
                source: Stored::parse("json:/city").unwrap(),
            }),
        };
        let key = entry.id.0.to_be_bytes();
        let value = entry.encode();
        assert_eq!(Entry::decode(&key, &value), Some(entry.clone()));
        for at in [0, 1, 26, 27, 28, 29] {
            let mut bad = value.clone();
            bad[at] = 0x77;
            assert_eq!(Entry::decode(&key, &bad), None, "byte {at}");
        }
        for len in 0..=38 {
            assert_eq!(Entry::decode(&key, &value[..len]), None, "{len} bytes");
        }
    }
}
