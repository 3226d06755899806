//! Where the segments of a map for one thread lie, which of them are hot, and who gets the fast bytes.
//!
//! Kept true: lookups only count and leave wishes; what moves, moves while no other code has the map. A
//! segment that moves takes its values along, by value, so they need not be `Clone`; only copies of
//! single entries do. There is one seat for each segment, in their order.

use super::divide::{Best, Caught, Seen, Use, divide};
use super::hot_copies::HotCopies;
use super::stats::MapPlacement;
use super::two::{Touch, Two};
use crate::family::Family;
use crate::home::Store;
use crate::slots::Vals;
use crate::stage::KeyRun;
use crate::two_stage::StaticStage;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use terrace_place::Sampling;

/// Noted lookups of a period: this many for each segment, and at least `LEAST`.
const EACH: u64 = 8;
const LEAST: u64 = 256;
/// Periods from one halving of all heat to the next.
const COOLING: u64 = 8;
/// Segments that the move of one counts for: 60 KiB are copied.
const MOVE: usize = 256;
/// Bytes of copies that count as one.
const BYTES_A_NODE: u64 = 240;
/// Passes without demotions after slow memory was refused, if none of it is given back meanwhile.
const REFUSED: u32 = 64;
/// Wishes for copies that are kept from one step to the next.
const WISHES: usize = 64;
/// Changes of the map from one step of its own to the next, and what it may do.
const EVERY: u32 = 16;
pub(crate) const STEP: usize = 64;
/// The dynamic stage takes at most this part of the limit, if it has so large a part of all entries.
const WRITES: u64 = 2;
const MERGED: usize = 64;

/// Where a segment lies, and how often it is looked at.
#[derive(Debug, Default)]
struct Seat {
    /// Noted lookups, halved now and then.
    heat: AtomicU32,
    slow: bool,
    /// Bytes by memory.
    bytes: [u64; 2],
}

impl Seat {
    fn warm(&self) {
        let heat = self.heat.load(Relaxed);
        self.heat.store(heat.saturating_add(1), Relaxed);
    }

    fn all_bytes(&self) -> u64 {
        self.bytes[0] + self.bytes[1]
    }
}

/// The segments of a map, as their placement sees them.
pub(crate) trait Row<F: Family, S> {
    /// How many there are.
    fn count(&self) -> usize;
    /// Keys and values of one.
    fn at(&mut self, i: usize) -> (&mut F::Stage, &mut S);
}

/// Where the engine stands.
struct Engine {
    /// The segment that is looked at next.
    at: usize,
    segments: u64,
    up: Best<usize>,
    down: Best<usize>,
    /// Segments that go up or down; those that others have taken the place of stay.
    moves: Vec<(usize, bool)>,
    /// What the copies grow or shrink to, while they do.
    goal: Option<u64>,
    refused: (u32, u64),
    noted: u64,
    periods: u64,
    cool: bool,
    caught: Caught,
}

impl Engine {
    fn new() -> Self {
        Engine {
            at: 0,
            segments: 0,
            up: Best::hottest(),
            down: Best::coldest(),
            moves: vec![],
            goal: None,
            refused: (0, 0),
            noted: 0,
            periods: 0,
            cool: false,
            caught: Caught::default(),
        }
    }
}

/// Two kinds of memory under a map for one thread, whose dynamic stage has values of this type.
pub(crate) struct One<F: Family, V> {
    two: Two,
    seats: Vec<Seat>,
    copies: Option<HotCopies<F, V>>,
    /// Entries that are to have a copy: segment and rank, as they were.
    wishes: Box<[AtomicU64]>,
    wished: AtomicUsize,
    /// Bytes of segments by memory, and of all else that is always fast.
    bytes: [u64; 2],
    always: u64,
    /// Bytes that what is always fast takes more soon, at once.
    soon: u64,
    noted: [AtomicU64; 3],
    least: AtomicU64,
    engine: Engine,
    changes: u32,
    told: MapPlacement,
}

impl<F: Family, V> One<F, V> {
    /// Over these memories, with copies where it is known how to make them.
    pub fn new(two: Two, copy: Option<fn(&V) -> V>) -> Self {
        One {
            two,
            seats: vec![],
            copies: copy.map(HotCopies::new),
            wishes: (0..WISHES).map(|_| AtomicU64::new(0)).collect(),
            wished: AtomicUsize::new(0),
            bytes: [0; 2],
            always: 0,
            soon: 0,
            noted: Default::default(),
            least: AtomicU64::new(0),
            engine: Engine::new(),
            changes: 0,
            told: MapPlacement::default(),
        }
    }

