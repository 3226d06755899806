//! Nodes that should move, by rank: bounded, the least urgent are forgotten first.

use crate::id::NodeId;
use crate::placed::Path;
use std::collections::VecDeque;

/// The most wishes of one kind in a period: 32 bytes each. What is forgotten comes again in the
/// next period.
const MOST: usize = 1 << 16;
/// Ranks: bins of heat, eight steps of depth in each.
const RANKS: usize = 128;

/// A node that should move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) part: u32,
    pub(crate) id: NodeId,
    pub(crate) path: Path,
    /// Bytes of the node and of what must move with it.
    pub(crate) bytes: u32,
    pub(crate) bin: u8,
}

/// Wishes by rank, the lowest rank first.
#[derive(Debug)]
pub(crate) struct Wishes {
    ranks: Vec<VecDeque<Wish>>,
    len: usize,
    /// No rank below this has any.
    first: usize,
    most: usize,
}

impl Wishes {
    pub(crate) fn new() -> Wishes {
        Wishes {
            ranks: (0..RANKS).map(|_| VecDeque::new()).collect(),
            len: 0,
            first: 0,
            most: MOST,
        }
    }

    /// Adds one; whether one was forgotten for it, or it itself.
    pub(crate) fn push(&mut self, rank: usize, wish: Wish) -> bool {
        let rank = rank.min(RANKS - 1);
        let full = self.len >= self.most;
        if full {
            let worst = (0..RANKS).rev().find(|&r| !self.ranks[r].is_empty());
            match worst {
                Some(worst) if worst > rank => self.ranks[worst].pop_back(),
                _ => return true,
            };
            self.len -= 1;
        }
        self.ranks[rank].push_back(wish);
        self.len += 1;
        self.first = self.first.min(rank);
        full
    }

    /// The most urgent one.
    pub(crate) fn peek(&mut self) -> Option<&Wish> {
        while self.first < RANKS && self.ranks[self.first].is_empty() {
            self.first += 1;
        }
        self.ranks.get(self.first)?.front()
    }

    /// Takes the most urgent one.
    pub(crate) fn pop(&mut self) -> Option<Wish> {
        self.peek()?;
        self.len -= 1;
        self.ranks[self.first].pop_front()
    }

    pub(crate) fn clear(&mut self) {
        for rank in &mut self.ranks {
            rank.clear();
        }
        (self.len, self.first) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Tier;

    fn wish(n: u32) -> Wish {
        Wish {
            part: 0,
            id: NodeId::new(Tier::Fast, 0, n),
            path: Path::ROOT,
            bytes: 1,
            bin: 0,
        }
    }

    #[test]
    fn the_most_urgent_come_first_and_the_least_are_forgotten() {
        let mut wishes = Wishes::new();
        wishes.most = 4;
        for (n, rank) in [5usize, 3, 9, 3, 1, 9].into_iter().enumerate() {
            wishes.push(rank, wish(n as u32));
        }
        let order: Vec<u32> = std::iter::from_fn(|| wishes.pop())
            .map(|w| w.id.index())
            .collect();
        assert_eq!(order, [4, 1, 3, 0]);
    }
}
