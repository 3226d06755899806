//! What a [`PageStore`](crate::PageStore) is made of: each part has its own state, and what is done with that
//! alone. None of them knows the store; it hands them what they need.

pub(crate) mod active_checkpoint;
pub(crate) mod blocks;
pub(crate) mod buffers;
pub(crate) mod cause;
pub(crate) mod clock;
pub(crate) mod common;
pub(crate) mod counters;
pub(crate) mod data_file;
pub(crate) mod durable;
pub(crate) mod frame_reservation;
pub(crate) mod gate;
pub(crate) mod ghosts;
pub(crate) mod health;
pub(crate) mod large;
pub(crate) mod options;
pub(crate) mod pace;
pub(crate) mod pinned;
pub(crate) mod reserve;
pub(crate) mod shares;
pub(crate) mod signals;
pub(crate) mod source;
pub(crate) mod space_quota;
pub(crate) mod space_reservations;
pub(crate) mod undo;
