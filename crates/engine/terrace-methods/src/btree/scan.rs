//! Windows: a copy of one leaf with its fences, taken under the shared latch.

use std::ops::Range;

use terrace_access::{Attempt, Edge, Flags, Window};
use terrace_pages::Shared;

use super::descend::{Descent, OUTSIDE, node_of, sound};
use super::layout::{HEADER, MEMBERS, Node, Seen, Stored, TAG};
use crate::fault::{self, Fault};

/// Copies of a leaf the fences, and those records whose flags are wanted. O(records).
pub(crate) fn copy_if(
    leaf: &Shared<'_>,
    edge: Edge<'_>,
    select: &mut dyn FnMut(Flags) -> bool,
    window: &mut Window,
) -> Attempt<()> {
    let node = node_of!(leaf)?;
    begin(leaf, &node, edge, window)?;
    sound!(leaf, fill(&node, 0..node.count, window, select))
}

/// Copies of a leaf what lies from `low` up to `high`, and is wanted. O(log n + records between them).
pub(crate) fn copy_within(
    leaf: &Shared<'_>,
    low: &[u8],
    high: Option<&[u8]>,
    select: &mut dyn FnMut(Flags) -> bool,
    window: &mut Window,
) -> Attempt<()> {
    let node = node_of!(leaf)?;
    begin(leaf, &node, Edge::From(low), window)?;
    let (Ok(first) | Err(first)) = sound!(leaf, node.find(low))?;
    let end = match high {
        Some(high) if window.high.as_deref().is_none_or(|h| high < h) => {
            let (Ok(end) | Err(end)) = sound!(leaf, node.find(high))?;
            end
        }
        _ => node.count,
    };
    window.restrict(low, high);
    sound!(leaf, fill(&node, first..end.max(first), window, select))
}

/// Copies of a leaf nothing but its range, or that of at most `around` records on each side of
/// `position`. O(log n).
pub(crate) fn copy_span(
    leaf: &Shared<'_>,
    position: &[u8],
    around: Option<usize>,
    window: &mut Window,
) -> Attempt<()> {
    let node = node_of!(leaf)?;
    begin(leaf, &node, Edge::From(position), window)?;
    let Some(around) = around else {
        return Ok(());
    };
    let (Ok(place) | Err(place)) = sound!(leaf, node.find(position))?;
    if let Some(end) = place.checked_add(around).filter(|&end| end < node.count) {
        let mut high = window.high.take().unwrap_or_default();
        high.clear();
        sound!(leaf, node.append_key(end, &mut high))?;
        window.high = Some(high);
    }
    if place > around {
        window.low.clear();
        sound!(leaf, node.append_key(place - around, &mut window.low))?;
    }
    if !window.advances(Edge::From(position)) {
        return Err(leaf.torn(OUTSIDE));
    }
    Ok(())
}

/// Copies a leaf, or as many of the records next to the edge as the window may hold, and then the
/// range of those. O(records copied).
pub(crate) fn copy(leaf: &Shared<'_>, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
    let node = node_of!(leaf)?;
    begin(leaf, &node, edge, window)?;
    let limit = window.limit();
    let all = 0..node.count;
    if node.count <= limit {
        return sound!(leaf, fill(&node, all, window, &mut |_| true));
    }
    let up = matches!(edge, Edge::From(_));
    let place = match edge {
        Edge::From(key) | Edge::Below(key) => sound!(leaf, node.find(key))?,
        Edge::End => Err(node.count),
    };
    let (Ok(place) | Err(place)) = place;
    let some = if up {
        place..place.saturating_add(limit).min(node.count)
    } else {
        place.saturating_sub(limit)..place
    };
    if let Edge::From(key) = edge {
        window.low.clear();
        window.low.extend_from_slice(key);
    }
    if up && some.end < node.count {
        let mut high = window.high.take().unwrap_or_default();
        high.clear();
        sound!(leaf, node.append_key(some.end, &mut high))?;
        window.high = Some(high);
    }
    if let Edge::Below(key) = edge {
        window.high = Some(key.to_vec());
    }
    if !up && some.start > 0 {
        window.low.clear();
        sound!(leaf, node.append_key(some.start, &mut window.low))?;
    }
    // The keys that bound it now may be in no order.
    if !window.advances(edge) {
        return Err(leaf.torn(OUTSIDE));
    }
    sound!(leaf, fill(&node, some, window, &mut |_| true))
}

/// The range of the leaf, which must be around the edge where it was looked for: who goes from window to
/// window would otherwise go in a circle, or pass records over.
fn begin(leaf: &Shared<'_>, node: &Node<'_>, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
    window.clear();
    sound!(leaf, node.append_low(&mut window.low))?;
    window.high = sound!(leaf, node.high())?;
    let reaches = match edge {
        Edge::From(from) => window.low.as_slice() <= from,
        Edge::Below(below) => window.high.as_deref().is_none_or(|high| below <= high),
        Edge::End => true,
    };
    if !reaches || !window.advances(edge) {
        return Err(leaf.torn(OUTSIDE));
    }
    window.membership = sound!(leaf, node.members())?;
    window.ticket = Some(leaf.ticket());
    window.page = Some(leaf.pid());
    Ok(())
}

/// Appends to a window those of these records of a leaf whose flags are wanted. O(records).
pub(crate) fn fill(
    node: &Node<'_>,
    records: Range<usize>,
    window: &mut Window,
    select: &mut dyn FnMut(Flags) -> bool,
) -> Seen<()> {
    let end = match records.end {
        n if n > 1 && fault::planted(Fault::ShortWindow) => n - 1,
        n => n,
    };
    let most = window.most_of_values();
    for i in records.start..end {
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
                Stored::Inline { at, len } => node.view.append_to(at, len.min(most), out),
                Stored::Large { .. } => Ok(()),
            },
        )?;
    }
    Ok(())
}

impl Descent {
    /// Like [`terrace_access::Ordered::try_window_if`], but keeps the shared latch while `inside`
    /// runs. O(records).
    pub(crate) fn window_if_held(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(edge)?;
        copy_if(&leaf, edge, select, window)?;
        inside(window)
    }

    /// Like [`terrace_access::Ordered::try_window_within`], but keeps the shared latch while `inside`
    /// runs.
    pub(crate) fn window_within_held(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(low))?;
        copy_within(&leaf, low, high, select, window)?;
        inside(window)
    }

    /// The range of at most `around` records on each side of a position, of its leaf.
    pub(crate) fn span_around(
        &self,
        position: &[u8],
        around: usize,
        window: &mut Window,
    ) -> Attempt<()> {
        let leaf = self.leaf_shared(Edge::From(position))?;
        copy_span(&leaf, position, Some(around), window)
    }

    /// Whether a window's leaf has still the same members. O(1), no latch.
    pub(crate) fn unchanged(&self, window: &Window) -> bool {
        let Some(ticket) = window.ticket else {
            return false;
        };
        // The counter first: a page that became an inner node meanwhile is found out by its level,
        // and a page that became a leaf again started at a number of its own.
        self.store().ticket_u32(ticket, MEMBERS) == Some(window.membership)
            && self.store().ticket_u32(ticket, HEADER).is_some_and(|word| {
                let [tag, level, ..] = word.to_le_bytes();
                tag == TAG && level & 0x7F == 0
            })
    }
}
