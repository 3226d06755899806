//! Ranges over two tiers (rule 7).
//!
//! A window is the intersection of the fences of one hot and one cold leaf, or of the parts of them
//! next to the edge that are copied when only a few records are wanted. The cold leaf is made
//! resident first; then the hot leaf is read, then the cold one, then it is checked that the hot
//! leaf still has the same members. Whatever moved between the tiers meanwhile changed the hot
//! leaf's membership. After three failures the hot leaf's latch is kept while the cold one is read.
//! Each key comes out once; the cursor is a position.
//!
//! Where a scan finds little but tombstones it writes them to the cold tier, if that takes no waiting:
//! else whoever asks for the first record of a queue would walk over the same ones again and again.

use terrace_access::{Attempt, Edge, Ordered, Window};
use terrace_base::Result;
use terrace_pages::Retry;

use super::purge::Purges;
use super::tiers::{Pair, Tiers};
use crate::fault::{Fault, Point, planted, reached};

/// Failed validations before the hot latch is kept.
const PATIENCE: u32 = 3;
/// Tombstones of a window, if no more records are live, that the scan writes to the cold tier: about half
/// of what a short scan reads at once, so that few are walked over twice, and enough for a run.
const MANY_DEAD: usize = 32;

impl Purges {
    /// Fills `window` with the live records next to `edge`, and writes the tombstones that it walks over if they
    /// are many.
    pub fn scan<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        edge: Edge<'_>,
        window: &mut Window,
    ) -> Result<()> {
        let dead = tiers.scan(edge, window)?;
        // A part of a leaf with nothing else in it would be one more window for every scan, however small.
        let is_all = window.low.is_empty() && window.high.is_none();
        let many = if window.is_empty() && !is_all {
            1
        } else {
            MANY_DEAD.max(window.len())
        };
        if dead >= many && !planted(Fault::DeadLeftBehind) {
            let below = match edge {
                Edge::Below(below) => Some(below),
                _ => window.high.as_deref(),
            };
            self.purge_walked(tiers, &window.low, below);
        }
        Ok(())
    }
}

impl<P: Pair> Tiers<P> {
    /// Fills `window` with the live records next to `edge`, and changes nothing. Returns how many tombstones there
    /// are in it.
    pub fn scan(&self, edge: Edge<'_>, window: &mut Window) -> Result<usize> {
        self.context().with_windows(|hot, cold| {
            hot.set_limit(window.limit());
            cold.set_limit(window.limit());
            let (mut failed, mut misses) = (0, 0);
            loop {
                match self.windows(edge, hot, cold, failed >= PATIENCE) {
                    Ok(()) => return Ok(merge(edge, hot, cold, window)),
                    Err(Retry::Conflict) => {
                        failed += 1;
                        self.store().back_off()?;
                    }
                    Err(interrupt) => {
                        if let Retry::Miss(_) = interrupt {
                            cold.shrink_after(&mut misses);
                            hot.set_limit(hot.limit().min(cold.limit()));
                        }
                        self.context().settle_for_scan(interrupt)?;
                    }
                }
            }
        })
    }

    fn windows(
        &self,
        edge: Edge<'_>,
        hot: &mut Window,
        cold: &mut Window,
        keep_latch: bool,
    ) -> Attempt<()> {
        self.cold().try_reach(edge)?;
        let Some(tree) = self.hot() else {
            hot.clear();
            self.cold().try_window(edge, cold)?;
            // A hot tier that was made meanwhile may have taken records that were not seen.
            return if self.hot().is_none() {
                Ok(())
            } else {
                Err(Retry::Conflict)
            };
        };
        if keep_latch {
            return tree.try_window_held(edge, hot, &mut |_| self.cold().try_window(edge, cold));
        }
        if planted(Fault::ScanColdFirst) {
            self.cold().try_window(edge, cold)?;
            reached(Point::Scanning);
        }
        tree.try_window(edge, hot)?;
        if !planted(Fault::ScanColdFirst) {
            reached(Point::Scanning);
            self.cold().try_window(edge, cold)?;
        }
        if tree.still_same(hot) || planted(Fault::ScanUnvalidated) {
            Ok(())
        } else {
            Err(Retry::Conflict)
        }
    }
}

/// The live records of both windows in the range that both cover, the hot ones hiding cold ones. Returns
/// how many tombstones there are in it.
fn merge(edge: Edge<'_>, hot: &Window, cold: &Window, out: &mut Window) -> usize {
    let mut dead = 0;
    out.clear();
    let low = hot.low.as_slice().max(&cold.low);
    let high = match (&hot.high, &cold.high) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.as_ref().or(b.as_ref()),
    };
    let low = match edge {
        Edge::From(from) => from.max(low),
        _ => low,
    };
    let below = match edge {
        Edge::Below(below) => Some(below),
        _ => high.map(Vec::as_slice),
    };
    out.low.extend_from_slice(low);
    out.high = high.cloned();
    let range = |w: &Window| {
        let end = below.map_or(w.len(), |below| w.lower_bound(below));
        (w.lower_bound(low).min(end), end)
    };
    let ((mut h, h_end), (mut c, c_end)) = (range(hot), range(cold));
    while h < h_end || c < c_end {
        if h < h_end && (c == c_end || hot.key(h) <= cold.key(c)) {
            if c < c_end && hot.key(h) == cold.key(c) {
                c += 1;
            }
            if hot.entry(h).flags.is_deleted() {
                dead += 1;
            } else {
                out.push_from(hot, h);
            }
            h += 1;
        } else {
            out.push_from(cold, c);
            c += 1;
        }
    }
    dead
}
