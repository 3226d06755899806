//! How far what is dirty in memory alone has been saved, and since when.
//!
//! All structures one after the other, each in the order of its positions, are gone through round by round, in
//! *pieces*. What the log has from where a piece began on, made again over what it has saved, gives what there is of it.
//! So replay begins where the oldest piece began.
//!
//! Invariants: a piece is noted when it is complete. Those of the last round that this round has not replaced yet begin
//! where this round stands, and there is one at least.

use std::collections::VecDeque;

use terrace_base::StructureId;
use terrace_pages::SavingMark;
use terrace_wal::Position;

/// A place in a round: a position in a structure. The last one lies behind all structures.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RoundPlace {
    /// In this structure.
    In(StructureId, Vec<u8>),
    /// The end of the round.
    End,
}

impl RoundPlace {
    /// Where a round begins.
    pub const BEGIN: RoundPlace = RoundPlace::In(StructureId(0), Vec::new());
}

/// Where a piece began in the log, and what was counted there.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    pub at: Position,
    pub mark: SavingMark,
}

/// What a round that has come to its end has saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoundDone {
    /// What was counted where it began.
    pub mark: SavingMark,
    /// Slots that what was saved takes at most.
    pub slots: u64,
}

/// The pieces of all that is saved.
pub struct Pieces {
    /// Of the last round, from where this one stands on: where each ends.
    older: VecDeque<(RoundPlace, Began)>,
    /// Of this round.
    newer: VecDeque<(RoundPlace, Began)>,
    /// Slots that what this round has saved takes.
    slots: u64,
}

impl Pieces {
    /// All of it was saved in one that began then.
    pub fn one(began: Began) -> Pieces {
        Pieces {
            older: VecDeque::from([(RoundPlace::End, began)]),
            newer: VecDeque::new(),
            slots: 0,
        }
    }

    /// Slots that what this round has saved so far takes at most.
    pub fn slots(&self) -> u64 {
        self.slots
    }

    /// Where this round stands.
    pub fn place(&self) -> RoundPlace {
        let last = self.newer.back();
        last.map_or(RoundPlace::BEGIN, |(end, _)| end.clone())
    }

    /// A piece that began then is complete, from where the round stood up to this place; what was saved takes `slots`
    /// slots at most. At the end of a round, what that was.
    pub fn note(&mut self, end: RoundPlace, began: Began, slots: u64) -> Option<RoundDone> {
        while self.older.front().is_some_and(|(older, _)| *older <= end) {
            self.older.pop_front();
        }
        self.newer.push_back((end, began));
        self.slots += slots;
        if !self.older.is_empty() {
            return None;
        }
        self.older = std::mem::take(&mut self.newer);
        let first = self.oldest().unwrap_or(began);
        Some(RoundDone {
            mark: first.mark,
            slots: std::mem::take(&mut self.slots),
        })
    }

    /// The oldest one: replay begins there.
    pub fn oldest(&self) -> Option<Began> {
        let first = self.older.front();
        first.map(|(_, began)| *began)
    }

    /// Where the newest one began.
    pub fn newest(&self) -> Option<Began> {
        let last = self.newer.back().or(self.older.back());
        last.map(|(_, began)| *began)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn began(sequence: u64) -> Began {
        Began {
            at: Position {
                segment: 1,
                offset: sequence,
                sequence,
            },
            mark: SavingMark::default(),
        }
    }

    fn place(structure: u32, position: &[u8]) -> RoundPlace {
        RoundPlace::In(StructureId(structure), position.to_vec())
    }

    fn seen(pieces: &Pieces) -> (u64, u64) {
        let of = |began: Option<Began>| began.map_or(0, |began| began.at.sequence);
        (of(pieces.oldest()), of(pieces.newest()))
    }

    #[test]
    fn replay_begins_where_the_oldest_piece_began() {
        let mut pieces = Pieces::one(began(1));
        assert_eq!(pieces.place(), RoundPlace::BEGIN);
        assert_eq!(pieces.note(place(3, b"m"), began(2), 10), None);
        assert_eq!(pieces.note(place(7, b""), began(3), 10), None);
        // What is behind them is as old as before.
        assert_eq!(seen(&pieces), (1, 3));
        assert_eq!(pieces.place(), place(7, b""));
        let done = pieces.note(RoundPlace::End, began(4), 10);
        assert_eq!(done.map(|done| done.slots), Some(30));
        assert_eq!(seen(&pieces), (2, 4));
        assert_eq!(pieces.place(), RoundPlace::BEGIN);
        // A piece that ends amid another leaves the rest of that as old as it was.
        assert_eq!(pieces.note(place(3, b"c"), began(5), 10), None);
        assert_eq!(seen(&pieces), (2, 5));
        assert_eq!(pieces.note(place(4, b""), began(6), 10), None);
        assert_eq!(seen(&pieces), (3, 6));
        // One that takes up several.
        let done = pieces.note(RoundPlace::End, began(7), 10);
        assert_eq!(done.map(|done| done.slots), Some(30));
        assert_eq!(seen(&pieces), (5, 7));
    }
}
