//! What a program holds of a table.

use std::marker::PhantomData;
use std::ops::{Bound, Deref, RangeBounds};
use std::sync::Arc;

use terrace_mem::IndexKey;

use crate::row::{KeyBytes, Row, with_bytes};

/// A table whose rows and keys are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    pub(crate) store: u64,
    pub(crate) table: u32,
}

/// A table of rows of a type.
#[derive(Debug)]
pub struct Table<R> {
    pub(crate) handle: Handle,
    pub(crate) name: Arc<str>,
    pub(crate) row: PhantomData<fn() -> R>,
}

impl<R> Clone for Table<R> {
    fn clone(&self) -> Self {
        Table {
            handle: self.handle,
            name: self.name.clone(),
            row: PhantomData,
        }
    }
}

impl<R> Table<R> {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl<R> Deref for Table<R> {
    type Target = Handle;
    fn deref(&self) -> &Handle {
        &self.handle
    }
}

/// What an index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexKind {
    /// A key has any number of rows.
    List,
    /// A key has one row at most.
    Unique,
}

/// The bounds of a range of keys as bytes: from the first on, to before the second.
pub(crate) fn bounds<K: IndexKey<Family: KeyBytes>>(
    range: &impl RangeBounds<K>,
) -> (Vec<u8>, Option<Vec<u8>>) {
    let plain = |key: &K| with_bytes(key, <[u8]>::to_vec);
    // A key and a zero: the least that is greater.
    let past = |key: &K| with_bytes(key, |bytes| [bytes, &[0]].concat());
    let low = match range.start_bound() {
        Bound::Included(key) => plain(key),
        Bound::Excluded(key) => past(key),
        Bound::Unbounded => Vec::new(),
    };
    let high = match range.end_bound() {
        Bound::Included(key) => Some(past(key)),
        Bound::Excluded(key) => Some(plain(key)),
        Bound::Unbounded => None,
    };
    (low, high)
}

/// The bytes of a row's primary key.
pub(crate) fn key_of<R: Row>(row: &R, f: impl FnOnce(&[u8])) {
    with_bytes(&row.key(), f);
}
