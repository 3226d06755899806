//! Windows: a copy of one bucket with the positions that it covers, taken under the shared latch.

use std::ops::Range;

use terrace_access::{Attempt, Edge, Flags, Window};
use terrace_pages::Shared;

use super::directory::{ROOT_MEMBERS, ROOT_TAG};
use super::find::{BAD_RECORD, page_of, root_of, sound};
use super::layout::{HEADER, MEMBERS, Page, Seen, Stored, TAG};
use super::position::{HASH_BYTES, hash_at};
use super::{HashTable, Secret};
use crate::fault::{self, Fault};

impl HashTable {
    /// Copies a bucket, or as many of the records next to the edge as the window may hold, and then
    /// the range of those; all of a bucket with overflow pages, whose records are in no order.
    /// O(records copied).
    pub(crate) fn copy_some(
        &self,
        first: &Shared<'_>,
        is_bucket: bool,
        edge: Edge<'_>,
        window: &mut Window,
    ) -> Attempt<()> {
        let secret = self.try_secret()?;
        if is_bucket {
            let page = page_of!(first)?;
            if page.count() > window.limit() && page.next.is_none() {
                begin(first, &page, window)?;
                sound!(first, fill_some(&page, &secret, edge, window))?;
                // Records in no order bound it so that who goes on there would go in a circle.
                return match window.advances(edge) {
                    true => Ok(()),
                    false => Err(first.torn(BAD_RECORD)),
                };
            }
        }
        self.copy(first, is_bucket, &mut |_| true, window)
    }

    /// Copies a bucket, of its records those whose flags are wanted; or nothing, for the root of a
    /// table that has no bucket. O(records).
    pub(crate) fn copy(
        &self,
        first: &Shared<'_>,
        is_bucket: bool,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let secret = self.try_secret()?;
        if is_bucket {
            let page = page_of!(first)?;
            begin(first, &page, window)?;
            sound!(first, fill(&page, 0..page.count(), &secret, select, window))?;
            let mut pages = 1;
            self.overflow_shared(first, &mut |page| {
                pages += 1;
                let seen = page_of!(page)?;
                sound!(page, fill(&seen, 0..seen.count(), &secret, select, window))
            })?;
            if pages > 1 {
                window.sort();
            }
        } else {
            window.clear();
            window.membership = sound!(first, root_of!(first)?.members())?;
            window.ticket = Some(first.ticket());
            window.page = Some(first.pid());
        }
        Ok(())
    }

    /// Whether a window's bucket has still the same records. O(1), no latch.
    pub(crate) fn unchanged(&self, window: &Window) -> bool {
        const { assert!(MEMBERS == ROOT_MEMBERS) };
        let Some(ticket) = window.ticket else {
            return false;
        };
        let tag = if window.page == Some(self.root) {
            ROOT_TAG
        } else {
            TAG
        };
        // The counter first, so that a page that has become something else since is found out.
        self.store.ticket_u32(ticket, MEMBERS) == Some(window.membership)
            && self
                .store
                .ticket_u32(ticket, HEADER)
                .is_some_and(|word| word as u8 == tag)
    }
}

fn begin(first: &Shared<'_>, page: &Page<'_>, window: &mut Window) -> Attempt<()> {
    window.clear();
    if page.span.low > 0 {
        window.low.extend_from_slice(&page.span.low.to_be_bytes());
    }
    let high = page.span.last.checked_add(1);
    window.high = high.map(|high| high.to_be_bytes().to_vec());
    window.membership = sound!(first, page.members())?;
    window.ticket = Some(first.ticket());
    window.page = Some(first.pid());
    Ok(())
}

/// Copies as many records next to the edge as the window may hold, of more, and narrows its range
/// to them.
fn fill_some(page: &Page<'_>, secret: &Secret, edge: Edge<'_>, window: &mut Window) -> Seen<()> {
    let limit = window.limit();
    let up = matches!(edge, Edge::From(_));
    let place = match edge {
        Edge::From(position) | Edge::Below(position) => {
            let hash = hash_at(position);
            if hash > page.span.last {
                page.count()
            } else {
                let key = position.get(HASH_BYTES..).unwrap_or_default();
                page.place(secret, hash, key)?
            }
        }
        Edge::End => page.count(),
    };
    let some = if up {
        place..place.saturating_add(limit).min(page.count())
    } else {
        place.saturating_sub(limit)..place
    };
    if let Edge::From(position) = edge {
        position.clone_into(&mut window.low);
    }
    if up && some.end < page.count() {
        window.high = Some(position_of(page, some.end, secret)?);
    }
    if let Edge::Below(position) = edge {
        window.high = Some(position.to_vec());
    }
    if !up && some.start > 0 {
        window.low = position_of(page, some.start, secret)?;
    }
    fill(page, some, secret, &mut |_| true, window)
}

/// The position of record `i`.
fn position_of(page: &Page<'_>, i: usize, secret: &Secret) -> Seen<Vec<u8>> {
    let mut key = Vec::new();
    page.key(i, &mut key)?;
    let hash = secret.hash(&key).to_be_bytes();
    Ok([&hash, key.as_slice()].concat())
}

fn fill(
    page: &Page<'_>,
    records: Range<usize>,
    secret: &Secret,
    select: &mut dyn FnMut(Flags) -> bool,
    window: &mut Window,
) -> Seen<()> {
    let end = match records.end {
        n if n > 1 && fault::planted(Fault::ShortWindow) => n - 1,
        n => n,
    };
    for i in records.start..end {
        let slot = page.slot(i)?;
        if !select(slot.flags()) {
            continue;
        }
        let record = page.record(slot)?;
        window.push(
            slot.flags(),
            record.large(),
            |out| {
                let start = out.len();
                out.extend_from_slice(&[0; HASH_BYTES]);
                page.view.append_to(record.key_at, record.key_len, out)?;
                let hash = secret.hash(&out[start + HASH_BYTES..]);
                out[start..start + HASH_BYTES].copy_from_slice(&hash.to_be_bytes());
                Ok(())
            },
            |out| match record.value {
                Stored::Inline { at, len } => page.view.append_to(at, len, out),
                Stored::Large { .. } => Ok(()),
            },
        )?;
    }
    Ok(())
}
