//! What changes owe to a method that merges. For any other all of this is nothing, which the compiler sees.

use terrace_access::{Merging, Tier, Waits, Window};
use terrace_base::Result;
use terrace_pages::Space;

use crate::context::TierContext;

/// `bytes` bytes were changed in it.
#[inline]
pub(crate) fn note_written<M: Tier>(method: &M, bytes: usize) {
    if let Some(merging) = method.merging() {
        merging.note_written(bytes);
    }
}

/// These records of a run were put together.
pub(crate) fn note_put<M: Tier>(method: &M, run: &Window, which: &[usize]) {
    if let Some(merging) = method.merging() {
        let bytes = which.iter().map(|&i| run.key(i).len() + run.value(i).len());
        merging.note_written(bytes.sum());
    }
}

/// Does what is left behind there, as far as it has to before more comes, and has the rest be done.
pub(crate) fn catch_up(
    context: &TierContext,
    merging: &dyn Merging,
    space: Space,
    waits: &mut Waits,
) -> Result<()> {
    if merging.catch_up(space, waits)? {
        context.merger.notify();
    }
    Ok(())
}

/// The same before changes that are made together, inside the gate: what is left behind there is done the next
/// time. `bytes` are those of a change, or 0 where that is not known. A full disk is met when the write guard is taken.
/// `waits` are those of each change.
pub(crate) fn catch_up_for_many<M: Tier>(
    context: &TierContext,
    method: &M,
    bytes: usize,
    waits: &mut Waits,
) -> Result<()> {
    let Some(merging) = method.merging() else {
        return Ok(());
    };
    merging.slow_down(bytes);
    match catch_up(context, merging, Space::Ordinary, waits) {
        Err(e) if e.is_no_room() => Ok(()),
        caught_up => caught_up,
    }
}
