//! Windows: a copy of one leaf with its fences, taken under the shared latch.

use terrace_access::{Attempt, Flags, Window};
use terrace_pages::Shared;

use super::BTree;
use super::descend::{node_of, sound};
use super::layout::{HEADER, MEMBERS, Node, Seen, Stored, TAG};
use crate::fault::{self, Fault};

/// Copies a leaf, of its records those whose flags are wanted. O(records).
pub(crate) fn copy(
    leaf: &Shared<'_>,
    select: &mut dyn FnMut(Flags) -> bool,
    window: &mut Window,
) -> Attempt<()> {
    let node = node_of!(leaf)?;
    window.clear();
    sound!(leaf, fill(&node, window, select))?;
    window.ticket = Some(leaf.ticket());
    window.page = Some(leaf.pid());
    Ok(())
}

fn fill(node: &Node<'_>, window: &mut Window, select: &mut dyn FnMut(Flags) -> bool) -> Seen<()> {
    node.append_low(&mut window.low)?;
    window.high = node.high()?;
    window.membership = node.members()?;
    let count = match node.count {
        n if n > 1 && fault::planted(Fault::ShortWindow) => n - 1,
        n => n,
    };
    for i in 0..count {
        let slot = node.slot(i)?;
        if !select(slot.flags()) {
            continue;
        }
        let record = node.leaf_record(slot)?;
        window.push(
            slot.flags(),
            record.large(),
            |out| {
                node.append_prefix(out)?;
                node.view.append_to(record.key_at, record.key_len, out)
            },
            |out| match record.value {
                Stored::Inline { at, len } => node.view.append_to(at, len, out),
                Stored::Large { .. } => Ok(()),
            },
        )?;
    }
    Ok(())
}

impl BTree {
    /// Whether a window's leaf has still the same members. O(1), no latch.
    pub(crate) fn unchanged(&self, window: &Window) -> bool {
        let Some(ticket) = window.ticket else {
            return false;
        };
        // The counter first: a page that became an inner node meanwhile is found out by its level,
        // and a page that became a leaf again started at a number of its own.
        self.store.ticket_u32(ticket, MEMBERS) == Some(window.membership)
            && self.store.ticket_u32(ticket, HEADER).is_some_and(|word| {
                let [tag, level, ..] = word.to_le_bytes();
                tag == TAG && level & 0x7F == 0
            })
    }
}
