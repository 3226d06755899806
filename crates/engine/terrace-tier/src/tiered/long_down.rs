//! Long values of a hot tier in the file go below, for it is going to lie in memory alone: what is above has none then.

use terrace_access::{Edge, Ordered};
use terrace_base::Result;
use terrace_pages::Space;

use super::entry::{Entry, until_settled};
use super::migrate::{Down, Drops, Selected};
use super::tiers::{Pair, Tiers};

impl<P: Pair> Tiers<P> {
    /// Writes the long values of the hot leaf that covers this position to the cold tier, and lets go of them above.
    /// Where to go on, `None` behind the last leaf. Blocking.
    pub fn write_long_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let Some(hot) = self.hot() else {
            return Ok(None);
        };
        let (long, next) = self.context().with_windows(|leaf, _| {
            until_settled(self.store(), || hot.try_window(Edge::From(from), leaf))?;
            leaf.restrict(from, None);
            let is_long = |i: &usize| leaf.entry(*i).large.is_some();
            let long = (0..leaf.len()).filter(is_long);
            let long: Vec<_> = long.map(|i| leaf.key(i).to_vec()).collect();
            Ok((long, leaf.high.take()))
        })?;
        let down = Down {
            selected: Selected::All,
            drops: Drops::All,
            rises: false,
        };
        for position in long {
            let behind = [&position[..], &[0]].concat();
            let range = (&position[..], Some(&behind[..]));
            self.write_range(range, down, Entry::Wait(Space::Reserve), usize::MAX)?;
        }
        Ok(next)
    }
}
