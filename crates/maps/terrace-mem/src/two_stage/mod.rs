//! What is the same for every map in two stages, of one thread or of many: what both stages are to it, when
//! entries move, how those that move and those of a segment become one, and how one is cut that grew too long.
//!
//! A map decides when all this happens and who may look meanwhile: [`HybridMap`](crate::HybridMap) takes
//! entries out of the one stage before it puts them into the other; the concurrent map builds beside, and
//! publishes first.

mod dynamic_stage;
mod merge;
mod split_points;
mod trigger;

pub use crate::family::{KeyCursor, StaticStage};
pub use dynamic_stage::{DynamicCursor, DynamicStage, Near, Span};
#[cfg(feature = "concurrent")]
pub use merge::build;
pub use merge::{decode_live, interleave, merge};
pub use split_points::{Bounds, low_between};
pub use trigger::is_due;
