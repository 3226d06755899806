//! Who should lie where. Policies are pure: no clock, no lock, no tree.

mod birth;
mod fixed;
mod heat;
mod judging;
mod sinlk;

pub use birth::{Birth, Births};
pub use fixed::Fixed;
pub use heat::HeatPolicy;
pub use judging::{Node, Order, Policy, Verdict, View};
pub use sinlk::{SinlkPolicy, Techniques};
