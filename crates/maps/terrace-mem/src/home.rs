//! Where arrays lie: on the heap, or in a memory with a name where there is more than one kind.

#[cfg(not(feature = "place"))]
use alloc::boxed::Box;

#[cfg(feature = "place")]
pub use terrace_place::{Block, Store};

/// A boxed slice.
#[cfg(not(feature = "place"))]
pub type Block<T> = Box<[T]>;

/// A memory of which there is none.
#[cfg(not(feature = "place"))]
pub enum Store {}

/// Where arrays are to lie: none is the heap.
pub type Home<'a> = Option<&'a Store>;

/// A copy of values that lies there; none where the memory is refused.
pub fn copied<T: Copy>(home: Home<'_>, vals: &[T]) -> Option<Block<T>> {
    match home {
        None => Some(vals.to_vec().into()),
        #[cfg(feature = "place")]
        Some(store) => store.keep(vals.to_vec()).ok(),
        #[cfg(not(feature = "place"))]
        Some(store) => match *store {},
    }
}
