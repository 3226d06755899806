//! Who gets the fast bytes: segments by the accesses that a byte of them saves, and copies of
//! single entries by the same measure.
//!
//! The engine looks at all parts in turn, and then, when enough lookups were noted or more is used
//! than is allowed, divides the bytes anew. Of the copies it is known how many lookups found the
//! records that their set would lose first: what a smaller table would lose.
//!
//! Kept true: a step waits for no lock but its own, and moves one segment for each 256 nodes it
//! was given; a moved segment has the entries of the old one, and is published before that is
//! given up.

use super::placing::On;
use crate::concurrent::cell;
use crate::concurrent::part::Part;
use crate::concurrent::shared::Shared;
use crate::family::Family;
use crossbeam_epoch as epoch;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use terrace_place::Steps;

/// Noted lookups of a period: so many for each part, and at least.
const EACH: u64 = 8;
const LEAST: u64 = 256;
/// Periods from one halving of all heat to the next.
const COOLING: u64 = 8;
/// Nodes that the move of a segment counts for: 60 KiB are copied.
const MOVE: usize = 256;
/// The part of the limit that goes from one use to the other in a period.
const QUANTUM: u64 = 64;
/// Moves of a period at most, so that its list stays short.
const MOVES: usize = 64;
/// Segments give way to copies that are so much as good: they come back only where they are far
/// better, so nothing goes back and forth.
const AS_GOOD: f64 = 0.8;
/// Copies are preferred to a segment that is not more than so much better: what is known of them is
/// rather too little.
const PREFERRED: f64 = 1.5;
/// They give way to segments that are so much better.
const FAR_BETTER: f64 = 2.0;
/// A segment takes the place of another that is two octaves colder.
const HOTTER: f64 = 4.0;

/// A part as it was seen.
struct Seen<F: Family, V> {
    part: Weak<Part<F, V>>,
    heat: f64,
    bytes: u64,
    slow: bool,
}

impl<F: Family, V> Seen<F, V> {
    fn density(&self) -> f64 {
        self.heat / self.bytes.max(1) as f64
    }

    /// What it is at least, but for rare chance: the hottest of many is partly so by chance.
    fn surely(&self) -> f64 {
        (self.heat - 2.0 * self.heat.sqrt()).max(0.0) / self.bytes.max(1) as f64
    }
}

/// Where the engine stands.
pub(super) struct Engine<F: Family, V> {
    /// Weak, as all here: a part that has left the directory is full of entries, and of no use.
    parts: Vec<Weak<Part<F, V>>>,
    next: usize,
    seen: Vec<Seen<F, V>>,
    /// Bytes of dynamic stages and headers so far.
    other: u64,
    /// Bytes of directory and list, of the pass.
    fixed: u64,
    moves: Vec<(Weak<Part<F, V>>, bool)>,
    noted: u64,
    periods: u64,
    cool: bool,
    /// Of the copies, halved with the heat: noted hits, hits of the least record, and noted lookups
    /// that waited.
    sums: [f64; 3],
    last: [u64; 3],
}

