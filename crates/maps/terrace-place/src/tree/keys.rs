//! What keys own: their bytes are neither in a node nor in a memory of ours, but on the heap, and count
//! as fast ones.
//!
//! Kept true: each key of a node and of the directory is counted from when it comes until it goes.

use crate::faults::{Fault, planted};
use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The bytes that the keys of a map own.
#[derive(Debug)]
pub struct KeyBytes<K> {
    /// Nothing where keys own none.
    of: Option<fn(&K) -> usize>,
    sum: AtomicU64,
}

macro_rules! owners {
    ($key:ty: $($kind:ty => $bytes:expr;)*) => {
        $(if std::any::TypeId::of::<$key>() == std::any::TypeId::of::<$kind>() {
            return Some(|key| {
                let key: &dyn Any = key;
                key.downcast_ref::<$kind>().map_or(0, $bytes)
            });
        })*
    };
}

/// How many bytes a key owns, for kinds of which that is known.
fn owned<K: 'static>() -> Option<fn(&K) -> usize> {
    owners! {
        K:
        String => |key| key.capacity();
        Vec<u8> => |key| key.capacity();
        Box<str> => |key| key.len();
        Box<[u8]> => |key| key.len();
    }
    None
}

impl<K: 'static> KeyBytes<K> {
    pub(super) fn new() -> Self {
        KeyBytes {
            of: owned(),
            sum: AtomicU64::new(0),
        }
    }
}

impl<K> KeyBytes<K> {
    /// Bytes that a key owns.
    pub(super) fn size(&self, key: &K) -> u64 {
        self.of.map_or(0, |of| of(key) as u64)
    }

    /// Keys with this many bytes have come.
    pub(super) fn add(&self, bytes: u64) {
        if bytes > 0 {
            self.sum.fetch_add(bytes, Relaxed);
        }
    }

    /// A key has come.
    pub(super) fn came(&self, key: &K) {
        self.add(self.size(key));
    }

    /// A key goes.
    pub(super) fn goes(&self, key: &K) {
        let bytes = self.size(key);
        if bytes > 0 && !planted(Fault::KeyBytesKept) {
            self.sum.fetch_sub(bytes, Relaxed);
        }
    }

    /// Bytes of all keys.
    pub(super) fn bytes(&self) -> u64 {
        self.sum.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_own_bytes_are_known() {
        assert_eq!(KeyBytes::<u64>::new().size(&7), 0);
        assert_eq!(KeyBytes::new().size(&[7u8; 32]), 0);
        assert_eq!(KeyBytes::new().size(&"lent"), 0);
        let keys = KeyBytes::<String>::new();
        keys.came(&"seven".into());
        keys.came(&"ten".into());
        keys.goes(&"seven".into());
        assert_eq!(keys.bytes(), 3);
        assert_eq!(KeyBytes::new().size(&vec![1u8, 2]), 2);
        assert_eq!(KeyBytes::new().size(&Box::<str>::from("four")), 4);
        assert_eq!(KeyBytes::new().size(&Box::<[u8]>::from([1, 2])), 2);
    }
}
