//! What of a structure has expired, if its records may.

use std::sync::{Arc, OnceLock};

use terrace_access::{DroppedBy, Expiry, LargeRef, Value};

use crate::fault::{Fault, planted};

/// See the module's text. Empty where records do not expire.
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

    /// So many were dropped.
    pub fn note_dropped(&self, by: DroppedBy, records: u64) {
        if records > 0
            && let Some(expiry) = self.0.get()
        {
            expiry.note_dropped(by, records);
        }
    }
}
