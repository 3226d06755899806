//! Checkpoints: what is remembered of them, making one, and the thread that makes them when they are due.

mod background;
pub mod calm;
mod closing;
mod make;
pub mod state;
