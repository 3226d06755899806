//! Who gets the fast bytes: segments by the accesses that a byte of them saves, and copies of
//! single entries by the same measure. Of the copies it is known how many lookups found the records
//! that their set would lose first: what a smaller table would lose.
//!
//! Kept true: what is decided is a pure function of what was counted; together no more is given than
//! the bound has room for, and where more is used something gives way.

use std::cmp::Ordering;

/// Parts that are remembered, of the hottest and of the coldest each.
pub(crate) const BEST: usize = 1024;
/// The part of the limit that goes from one use to the other in a period.
const QUANTUM: u64 = 64;
/// Moves of a period at most, so that its list stays short.
const MOVES: usize = 64;
/// Segments give way to copies that are better by this factor: what is known of copies is the mean of
/// some, and those that would come are worth less.
const BETTER: f64 = 1.25;
/// Copies are preferred to a segment that is better by no more than this factor: what is known of them
/// is rather too little.
const PREFERRED: f64 = 1.5;
/// They give way to segments that are better by this factor.
const FAR_BETTER: f64 = 2.0;
/// A segment takes the place of another that is two octaves colder.
const HOTTER: f64 = 4.0;
/// Of the lookups of a segment copies answer all but this at most, as far as heat is concerned.
const LEAST_MISSED: f64 = 1.0 / 64.0;

/// A segment as it was seen.
pub(crate) struct Seen<T> {
    pub part: T,
    pub heat: f64,
    pub bytes: u64,
}

impl<T> Seen<T> {
    fn density(&self) -> f64 {
        self.heat / self.bytes.max(1) as f64
    }

    /// What it is at least, but for rare chance: the hottest of many is partly so by chance.
    fn surely(&self) -> f64 {
        (self.heat - 2.0 * self.heat.sqrt()).max(0.0) / self.bytes.max(1) as f64
    }
}

/// The first of many by some order.
pub(crate) struct Best<T> {
    pub seen: Vec<Seen<T>>,
    before: fn(&Seen<T>, &Seen<T>) -> Ordering,
}

impl<T> Best<T> {
    /// The hottest of what is seen.
    pub fn hottest() -> Self {
        Best {
            seen: vec![],
            before: |a, b| b.density().total_cmp(&a.density()),
        }
    }

    /// The coldest.
    pub fn coldest() -> Self {
        Best {
            seen: vec![],
            before: |a, b| a.density().total_cmp(&b.density()),
        }
    }

    pub fn push(&mut self, seen: Seen<T>) {
        if self.seen.len() == 2 * BEST {
            self.seen.select_nth_unstable_by(BEST, self.before);
            self.seen.truncate(BEST);
        }
        self.seen.push(seen);
    }

    /// Takes all that is left, the first one at the end.
    pub fn take(&mut self) -> Vec<Seen<T>> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.sort_by(|a, b| (self.before)(b, a));
        seen
    }
}

/// Of the copies, halved with the heat: noted hits, hits of the least records, and noted lookups that
/// waited.
#[derive(Debug, Default)]
pub(crate) struct Caught {
    sums: [f64; 3],
    last: [u64; 3],
}

impl Caught {
    /// What was counted until now.
    pub fn note(&mut self, counts: [u64; 3]) {
        for ((sum, last), now) in self.sums.iter_mut().zip(&mut self.last).zip(counts) {
            *sum += (now - *last) as f64;
            *last = now;
        }
    }

    pub fn cool(&mut self) {
        self.sums.iter_mut().for_each(|sum| *sum /= 2.0);
    }

    /// What copies would answer of the lookups of a segment that is fast and need not be.
    pub fn share(&self) -> f64 {
        let [hits, _, waits] = self.sums;
        hits / (hits + waits).max(1.0)
    }

    /// The heat of a segment that goes to the other memory: of a slow one it is what copies did not
    /// answer, of a fast one all of it.
    pub fn moved(&self, heat: u32, up: bool) -> u32 {
        let missed = (1.0 - self.share()).max(LEAST_MISSED);
        let times = if up { 1.0 / missed } else { missed };
        (f64::from(heat) * times) as u32
    }
}

/// What there is to divide.
pub(crate) struct Use<'a> {
    pub caught: &'a Caught,
    /// Bytes of the smallest table of copies that can learn, and how many times the records that it is
    /// judged by are in all of them; none where there are no copies.
    pub copies: Option<(u64, f64)>,
    /// Bytes of the table.
    pub table: u64,
    /// Bytes of all else that is fast but for segments, and of the fast segments.
    pub always: u64,
    pub fast: u64,
    /// Bytes of all segments.
    pub segments: u64,
    /// What may be filled, and what is allowed.
    pub bound: u64,
    pub limit: u64,
    /// Nothing was divided before, and half of what is free is for copies.
    pub first: bool,
    /// Segments give way to the smallest table.
    pub makes_room: bool,
    /// Slow memory takes nothing.
    pub refused: bool,
}

