//! Tests of the page map: against a plain model, and of what each rule is there for.

/// Rules of the map that a test can break on purpose, to show that the others notice.
#[derive(Clone, Copy, Default, Debug)]
pub struct Faults {
    pub table_from_live: bool,
    pub abort_drops_cut: bool,
    pub old_slot_freed_at_once: bool,
    pub tag_at_completion: bool,
    pub abort_after_superblock: bool,
    pub late_writes_forgotten: bool,
    pub retag_forgotten: bool,
}
