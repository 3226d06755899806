//! What a [`PageStore`](crate::PageStore) is made of: each part has its own state, and what is done with that
//! alone. None of them knows the store; it hands them what they need.

pub(crate) mod buffers;
pub(crate) mod claims;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod cut;
pub(crate) mod durable;
pub(crate) mod gate;
pub(crate) mod ghosts;
pub(crate) mod health;
pub(crate) mod large;
pub(crate) mod lent;
pub(crate) mod pace;
pub(crate) mod pinned;
pub(crate) mod promise;
pub(crate) mod reserve;
pub(crate) mod shares;
pub(crate) mod signals;
pub(crate) mod source;
pub(crate) mod undo;
