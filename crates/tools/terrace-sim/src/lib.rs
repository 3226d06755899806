//! Tests only: a simulated disk with power cuts and faults, histories of operations, their checker.
//!
//! Nothing here is part of the product; the crates of the product name it as a dev-dependency.

#![forbid(unsafe_code)]

mod again;
mod disk;
mod event;
mod fault;
mod file;
mod history;
mod hooked;
mod linearizable;
mod world;

pub use again::{again, again_for_each, is_alone};
pub use disk::{SimDisk, Survival};
pub use event::{Event, Operation, Outcome};
pub use fault::{Fault, Injection, Op};
pub use history::{History, Recorder};
pub use hooked::{Call, HookedDisk};
pub use linearizable::{Violation, check as check_key};
pub use terrace_base::random::Random as Rng;
