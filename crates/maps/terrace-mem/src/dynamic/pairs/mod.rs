//! The dynamic structures of the pairs that are there to compare: a skip list, Masstree and ART.

mod art;
mod masstree;
mod skip_list;
mod slab;
mod whole;

use crate::family::{Family, IntFamily};
use core::any::TypeId;

pub use art::{Art, ArtPos};
pub use masstree::{MassPos, Masstree};
pub use skip_list::{SkipList, SkipPos};
pub use whole::{Classes, Inline};

/// Whether each key is one word.
#[inline]
pub fn is_word<F: Family>() -> bool {
    TypeId::of::<F>() == TypeId::of::<IntFamily>()
}
