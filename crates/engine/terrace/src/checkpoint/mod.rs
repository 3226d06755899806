//! Checkpoints: making one, and the thread that makes them when they are due.

mod background;
mod closing;
pub mod idle;
mod leaves;
mod make;
mod save;
mod unlogged;
