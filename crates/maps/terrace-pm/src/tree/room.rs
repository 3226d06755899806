//! How many pairs a node may buffer, when it is full, and what that leaves of the memory.

use super::budget::LEAST;
use super::core::Tree;
use crate::key::Own;
use crate::last::{Body, Buffers, PAPER_SLOTS};
use crate::log::GROUP;

impl<O: Own> Tree<O> {
    /// How many pairs a node may buffer.
    pub(crate) fn cap(&self, body: &Body<O>) -> usize {
        match self.settings.buffers {
            Buffers::Elastic if self.settings.node_leaves < 8 => 5,
            Buffers::Elastic => self.budget.cap(body.leaves.len()),
            // One slot more is for the pair that finds the others taken: it is there before the node is drained.
            _ => PAPER_SLOTS.saturating_sub(body.leaves.len()).max(LEAST),
        }
    }

    /// The same while records are replayed: as many as it had before, where there is room.
    pub(crate) fn cap_when_opened(&self, body: &Body<O>) -> usize {
        match self.settings.buffers {
            Buffers::Elastic if self.settings.node_leaves >= 8 => {
                self.cap(body).max(self.budget.cap_when_opened())
            }
            _ => self.cap(body),
        }
    }

    /// Whether a full node may take some pairs more, as it is drained when its group is committed. The memory
    /// is kept.
    pub(super) fn may_wait(&self, body: &Body<O>) -> bool {
        body.buffer.len() < self.cap(body) + GROUP
            && !(body.buffer.is_at_end() && self.budget.is_used_up())
    }

    /// Whether a node must drain before it takes another pair.
    pub(crate) fn is_full(&self, body: &Body<O>) -> bool {
        let len = body.buffer.len();
        len >= self.cap(body)
            || (self.settings.buffers == Buffers::Elastic
                && len >= LEAST
                && body.buffer.is_at_end()
                && self.budget.is_used_up())
    }

    pub(crate) fn count_buffer(&self, before: usize, after: usize) {
        if before != after {
            self.budget.change(0, 0, 0, after as i64 - before as i64);
        }
    }

    /// Shares the memory out anew.
    pub(crate) fn share_out(&self) {
        let other = self.arena.memory() + (self.log.memory() + self.directory.bytes()) as u64;
        self.budget.set_other(other, self.log.limbo() as u64);
        self.budget.share_out();
    }
}
