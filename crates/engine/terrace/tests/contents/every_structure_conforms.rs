//! The conformance suite over the handles of a database: trees, hash tables and tables with indexes, with
//! one tier and two, in the least memory, written in every way there is.

use std::cell::Cell;

use crate::common::{SHAPES, Shape, create, named, tiny};
use terrace::{Database, Durability, Error, Kind, MapOptions, Result, Tiers};
use terrace_access::conformance::{
    Census, Check, Effort, Failure, KeyKind, Map, behaves_like_a_map, large_values_in_a_map,
};
use terrace_sim::SimDisk;

/// For planted faults; without one half of it, for each time that a factor says.
const EFFORT: Effort = Effort {
    operations: 1_500,
    records: 2_000,
    page_sizes: &[4096],
    seed: 1,
};

/// A structure as the suite sees it. One without an order of keys is put into that order here.
struct Handle {
    disk: SimDisk,
    db: Database,
    map: terrace::Map,
    /// Fills the memory, so that what is tested has to make room all the time.
    beside: terrace::Map,
    operations: Cell<u64>,
}

/// Records that fill the memory.
const BESIDE: u64 = 3000;

type Record = (Vec<u8>, Vec<u8>);

impl Handle {
    /// Tables have indexes, unless keys are so long that there is no room beside them for that of an index.
    fn create(shape: Shape, long: bool) -> Result<Handle> {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1))?;
        let map = match long {
            true => db.create_map("a map", shape.0, MapOptions::new().tiers(shape.1))?,
            false => create(&db, "a map", shape, MapOptions::new())?,
        };
        let handle = Handle {
            beside: (*db.tree("beside")?).clone(),
            disk,
            db,
            map,
            operations: Cell::new(0),
        };
        (0..BESIDE).try_for_each(|i| handle.put_beside(i))?;
        Ok(handle)
    }

    fn put_beside(&self, i: u64) -> Result<()> {
        self.beside.put((i % BESIDE).to_be_bytes(), [i as u8; 300])
    }

    /// A number for each operation.
    fn turn(&self) -> Result<u64> {
        let turn = self.operations.replace(self.operations.get() + 1);
        if turn.is_multiple_of(4) {
            self.put_beside(turn * 7)?;
        }
        Ok(turn)
    }

    /// All records in the order of their keys; no key may come twice.
    fn sorted(&self) -> Result<Vec<Record>> {
        let mut all = self.map.iter()?.collect::<Result<Vec<Record>>>()?;
        all.sort();
        if all.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::invalid("a key came twice"));
        }
        Ok(all)
    }

    /// The records in this range as they come.
    fn range(
        &self,
        from: &[u8],
        below: Option<&[u8]>,
    ) -> Result<Box<dyn DoubleEndedIterator<Item = Result<Record>>>> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let range = (Included(from), below.map_or(Unbounded, Excluded));
        Ok(match (self.map.as_tree(), self.map.as_table()) {
            (Some(tree), _) => Box::new(tree.range::<&[u8]>(range)?),
            (_, Some(table)) => Box::new(table.range::<&[u8]>(range)?),
            _ => {
                let mut all = self.sorted()?;
                all.retain(|(key, _)| {
                    key.as_slice() >= from && below.is_none_or(|below| key.as_slice() < below)
                });
                Box::new(all.into_iter().map(Ok))
            }
        })
    }
}

