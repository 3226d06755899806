//! What every round over the leaves of a hot tier does, whatever it is for.

use terrace_access::{Sampled, Sweep};
use terrace_base::Result;
use terrace_pages::Retry;

use super::entry::Entry;
use super::tiers::{Pair, Tiers};

/// Pages that may have to be read before others can be freed, for one leaf.
const GATHER_READS: usize = 8;
/// Random positions of which the nearest one behind a leaf that cannot be read is taken: with this many about
/// a ninth of the leaves is passed over with it.
const POSITIONS_TRIED: usize = 8;

/// A position behind the leaf at this one, which cannot be read; `None` where none was found. Where only the leaf itself
/// says where it ends, one at random: what lies between is passed over this time.
pub(super) fn behind<P: Pair>(tiers: &Tiers<P>, hot: &P::Hot, at: &[u8]) -> Option<Vec<u8>> {
    for _ in 0..POSITIONS_TRIED {
        match hot.try_behind(at) {
            Ok(None) => break,
            Ok(next) => return next,
            Err(interrupt) => {
                if tiers.store().settle(interrupt).is_err() {
                    // A page above it cannot be read either.
                    break;
                }
            }
        }
    }
    let mut nearest: Option<Vec<u8>> = None;
    for _ in 0..POSITIONS_TRIED {
        let position = match hot.try_random(&mut crate::random::next) {
            Ok((_, position)) => position,
            Err(interrupt) => {
                // If it is that leaf again, the next one is another.
                let _ = tiers.store().settle(interrupt);
                continue;
            }
        };
        if position.as_slice() > at && nearest.as_ref().is_none_or(|n| position < *n) {
            nearest = Some(position);
        }
    }
    nearest
}

/// Packs a hot leaf into the one before it, if it can be had and the policy packs.
pub(super) fn pack<P: Pair>(
    tiers: &Tiers<P>,
    hot: &P::Hot,
    position: &[u8],
    entry: Entry<'_>,
) -> Result<()> {
    let fill = tiers.policy().pack_fill();
    if fill > 0.0
        && let Some(Ok(true)) =
            entry.inside(tiers.store(), |door| hot.try_pack(door, position, fill))?
    {
        tiers.events().packed.add(1);
    }
    Ok(())
}

/// Frees pages by filling the holes that records have left in others.
pub(super) fn gather<P: Pair>(tiers: &Tiers<P>, hot: &P::Hot, entry: Entry<'_>) -> Result<()> {
    for _ in 0..GATHER_READS {
        match entry.inside(tiers.store(), |door| hot.try_gather(door))? {
            Some(Err(Retry::Fail(e))) => return Err(e),
            // Hot pages are not in memory after opening with less of it, say.
            Some(Err(miss @ Retry::Miss(_))) if !entry.is_inside() => {
                tiers.store().settle(miss)?;
            }
            _ => break,
        }
    }
    Ok(())
}
