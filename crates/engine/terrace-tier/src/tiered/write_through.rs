//! A change that is written through to the cold tier, because the hot one is at its cap and nothing can
//! be let go of: many structures with a leaf or two each, or a batch that holds every lock.
//!
//! Under the record's lock: the cold tier is changed first, then a hot record that says otherwise is
//! erased (rule 5 the other way round). Until then the hot one is right, so readers see the old
//! value or the new one. Erasing never needs room, so this always ends.

use terrace_access::{
    AccessMethod, Attempt, Edge, Flags, LargeRef, NoRoom, Ordered, Plan, Retry, Sweep, Touch,
    Value, WriteGuard,
};

use super::tiers::{Pair, Tiers};

impl<P: Pair> Tiers<P> {
    /// Makes the change in the cold tier; the caller holds the record's lock. Returns the chains
    /// that nothing links to any more.
    pub fn apply_cold(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<[Option<LargeRef>; 2]> {
        // Hot pages stay in memory once they are there, so that after the cold tier has been changed
        // nothing has to be waited for.
        let found = match self.hot() {
            Some(hot) => {
                hot.try_reach(Edge::From(hot.try_position(key, &mut Vec::new())?))?;
                hot.try_get(key, Touch::No, &mut Vec::new())?
            }
            None => None,
        };
        // Only a dirty hot record owns its chain.
        let hot_chain = found
            .filter(|found| found.flags.is_dirty())
            .and_then(|found| found.large);
        if hot_chain.is_some() && !may_unlink() {
            return Err(Retry::Conflict);
        }
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if matches!(before, Some((_, Value::Large(_)))) && !may_unlink() {
                return Err(Retry::Conflict);
            }
            Ok(value.map_or(Plan::Erase, |value| Plan::Put(value, Flags::NONE)))
        };
        let mut logged = false;
        let mut commit = || {
            logged = true;
            log();
            Ok(())
        };
        let done = self
            .cold()
            .try_edit(door, key, &mut plan, &mut NoRoom, &mut commit)?;
        if !logged {
            // A deletion that the cold tier has nothing to do for.
            log();
        }
        if found.is_some()
            && let Some(hot) = self.hot()
        {
            // The cold tier has the change, and the log: to give it up now would free a value that is linked.
            let erased = self.erase_hot(hot, door, key);
            erased.map_err(|interrupt| match interrupt {
                Retry::Fail(e) => Retry::Fail(self.store().poison(&e)),
                other => other,
            })?;
        }
        Ok([done.before.and_then(|(_, large)| large), hot_chain])
    }

    fn erase_hot(&self, hot: &P::Hot, door: &WriteGuard<'_>, key: &[u8]) -> Attempt<()> {
        loop {
            let mut place = Vec::new();
            let erased = hot.try_position(key, &mut place).and_then(|position| {
                hot.try_visit(door, position, &mut |page| match page.find(key)? {
                    Some(i) => page.erase(i).map(|_| ()),
                    None => Ok(()),
                })
            });
            match erased {
                Ok(()) => return Ok(()),
                // Latches are held for short, by no thread that waits for this record's lock.
                Err(Retry::Conflict) => self.store().back_off()?,
                Err(Retry::Fail(e)) => return Err(Retry::Fail(e)),
                Err(other) => self.store().settle(other)?,
            }
        }
    }
}
