//! Slotted pages: what the leaves of a tree, the buckets of a hash table and the pages of a heap have in common.
//!
//! Behind the bytes of the page store and a tag stand three numbers: of slots, of bytes of heap, and how many of
//! these are garbage. What else a header has is the method's own, and so is where the slots begin. Slots of four
//! bytes grow upwards; the heap, with records in no order, grows downwards from the end of the page.
//!
//! **What may be filled and what must be saved.** A checkpoint that still has to write the page as it was at the
//! cut keeps the old bytes of what is changed. The bytes between slots and heap are needed by no earlier state of
//! the page, so a record may be put there without saving them; all others are changed. So the heap never gives
//! bytes back to the free space but when the page is laid out anew, which is a change of all of it, and slots that
//! fall away are changed, too. [`Counts::take`](layout::Counts::take) is the only place that fills.

pub(crate) mod change;
pub(crate) mod fit;
pub(crate) mod layout;
pub(crate) mod pack;
pub(crate) mod record;
