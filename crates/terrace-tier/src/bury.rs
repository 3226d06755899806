//! Tombstones on their way out: what was deleted leaves the cold tier, and its tombstone the hot one.
//!
//! A delete touches no cold page (rule 10), it leaves a tombstone above. Whoever makes room takes
//! tombstones with him; but where nobody needs room they would stay for ever, and with them the
//! records below: after everything was deleted the file would be as long as before. So a round through
//! the hot leaves writes tombstones, and nothing else, whenever there are about enough of them that
//! neither the looking nor the cold pages are work for nothing.

use terrace_access::{Edge, Flags, Ordered, Sweep};
use terrace_base::Result;
use terrace_pages::Space;

use crate::context::{Rooted, TierContext};
use crate::migrate::{Entry, Selected};
use crate::tiered::Tiered;

/// Deletes since the last round, for each hot leaf that it went through, that make the next worth while.
const DELETES_PER_LEAF: u64 = 4;
/// The same for a structure with hardly a leaf.
const LEAST_DELETES: u64 = 64;
/// Hot leaves that one call goes through, at most.
const STEP_LEAVES: usize = 64;
/// Tombstones after which a call goes no further: each may take a page read, and the thread that does this
/// has more to do.
const STEP_TOMBSTONES: u64 = 128;

/// Where a round stands. A hint: lost at a crash, with the count of deletes, and what is left of
/// tombstones then waits for the deletes to come.
#[derive(Default)]
pub(crate) struct Burying {
    at: Vec<u8>,
    under_way: bool,
    /// Deletes before this round, or the last one.
    deletes: u64,
    /// Leaves of this round so far, and of the last one.
    leaves: u64,
    leaves_before: u64,
}

impl Burying {
    fn end(&mut self) {
        self.under_way = false;
        self.leaves_before = self.leaves;
    }
}

impl<H, C> Tiered<H, C>
where
    H: Sweep + Rooted + 'static,
    C: Ordered + Rooted<Order = H::Order> + 'static,
{
    /// Goes on with the round, or begins one if it is due: some leaves. Returns whether one is under
    /// way. Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store. What could not be done is left to a later round.
    pub(crate) fn bury_due(&self) -> Result<bool> {
        if !self.is_burying() {
            return Ok(false);
        }
        let mut written = 0;
        for _ in 0..STEP_LEAVES {
            if written >= STEP_TOMBSTONES {
                break;
            }
            match self.bury_leaf(&mut written) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                // A cold page: those that belong there stay above. Who needs it meets the error himself.
                Err(e) if e.is_unreadable() => {}
                Err(e) => return Err(e),
            }
        }
        Ok(self.burying.lock().under_way)
    }

    fn is_burying(&self) -> bool {
        let mut burying = self.burying.lock();
        let deletes = self.events.sum(|e| &e.deletes);
        let since = deletes.saturating_sub(burying.deletes);
        if burying.under_way || since < LEAST_DELETES {
            return burying.under_way;
        }
        let store = &self.context.store;
        let cold_pages = store.live_pages().saturating_sub(store.hot_frames());
        let enough = DELETES_PER_LEAF * burying.leaves_before + cold_pages;
        if since < enough {
            return false;
        }
        burying.under_way = true;
        burying.deletes = deletes;
        burying.leaves = 0;
        burying.at.clear();
        true
    }

    /// The next leaf; adds what was written. Returns whether there is one behind it.
    fn bury_leaf(&self, written: &mut u64) -> Result<bool> {
        let Some(hot) = self.hot() else {
            return Ok(false);
        };
        // It is what deletes are for.
        let entry = Entry::Wait(Space::Reserve);
        self.context.with_windows(|dead, span| {
            dead.set_keys_only(true);
            let position = loop {
                // The leaf is this call's alone: the hand moves on at once.
                let mut burying = self.burying.lock();
                let mut select = |flags: Flags| Selected::Deleted.wants(flags);
                let at = burying.at.clone();
                match hot.try_window_if(Edge::From(&at), &mut select, dead) {
                    Ok(()) => {
                        burying.leaves += 1;
                        match &dead.high {
                            Some(high) => burying.at.clone_from(high),
                            None => burying.end(),
                        }
                        break at;
                    }
                    Err(interrupt) => {
                        drop(burying);
                        if let Err(e) = self.context.store.settle(interrupt) {
                            // The hand cannot get past this leaf.
                            self.burying.lock().end();
                            return Err(e);
                        }
                    }
                }
            };
            let mut next = 0;
            while next < dead.len() {
                self.cold_span(dead.key(next), span)?;
                let low = span.low.as_slice().max(&dead.low);
                let highs = [&span.high, &dead.high].into_iter().flatten();
                let high = highs.min().map(Vec::as_slice);
                *written += self.write_tombstones(low, high, entry)? as u64;
                next = match &span.high {
                    Some(high) => dead.lower_bound(high).max(next + 1),
                    None => dead.len(),
                };
            }
            if !dead.is_empty() {
                self.pack_leaf(hot, &position, entry)?;
            }
            Ok(dead.high.is_some())
        })
    }
}

impl TierContext {
    /// Goes on with the rounds that write tombstones, of all structures, or begins them where they are
    /// due. Returns whether one is under way. For those who do without the background thread; bounded;
    /// the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn bury(&self) -> Result<bool> {
        let mut more = false;
        for tier in self.hot_tiers() {
            more |= tier.bury()?;
        }
        Ok(more)
    }
}
