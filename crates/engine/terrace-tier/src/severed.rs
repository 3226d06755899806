//! A range that is about to be taken out of a structure, of both tiers together.

use terrace_access::{Attempt, PreparedDelete, RangeDeletes, WriteGuard};
use terrace_base::PageId;

/// A range that is about to be taken out of both tiers. It holds the latches of all pages that are changed; dropped, it
/// leaves all as it was.
pub struct Severed<'d> {
    hot: Option<Box<dyn PreparedDelete + 'd>>,
    cold: Box<dyn PreparedDelete + 'd>,
}

impl<'d> Severed<'d> {
    /// Of a structure with these tiers.
    pub(crate) fn of<H: RangeDeletes, C: RangeDeletes>(
        door: &'d WriteGuard<'_>,
        (hot, cold): (Option<&'d H>, &'d C),
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Severed<'d>> {
        let hot = hot
            .map(|hot| hot.try_cut(door, low, high, false))
            .transpose()?;
        // What is taken out of the hot tier alone has a cold one nevertheless: all that are taken apart have.
        let has_hot_part = hot.as_ref().is_some_and(|hot| hot.part().is_some());
        Ok(Severed {
            cold: cold.try_cut(door, low, high, has_hot_part)?,
            hot,
        })
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.cold.is_empty() && self.hot.as_ref().is_none_or(|hot| hot.is_empty())
    }

    /// Where what is taken out begins, if pages or large values are left over: a structure of the same kind.
    /// Those of the hot tier, if it has any, and of the cold one.
    pub fn roots(&self) -> Option<(Option<PageId>, PageId)> {
        let hot = self.hot.as_ref().and_then(|hot| hot.part());
        self.cold.part().map(|cold| (hot, cold))
    }

    /// Takes it out.
    ///
    /// # Errors
    /// As [`PreparedDelete::apply`].
    pub fn apply(self) -> Attempt<()> {
        if let Some(hot) = self.hot {
            hot.apply()?;
        }
        self.cold.apply()
    }
}
