//! Looking a key up.

use terrace_access::{Attempt, Edge, Flags, Found, Retry, Touch};
use terrace_base::sync::spin_loop;
use terrace_pages::View;

use super::descend::{BAD_RECORD, Descent, OUTSIDE, PATIENCE, node_of, sound};
use super::layout::{Node, Seen, Stored};
use crate::fault::{self, Fault};

impl Descent {
    /// See [`terrace_access::AccessMethod::try_get`].
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        for _ in 0..PATIENCE {
            match self.get_once(key, touch, value) {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        self.get_latched(key, touch, value)
    }

    #[inline]
    fn get_once(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let leaf = self.descend(Edge::From(key), 0)?.node;
        let (found, slot) = match read(leaf.view(), key, value) {
            Ok(found) => found,
            Err(_) => return Err(leaf.torn(BAD_RECORD)),
        };
        leaf.validate()?;
        if touch == Touch::Raise
            && let Some(found) = found
            && may_rise(found.flags)
        {
            leaf.hint(Node::slot_at(slot) + 2, raise);
        }
        Ok(found)
    }

    #[cold]
    fn get_latched(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let leaf = self.descend_shared(Edge::From(key))?;
        if !sound!(leaf, node_of!(leaf)?.covers(key))? {
            return Err(leaf.torn(OUTSIDE));
        }
        let (found, slot) = sound!(leaf, read(leaf.view(), key, value))?;
        if touch == Touch::Raise && found.is_some() {
            leaf.hint(Node::slot_at(slot) + 2, raise);
        }
        Ok(found)
    }
}

/// Whether there are fewer uses than can be counted.
#[inline]
pub(super) fn may_rise(flags: Flags) -> bool {
    flags.use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint)
}

/// One more use, if it can be counted.
pub(super) fn raise(word: u16) -> Option<u16> {
    may_rise(Flags(word as u8 & Flags::MASK)).then_some(word.wrapping_add(1))
}

/// The record of a key in a leaf: what a lookup finds, the slot, and where its value is.
#[inline]
pub(super) fn record_of(view: View<'_>, key: &[u8]) -> Seen<Option<(Found, usize, Stored)>> {
    record_in(&Node::open(view)?, key)
}

/// The same in a leaf that has been opened.
#[inline]
pub(crate) fn record_in(node: &Node<'_>, key: &[u8]) -> Seen<Option<(Found, usize, Stored)>> {
    let Ok(i) = node.find(key)? else {
        return Ok(None);
    };
    let slot = node.slot(i)?;
    let record = node.leaf_record(slot)?;
    let found = Found {
        flags: slot.flags(),
        large: record.large(),
        depth: 0,
    };
    Ok(Some((found, i, record.value)))
}

/// Looks the key up in a leaf; also returns the slot.
#[inline]
fn read(view: View<'_>, key: &[u8], value: &mut Vec<u8>) -> Seen<(Option<Found>, usize)> {
    value.clear();
    let Some((found, i, stored)) = record_of(view, key)? else {
        return Ok((None, 0));
    };
    if let Stored::Inline { at, len } = stored {
        view.append_to(at, len, value)?;
    }
    Ok((Some(found), i))
}
