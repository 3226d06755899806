//! The one way in which a record is changed: find, ask, assure room, commit, apply.
//!
//! Invariant: from the call of `commit` on nothing can fail. All reading and deciding, and the
//! building of a page that has to be rewritten, comes before.

use terrace_access::{Applied, Attempt, Flags, Plan, RecordPage, Retry, Room, Value, WriteGuard};
use terrace_base::sync::spin_loop;
use terrace_base::{Error, max_key_bytes};
use terrace_pages::Class;

use super::bucket::{BucketPage, NoRecords, set_flags};
use super::find::{Held, PATIENCE, sound};
use super::image::value_in;
use super::put::{How, Put};
use super::split::Widened;
use super::{HashTable, Secret, max_inline};

/// Rounds of finding a bucket full and making it wider before the attempt is given up. Each round
/// leaves it with fewer records or more room, so this is reached only when others fill it.
const ROUNDS: u32 = 64;
/// Times that the directory grows for one record before the attempt is given up; each time one of its
/// pages is filled. What is done inside one entry of the gate must not make more pages dirty than
/// there is space kept free for.
const GROWN: u32 = 2;
/// Victims that are asked for, for one record, before the bucket is split.
const VICTIM_ROUNDS: u32 = 8;
/// A bucket is considered for merging whenever its load falls below one of these; the first ones are
/// for buckets with overflow pages.
const THIN: [f64; 6] = [1.6, 0.85, 0.4, 0.25, 0.12, 0.05];

/// What came of an edit of one bucket.
pub(super) enum Outcome<'v> {
    Done(Applied),
    /// As `Done`, and a merge may be worth while.
    Thin(Applied),
    /// There was no room for this value.
    Full(Value<'v>),
}

/// The record that is to be changed.
pub(super) struct Target<'k> {
    pub secret: &'k Secret,
    pub hash: u64,
    pub key: &'k [u8],
}

