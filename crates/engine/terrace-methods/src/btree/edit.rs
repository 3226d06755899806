//! The one way in which a record is changed: find, ask, assure room, commit, apply.
//!
//! Invariant: from the call of `commit` on nothing can fail. All reading and deciding, and the
//! building of a page that has to be rewritten, comes before.

use terrace_access::{Applied, Attempt, Edge, Flags, Plan, Retry, Room, Value, WriteGuard};
use terrace_base::sync::spin_loop;
use terrace_base::{Error, max_key_bytes};
use terrace_pages::Exclusive;

use super::BTree;
use super::descend::{OUTSIDE, PATIENCE, node_of, sound};
use super::image::value_in;
use super::insert::{How, Put, check_inline};
use super::leaf::{LeafPage, check_erasable, erase, set_flags};

/// Rounds of finding a leaf full and making it wider before the attempt is given up. Each round
/// leaves the leaf with fewer records or fewer bytes, so this is reached only when others fill it.
const ROUNDS: u32 = 64;
/// Victims that are asked for, for one record, before the page is split.
const VICTIM_ROUNDS: u32 = 8;
/// A leaf is considered for merging whenever its fill falls below one of these.
const THIN: [f64; 4] = [0.4, 0.25, 0.12, 0.05];

/// Whether a leaf that was so full and is so full now, or empty, is worth a look for merging.
pub(super) fn is_thin(before: f64, now: f64, empty: bool) -> bool {
    empty || THIN.iter().any(|&thin| before >= thin && now < thin)
}

/// What came of an edit of one leaf.
enum Outcome<'v> {
    Done(Applied),
    /// As `Done`, and a merge may be worth while.
    Thin(Applied),
    /// There was no room for this value.
    Full(Value<'v>),
}

impl BTree {
    /// See [`terrace_access::AccessMethod::try_edit`]. O(log n) page visits, plus splits.
    pub(crate) fn edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        let limit = max_key_bytes(self.store().page_bytes());
        if key.len() > limit {
            return Err(Error::KeyTooLong {
                len: key.len(),
                limit,
            }
            .into());
        }
        let mut conflicts = 0;
        for _ in 0..ROUNDS {
            let patient = conflicts >= PATIENCE;
            let mut leaf = match self
                .descent()
                .latch(door, Edge::From(key), 0, false, patient)
            {
                Ok(pair) => pair.node,
                Err(Retry::Conflict) => {
                    conflicts += 1;
                    spin_loop();
                    continue;
                }
                Err(other) => return Err(other),
            };
            match edit_leaf(&mut leaf, key, plan, room, commit)? {
                Outcome::Done(applied) => return Ok(applied),
                Outcome::Thin(applied) => {
                    drop(leaf);
                    self.nodes().tidy(door, key);
                    return Ok(applied);
                }
                Outcome::Full(value) => {
                    drop(leaf);
                    match self.widen(door, key, value, patient, room) {
                        Ok(()) => {}
                        Err(Retry::Conflict) => conflicts += 1,
                        Err(other) => return Err(other),
                    }
                }
            }
        }
        Err(Retry::Conflict)
    }
}

fn edit_leaf<'v>(
    page: &mut Exclusive<'_>,
    key: &[u8],
    plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
    room: &mut dyn Room,
    commit: &mut dyn FnMut() -> Attempt<()>,
) -> Attempt<Outcome<'v>> {
    let mut hole = None;
    // A record that is written where its key does not belong would be found under another one.
    if !sound!(page, node_of!(page)?.covers(key))? {
        return Err(page.torn(OUTSIDE));
    }
    for round in 0.. {
        let node = node_of!(page)?;
        let place = sound!(page, node.find(key))?;
        let (mut before, mut old, mut flags) = (None, None, Flags::NONE);
        let asked = match place {
            Ok(i) => {
                let slot = sound!(page, node.slot(i))?;
                let record = sound!(page, node.leaf_record(slot))?;
                flags = slot.flags();
                before = Some((flags, record.large()));
                old = Some(record);
                let value = sound!(page, value_in(page.bytes(), record.value))?;
                plan(Some((flags, value)))?
            }
            Err(_) => plan(None)?,
        };
        let nothing = Outcome::Done(Applied {
            before,
            changed: false,
        });
        let done = Applied {
            before,
            changed: true,
        };
        match (asked, place) {
            (Plan::Keep, _) | (Plan::Erase | Plan::Flags(_), Err(_)) => return Ok(nothing),
            (Plan::Flags(new), Ok(_)) if new == flags => return Ok(nothing),
            (Plan::Flags(new), Ok(i)) => {
                commit()?;
                set_flags(page, i, new)?;
                return Ok(Outcome::Done(done));
            }
            (Plan::Erase, Ok(i)) => {
                let fill = node.fill();
                check_erasable(page, i)?;
                commit()?;
                erase(page, i)?;
                let now = node_of!(page)?;
                return Ok(if is_thin(fill, now.fill(), now.count == 0) {
                    Outcome::Thin(done)
                } else {
                    Outcome::Done(done)
                });
            }
            (Plan::Put(value, flags), place) => {
                check_inline(value, page.bytes().len())?;
                let put = Put {
                    key,
                    value,
                    flags,
                    place,
                    old,
                    hole,
                };
                match put.plan(page)? {
                    How::NoRoom(needed) => {
                        if round < VICTIM_ROUNDS {
                            let mut records = LeafPage::new(page);
                            if room.make(&mut records, needed, key)? {
                                hole = records.hole();
                                continue;
                            }
                        }
                        return Ok(Outcome::Full(value));
                    }
                    how => {
                        commit()?;
                        put.apply(page, how)?;
                        return Ok(Outcome::Done(done));
                    }
                }
            }
        }
    }
    Err(Retry::Conflict)
}
