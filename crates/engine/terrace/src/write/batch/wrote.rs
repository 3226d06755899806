//! What writing a batch has come to.

use std::sync::Arc;

use terrace_access::Retry;
use terrace_tier::WriteReservation;
use terrace_wal::Appended;

/// How writing a batch has ended that did not fail.
pub enum Wrote {
    /// It is written, with this record.
    Done(Option<Appended>),
    /// What it rests on does not stand any more; nothing was done.
    Changed,
    /// Another thread claims what it is to write; nothing was done. The caller waits for that and holds no operation.
    Claimed(Arc<WriteReservation>),
    /// Its range could not be taken out as it is: nothing was done. The caller settles this, and writes again.
    Interrupted(Retry),
}
