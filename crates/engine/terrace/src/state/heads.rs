//! Who takes the first or the last record of a structure in a transaction: one after the other, so that they do
//! not all take the same one, and all but one of them in vain.
//!
//! It is there for fairness alone. Who does not come to an end is waited for no longer than [`MOST`], and then
//! the commits decide.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use terrace_base::StructureId;
use terrace_base::sync::Mutex;
use terrace_tier::WriteReservation;

/// Longest wait for another one who has taken a record and has not committed.
const MOST: Duration = Duration::from_millis(250);

/// A record that transactions take.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    pub structure: StructureId,
    /// Whether it is the first one; otherwise it is the last.
    pub is_first: bool,
}

/// The transactions that take first or last records now.
#[derive(Default)]
pub struct Heads(Mutex<HashMap<Head, Arc<WriteReservation>>>);

impl Heads {
    /// Waits for who has it, and has it then, until [`Heads::leave`]. The caller holds nothing.
    pub fn take(&self, head: Head) -> Arc<WriteReservation> {
        loop {
            let mut heads = self.0.lock();
            let Some(before) = heads.get(&head).filter(|claim| claim.holds_up()) else {
                let claim = WriteReservation::new(MOST);
                heads.insert(head, claim.clone());
                return claim;
            };
            let before = before.clone();
            drop(heads);
            before.wait();
        }
    }

    /// Lets the next one take it.
    pub fn leave(&self, head: Head, claim: &Arc<WriteReservation>) {
        let mut heads = self.0.lock();
        if heads.get(&head).is_some_and(|now| Arc::ptr_eq(now, claim)) {
            heads.remove(&head);
        }
        drop(heads);
        claim.end();
    }
}