impl<F: Family, V> Default for Engine<F, V> {
    fn default() -> Self {
        Engine {
            parts: vec![],
            next: 0,
            seen: vec![],
            other: 0,
            fixed: 0,
            moves: vec![],
            noted: 0,
            periods: 0,
            cool: false,
            sums: [0.0; 3],
            last: [0; 3],
        }
    }
}

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// A bounded piece of placing; whether there is more to do.
    pub(super) fn place_step(&self, steps: Steps) -> bool {
        let Some(on) = &self.place.0 else {
            return false;
        };
        let Ok(mut engine) = on.engine.try_lock() else {
            return false;
        };
        let engine = &mut *engine;
        let mut left = steps.count() as isize;
        while left > 0 {
            if let Some((part, up)) = engine.moves.pop() {
                left -= match part.upgrade() {
                    Some(part) => self.shift(on, &part, up) as isize,
                    None => 1,
                };
                continue;
            }
            if engine.parts.is_empty() {
                self.begin(engine);
            }
            match engine.parts.get(engine.next) {
                Some(part) => {
                    engine.next += 1;
                    left -= 1;
                    if let Some(part) = part.upgrade() {
                        self.see(on, engine, &part);
                    }
                }
                None => {
                    self.judge(on, engine);
                    if engine.moves.is_empty() {
                        return false;
                    }
                }
            }
        }
        true
    }

    fn begin(&self, engine: &mut Engine<F, V>) {
        let guard = epoch::pin();
        let directory = self.directory.load(&guard);
        engine.parts.clear();
        let parts = directory.parts.iter().map(Arc::downgrade);
        engine.parts.extend(parts);
        engine.fixed = directory.bytes() as u64;
        (engine.next, engine.other) = (0, 0);
        engine.seen.clear();
    }

    fn see(&self, on: &On<F, V>, engine: &mut Engine<F, V>, part: &Arc<Part<F, V>>) {
        let guard = epoch::pin();
        let fixed = part.segment.load(&guard);
        let header = size_of::<Part<F, V>>() + size_of_val(fixed) + F::heap(&part.low);
        let dynamic = part.try_read().map_or(0, |dynamic| dynamic.bytes());
        engine.other += (header + dynamic) as u64;
        let seat = &fixed.seat;
        let heat = seat.heat.load(Relaxed);
        if engine.cool {
            seat.heat.store(heat / 2, Relaxed);
        }
        if let Some(copies) = &on.copies
            && !copies.knows(seat.id.load(Relaxed), &guard)
        {
            // From an era before: under a new number it can have copies again.
            let id = on.ledger.id();
            seat.id.store(id, Relaxed);
            copies.renew(id, &guard);
        }
        let (bytes, slow) = (seat.all_bytes(), seat.slow);
        if bytes > 0 {
            let heat = f64::from(heat);
            engine.seen.push(Seen {
                part: Arc::downgrade(part),
                heat,
                bytes,
                slow,
            });
        }
    }

    /// All parts have been looked at: the bytes are divided anew, if it is time.
    fn judge(&self, on: &On<F, V>, engine: &mut Engine<F, V>) {
        let guard = epoch::pin();
        let ledger = &on.ledger;
        let parts = std::mem::take(&mut engine.parts).len() as u64;
        engine.cool = false;
        let table = on.copies.as_ref().map_or(0, |c| c.table(&guard).bytes()) as u64;
        let always = engine.other + engine.fixed;
        ledger.other.store(always + table, Relaxed);
        ledger.peak.fetch_max(ledger.used(), Relaxed);
        let noted: u64 = ledger.noted.iter().map(|n| n.load(Relaxed)).sum();
        let (limit, bound) = (on.limit(), on.bound());
        let strained = ledger.used() > limit;
        if noted - engine.noted < LEAST.max(parts * EACH) && !strained {
            return;
        }
        engine.noted = noted;
        ledger.periods.fetch_add(1, Relaxed);
        engine.periods += 1;
        engine.cool = engine.periods.is_multiple_of(COOLING);
        let counts = [&ledger.noted[2], &ledger.least, &ledger.noted[1]];
        for ((sum, last), count) in engine.sums.iter_mut().zip(&mut engine.last).zip(counts) {
            let now = count.load(Relaxed);
            *sum += (now - *last) as f64;
            *last = now;
        }
        let mut table = table;
        plan(on, engine, &mut table, always, (bound, limit));
        if let Some(copies) = &on.copies {
            copies.fit(table as usize, &guard);
            let table = copies.table(&guard).bytes() as u64;
            ledger.other.store(always + table, Relaxed);
        }
        if engine.cool {
            engine.sums.iter_mut().for_each(|sum| *sum /= 2.0);
        }
        drop(guard);
        cell::free();
    }

    /// Moves the segment of a part, if nobody merges it. Returns the nodes that this counts for.
    fn shift(&self, on: &On<F, V>, part: &Part<F, V>, up: bool) -> usize {
        let guard = epoch::pin();
        let Ok(one) = part.merging.try_lock() else {
            on.ledger.busy.fetch_add(1, Relaxed);
            return 1;
        };
        let old = part.segment.load(&guard);
        if old.seat.slow != up || old.len() == 0 {
            return 1;
        }
        let Some(new) = on.moved(old, &self.plan) else {
            return 1;
        };
        part.segment.store(new, &guard);
        drop(one);
        let count = match up {
            true => &on.ledger.promoted,
            false => &on.ledger.demoted,
        };
        count.fetch_add(1, Relaxed);
        drop(guard);
        // The bytes of the old one are free when nobody reads it any more.
        cell::free();
        MOVE
    }
}

