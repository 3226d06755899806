//! Looking a key up, and the secret that says what its hash is.

use terrace_access::{Attempt, Flags, Found, Retry, Touch};
#[cfg(test)]
use terrace_base::PageId;
use terrace_base::sync::spin_loop;
use terrace_pages::Shared;

use super::find::{BAD_RECORD, PATIENCE, Way, page_of, root_of, sound};
use super::layout::{Page, Record, Seen, Slot, Stored, flags_of};
use super::{HashTable, Secret};
use crate::fault::{self, Fault, Point};

impl HashTable {
    /// Where the bucket of a key is said to be.
    #[cfg(test)]
    pub(crate) fn known_place(&self, key: &[u8]) -> Option<(u32, PageId)> {
        self.known.get(self.secret.get()?.hash(key))
    }

    /// Whether it is there.
    #[cfg(test)]
    pub(crate) fn is_cached(&self, key: &[u8]) -> bool {
        let hash = self.secret.get().map(|secret| secret.hash(key));
        hash.is_some_and(|hash| self.known_way(hash).is_some())
    }

    /// The secret of its hash.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory and the secret has not been read before.
    #[inline]
    pub fn try_secret(&self) -> Attempt<Secret> {
        match self.secret.get() {
            Some(secret) => Ok(*secret),
            None => self.read_secret(),
        }
    }

    #[cold]
    fn read_secret(&self) -> Attempt<Secret> {
        let root = self.store.shared(self.root)?;
        let secret = sound!(root, root_of!(root)?.secret())?;
        Ok(*self.secret.get_or_init(|| secret))
    }

    /// See [`terrace_access::AccessMethod::try_get`].
    #[inline]
    pub(super) fn get(
        &self,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        let secret = &self.try_secret()?;
        let hash = secret.hash(key);
        match self.get_once(secret, hash, key, touch, value) {
            Err(Retry::Conflict) => self.get_again(secret, hash, key, touch, value),
            other => other,
        }
    }

    #[inline]
    fn get_once(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        let (first, page) = match self.known_way(hash) {
            Some(known) => known,
            None => match self.way(hash)? {
                Way::Bucket(first, page) => (first, page),
                Way::Empty(_) => {
                    value.clear();
                    return Ok(None);
                }
            },
        };
        fault::reached(Point::Reading);
        let Ok(found) = read(&page, secret, hash, key, value) else {
            return Err(first.torn(BAD_RECORD));
        };
        if !fault::planted(Fault::UnvalidatedBucket) {
            first.validate()?;
        }
        let Some((found, slot)) = found else {
            return self.overflow_optimistic(&first, (page.next, page.span), &mut |page, seen| {
                let Ok(found) = read(&seen, secret, hash, key, value) else {
                    return Err(page.torn(BAD_RECORD));
                };
                page.validate()?;
                first.validate()?;
                Ok(found.map(|(found, slot)| {
                    if touch == Touch::Raise {
                        page.hint(Page::slot_at(slot) + 2, raise);
                    }
                    found
                }))
            });
        };
        if touch == Touch::Raise
            && (found.flags.use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint))
        {
            first.hint(Page::slot_at(slot) + 2, raise);
        }
        Ok(Some(found))
    }

    /// After an attempt that failed.
    #[cold]
    fn get_again(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        for _ in 1..PATIENCE {
            spin_loop();
            match self.get_once(secret, hash, key, touch, value) {
                Err(Retry::Conflict) => {}
                other => return other,
            }
        }
        self.get_latched(secret, hash, key, touch, value)
    }

    fn get_latched(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        value.clear();
        let (first, is_bucket) = self.bucket_shared(hash)?;
        if !is_bucket {
            return Ok(None);
        }
        let mut answer = None;
        let mut look = |page: &Shared<'_>| -> Attempt<()> {
            if answer.is_none()
                && let Some((found, slot)) =
                    sound!(page, read(&page_of!(page)?, secret, hash, key, value))?
            {
                if touch == Touch::Raise {
                    page.hint(Page::slot_at(slot) + 2, raise);
                }
                answer = Some(found);
            }
            Ok(())
        };
        look(&first)?;
        self.overflow_shared(&first, &mut look)?;
        Ok(answer)
    }
}

/// One more use, unless there are as many as can be counted.
fn raise(word: u16) -> Option<u16> {
    let more = flags_of(word).use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint);
    more.then_some(word.wrapping_add(1))
}

/// Looks the key up in one page; also returns the slot.
#[inline]
fn read(
    page: &Page<'_>,
    secret: &Secret,
    hash: u64,
    key: &[u8],
    value: &mut Vec<u8>,
) -> Seen<Option<(Found, usize)>> {
    value.clear();
    let found: Option<(usize, Slot, Record)> = page.find(secret, hash, key)?;
    let Some((i, slot, record)) = found else {
        return Ok(None);
    };
    if let Stored::Inline { at, len } = record.value {
        page.view.append_to(at, len, value)?;
    }
    Ok(Some((
        Found {
            flags: slot.flags(),
            large: record.large(),
            depth: 0,
        },
        i,
    )))
}