/// The bytes that the table is to have, and moves up and down, those to be made first at the end.
/// `up` and `down` have the hottest slow and the coldest fast segments at their ends.
pub(crate) fn divide<T: Clone>(
    of: Use<'_>,
    mut up: Vec<Seen<T>>,
    mut down: Vec<Seen<T>>,
) -> (u64, Vec<(T, bool)>) {
    let (bound, limit, caught) = (of.bound, of.limit, of.caught.share());
    let mut table = of.table;
    let (smallest, times) = of.copies.unwrap_or((0, 1.0));
    // What a table would lose that had fewer records: of equally hot entries each byte saves as
    // much as any other, of unequal ones the last saves far less.
    let copies_worth = of.caught.sums[1] * times / table.max(1) as f64;
    if of.refused {
        down.clear();
    }
    // The table has room for copies of all entries at most, and for itself.
    let most = of.segments.max(smallest);
    let kept = |seen: &Seen<T>| seen.density() * (1.0 - caught);
    let quantum = (limit / QUANTUM).max(smallest);
    let (mut moves, mut goes) = (vec![], vec![]);
    let mut used = of.always + table + of.fast;
    if used > bound {
        while used > bound && moves.len() < MOVES {
            let coldest = down.last().map(&kept);
            if table > 0 && coldest.is_none_or(|worth| copies_worth <= worth) {
                let less = quantum.min(table);
                (table, used) = (table - less, used - less);
            } else if let Some(seen) = down.pop() {
                used -= seen.bytes;
                moves.push((seen.part.clone(), false));
            } else {
                break;
            }
        }
        return (table, moves);
    }
    if of.makes_room && of.copies.is_some() && table < smallest {
        // Without a table it is not known what one would be worth.
        while bound - used < smallest - table
            && let Some(cold) = down.pop()
        {
            used -= cold.bytes.min(used);
            goes.push((cold.part.clone(), false));
        }
    }
    let mut room = bound - used;
    if of.first && of.copies.is_some() {
        // Many copies show what copies are worth, few do not: the hottest entries may be ones that are
        // written to, and have none.
        let more = (room / 8).min(most.saturating_sub(table));
        table += more;
        room -= more;
    }
    if of.copies.is_some() && table < smallest && room >= smallest {
        room -= smallest - table;
        table = smallest;
    } else if of.copies.is_some() && room >= quantum {
        let best = up.last().map_or(0.0, |s| s.surely());
        if copies_worth > 0.0 && copies_worth * PREFERRED >= best {
            let more = room.min(quantum * 4).min(most.saturating_sub(table));
            table += more;
            room -= more;
        }
    }
    let worth = copies_worth * PREFERRED;
    while let Some(seen) = up.last()
        && moves.len() < MOVES
        && seen.bytes <= room
        && seen.surely() >= worth
    {
        room -= seen.bytes;
        moves.push((seen.part.clone(), true));
        up.pop();
    }
    if moves.is_empty()
        && let Some(best) = up.last()
    {
        let coldest = down.last().map_or(f64::MAX, &kept);
        let can_shrink = table >= smallest + quantum.min(table / 2).max(1);
        if can_shrink && best.surely() > FAR_BETTER * copies_worth && copies_worth <= coldest {
            let less = quantum.max(best.bytes).min(table - smallest);
            table -= less;
        } else if best.density() > HOTTER * coldest {
            for _ in 0..MOVES / 8 {
                let (Some(best), Some(cold)) = (up.pop(), down.pop()) else {
                    break;
                };
                if best.density() <= HOTTER * kept(&cold) {
                    break;
                }
                goes.push((cold.part.clone(), false));
                moves.push((best.part.clone(), true));
            }
        }
    }
    if moves.is_empty()
        && room < quantum
        && of.copies.is_some()
        && let Some(cold) = down.last()
        && copies_worth > BETTER * kept(cold)
    {
        let mut wanted = quantum;
        while wanted > 0
            && let Some(cold) = down.pop()
        {
            wanted = wanted.saturating_sub(cold.bytes);
            goes.push((cold.part.clone(), false));
        }
    }
    // The list is used from its end: who makes room goes first, then the hottest.
    moves.reverse();
    moves.extend(goes);
    (table, moves)
}
