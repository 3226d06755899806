//! The values of one key while they may become more: one in place, more in an array that grows by
//! half.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// The values of a key, at least one.
#[allow(
    clippy::box_collection,
    reason = "a thin pointer keeps entries with one value small"
)]
#[derive(Clone)]
pub enum List<V> {
    One(V),
    Many(Box<Vec<V>>),
}

impl<V> From<Vec<V>> for List<V> {
    fn from(mut vals: Vec<V>) -> Self {
        match vals.pop() {
            Some(val) if vals.is_empty() => List::One(val),
            last => {
                vals.extend(last);
                List::Many(Box::new(vals))
            }
        }
    }
}

impl<V> List<V> {
    pub fn as_slice(&self) -> &[V] {
        match self {
            List::One(val) => core::slice::from_ref(val),
            List::Many(vals) => vals,
        }
    }

    pub fn as_mut_slice(&mut self) -> &mut [V] {
        match self {
            List::One(val) => core::slice::from_mut(val),
            List::Many(vals) => vals,
        }
    }

    /// Bytes on the heap.
    pub fn heap(&self) -> usize {
        match self {
            List::One(_) => 0,
            List::Many(vals) => size_of::<Vec<V>>() + vals.capacity() * size_of::<V>(),
        }
    }

    /// Adds a value behind the others.
    pub fn push(&mut self, val: V) {
        if let List::Many(vals) = self {
            if vals.len() == vals.capacity() {
                vals.reserve_exact(vals.len().div_ceil(2));
            }
            vals.push(val);
            return;
        }
        let many = List::Many(Box::new(Vec::with_capacity(2)));
        let first = core::mem::replace(self, many);
        if let (List::One(first), List::Many(vals)) = (first, self) {
            vals.push(first);
            vals.push(val);
        }
    }

    /// Takes value `i` out of several: the only one of a list cannot be.
    pub fn remove(&mut self, i: usize) -> Option<V> {
        let List::Many(vals) = self else { return None };
        let gone = vals.remove(i);
        if vals.len() > 1 {
            vals.shrink_to(vals.len() * 2);
        } else if let Some(last) = vals.pop() {
            *self = List::One(last);
        }
        Some(gone)
    }

    /// Gives back what was allocated in advance.
    pub fn shrink(&mut self) {
        if let List::Many(vals) = self {
            vals.shrink_to_fit();
        }
    }

    pub fn into_vec(self) -> Vec<V> {
        match self {
            List::One(val) => vec![val],
            List::Many(vals) => *vals,
        }
    }

    /// Puts the values behind others.
    pub fn move_to(self, all: &mut Vec<V>) {
        match self {
            List::One(val) => all.push(val),
            List::Many(vals) => all.extend(*vals),
        }
    }
}
