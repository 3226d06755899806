//! Changing a record in the hot tier.

use terrace_access::{Attempt, Door, Flags, LargeRef, Plan, Sweep, Tier, Touch, Value};
use terrace_pages::Interrupt;

use super::Tiered;
use super::room::LeafRoom;
use crate::fault::{Fault, planted};

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// The hot tier takes the change, dirty; the caller holds the record's lock. `hash` is that of the key.
    pub(super) fn apply(
        &self,
        door: &Door<'_>,
        (key, hash): (&[u8], u64),
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<Option<LargeRef>> {
        let policy = &self.options.policy;
        let asked = if self.context.is_full() {
            self.context.sketch.count(hash)
        } else {
            0
        };
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if let Some((flags, Value::Large(_))) = before
                && flags.is_dirty()
                && !may_unlink()
            {
                return Err(Interrupt::Conflict);
            }
            let uses = match before {
                Some((flags, _)) => (flags.use_count() + 1).min(policy.most_uses()),
                None => policy.newcomer(asked),
            };
            let flags = Flags::DIRTY.with_use_count(uses);
            Ok(match value {
                Some(value) => Plan::Put(value, flags),
                // A tombstone that nobody reads need not stay longer than any other record.
                None => Plan::Put(Value::Inline(b""), flags.with(Flags::DELETED)),
            })
        };
        let mut commit = || {
            log();
            Ok(())
        };
        if planted(Fault::PutReadsCold) {
            self.cold.try_get(key, Touch::No, &mut Vec::new())?;
        }
        let hot = self.hot_or_made(door)?;
        let mut room = LeafRoom::for_write(self);
        let done = hot.try_edit(door, key, &mut plan, &mut room, &mut commit)?;
        if done.before.is_none() {
            self.events.newcomers.add(1);
        }
        if value.is_none() {
            self.events.deletes.add(1);
        }
        // Only a dirty hot record owns its chain; that of a clean one belongs to the cold record.
        Ok(done
            .before
            .filter(|(flags, _)| flags.is_dirty() || planted(Fault::ChainFreedByClean))
            .and_then(|(_, large)| large))
    }
}
