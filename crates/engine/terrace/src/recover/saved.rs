//! Putting what was saved of hot tiers into new ones, before the log is replayed.
//!
//! It goes through the ordinary code of the structures, like a replay: so where there is less memory than before what does
//! not fit goes to the cold tier.

use terrace_access::Window;
use terrace_base::Result;
use terrace_tier::TierContext;

use crate::catalog::hot_places::each_saved;
use crate::catalog::registry::Registry;
use crate::effects::{Effect, encode};
use crate::planted::{Fault, planted};
use crate::recover::replay::Replay;

/// What a record takes in a page beside its effect, at most.
const MORE_BYTES: u64 = 16;
/// Bytes of records after which the pages that they have come to are closed up. They come in order, but through several
/// threads, so pages are divided in halves.
const CLOSED_UP: u64 = 1 << 20;
/// And at the end of a structure, if there were so many since: nobody waits for the threads because of a few records.
const CLOSED_UP_AT_THE_END: u64 = 256 << 10;

/// Puts all of it in; how many slots it has at most.
pub fn load(registry: &Registry, tiers: &TierContext, replay: &mut Replay<'_>) -> Result<u64> {
    if planted(Fault::SavedForgottenAtOpening) {
        return Ok(0);
    }
    let (mut window, mut payload) = (Window::new(), Vec::new());
    let mut slots = 0;
    for open in registry.all() {
        if open.is_dropped() {
            continue;
        }
        let prefix = open.structure.position_prefix();
        let (mut loaded, mut records) = (0, 0);
        let (mut open_from, mut closed_up) = (Vec::new(), 0);
        each_saved(&open, false, &mut window, &mut |window| {
            for i in 0..window.len() {
                let (structure, entry) = (open.id(), window.entry(i));
                let key = window.key(i).get(prefix..).unwrap_or_default();
                let value = window.value(i);
                let effect = match entry.flags.is_deleted() {
                    true => Effect::Delete { structure, key },
                    false => Effect::Put {
                        structure,
                        key,
                        value,
                    },
                };
                payload.clear();
                encode(&effect, &mut payload);
                replay.saved(&payload)?;
                loaded += payload.len() as u64;
            }
            records += window.len() as u64;
            let due = match window.high.is_none() {
                true => CLOSED_UP_AT_THE_END,
                false => CLOSED_UP,
            };
            if loaded - closed_up >= due {
                replay.wait()?;
                let high = window.high.as_deref();
                open.structure.close_up_hot(&open_from, high)?;
                open_from = high.unwrap_or_default().to_vec();
                closed_up = loaded;
            }
            Ok(())
        })?;
        if records > 0 {
            slots += tiers.saved_slots(loaded + records * MORE_BYTES);
        }
    }
    replay.wait()?;
    Ok(slots)
}
