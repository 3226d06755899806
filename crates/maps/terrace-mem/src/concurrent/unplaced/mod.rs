//! One kind of memory: what is left of placement without the feature `place`, nothing.

mod placing;
mod seat;

pub use placing::Placing;
pub use seat::Seat;
