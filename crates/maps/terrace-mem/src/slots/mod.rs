//! The values of a segment, by rank; any of them can be taken out and leaves a dead slot.
//!
//! [`Slots`] has one value for each key, [`Packed`] a list of them.

mod list;
mod packed;
mod vals;
mod values;

pub use list::List;
pub use packed::Packed;
pub use vals::Vals;
pub use values::Slots;
