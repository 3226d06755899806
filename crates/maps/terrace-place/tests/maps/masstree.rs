//! The Masstree, as all kinds of trees whose keys are bytes.

use terrace_place::Masstree as Tree;

#[path = "tries.rs"]
#[allow(clippy::duplicate_mod, reason = "the same for each kind")]
mod of;
