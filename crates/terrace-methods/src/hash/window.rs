//! Windows: a copy of one bucket with the positions that it covers, taken under the shared latch.

use terrace_access::{Attempt, Flags, Window};
use terrace_pages::Shared;

use super::directory::{ROOT_MEMBERS, ROOT_TAG};
use super::find::{page_of, root_of, sound};
use super::layout::{HEADER, MEMBERS, Page, Seen, Stored, TAG};
use super::{HASH_BYTES, HashTable, Secret};
use crate::fault::{self, Fault};

impl HashTable {
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
        window.clear();
        if is_bucket {
            let page = page_of!(first)?;
            if page.span.low > 0 {
                window.low.extend_from_slice(&page.span.low.to_be_bytes());
            }
            let high = page.span.last.checked_add(1);
            window.high = high.map(|high| high.to_be_bytes().to_vec());
            window.membership = sound!(first, page.members())?;
            sound!(first, fill(&page, &secret, select, window))?;
            let mut pages = 1;
            self.overflow_shared(first, &mut |page| {
                pages += 1;
                sound!(page, fill(&page_of!(page)?, &secret, select, window))
            })?;
            if pages > 1 {
                window.sort();
            }
        } else {
            window.membership = sound!(first, root_of!(first)?.members())?;
        }
        window.ticket = Some(first.ticket());
        window.page = Some(first.pid());
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

fn fill(
    page: &Page<'_>,
    secret: &Secret,
    select: &mut dyn FnMut(Flags) -> bool,
    window: &mut Window,
) -> Seen<()> {
    let count = match page.count {
        n if n > 1 && fault::planted(Fault::ShortWindow) => n - 1,
        n => n,
    };
    for i in 0..count {
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