/// Decides who gets what: the bytes of the table, and a list of moves.
fn plan<F: Family, V: Clone + Send + Sync + 'static>(
    on: &On<F, V>,
    engine: &mut Engine<F, V>,
    table: &mut u64,
    always: u64,
    (bound, limit): (u64, u64),
) {
    let [hits, least, waits] = engine.sums;
    let times = on.copies.as_ref().map_or(1.0, |c| c.times_last());
    let smallest = on
        .copies
        .as_ref()
        .map_or(0, |c| c.least(&epoch::pin()) as u64 + (8 << 10));
    // What copies would answer of the lookups of a segment that is fast and need not be.
    let caught = hits / (hits + waits).max(1.0);
    // What a table would lose that had fewer records: of equally hot entries each byte saves as
    // much as any other, of unequal ones the last saves far less.
    let copies_worth = least * times / (*table).max(1) as f64;
    let mut up: Vec<&Seen<F, V>> = engine.seen.iter().filter(|s| s.slow).collect();
    let mut down: Vec<&Seen<F, V>> = engine.seen.iter().filter(|s| !s.slow).collect();
    // The best are at the end of each list.
    up.sort_by(|a, b| a.density().total_cmp(&b.density()));
    down.sort_by(|a, b| b.density().total_cmp(&a.density()));
    let kept = |seen: &Seen<F, V>| seen.density() * (1.0 - caught);
    let quantum = (limit / QUANTUM).max(smallest);
    let (mut moves, mut goes) = (vec![], vec![]);
    let mut used = always + *table + on.ledger.fast();
    if used > bound {
        while used > bound && moves.len() < MOVES {
            let coldest = down.last().map(|s| kept(s));
            if *table > 0 && coldest.is_none_or(|worth| copies_worth <= worth) {
                let less = quantum.min(*table);
                (*table, used) = (*table - less, used - less);
            } else if let Some(seen) = down.pop() {
                used -= seen.bytes;
                moves.push((Weak::clone(&seen.part), false));
            } else {
                break;
            }
        }
        engine.moves = moves;
        return;
    }
    let mut room = bound - used;
    if on.copies.is_some() && *table < smallest && room >= smallest {
        // Without a table nobody knows what one would be worth.
        room -= smallest - *table;
        *table = smallest;
    } else if on.copies.is_some() && room >= quantum {
        let best = up.last().map_or(0.0, |s| s.surely());
        if copies_worth > 0.0 && copies_worth * PREFERRED >= best {
            let more = room.min(quantum * 4);
            *table += more;
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
        moves.push((Weak::clone(&seen.part), true));
        up.pop();
    }
    if moves.is_empty()
        && let Some(best) = up.last()
    {
        let coldest = down.last().map_or(f64::MAX, |s| kept(s));
        let can_shrink = *table >= smallest + quantum.min(*table / 2).max(1);
        if can_shrink && best.surely() > FAR_BETTER * copies_worth && copies_worth <= coldest {
            let less = quantum.max(best.bytes).min(*table - smallest);
            *table -= less;
        } else if best.density() > HOTTER * coldest {
            for _ in 0..MOVES / 8 {
                let (Some(best), Some(cold)) = (up.pop(), down.pop()) else {
                    break;
                };
                if best.density() <= HOTTER * kept(cold) {
                    break;
                }
                goes.push((Weak::clone(&cold.part), false));
                moves.push((Weak::clone(&best.part), true));
            }
        }
    }
    if moves.is_empty()
        && room < quantum
        && on.copies.is_some()
        && let Some(cold) = down.last()
        && copies_worth > AS_GOOD * kept(cold)
    {
        let mut wanted = quantum;
        while wanted > 0
            && let Some(cold) = down.pop()
        {
            wanted = wanted.saturating_sub(cold.bytes);
            goes.push((Weak::clone(&cold.part), false));
        }
    }
    // The list is used from its end: who makes room goes first, then the hottest.
    moves.reverse();
    moves.extend(goes);
    engine.moves = moves;
}
