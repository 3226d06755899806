//! `HybridMap`: the ordered map in two stages.
//!
//! What always holds: a key is live in one stage at most; every key of the dynamic stage is in
//! the filter; `len` is the entries of the dynamic stage and the live ones of the static stage.
//! An update or delete of an entry of the static stage takes its value out at once and leaves a
//! dead slot, which the next merge of the segment removes.

mod batch;
mod bulk;
mod change;
mod core;
mod entry;
mod hybrid;
mod iter;
mod merge;
mod merged;
mod more;
mod mutate;
#[cfg(feature = "place")]
mod placed;
mod rules;
mod traits;
#[cfg(not(feature = "place"))]
mod unplaced;

pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use hybrid::HybridMap;
pub use iter::{Cursor, IntoIter, Iter, Keys, Values};
pub use more::{ExtractIf, IntoKeys, IntoValues};
pub use mutate::{IterMut, ValuesMut};

pub(crate) use self::core::Core;
pub(crate) use bulk::Load;
pub(crate) use hybrid::check;
#[cfg(feature = "concurrent")]
pub(crate) use hybrid::stored;
pub(crate) use iter::bounded;
#[cfg(feature = "concurrent")]
pub(crate) use iter::half_open;
pub(crate) use merged::Merged;
