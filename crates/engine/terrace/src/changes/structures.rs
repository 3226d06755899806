//! What the feed knows of structures: their names as they were, which are indexes, which are not finished.
//!
//! Invariant: it knows of each commit what was so behind the commits before it, of all structures that were
//! made since reading began; of older ones it knows what was so when reading began.

use std::collections::HashMap;
use std::sync::Arc;

use terrace_base::lease::Lease;
use terrace_base::{Error, Result, StructureId};

use super::commit::{ChangedStructure, Item};
use crate::catalog::registry::Registry;
use crate::effects::{Effect, Effects};
use crate::millis::time_of;
use crate::planted::{Fault, planted};

/// One structure.
struct Known {
    shown: Arc<ChangedStructure>,
    is_index: bool,
    /// Whether its values have a lease in front.
    expiring: bool,
    is_finished: bool,
    /// Whether all changes of it are in the log, not only some.
    is_logged: bool,
}

/// All that were seen.
pub struct Structures {
    known: HashMap<StructureId, Known>,
}

impl Structures {
    /// What there is now.
    pub fn of(registry: &Registry) -> Structures {
        let all = registry.all();
        let known = all.iter().map(|open| {
            let known = Known {
                shown: Arc::new(ChangedStructure {
                    id: open.id().0,
                    name: Some(open.name()),
                    kind: Some(open.spec.kind),
                }),
                is_index: open.index.is_some(),
                expiring: open.spec.expiring,
                is_finished: !open.is_unfinished(),
                is_logged: open.spec.logged,
            };
            (open.id(), known)
        });
        Structures {
            known: known.collect(),
        }
    }

    fn shown(&self, id: StructureId) -> Arc<ChangedStructure> {
        match self.known.get(&id) {
            Some(known) => known.shown.clone(),
            None => Arc::new(ChangedStructure {
                id: id.0,
                name: None,
                kind: None,
            }),
        }
    }

    /// Whether no reader sees what happens in it. One that was dropped before reading began may have been an
    /// index: that is not known.
    fn is_hidden(&self, id: StructureId) -> bool {
        let known = self.known.get(&id);
        let unfinished = |known: &Known| !known.is_finished && !planted(Fault::UnfinishedShown);
        known.is_none_or(|known| known.is_index || unfinished(known))
    }

    /// The same of what changes in it; of what has no log some changes are there all the same.
    fn has_hidden_changes(&self, id: StructureId) -> bool {
        let has_no_log = |known: &Known| !known.is_logged && !planted(Fault::UnloggedShown);
        self.is_hidden(id) || self.known.get(&id).is_some_and(has_no_log)
    }

    /// The lease of a stored value, and the value.
    fn parts<'v>(&self, id: StructureId, stored: &'v [u8]) -> Result<(Lease, &'v [u8])> {
        match self.known.get(&id) {
            Some(known) if known.expiring => Lease::split(stored).ok_or_else(|| {
                Error::corrupt("log", None, "a record has a value without a proper lease")
            }),
            _ => Ok((Lease::ENDLESS, stored)),
        }
    }

    /// The changes of a record; none if it has only such as no reader sees.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for what is no record of effects.
    pub fn changes_of(&mut self, record: &[u8]) -> Result<Vec<Item>> {
        let range = |part: &[u8]| {
            let from = part.as_ptr() as usize - record.as_ptr() as usize;
            from..from + part.len()
        };
        let mut items = Vec::new();
        for effect in Effects::new(record) {
            let effect = effect
                .map_err(|_| Error::corrupt("log", None, "a record has an effect that is none"))?;
            match effect {
                Effect::Put {
                    structure,
                    key,
                    value,
                } if !self.has_hidden_changes(structure) => {
                    let (lease, value) = self.parts(structure, value)?;
                    let (key, value) = (range(key), range(value));
                    items.push(Item::Put(self.shown(structure), key, value, lease));
                }
                Effect::Delete { structure, key } if !self.has_hidden_changes(structure) => {
                    items.push(Item::Delete(self.shown(structure), range(key)));
                }
                Effect::DeleteRange {
                    structure,
                    low,
                    high,
                    ..
                } if !self.has_hidden_changes(structure) => {
                    let (low, high) = (range(low), high.map(range));
                    items.push(Item::DeleteRange(self.shown(structure), low, high));
                }
                Effect::Put { .. }
                | Effect::Delete { .. }
                | Effect::DeleteRange { .. }
                | Effect::Compress { .. } => {}
                Effect::Create {
                    structure,
                    spec,
                    name,
                    index,
                    unfinished,
                } => {
                    let known = Known {
                        shown: Arc::new(ChangedStructure {
                            id: structure.0,
                            name: Some(name.to_owned()),
                            kind: Some(spec.kind),
                        }),
                        is_index: index.is_some(),
                        expiring: spec.expiring,
                        is_finished: !unfinished,
                        is_logged: spec.logged,
                    };
                    self.known.insert(structure, known);
                    if !self.is_hidden(structure) {
                        items.push(Item::Created(self.shown(structure)));
                    }
                }
                Effect::Finish { structure } => {
                    if let Some(known) = self.known.get_mut(&structure) {
                        known.is_finished = true;
                    }
                    if !self.is_hidden(structure) {
                        items.push(Item::Created(self.shown(structure)));
                    }
                }
                Effect::Drop { structure } => {
                    let is_known = self.known.contains_key(&structure);
                    if !is_known || !self.is_hidden(structure) {
                        items.push(Item::Dropped(self.shown(structure)));
                    }
                    self.known.remove(&structure);
                }
                Effect::Rename { structure, name } => {
                    let is_hidden = self.is_hidden(structure);
                    let before = self.shown(structure);
                    let shown = Arc::new(ChangedStructure {
                        name: Some(name.to_owned()),
                        ..(*before).clone()
                    });
                    if let Some(known) = self.known.get_mut(&structure) {
                        known.shown = shown.clone();
                    }
                    if !is_hidden {
                        items.push(Item::Renamed(shown));
                    }
                }
                Effect::Mark { time_ms, name } => {
                    if !name.is_empty() {
                        items.push(Item::Marked(name.to_owned(), time_of(time_ms)));
                    }
                }
            }
        }
        Ok(items)
    }
}
