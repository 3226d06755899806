//! Looking a record up in both tiers.

use terrace_access::{AccessMethod, Attempt, Flags, Found, Touch};
use terrace_base::Result;
use terrace_pages::Retry;

use super::faults;
use super::tiers::{Pair, Tiers};
use crate::Version;
use crate::one_record;

/// A record that was found, and whether in the hot tier.
pub(super) type Seen = (Found, bool);

impl<P: Pair> Tiers<P> {
    /// One look into both tiers; hot first.
    pub fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Attempt<Option<Seen>> {
        if let Some(found) = faults::asked_last(self.cold(), key, value)? {
            return Ok(Some((found, false)));
        }
        if let Some(hot) = self.hot()
            && let Some(found) = hot.try_get(key, Touch::Raise, value)?
        {
            return Ok(Some((found, true)));
        }
        Ok(self
            .cold()
            .try_get(key, Touch::No, value)?
            .map(|found| (found, false)))
    }

    /// The record as of `version` of its lock; the number tells how often a page had to be read.
    pub fn read(
        &self,
        slot: usize,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(Option<Seen>, Version, u32)>> {
        let mut missed = 0;
        let answer = one_record::read(
            self.context(),
            slot,
            value,
            holds,
            |value| self.look(key, value),
            |interrupt| {
                missed += u32::from(matches!(interrupt, Retry::Miss(_)));
                self.context().settle(interrupt)
            },
        )?;
        Ok(answer.map(|(seen, version)| (seen, version, missed)))
    }

    /// A record that the hot tier answers for, and whether it is there. That is right whatever its lock says: the
    /// leaf's latch validated it.
    #[inline(always)]
    pub fn get_hot(&self, key: &[u8], value: &mut Vec<u8>) -> Option<bool> {
        if let Some(hot) = self.hot()
            && !self.context().locks_for_reads()
            && let Ok(Some(found)) = hot.try_get(key, Touch::Raise, value)
            && found.large.is_none()
            && faults::asks_hot_first()
        {
            faults::dirty_hint(hot, self.store(), key, (value, found.flags));
            self.note_hot_hit(key, found.flags);
            return Some(!found.flags.is_deleted());
        }
        None
    }

    /// A read was answered by a hot record that had these flags.
    #[inline]
    pub fn note_hot_hit(&self, key: &[u8], flags: Flags) {
        self.observe(key, 0, false);
        self.events().hot_hits.add(1);
        let share = &self.context().index_share;
        if P::Cold::CAPABILITIES.indexed {
            share.note_hot_hit();
        }
        let idle = self.levels().idle(flags.use_count());
        if idle > 0.0 {
            share.note_idle_hit(idle, self.levels().idle_part());
        }
    }

    /// A lookup has ended, for policies that go by that.
    #[inline]
    #[cfg_attr(not(feature = "paper"), allow(unused_variables))]
    pub fn observe(&self, key: &[u8], depth: u8, missed: bool) {
        #[cfg(feature = "paper")]
        if self.is_observed() {
            self.policy().note_lookup(self.hash(key), depth, missed);
        }
    }
}
