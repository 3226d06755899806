//! What a database should hold: an ordered map for each structure.

use std::collections::BTreeMap;

use terrace::{Database, Kind};

use super::Shape;
use super::script::{Change, Step};

/// Name of the structure without log; it is made first and never dropped.
pub const OFF: &str = "off";

pub type Records = BTreeMap<Vec<u8>, Vec<u8>>;

/// All structures by name: what they are, and their records.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Model {
    pub structures: BTreeMap<String, (Shape, Records)>,
}

impl Model {
    pub fn apply(&mut self, step: &Step) {
        match step {
            Step::Write(changes, _) => changes.iter().for_each(|c| self.change(c)),
            Step::Insert(name, key, value) => {
                let records = &mut self.structures.get_mut(name).unwrap().1;
                records.entry(key.clone()).or_insert_with(|| value.clone());
            }
            Step::Append(name, key, value) => {
                let records = &mut self.structures.get_mut(name).unwrap().1;
                records
                    .entry(key.clone())
                    .or_default()
                    .extend_from_slice(value);
            }
            Step::DeleteRange(name, low, high, _) => {
                let records = &mut self.structures.get_mut(name).unwrap().1;
                records.retain(|key, _| key < low || high.as_ref().is_some_and(|high| key >= high));
            }
            Step::Replace(name, low, high, changes, sync) => {
                let (before, behind) = changes.split_at(changes.len().min(1));
                before.iter().for_each(|change| self.change(change));
                self.apply(&Step::DeleteRange(
                    name.clone(),
                    low.clone(),
                    high.clone(),
                    *sync,
                ));
                behind.iter().for_each(|change| self.change(change));
            }
            Step::Create(name, shape) => {
                let new = (*shape, Records::new());
                assert!(self.structures.insert(name.clone(), new).is_none());
            }
            Step::Drop(name) => {
                self.structures.remove(name).unwrap();
            }
            Step::Rename(from, to) => {
                let moved = self.structures.remove(from).unwrap();
                assert!(self.structures.insert(to.clone(), moved).is_none());
            }
            Step::Read(..) | Step::Checkpoint | Step::Reopen => {}
        }
    }

    fn change(&mut self, change: &Change) {
        let records = &mut self.structures.get_mut(&change.structure).unwrap().1;
        match &change.value {
            Some(value) => records.insert(change.key.clone(), value.clone()),
            None => records.remove(&change.key),
        };
    }

    /// Whether a step makes sense: what it needs is there.
    pub fn allows(&self, step: &Step) -> bool {
        let there = |name: &String| self.structures.contains_key(name);
        match step {
            Step::Write(changes, _) => changes.iter().all(|c| there(&c.structure)),
            Step::Insert(name, ..) | Step::Append(name, ..) | Step::Read(name, _) => there(name),
            // Another of this name may have been made while that was refused.
            Step::Replace(_, _, _, changes, _) if !changes.iter().all(|c| there(&c.structure)) => {
                false
            }
            Step::DeleteRange(name, ..) | Step::Replace(name, ..) => self
                .structures
                .get(name)
                .is_some_and(|of| matches!(of.0.0, Kind::Tree | Kind::Lsm)),
            Step::Create(name, _) => !there(name),
            Step::Drop(name) => there(name),
            Step::Rename(from, to) => there(from) && !there(to),
            Step::Checkpoint | Step::Reopen => true,
        }
    }

    /// What the structure without log holds.
    pub fn off(&self) -> Records {
        self.structures
            .get(OFF)
            .map(|s| s.1.clone())
            .unwrap_or_default()
    }

    /// Makes the structure without log hold this, if there is one.
    pub fn set_off(&mut self, records: &Records) {
        if let Some(off) = self.structures.get_mut(OFF) {
            off.1.clone_from(records);
        }
    }

    /// What a database holds.
    pub fn of(db: &Database) -> terrace::Result<Model> {
        let mut model = Model::default();
        for info in db.structures() {
            let records = db.map(&info.name)?.iter()?;
            let records = records.collect::<terrace::Result<Records>>()?;
            let shape = (info.kind, info.tiers, info.hot_heap);
            model.structures.insert(info.name, (shape, records));
        }
        Ok(model)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, (shape, records)) in &self.structures {
            writeln!(f, "{name} {shape:?}, {} records:", records.len())?;
            for (key, value) in records {
                let start = &value[..value.len().min(8)];
                writeln!(f, "  {key:02x?} = {} bytes {start:02x?}", value.len())?;
            }
        }
        Ok(())
    }
}

/// The first few differences, for the message of a failure.
pub fn differences(got: &Model, want: &Model) -> String {
    let mut out = String::new();
    for name in got.structures.keys().chain(want.structures.keys()) {
        match (got.structures.get(name), want.structures.get(name)) {
            (Some(g), Some(w)) if g == w => {}
            (Some(g), Some(w)) => {
                let missing = w.1.keys().filter(|k| !g.1.contains_key(*k)).count();
                let extra = g.1.keys().filter(|k| !w.1.contains_key(*k)).count();
                let other: Vec<_> =
                    w.1.iter()
                        .filter(|(k, v)| g.1.get(*k).is_some_and(|x| x != *v))
                        .map(|(k, _)| k)
                        .collect();
                out += &format!(
                    "{name}: {missing} missing, {extra} too many, {} differ {:02x?}\n",
                    other.len(),
                    other.first()
                );
            }
            (g, w) => out += &format!("{name}: there {}, expected {}\n", g.is_some(), w.is_some()),
        }
    }
    out
}