impl HashTable {
    /// See [`terrace_access::AccessMethod::try_edit`]. O(1) page visits, plus a split.
    pub(crate) fn edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        let limit = max_key_bytes(self.store.page_bytes());
        if key.len() > limit {
            return Err(Error::KeyTooLong {
                len: key.len(),
                limit,
            }
            .into());
        }
        let secret = self.try_secret()?;
        let hash = secret.hash(key);
        let target = Target {
            secret: &secret,
            hash,
            key,
        };
        let (mut conflicts, mut grown) = (0, 0);
        for _ in 0..ROUNDS {
            let patient = conflicts >= PATIENCE;
            let mut held = match self.latch(door, hash, patient) {
                Ok(Some(held)) => held,
                Ok(None) => match plan(None)? {
                    Plan::Put(value, _) => {
                        self.fits_inline(value)?;
                        self.make_first(door)?;
                        continue;
                    }
                    _ => {
                        return Ok(Applied {
                            before: None,
                            changed: false,
                        });
                    }
                },
                Err(Retry::Conflict) => {
                    conflicts += 1;
                    spin_loop();
                    continue;
                }
                Err(other) => return Err(other),
            };
            match self.edit_bucket(&mut held, &target, plan, room, commit)? {
                Outcome::Done(applied) => return Ok(applied),
                Outcome::Thin(applied) => {
                    drop(held);
                    self.tidy(door, hash);
                    return Ok(applied);
                }
                Outcome::Full(value) => {
                    drop(held);
                    match self.widen(door, hash, key, value, patient, room) {
                        Ok(Widened::HashPartitions) if grown + 1 == GROWN => {
                            return Err(Retry::Conflict);
                        }
                        Ok(Widened::HashPartitions) => grown += 1,
                        // The rest under another write guard.
                        Ok(Widened::Narrower) => return Err(Retry::Conflict),
                        Ok(Widened::Room) => {}
                        Err(Retry::Conflict) => conflicts += 1,
                        Err(other) => return Err(other),
                    }
                }
            }
        }
        Err(Retry::Conflict)
    }

    pub(super) fn edit_bucket<'v>(
        &self,
        held: &mut Held<'_>,
        target: &Target<'_>,
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Outcome<'v>> {
        let mut hole = None;
        for round in 0.. {
            let old = held.find(target.secret, target.hash, target.key)?;
            let before = old.map(|old| (old.flags, old.record.large()));
            let asked = match &old {
                Some(old) => {
                    let page = &held.pages[old.page];
                    let value = sound!(page, value_in(page.bytes(), old.record.value))?;
                    plan(Some((old.flags, value)))?
                }
                None => plan(None)?,
            };
            let applied = |changed| Applied { before, changed };
            match (asked, old) {
                (Plan::Keep, _) | (Plan::Erase | Plan::Flags(_), None) => {
                    return Ok(Outcome::Done(applied(false)));
                }
                (Plan::Flags(new), Some(old)) if new == old.flags => {
                    return Ok(Outcome::Done(applied(false)));
                }
                (Plan::Flags(new), Some(old)) => {
                    commit()?;
                    set_flags(&mut held.pages[old.page], old.slot, new)?;
                    return Ok(Outcome::Done(applied(true)));
                }
                (Plan::Erase, Some(old)) => {
                    let load = held.load();
                    held.check_erasable(old.page, old.slot)?;
                    commit()?;
                    held.erase(old.page, old.slot)?;
                    let thinner = held.load();
                    let thin = held.count() == 0 || THIN.iter().any(|&t| load >= t && thinner < t);
                    return Ok(if thin {
                        Outcome::Thin(applied(true))
                    } else {
                        Outcome::Done(applied(true))
                    });
                }
                (Plan::Put(value, flags), old) => {
                    self.fits_inline(value)?;
                    let put = Put {
                        secret: target.secret,
                        hash: target.hash,
                        key: target.key,
                        value,
                        flags,
                        old,
                        hole,
                    };
                    match put.plan(held)? {
                        How::NoRoom(needed) => {
                            if round < VICTIM_ROUNDS {
                                let mut page = BucketPage::new(held, *target.secret);
                                if room.make(&mut page, needed, target.key)? {
                                    hole = page.hole();
                                    continue;
                                }
                            }
                            return Ok(Outcome::Full(value));
                        }
                        how => {
                            commit()?;
                            put.apply(held, how)?;
                            return Ok(Outcome::Done(applied(true)));
                        }
                    }
                }
            }
        }
        Err(Retry::Conflict)
    }

    /// Makes room for a record in the bucket that holds `hash`, by changing the structure.
    fn widen(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        key: &[u8],
        value: Value<'_>,
        patient: bool,
        room: &dyn Room,
    ) -> Attempt<Widened> {
        let rises = room.rises();
        let moved = match self.tier {
            Class::Hot | Class::Memory => self.spill(door, hash, key, value)?,
            _ if rises => {
                self.hand_down(door, hash)? || self.share(door, hash, key, value, false)?
            }
            _ => room.scatters() && self.share(door, hash, key, value, true)?,
        };
        if moved {
            return Ok(Widened::Room);
        }
        self.split(door, hash, key, value, patient, rises)
    }

    /// Whether this value may lie beside its key.
    fn fits_inline(&self, value: Value<'_>) -> Attempt<()> {
        let limit = max_inline(self.store.page_bytes());
        match value {
            Value::Inline(v) if v.len() > limit => Err(Error::ValueTooLong {
                len: v.len(),
                limit,
            }
            .into()),
            _ => Ok(()),
        }
    }

    /// See [`terrace_access::Sweep::try_visit`]. O(1), beside what `edit` does.
    pub(crate) fn visit(
        &self,
        door: &WriteGuard<'_>,
        hash: u64,
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        let secret = self.try_secret()?;
        let mut tries = 0;
        let held = loop {
            match self.latch(door, hash, tries >= PATIENCE) {
                Err(Retry::Conflict) if tries < PATIENCE => {
                    tries += 1;
                    spin_loop();
                }
                other => break other?,
            }
        };
        match held {
            Some(mut held) => edit(&mut BucketPage::new(&mut held, secret)),
            None => edit(&mut NoRecords),
        }
    }
}
