//! Looking a record up and following what it says to another page: for a structure whose records a
//! tree is the index of.

use terrace_access::{Attempt, Edge, Found, Retry, Touch};
use terrace_base::sync::spin_loop;
use terrace_pages::View;

use super::descend::{BAD_RECORD, Descent, OUTSIDE, PATIENCE, sound};
use super::get::{may_rise, raise, record_of};
use super::layout::{Node, Seen, Stored};
use crate::fault::{self, Fault};

impl Descent {
    /// Finds the record of `key`, takes from its stored value what `take` makes of it, and calls
    /// `follow` with that: first without any latch, and then what `follow` found counts only if the
    /// leaf is the same afterwards; in the end with the leaf latched, which `follow` is told. O(log n).
    ///
    /// # Errors
    /// Those of [`terrace_access::AccessMethod::try_get`], and those of `follow`.
    #[inline]
    pub(crate) fn get_through<T>(
        &self,
        key: &[u8],
        touch: Touch,
        take: impl Fn(View<'_>, Stored) -> Seen<T>,
        follow: &mut impl FnMut(T, bool) -> Attempt<()>,
    ) -> Attempt<Option<Found>> {
        for _ in 0..PATIENCE {
            match self.through_once(key, touch, &take, follow) {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        self.through_latched(key, touch, &take, follow)
    }

    #[inline]
    fn through_once<T>(
        &self,
        key: &[u8],
        touch: Touch,
        take: &impl Fn(View<'_>, Stored) -> Seen<T>,
        follow: &mut impl FnMut(T, bool) -> Attempt<()>,
    ) -> Attempt<Option<Found>> {
        let leaf = self.descend(Edge::From(key), 0)?.node;
        let Ok(read) = record_of(leaf.view(), key).and_then(|found| {
            found
                .map(|(found, i, stored)| Ok((found, i, take(leaf.view(), stored)?)))
                .transpose()
        }) else {
            return Err(leaf.torn(BAD_RECORD));
        };
        leaf.validate()?;
        let Some((found, i, taken)) = read else {
            return Ok(None);
        };
        let followed = follow(taken, false);
        if !fault::planted(Fault::UnvalidatedLeaf) {
            leaf.validate()?;
        }
        followed?;
        if touch == Touch::Raise && may_rise(found.flags) {
            leaf.hint(Node::slot_at(i) + 2, raise);
        }
        Ok(Some(found))
    }

    #[cold]
    fn through_latched<T>(
        &self,
        key: &[u8],
        touch: Touch,
        take: &impl Fn(View<'_>, Stored) -> Seen<T>,
        follow: &mut impl FnMut(T, bool) -> Attempt<()>,
    ) -> Attempt<Option<Found>> {
        let leaf = self.descend_shared(Edge::From(key))?;
        if !sound!(
            leaf,
            Node::open(leaf.view()).and_then(|node| node.covers(key))
        )? {
            return Err(leaf.torn(OUTSIDE));
        }
        let Some((found, i, stored)) = sound!(leaf, record_of(leaf.view(), key))? else {
            return Ok(None);
        };
        follow(sound!(leaf, take(leaf.view(), stored))?, true)?;
        if touch == Touch::Raise {
            leaf.hint(Node::slot_at(i) + 2, raise);
        }
        Ok(Some(found))
    }
}
