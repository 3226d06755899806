//! A partition: its part of all tables, and how to take back what the transaction in it has done.

use super::undo::Undo;
use crate::faults::{Fault, planted};
use crate::table::raw::RawTable;

/// What one transaction at a time has for itself.
#[derive(Default)]
pub struct Partition {
    /// All tables, by their numbers.
    pub tables: Vec<RawTable>,
    /// What the transaction has done.
    pub undo: Undo,
    /// Whether taking back has failed: then nobody knows what is there.
    pub broken: bool,
}

impl Partition {
    /// Takes back everything that is noted. Nothing after a commit.
    pub fn take_back(&mut self) {
        if self.undo.is_empty() {
            return;
        }
        // The functions of indexes run here. If one panics, which it did not for the same row before, it stays so.
        self.broken = true;
        let mut whole = true;
        let Partition { tables, undo, .. } = self;
        let change = |table: u32, key: &[u8], before: super::undo::Before<'_>| {
            whole &= tables[table as usize].take_back(key, before).is_ok();
        };
        #[cfg(feature = "planted-faults")]
        if planted(Fault::UndoForward) {
            undo.take_back_forward(change);
            self.broken = false;
            return;
        }
        undo.take_back(change);
        self.broken = !whole;
    }
}
