//! Looking a record up in both tiers.

use terrace_access::{Attempt, Flags, Found, NoRoom, Plan, Sweep, Tier, Touch, Value};
use terrace_base::Result;
use terrace_pages::Interrupt;

use super::Tiered;
use crate::Version;
use crate::fault::{Fault, planted};
use crate::one_record;

/// A record that was found, and whether in the hot tier.
pub(super) type Seen = (Found, bool);

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// One look into both tiers; hot first.
    pub(super) fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Attempt<Option<Seen>> {
        if planted(Fault::HotAskedLast)
            && let Some(found) = self.cold.try_get(key, Touch::No, value)?
        {
            return Ok(Some((found, false)));
        }
        if let Some(hot) = self.hot.get()
            && let Some(found) = hot.try_get(key, Touch::Raise, value)?
        {
            return Ok(Some((found, true)));
        }
        Ok(self
            .cold
            .try_get(key, Touch::No, value)?
            .map(|found| (found, false)))
    }

    /// The record as of `version` of its lock; the number tells how often a page had to be read.
    pub(super) fn read(
        &self,
        slot: usize,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(Option<Seen>, Version, u32)>> {
        let mut missed = 0;
        let answer = one_record::read(
            &self.context,
            slot,
            value,
            holds,
            |value| self.look(key, value),
            |interrupt| {
                missed += u32::from(matches!(interrupt, Interrupt::Miss(_)));
                self.context.settle(interrupt)
            },
        )?;
        Ok(answer.map(|(seen, version)| (seen, version, missed)))
    }

    /// A record that the hot tier answers for, and whether it is there. That is right whatever its lock says: the
    /// leaf's latch validated it.
    #[inline(always)]
    pub(super) fn get_hot(&self, key: &[u8], value: &mut Vec<u8>) -> Option<bool> {
        if let Some(hot) = self.hot.get()
            && !self.context.locks_for_reads()
            && let Ok(Some(found)) = hot.try_get(key, Touch::Raise, value)
            && found.large.is_none()
            && !planted(Fault::HotAskedLast)
        {
            if planted(Fault::HintDirties)
                && let Ok(door) = self.context.store.enter()
            {
                let mut plan = |_: Option<(Flags, Value<'_>)>| {
                    Ok(Plan::Put(Value::Inline(value), found.flags))
                };
                let _ = hot.try_edit(&door, key, &mut plan, &mut NoRoom, &mut || Ok(()));
            }
            self.note_hot_hit(key, found.flags);
            return Some(!found.flags.is_deleted());
        }
        None
    }

    /// A read was answered by a hot record that had these flags.
    #[inline]
    pub(super) fn note_hot_hit(&self, key: &[u8], flags: Flags) {
        self.observe(key, 0, false);
        self.events.hot_hits.add(1);
        let share = &self.context.index_share;
        if C::INDEXED {
            share.note_hot_hit();
        }
        let idle = self.levels.idle(flags.use_count());
        if idle > 0.0 {
            share.note_idle_hit(idle, self.levels.idle_part());
        }
    }
}
