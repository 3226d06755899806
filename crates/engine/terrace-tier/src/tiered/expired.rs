//! Records that have expired, on their way out of both tiers.
//!
//! Nothing is logged for it, for no reader sees a difference: what replays the log brings back what is hidden. But the
//! cold tier may have an older value of such a record, one that lives longer. So what leaves the hot tier dirty
//! and expired goes down as a deletion (`expires.rs`), and what is dropped here is dropped from the cold tier
//! first (`write_through.rs`).

use terrace_access::{AccessMethod, DroppedBy, Touch, Value, Waits};
use terrace_base::Result;
use terrace_pages::Space;

use super::tiers::{Pair, Tiers};
use crate::context::TierContext;
use crate::merging::catch_up;
use crate::one_record;

impl<P: Pair> Tiers<P> {
    /// See [`crate::Structure::drop_expired`].
    pub fn drop_if_expired(&self, key: &[u8]) -> Result<bool> {
        if let Some(merging) = self.cold().merging()
            && !self.is_retired()
        {
            let waits = &mut Waits::in_background();
            catch_up(self.context(), merging, Space::Reserve, waits)?;
        }
        let slot = self.context().locks.slot(self.id(), key);
        let mut value = Vec::new();
        let dropped = one_record::drop_expired(
            self.context(),
            slot,
            |door, may_unlink| {
                let hot = match self.hot() {
                    Some(hot) => hot.try_get(key, Touch::No, &mut value)?,
                    None => None,
                };
                let found = match hot {
                    None => self.cold().try_get(key, Touch::No, &mut value)?,
                    // A tombstone goes down by itself.
                    hot => hot.filter(|found| !found.flags.is_deleted()),
                };
                let Some(found) = found else {
                    return Ok(None);
                };
                let stored = found.large.map_or(Value::Inline(&value), Value::Large);
                if !self.expires().is_over(stored) {
                    return Ok(None);
                }
                let chains = self.apply_cold(door, key, None, may_unlink, &mut || ())?;
                Ok(Some(chains))
            },
            |interrupt| {
                let settle = |interrupt| self.context().settle_uncounted(interrupt);
                TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
            },
        )?;
        self.expires()
            .note_dropped(DroppedBy::Round, u64::from(dropped));
        Ok(dropped)
    }
}