    /// The same for a map without entries.
    pub fn again(&self) -> Self {
        One {
            copies: self.copies.as_ref().map(HotCopies::again),
            ..One::new(self.two.clone(), None)
        }
    }

    /// Fast bytes that are allowed.
    fn limit(&self) -> u64 {
        self.two.limit(self.used(), self.bytes[1])
    }

    /// From here on others make room for what is written.
    fn edge(&self) -> u64 {
        self.two.edge(self.limit()).saturating_sub(self.soon)
    }

    /// What moves may fill.
    fn bound(&self) -> u64 {
        self.two.bound(self.limit()).saturating_sub(self.soon)
    }

    fn used(&self) -> u64 {
        self.always + self.bytes[0] + self.copy_bytes()
    }

    /// Bytes of copies.
    pub fn copy_bytes(&self) -> u64 {
        self.copies.as_ref().map_or(0, HotCopies::bytes)
    }

    /// Bytes of what belongs to the segments, beside copies.
    pub fn directory_bytes(&self) -> usize {
        size_of_val(self) + self.seats.capacity() * size_of::<Seat>() + WISHES * 8
    }

    /// The value of `key`, which is in the range of segment `i`.
    pub fn look<'a, S: Vals<Own = V>>(
        &'a self,
        i: usize,
        (keys, vals): (&'a F::Stage, &'a S),
        key: F::Ref<'_>,
        hash: impl Fn() -> u64,
    ) -> Option<S::Ref<'a>> {
        let seat = &self.seats[i];
        let noted = Sampling::default().tick().is_some();
        self.watch(|| Touch::Header(i as u64));
        let note = |which: usize| {
            if noted {
                self.noted[which].fetch_add(1, Relaxed);
                if which < 2 {
                    seat.warm();
                }
            }
        };
        let find = || {
            let rank = keys.find(key, &hash, |near| vals.prefetch(near))?;
            Some((rank, vals.get(rank)?))
        };
        if !seat.slow {
            note(0);
            self.watch(|| touch_of::<F, S>(i, keys, key, false));
            return find().map(|found| found.1);
        }
        let copies = self.copies.as_ref().zip(F::copy_key(key));
        if let Some((copies, copied)) = &copies {
            if self.two.watch.is_some()
                && let Some(line) = copies.line(hash())
            {
                self.watch(|| Touch::Copies(line));
            }
            if let Some(hit) = copies.find(copied, hash()) {
                note(2);
                if noted {
                    self.least.fetch_add(hit.least.into(), Relaxed);
                }
                return Some(S::lend(hit.val));
            }
        }
        note(1);
        self.watch(|| touch_of::<F, S>(i, keys, key, true));
        let (rank, val) = find()?;
        if let Some((copies, copied)) = &copies
            && copies.missed(copied, hash())
        {
            // More wishes than there is room for are for others.
            let at = self.wished.fetch_add(1, Relaxed);
            if let Some(wish) = self.wishes.get(at) {
                wish.store((i as u64) << 16 | rank as u64, Relaxed);
            }
        }
        Some(val)
    }

    /// Segment `i` is read in another way than by a lookup.
    pub fn touched(&self, i: usize) {
        if let Some(seat) = self.seats.get(i)
            && Sampling::default().tick().is_some()
        {
            seat.warm();
            self.noted[usize::from(seat.slow)].fetch_add(1, Relaxed);
        }
    }

    /// The value of `key` changes or leaves the static stage.
    pub fn erase(&mut self, key: F::Ref<'_>) {
        if let Some(copies) = &mut self.copies
            && copies.room() > 0
            && let Some(copied) = F::copy_key(key)
        {
            copies.erase(&copied, F::hash(key));
        }
    }

    /// Entries come to the static stage.
    pub fn returned(&mut self, keys: &F::Run, vals: &[V]) {
        if let Some(copies) = &mut self.copies
            && copies.room() > 0
        {
            for (i, val) in vals.iter().enumerate() {
                if let Some(copied) = F::copy_key(keys.get(i)) {
                    copies.returned(&copied, F::hash(keys.get(i)), val);
                }
            }
        }
    }

    /// Values of segments may change, or leave with them.
    pub fn erase_many<S>(&mut self, row: &mut impl Row<F, S>, which: Range<usize>) {
        let Some(copies) = &mut self.copies else {
            return;
        };
        if copies.room() == 0 {
            return;
        }
        let entries: usize = which.clone().map(|i| row.at(i).0.len()).sum();
        if entries > copies.room() {
            return copies.erase_all();
        }
        for i in which {
            let keys = &*row.at(i).0;
            let mut cursor = (keys.len() > 0).then(|| keys.cursor(0));
            while let Some(at) = &mut cursor {
                use crate::two_stage::KeyCursor;
                if let Some(copied) = F::copy_key(at.key()) {
                    copies.erase(&copied, F::hash(at.key()));
                }
                if !at.next() {
                    cursor = None;
                }
            }
        }
    }

    /// A segment comes to be the one at `i`: into the memory of the one at `like`, or into slow memory.
    pub fn join<S: Vals>(&mut self, i: usize, like: Option<usize>, of: (&mut F::Stage, &mut S)) {
        let seat = like.and_then(|like| self.seats.get(like));
        let (fast, heat) = seat.map_or((false, 0), |s| (!s.slow, s.heat.load(Relaxed)));
        let seat = self.seat(of, fast, heat);
        self.seats.insert(i, seat);
    }

    /// The segment at `i` is another, with the entries of the one before.
    pub fn replaced<S: Vals>(&mut self, i: usize, of: (&mut F::Stage, &mut S)) {
        let old = std::mem::take(&mut self.seats[i]);
        self.count(&old, false);
        self.seats[i] = self.seat(of, !old.slow, old.heat.load(Relaxed));
    }

    /// Segments leave.
    pub fn leave(&mut self, which: Range<usize>) {
        let gone: Vec<Seat> = self.seats.drain(which).collect();
        gone.iter().for_each(|seat| self.count(seat, false));
    }

    fn count(&mut self, seat: &Seat, more: bool) {
        for (sum, bytes) in self.bytes.iter_mut().zip(seat.bytes) {
            *sum = if more { *sum + bytes } else { *sum - bytes };
        }
    }

    /// Puts keys and values where they are to lie, if there is room.
    fn seat<S: Vals>(
        &mut self,
        (keys, vals): (&mut F::Stage, &mut S),
        fast: bool,
        heat: u32,
    ) -> Seat {
        let sizes = [keys.bytes() as u64, vals.bytes() as u64];
        let all = sizes[0] + sizes[1];
        let room = self.edge().saturating_sub(self.used());
        let mut seat = Seat {
            heat: heat.into(),
            slow: false,
            bytes: [all, 0],
        };
        if fast && all <= room {
            self.to_fast(keys, vals);
        } else if vals.place(Some(&self.two.slow)) {
            // A stage that cannot say where its keys lie keeps them in fast memory.
            let placed = keys.placed(Some(&self.two.slow));
            seat.bytes = split(sizes, vals.beside() as u64, placed.is_some());
            seat.slow = vals.live() > 0;
            placed.into_iter().for_each(|placed| *keys = placed);
        } else {
            self.told.refused += 1;
        }
        self.count(&seat, true);
        self.told.peak = self.told.peak.max(self.used());
        seat
    }

    fn to_fast<S: Vals>(&self, keys: &mut F::Stage, vals: &mut S) {
        let home = self.two.fast.as_ref();
        // What is refused there lies on the heap.
        let _ = vals.place(home) || vals.place(None);
        let placed = keys.placed(home).or_else(|| keys.placed(None));
        placed.into_iter().for_each(|placed| *keys = placed);
    }

    /// Whether the dynamic stage, of this many bytes and entries beside that many static ones, takes more
    /// than its part.
    pub fn is_crowded(&self, bytes: usize, len: usize, fixed: usize) -> bool {
        bytes as u64 > self.limit() / WRITES && len > fixed / MERGED
    }

    /// A change of the map: whether it is time for a step.
    pub fn turn(&mut self) -> bool {
        self.changes += 1;
        let now = !self.two.manual && self.changes >= EVERY;
        if now {
            self.changes = 0;
        }
        now
    }

    /// This many bytes more are to be always fast soon.
    pub fn set_soon(&mut self, soon: u64) {
        self.soon = soon;
    }

    /// This many bytes are always fast now.
    pub fn set_always(&mut self, always: u64) {
        self.always = always;
    }

    /// A bounded piece of placing, where this many bytes are always fast; whether there is more to do.
    pub fn step<S: Vals<Own = V>>(
        &mut self,
        row: &mut impl Row<F, S>,
        steps: usize,
        always: u64,
    ) -> bool {
        self.always = always;
        self.told.peak = self.told.peak.max(self.used());
        self.fulfil(row);
        let mut left = steps as isize;
        while left > 0 {
            // Who makes room goes first, then come those for whom it is.
            let down = self.engine.moves.pop_if(|(_, up)| !*up);
            if let Some((i, up)) = down {
                left -= self.shift(row, i, up) as isize;
            } else if let Some(goal) = self.engine.goal {
                left -= self.fit(row, goal) as isize;
            } else if let Some((i, up)) = self.engine.moves.pop() {
                left -= self.shift(row, i, up) as isize;
            } else if self.engine.at < row.count() {
                self.see(row);
                left -= 1;
            } else {
                self.judge();
                if self.engine.moves.is_empty() && self.engine.goal.is_none() {
                    return false;
                }
            }
        }
        true
    }

    /// Makes the copies that lookups wished for.
    fn fulfil<S: Vals<Own = V>>(&mut self, row: &mut impl Row<F, S>) {
        let n = std::mem::take(self.wished.get_mut()).min(WISHES);
        let Some(copies) = &mut self.copies else {
            return;
        };
        for wish in &mut self.wishes[..n] {
            let (i, rank) = (*wish.get_mut() >> 16, *wish.get_mut() as usize & 0xFFFF);
            let i = i as usize;
            // Another segment may be there by now: then it is another entry that has a copy.
            if i >= row.count() || !self.seats[i].slow {
                continue;
            }
            let (keys, vals) = row.at(i);
            if rank >= keys.len() {
                continue;
            }
            use crate::two_stage::KeyCursor;
            let cursor = keys.cursor(rank);
            if let Some(val) = vals.whole(rank)
                && let Some(copied) = F::copy_key(cursor.key())
            {
                let made = copies.put(copied, F::hash(cursor.key()), val);
                self.told.copied += u64::from(made);
            }
        }
    }

    fn see<S: Vals>(&mut self, row: &mut impl Row<F, S>) {
        let i = self.engine.at;
        if i == 0 {
            self.engine.segments = 0;
        }
        self.engine.at += 1;
        let (keys, vals) = row.at(i);
        let all = (keys.bytes() + vals.bytes()) as u64;
        let seat = &mut self.seats[i];
        // Sets of dead slots and lists that lie apart are fast.
        let fast = all.saturating_sub(seat.bytes[1]);
        self.bytes[0] = self.bytes[0] + fast - seat.bytes[0];
        seat.bytes[0] = fast;
        let heat = *seat.heat.get_mut();
        if self.engine.cool {
            *seat.heat.get_mut() = heat / 2;
        }
        let bytes = seat.all_bytes();
        self.engine.segments += bytes;
        if bytes > 0 {
            let best = match seat.slow {
                true => &mut self.engine.up,
                false => &mut self.engine.down,
            };
            best.push(Seen {
                part: i,
                heat: f64::from(heat),
                bytes,
            });
        }
    }

    /// All segments have been looked at: the bytes are divided anew, if it is time.
    fn judge(&mut self) {
        let (limit, used) = (self.limit(), self.used());
        let (edge, bound) = (self.edge(), self.bound());
        let noted: u64 = self.noted.iter_mut().map(|n| *n.get_mut()).sum();
        let held = Store::live(&self.two.slow);
        let engine = &mut self.engine;
        engine.at = 0;
        engine.cool = false;
        let (up, down) = (engine.up.take(), engine.down.take());
        engine.refused.0 = match held < engine.refused.1 {
            true => 0,
            false => engine.refused.0.saturating_sub(1),
        };
        let enough = LEAST.max(self.seats.len() as u64 * EACH);
        if noted - engine.noted < enough && used <= edge {
            return;
        }
        engine.noted = noted;
        engine.periods += 1;
        engine.cool = engine.periods.is_multiple_of(COOLING);
        let [_, waits, hits] = [0, 1, 2].map(|i| *self.noted[i].get_mut());
        engine.caught.note([hits, *self.least.get_mut(), waits]);
        let table = self.copies.as_ref().map_or(0, HotCopies::bytes);
        let of = Use {
            caught: &engine.caught,
            copies: self
                .copies
                .as_ref()
                .map(|_| (HotCopies::<F, V>::chunk(), HotCopies::<F, V>::times_last())),
            table,
            always: self.always,
            fast: self.bytes[0],
            segments: engine.segments,
            bound,
            limit,
            first: engine.periods == 1,
            makes_room: true,
            refused: engine.refused.0 > 0,
        };
        let (goal, moves) = divide(of, up, down);
        engine.moves = moves;
        engine.goal = (goal != table).then_some(goal);
        if engine.cool {
            engine.caught.cool();
        }
    }

    /// Takes the copies a chunk nearer to this many bytes. Returns the segments that this counts for.
    fn fit<S: Vals<Own = V>>(&mut self, row: &mut impl Row<F, S>, goal: u64) -> u64 {
        let (chunk, used) = (HotCopies::<F, V>::chunk(), self.used());
        let bound = self.bound();
        let filler = (0..row.count()).find_map(|i| {
            let rank = row.at(i).1.next_live(0)?;
            Some((i, rank))
        });
        let done = match (&mut self.copies, filler) {
            (Some(copies), _) if copies.bytes() > goal => {
                copies.shrink();
                copies.bytes() <= goal || copies.room() == 0
            }
            (Some(copies), Some((i, rank)))
                if copies.bytes() + chunk <= goal && used + chunk <= bound =>
            {
                let filler = row.at(i).1.whole(rank);
                !filler.is_some_and(|val| copies.grow(self.two.fast.as_ref(), val))
            }
            _ => true,
        };
        if done {
            self.engine.goal = None;
        }
        self.told.peak = self.told.peak.max(self.used());
        (chunk / BYTES_A_NODE).max(1)
    }

    /// Moves a segment to the other memory. Returns the segments that this counts for.
    fn shift<S: Vals>(&mut self, row: &mut impl Row<F, S>, i: usize, up: bool) -> usize {
        let room = self.bound().saturating_sub(self.used());
        let Some(seat) = self.seats.get(i) else {
            return 1;
        };
        // Fast bytes of a slow one are its keys', which stay.
        if seat.slow != up || seat.all_bytes() == 0 || (up && seat.bytes[1] > room) {
            return 1;
        }
        let (keys, vals) = row.at(i);
        let sizes = [keys.bytes() as u64, vals.bytes() as u64];
        let mut bytes = [sizes[0] + sizes[1], 0];
        if up {
            self.to_fast(keys, vals);
            self.told.promoted += 1;
        } else if vals.place(Some(&self.two.slow)) {
            let placed = keys.placed(Some(&self.two.slow));
            bytes = split(sizes, vals.beside() as u64, placed.is_some());
            placed.into_iter().for_each(|placed| *keys = placed);
            self.told.demoted += 1;
        } else {
            self.told.refused += 1;
            self.engine.moves.retain(|(_, up)| *up);
            self.engine.refused = (REFUSED, Store::live(&self.two.slow));
            return MOVE;
        }
        let seat = &mut self.seats[i];
        for ((sum, new), old) in self.bytes.iter_mut().zip(bytes).zip(seat.bytes) {
            *sum = *sum + new - old;
        }
        (seat.bytes, seat.slow) = (bytes, !up);
        let heat = self.engine.caught.moved(*seat.heat.get_mut(), up);
        *seat.heat.get_mut() = heat;
        MOVE
    }

    /// Where the map lies.
    pub fn placement(&self, always: u64) -> MapPlacement {
        let limit = self.limit();
        let slow = self.seats.iter().filter(|seat| seat.slow);
        let fast_keys = slow.map(|seat| seat.bytes[0]).sum();
        MapPlacement {
            memories: self.two.names.to_vec(),
            notes: self.two.notes_with(fast_keys),
            limit: Some(limit).filter(|limit| *limit < u64::MAX),
            always_fast: always,
            fast_segments: self.bytes[0],
            fast_keys,
            slow_segments: self.bytes[1],
            copies: self.copy_bytes(),
            committed: Store::committed(&self.two.slow),
            noted: [0, 1, 2].map(|i| self.noted[i].load(Relaxed)),
            periods: self.engine.periods,
            ..self.told.clone()
        }
    }

    #[inline]
    fn watch(&self, touch: impl FnOnce() -> Touch) {
        if let Some(watch) = &self.two.watch {
            watch.touch(touch());
        }
    }
}

/// The bytes of a slow segment by memory: of keys and of values, of which some lie beside.
fn split([keys, vals]: [u64; 2], beside: u64, placed: bool) -> [u64; 2] {
    let fast = beside + if placed { 0 } else { keys };
    [fast, keys + vals - fast]
}

/// The lines of the keys and of the value that a lookup waits for.
fn touch_of<F: Family, S: Vals>(i: usize, keys: &F::Stage, key: F::Ref<'_>, slow: bool) -> Touch {
    let (rank, id) = (keys.seek(key) as u64, (i as u64) << 24);
    let each = (keys.bytes() / keys.len().max(1)) as u64;
    Touch::Segment {
        key: id + rank * each / 64,
        val: id + (1 << 23) + rank * size_of::<S::Own>() as u64 / 64,
        slow,
    }
}
