//! What of a structure has expired, if its records may.

use std::sync::{Arc, OnceLock};

use terrace_access::{Attempt, DroppedBy, Expiry, Flags, LargeRef, RecordPage, Value, Window};

use crate::fault::{Fault, planted};

/// Tells which records of a structure have expired. Empty where records do not expire.
#[derive(Default)]
pub(crate) struct Expires(OnceLock<Arc<dyn Expiry>>);

impl Expires {
    /// Records expire as this says. Once.
    pub fn set(&self, expiry: Arc<dyn Expiry>) {
        let _ = self.0.set(expiry);
    }

    /// Whether records may expire.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.0.get().is_some()
    }

    /// Whether a record with this value has expired.
    #[inline]
    pub fn is_over(&self, value: Value<'_>) -> bool {
        self.0.get().is_some_and(|expiry| expiry.is_over(value))
    }

    /// Whether a record of a page has expired; `value` is room for its value.
    pub fn is_over_on(
        &self,
        page: &dyn RecordPage,
        i: usize,
        value: &mut Vec<u8>,
    ) -> Attempt<bool> {
        if !self.is_any() {
            return Ok(false);
        }
        let large = page.value(i, value)?;
        Ok(self.is_over(large.map_or(Value::Inline(value), Value::Large)))
    }

    /// Makes deletions of those records of a copy that have expired, which go down as such. The caller holds
    /// their locks. Large ones go as they are: what they refer to has an owner.
    pub fn bury(&self, copy: &mut Window, which: &[usize]) {
        if !self.is_any() {
            return;
        }
        let mut buried = 0;
        for &at in which {
            let entry = copy.entry(at);
            if entry.large.is_some()
                || entry.flags.is_deleted()
                || !self.is_over(Value::Inline(copy.value(at)))
            {
                continue;
            }
            copy.set_flags(at, entry.flags.with(Flags::DELETED));
            // The value says then which of them it is.
            if !planted(Fault::ExpiredDirtyDropped) {
                copy.clear_value(at);
            }
            buried += 1;
        }
        self.note_dropped(DroppedBy::Demotion, buried);
    }

    /// Whether who drops what has expired in the tier below may have dropped a record with this value.
    pub fn may_be_dropped(&self, value: Value<'_>) -> bool {
        let expiry = self.0.get();
        expiry.is_some_and(|expiry| expiry.may_be_dropped(value))
    }

    /// A reference to this value, which says when it is gone for certain.
    pub fn with_end(&self, large: LargeRef, value: &[u8]) -> LargeRef {
        let mut gone = self.0.get().map_or(0, |expiry| expiry.gone(value));
        if planted(Fault::CoarseRoundedDown) {
            gone = gone.saturating_sub(2);
        }
        LargeRef { gone, ..large }
    }

    /// `records` records were dropped.
    pub fn note_dropped(&self, by: DroppedBy, records: u64) {
        if records > 0
            && let Some(expiry) = self.0.get()
        {
            expiry.note_dropped(by, records);
        }
    }
}
