//! What a structure does with one of its access methods, whether that is its only one or not.

use terrace_access::{Attempt, Edge, StoragePlace, Tier, Window, WriteGuard};
use terrace_base::Result;
use terrace_pages::{Retry, Space};

use crate::context::TierContext;

/// How often a step of compaction tries a page that others are at work on.
const COMPACT_PATIENCE: u32 = 8;

/// Bytes of the keys and values of a run.
pub(crate) fn bytes_of(run: &Window) -> usize {
    (0..run.len())
        .map(|i| run.key(i).len() + run.value(i).len())
        .sum()
}

/// The position of a key, whatever has to be read for that.
pub(crate) fn position_of<M: Tier>(
    context: &TierContext,
    method: &M,
    key: &[u8],
) -> Result<Vec<u8>> {
    loop {
        let mut place = Vec::new();
        match method.try_position(key, &mut place) {
            Ok(position) => return Ok(position.to_vec()),
            Err(interrupt) => context.settle_for_pages(interrupt)?,
        }
    }
}

/// A position anywhere in what a method has.
pub(crate) fn random_position<M: Tier>(context: &TierContext, method: &M) -> Result<Vec<u8>> {
    loop {
        match method.try_random(&mut crate::random::next) {
            Ok((_, position)) => return Ok(position),
            Err(interrupt) => context.settle_uncounted(interrupt)?,
        }
    }
}

/// Brings the pages at both edges of a range into memory.
pub(crate) fn reach_edges<M: Tier>(
    context: &TierContext,
    method: &M,
    low: &[u8],
    high: Option<&[u8]>,
) -> Result<()> {
    for key in [Some(low), high].into_iter().flatten() {
        while let Err(interrupt) = method.try_reach(Edge::From(key)) {
            context.settle_uncounted(interrupt)?;
        }
    }
    method.prepare_cut(low, high)
}

/// One step of compaction; see [`Structure::compact_step`](crate::Structure::compact_step).
pub(crate) fn compact_step<M: Tier>(
    context: &TierContext,
    method: &M,
    from: &[u8],
    fill: f64,
) -> Result<Option<Vec<u8>>> {
    if !M::CAPABILITIES.scans {
        // There is no order in which to go through it.
        return Ok(None);
    }
    if let Some(merging) = method.merging() {
        return merging.settle_down(from);
    }
    patiently(context, |door| method.try_compact(door, from, fill))?;
    let mut span = Window::new();
    while let Err(interrupt) = method.try_span(from, &mut span) {
        context.settle_uncounted(interrupt)?;
    }
    Ok(span.high.take())
}

/// One step of compaction; see [`Structure::compact_stored_step`](crate::Structure::compact_stored_step).
pub(crate) fn compact_stored_step<M: Tier>(
    context: &TierContext,
    method: &M,
    place: &mut StoragePlace,
) -> Result<()> {
    let done = patiently(context, |door| method.try_compact_stored(door, place))?;
    // A page that others are at work on is passed over.
    if let (Some((_, entry)), false) = (place, done) {
        *entry += 1;
    }
    Ok(())
}

/// Tries a step of compaction until it is done; false if others have been at work on its page for long: then that
/// stays as it is.
fn patiently(
    context: &TierContext,
    mut step: impl FnMut(&WriteGuard<'_>) -> Attempt<()>,
) -> Result<bool> {
    let mut conflicts = 0;
    loop {
        let door = context.store.enter_for(Space::Ordinary)?;
        let done = step(&door);
        drop(door);
        match done {
            Ok(()) => return Ok(true),
            Err(Retry::Conflict) if conflicts >= COMPACT_PATIENCE => return Ok(false),
            Err(interrupt) => {
                conflicts += u32::from(matches!(interrupt, Retry::Conflict));
                context.settle_uncounted(interrupt)?;
            }
        }
    }
}

/// One bounded step of emptying a structure; its root goes last. Returns whether more is left.
pub(crate) fn clear_step<M: Tier>(context: &TierContext, method: &M) -> Result<bool> {
    loop {
        let door = context.store.enter_for(Space::Reserve)?;
        let step = match method.try_clear_step(&door) {
            Ok(true) => return Ok(true),
            Ok(false) => method.free_root(&door).map(|()| false),
            Err(interrupt) => Err(interrupt),
        };
        drop(door);
        match step {
            Ok(more) => return Ok(more),
            // The root is gone: an earlier step, or one before a crash, has freed it.
            Err(Retry::Conflict) if !context.store.exists(method.root()) => return Ok(false),
            Err(interrupt) => context.settle_uncounted(interrupt)?,
        }
    }
}