impl Map for Handle {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.map.get(key)?;
        if self.turn()?.is_multiple_of(4) && self.map.contains_key(key)? != found.is_some() {
            return Err(Error::invalid("get and contains_key disagree"));
        }
        Ok(found)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.turn()? % 8 {
            0 => self.map.put_with(key, value, Durability::Sync),
            1 => {
                // What comes later in a batch is what counts.
                let mut batch = self.db.batch();
                batch.put(&self.map, key, "overruled");
                batch.delete(&self.map, key).put(&self.map, key, value);
                self.db.write(batch, Durability::Buffered)
            }
            2 => self.map.update(key, |_| Some(value.to_vec())).map(|_| ()),
            3 => {
                let there = self.map.contains_key(key)?;
                if self.map.insert(key, value)? == there {
                    return Err(Error::invalid("insert looks wrong"));
                }
                self.map.put(key, value)
            }
            _ => self.map.put(key, value),
        }
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        match self.turn()? % 8 {
            0 => self.map.delete_with(key, Durability::Sync),
            1 => {
                let mut batch = self.db.batch();
                batch.put(&self.map, key, "overruled");
                batch.delete(&self.map, key);
                self.db.write(batch, Durability::Buffered)
            }
            2 => self.map.update(key, |_| None::<Vec<u8>>).map(|_| ()),
            3 => {
                let there = self.map.get(key)?;
                if self.map.remove(key)? != there {
                    return Err(Error::invalid("remove answers something else than get"));
                }
                Ok(())
            }
            _ => self.map.delete(key),
        }
    }

    fn scan_up(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        for record in self.range(from, None)? {
            let (key, value) = record?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn scan_down(
        &self,
        below: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        for record in self.range(b"", below)?.rev() {
            let (key, value) = record?;
            if !each(&key, &value) {
                break;
            }
        }
        Ok(())
    }

    fn verify(&self) -> Result<Census> {
        let mut unordered = self
            .map
            .iter_unordered()?
            .collect::<Result<Vec<Record>>>()?;
        unordered.sort();
        if unordered != self.sorted()? {
            return Err(Error::invalid("other records come out in no order"));
        }
        let report = self.db.verify()?;
        let of = |s: &&terrace::VerifiedStructure| s.index_of.is_none() && s.name == "a map";
        let verified = report.structures.iter().find(of);
        let verified = verified.map_or_else(Census::default, |s| Census {
            records: s.records,
            pages: s.pages,
        });
        report.into_result()?;
        Ok(verified)
    }

    fn reopen(self) -> Result<Handle> {
        let Handle {
            disk,
            db,
            map,
            beside,
            operations,
        } = self;
        drop((map, beside));
        db.close()?;
        let disk = disk.restart(1);
        let db = Database::open_on(disk.shared(), tiny(1))?;
        let map = db.map("a map")?;
        Ok(Handle {
            beside: db.map("beside")?,
            map,
            db,
            disk,
            operations,
        })
    }
}

fn suite(shape: Shape, effort: Effort) -> Check {
    let named = |check: Check, what: String| {
        check.map_err(|Failure(why)| Failure(format!("{}, {what}: {why}", named(shape))))
    };
    for kind in KeyKind::ALL {
        let make = || Handle::create(shape, kind == KeyKind::Long);
        let checked = behaves_like_a_map(&make, kind, effort);
        named(checked, format!("{kind:?} keys"))?;
    }
    let make = || Handle::create(shape, true);
    named(
        large_values_in_a_map(&make, 4096, effort),
        "large values".into(),
    )
}

fn conforms(kind: Kind) {
    for shape in SHAPES.into_iter().filter(|shape| shape.0 == kind) {
        // In memory as small as this each step of merging moves a few records only, and is as much work to plan
        // as any.
        let part = if kind == Kind::Lsm { 3 } else { 1 };
        let times = crate::common::factor().min(8) as usize;
        let effort = Effort {
            operations: EFFORT.operations * times / 2 / part,
            records: EFFORT.records * times / 2 / part,
            ..EFFORT
        };
        if let Err(Failure(why)) = suite(shape, effort) {
            panic!("{why}");
        }
    }
}

#[test]
fn trees_conform() {
    conforms(Kind::Tree);
}

#[test]
fn hash_tables_conform() {
    conforms(Kind::Hash);
}

#[test]
fn tables_with_indexes_conform() {
    conforms(Kind::Table);
}

#[test]
fn lsm_trees_conform() {
    conforms(Kind::Lsm);
}

/// Seeds with which a planted fault is looked for: with each other records are hot.
const SEEDS: u64 = 6;

/// The suite finds what goes wrong between the tiers of what it is given. (A fault is planted in this
/// thread only, and there are no others that work here.)
#[test]
fn the_suite_finds_planted_faults() {
    use terrace_tier::fault::{Fault, plant};
    for fault in [
        Fault::HotAskedLast,
        Fault::DirtyForgotten,
        Fault::TombstoneForgotten,
        Fault::DemotionInserts,
        Fault::SweepDropsDirty,
        Fault::ChainKept,
    ] {
        // They are faults of the tiers, and what is below them matters to none.
        let two = |shape: &Shape| shape.1 == Tiers::Two && shape.0 != Kind::Lsm;
        for shape in SHAPES.into_iter().filter(two) {
            plant(Some(fault));
            // No hot tier has chains that lies in memory alone.
            terrace::fault::keep_hot_in_memory((fault == Fault::ChainKept).then_some(false));
            let found = std::panic::catch_unwind(|| {
                let mut seeds = (1..=SEEDS).map(|seed| Effort { seed, ..EFFORT });
                seeds.any(|effort| suite(shape, effort).is_err())
            });
            plant(None);
            terrace::fault::keep_hot_in_memory(None);
            assert!(found.unwrap_or(true), "{fault:?} in a {}", named(shape));
        }
    }
}
