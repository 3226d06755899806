//! What a row is, and how keys become bytes.

use std::sync::Arc;

use terrace_mem::{ByteFamily, Family, IndexKey, IntFamily};

/// A type whose values are rows of a table.
///
/// `decode` of what `encode` wrote is the row again. Keys are taken from rows again when changes are taken back, so
/// `key` and the functions of indexes give the same key for the same row each time.
pub trait Row: Sized {
    /// The primary key: any key of `terrace_mem`.
    type Key: IndexKey<Family: KeyBytes>;
    /// The row's primary key.
    fn key(&self) -> Self::Key;
    /// Appends the row as bytes.
    fn encode(&self, out: &mut Vec<u8>);
    /// The row of these bytes; `None` if there is none.
    fn decode(bytes: &[u8]) -> Option<Self>;
}

/// How encoded keys become bytes that sort as they do.
pub trait KeyBytes: Family {
    /// Whether all are numbers of 8 bytes.
    const NUMBER: bool;
    /// Calls `f` with the bytes.
    fn bytes<R>(key: Self::Ref<'_>, f: impl FnOnce(&[u8]) -> R) -> R;
}

impl KeyBytes for IntFamily {
    const NUMBER: bool = true;
    fn bytes<R>(key: u64, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&key.to_be_bytes())
    }
}

impl KeyBytes for ByteFamily {
    const NUMBER: bool = false;
    fn bytes<R>(key: &[u8], f: impl FnOnce(&[u8]) -> R) -> R {
        f(key)
    }
}

/// Calls `f` with the bytes of a key.
pub(crate) fn with_bytes<K: IndexKey<Family: KeyBytes>, R>(
    key: &K,
    f: impl FnOnce(&[u8]) -> R,
) -> R {
    key.encode(|encoded| K::Family::bytes(encoded, f))
}

/// Appends the key of a row to a buffer; false for a row that cannot be read.
pub type Extract = Arc<dyn Fn(&[u8], &mut Vec<u8>) -> bool + Send + Sync>;
