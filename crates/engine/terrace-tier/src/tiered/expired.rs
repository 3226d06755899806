//! Records that have expired, on their way out of both tiers.
//!
//! Nothing is logged for it, for nobody sees a difference: what replays the log brings back what is hidden. But the
//! cold tier may have an older value of such a record, one that lives longer. So what leaves the hot tier dirty
//! and expired goes down as a deletion (`migrate.rs`), and what is dropped here is dropped from the cold tier
//! first (`write_through.rs`).

use terrace_access::Attempt;
use terrace_access::{DroppedBy, RecordPage, Sweep, Tier, Touch, Value, Waits, Window};
use terrace_base::Result;
use terrace_pages::Space;

use super::Tiered;
use crate::context::TierContext;
use crate::fault::{Fault, planted};
use crate::hot_tiers::HotTier;
use crate::one_record;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// See [`crate::Structure::drop_expired`].
    pub(crate) fn drop_if_expired(&self, key: &[u8]) -> Result<bool> {
        HotTier::catch_up(self, Space::Reserve, &mut Waits::in_background())?;
        let slot = self.context.locks.slot(self.id, key);
        let mut value = Vec::new();
        let dropped = one_record::drop_expired(
            &self.context,
            slot,
            |door, may_unlink| {
                let hot = match self.hot() {
                    Some(hot) => hot.try_get(key, Touch::No, &mut value)?,
                    None => None,
                };
                let found = match hot {
                    None => self.cold.try_get(key, Touch::No, &mut value)?,
                    // A tombstone goes down by itself.
                    hot => hot.filter(|found| !found.flags.is_deleted()),
                };
                let Some(found) = found else {
                    return Ok(None);
                };
                let stored = found.large.map_or(Value::Inline(&value), Value::Large);
                if !self.expires.is_over(stored) {
                    return Ok(None);
                }
                let chains = self.apply_cold(door, key, None, may_unlink, &mut || ())?;
                Ok(Some(chains))
            },
            |interrupt| {
                let settle = |interrupt| self.context.settle_uncounted(interrupt);
                TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
            },
        )?;
        self.expires
            .note_dropped(DroppedBy::Round, u64::from(dropped));
        Ok(dropped)
    }

    /// Makes deletions of those records of a copy that have expired, which go down as such. The caller holds
    /// their locks. Large ones go as they are: what they refer to has an owner.
    pub(super) fn bury_expired(&self, copy: &mut Window, which: &[usize]) {
        if !self.expires.is_any() {
            return;
        }
        let mut buried = 0;
        for &at in which {
            let entry = copy.entry(at);
            if entry.large.is_some()
                || entry.flags.is_deleted()
                || !self.expires.is_over(Value::Inline(copy.value(at)))
            {
                continue;
            }
            copy.set_flags(at, entry.flags.with(terrace_access::Flags::DELETED));
            // The value says then which of them it is.
            if !planted(Fault::ExpiredDirtyDropped) {
                copy.clear_value(at);
            }
            buried += 1;
        }
        self.expires.note_dropped(DroppedBy::Demotion, buried);
    }

    /// Whether a record of a page of the hot tier has expired.
    pub(super) fn is_expired_on(
        &self,
        page: &dyn RecordPage,
        i: usize,
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        if !self.expires.is_any() {
            return Ok(false);
        }
        let large = page.value(i, value)?;
        Ok(self
            .expires
            .is_over(large.map_or(Value::Inline(value), Value::Large)))
    }
}
