//! Changing a record in the hot tier.

use std::cell::Cell;

use terrace_access::{AccessMethod, Attempt, Flags, LargeRef, Plan, Touch, Value, WriteGuard};
use terrace_pages::Retry;

use super::room::LeafRoom;
use super::save::SLOT_BYTES;
use super::tiers::{Pair, Tiers};
use crate::fault::{Fault, planted};

impl<P: Pair> Tiers<P> {
    /// A value was put, perhaps a large one: a replay over an image that has it writes it once more.
    pub fn count_large(&self, value: Option<Value<'_>>) {
        if let Some(Value::Large(large)) = value
            && self.is_in_memory()
        {
            // And the page of its record, and one of those above that.
            let pages = u64::from(large.len) / self.store().page_bytes() as u64 + 3;
            self.store().add_large(pages);
        }
    }

    /// The hot tier takes the change, dirty; the caller holds the record's lock. `hash` is that of the key.
    pub fn apply(
        &self,
        door: &WriteGuard<'_>,
        key: (&[u8], u64),
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<Option<LargeRef>> {
        let (chain, fresh) = self.put_hot(door, key, value, may_unlink, log)?;
        if self.is_in_memory() && fresh > 0 {
            self.context().count_fresh(fresh);
        }
        Ok(chain)
    }

    /// The same, of what is counted already among what is dirty above. Returns beside the chain that nothing links to any
    /// more the bytes that became dirty.
    pub fn put_hot(
        &self,
        door: &WriteGuard<'_>,
        (key, hash): (&[u8], u64),
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<(Option<LargeRef>, usize)> {
        let policy = self.policy();
        let asked = if self.context().is_full() {
            self.context().sketch.count(hash)
        } else {
            0
        };
        let bytes = key.len() + value.map_or(0, |value| value.inline_bytes()) + SLOT_BYTES;
        let fresh = Cell::new(0);
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if let Some((flags, Value::Large(_))) = before
                && flags.is_dirty()
                && !may_unlink()
            {
                return Err(Retry::Conflict);
            }
            let uses = match before {
                Some((flags, _)) => (flags.use_count() + 1).min(policy.most_uses()),
                None => policy.newcomer(asked),
            };
            let flags = Flags::DIRTY.with_use_count(uses);
            // What was dirty is counted already; only what it grows by is new.
            fresh.set(match before {
                Some((flags, old)) if flags.is_dirty() => {
                    let old = key.len() + old.inline_bytes() + SLOT_BYTES;
                    bytes.saturating_sub(old)
                }
                _ => bytes,
            });
            Ok(match value {
                Some(value) => Plan::Put(value, flags),
                // A tombstone that no reader reads need not stay longer than any other record.
                None => Plan::Put(Value::Inline(b""), flags.with(Flags::DELETED)),
            })
        };
        let mut commit = || {
            log();
            Ok(())
        };
        if planted(Fault::PutReadsCold) {
            self.cold().try_get(key, Touch::No, &mut Vec::new())?;
        }
        let hot = self.hot_or_made(door)?;
        let mut room = LeafRoom::for_write(self);
        let done = hot.try_edit(door, key, &mut plan, &mut room, &mut commit)?;
        if done.before.is_none() {
            self.events().newcomers.add(1);
        }
        if value.is_none() {
            self.events().deletes.add(1);
        }
        // Only a dirty hot record owns its chain; that of a clean one belongs to the cold record.
        let chain = done
            .before
            .filter(|(flags, _)| flags.is_dirty() || planted(Fault::ChainFreedByClean))
            .and_then(|(_, large)| large);
        Ok((chain, fresh.get()))
    }
}
