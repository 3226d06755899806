//! Going through the records of a range, from either end.
//!
//! Invariants: the range still to come is `low <= position < high`, and shrinks with every record that
//! comes out, so no record comes out twice, and the two ends never pass each other. One window of
//! records is kept at each end; nothing else, however long the range is.

use terrace_access::Window;
use terrace_base::Result;
use terrace_base::lease::Lease;

use crate::expires::Expires;
use crate::handle::map::Map;
use crate::latency::Call;
use crate::planted::{Fault, planted};
use crate::read::leased::{Sight, parts};

/// Records in order; see [`crate::Tree::range`], [`crate::Table::range`] and [`Map::iter`]. It keeps the database open.
#[must_use = "it reads only when it is asked for records"]
pub struct Range {
    map: Map,
    /// Bytes of a position that come before the key.
    prefix: usize,
    /// Lowest position that may still come.
    low: Vec<u8>,
    /// First position that may no longer come; `None` for no bound.
    high: Option<Vec<u8>>,
    front: Side,
    back: Side,
    /// Which records come out, and the lease of the one that came out last.
    sight: Sight,
    lease: Lease,
    done: bool,
}

/// The window at one end, and which of its entries are still to come.
#[derive(Default)]
struct Side {
    window: Window,
    from: usize,
    to: usize,
    /// Whether the window was filled, and whether there is nothing behind it.
    filled: bool,
    last: bool,
    /// What had expired by then had done so long before it was filled ([`Range::time`]).
    time: u64,
}

/// Records of the first window of a range: about what a short scan asks for.
const FIRST_RECORDS: usize = 64;
/// Windows grow up to this many records; a leaf seldom has more.
const MOST_RECORDS: usize = 1024;

impl Side {
    /// Makes the next window larger than the one before: whoever reads on wants more.
    fn grow(&mut self) {
        let limit = if self.filled {
            (self.window.limit() * 2).min(MOST_RECORDS)
        } else {
            FIRST_RECORDS
        };
        self.window.set_limit(limit);
    }

    /// A record of the window, if it is to come out.
    #[inline]
    fn value(&self, map: &Map, sight: Sight, prefix: usize, i: usize) -> Result<Option<Value>> {
        let key = || self.window.key(i).get(prefix..).unwrap_or_default();
        let is_large = self.window.entry(i).large.is_some();
        value_of(map, sight, self.time, (self.window.value(i), is_large), key)
    }
}

/// A value that comes out.
pub struct Value {
    pub bytes: Vec<u8>,
    pub lease: Lease,
}

/// The value of a record, if it is there for readers, of one that was read into a window: what had expired by `time`
/// had done so long before ([`Clock::long_ago`]). One that is large is looked up, and one that has expired since: another
/// may have come, and who lengthens a lease looks at the time under the record's lock and changes the record later,
/// for which a look waits. To look up all that has expired would make ranges over it slow, and no writer is taken to
/// stand still for a minute in between.
///
/// [`Clock::long_ago`]: crate::clock::Clock::long_ago
#[inline]
pub fn value_of<'k>(
    map: &Map,
    sight: Sight,
    time: u64,
    (stored, is_large): (&[u8], bool),
    key: impl FnOnce() -> &'k [u8],
) -> Result<Option<Value>> {
    let (open, lease) = (&map.open, Lease::ENDLESS);
    if !open.spec.expiring && !is_large {
        let bytes = stored.to_vec();
        return Ok(Some(Value { bytes, lease }));
    }
    if !is_large {
        let (lease, value) = parts(open, stored)?;
        let shown = match sight {
            Sight::Stored => Some(stored),
            Sight::At(time) => (!lease.is_over(time)).then_some(value),
            Sight::Now if lease.is_over(time) => {
                map.core().expired().note_hidden();
                None
            }
            Sight::Now if lease == Lease::ENDLESS => Some(value),
            Sight::Now if !lease.is_over(map.core().clock().now()) => Some(value),
            Sight::Now => return looked_up(map, sight, key()),
        };
        let shown = shown.map(|shown| match planted(Fault::LeaseShown) {
            true => stored,
            false => shown,
        });
        return Ok(shown.map(|shown| Value {
            bytes: shown.to_vec(),
            lease,
        }));
    }
    looked_up(map, sight, key())
}

#[cold]
fn looked_up(map: &Map, sight: Sight, key: &[u8]) -> Result<Option<Value>> {
    let core = map.core();
    let _pass = core.enter(&map.open)?;
    let mut bytes = Vec::new();
    let lease = core.get_at(&map.open, sight, key, &mut bytes)?;
    Ok(lease.map(|lease| Value { bytes, lease }))
}

/// The lowest key above this one.
pub fn above(key: &[u8]) -> Vec<u8> {
    let mut above = Vec::with_capacity(key.len() + 1);
    above.extend_from_slice(key);
    above.push(0);
    above
}

/// The first key past all with this prefix: its last byte that can be raised, raised.
pub fn past_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut high = prefix.to_vec();
    while high.pop_if(|byte| *byte == u8::MAX).is_some() {}
    *high.last_mut()? += 1;
    Some(high)
}

/// A key and its value.
pub type Record = (Vec<u8>, Vec<u8>);

impl Range {
    pub(crate) fn new(map: Map, low: Vec<u8>, high: Option<Vec<u8>>) -> Range {
        Range::seen(map, low, high, Sight::Now)
    }

    /// The same with another sight.
    pub(crate) fn seen(map: Map, low: Vec<u8>, high: Option<Vec<u8>>, sight: Sight) -> Range {
        let (front, back) = (Side::default(), Side::default());
        Range {
            prefix: map.open.structure.position_prefix(),
            map,
            low,
            high,
            front,
            back,
            sight,
            lease: Lease::ENDLESS,
            done: false,
        }
    }

    /// Until when the record is there that came out last.
    pub fn expires(&self) -> Expires {
        Expires::of(self.lease)
    }

    pub(crate) fn lease(&self) -> Lease {
        self.lease
    }

    /// What to compare leases with of what is read after this: see [`value_of`].
    fn time(&self) -> u64 {
        match self.sight {
            Sight::Now if self.map.open.spec.expiring => self.map.core().clock().long_ago(),
            _ => 0,
        }
    }

    fn key<'p>(&self, position: &'p [u8]) -> &'p [u8] {
        position.get(self.prefix..).unwrap_or_default()
    }

    fn is_empty(&self) -> bool {
        self.high.as_ref().is_some_and(|high| *high <= self.low)
    }

    fn is_past(&self, position: &[u8]) -> bool {
        self.high
            .as_ref()
            .is_some_and(|high| position >= high.as_slice())
    }

    fn forward(&mut self) -> Result<Option<Record>> {
        while !self.is_empty() {
            if self.front.from == self.front.to {
                if !self.fill_front()? {
                    break;
                }
                continue;
            }
            let i = self.front.from;
            self.front.from += 1;
            let position = self.front.window.key(i).to_vec();
            if self.is_past(&position) {
                break;
            }
            self.low.clear();
            self.low.extend_from_slice(&position);
            self.low.push(0);
            if let Some(value) = self.front.value(&self.map, self.sight, self.prefix, i)? {
                self.lease = value.lease;
                return Ok(Some((self.key(&position).to_vec(), value.bytes)));
            }
        }
        Ok(None)
    }

    fn backward(&mut self) -> Result<Option<Record>> {
        while !self.is_empty() {
            if self.back.from == self.back.to {
                if !self.fill_back()? {
                    break;
                }
                continue;
            }
            let i = self.back.to - 1;
            self.back.to = i;
            let position = self.back.window.key(i).to_vec();
            if position < self.low {
                break;
            }
            let value = self.back.value(&self.map, self.sight, self.prefix, i)?;
            let key = self.key(&position).to_vec();
            self.high = Some(position);
            if let Some(value) = value {
                self.lease = value.lease;
                return Ok(Some((key, value.bytes)));
            }
        }
        Ok(None)
    }

    /// The next window upwards; `false` at the end.
    fn fill_front(&mut self) -> Result<bool> {
        let side = &mut self.front;
        if side.last {
            return Ok(false);
        }
        if side.filled
            && let Some(high) = side.window.high.take()
            && high > self.low
        {
            // Everything below has come out, or was not there.
            self.low = high;
        }
        if self.is_empty() {
            return Ok(false);
        }
        let time = self.time();
        let side = &mut self.front;
        side.time = time;
        let core = self.map.core();
        let began = core.latencies().begin();
        let _pass = core.enter(&self.map.open)?;
        side.grow();
        let structure = &self.map.open.structure;
        structure
            .scan_up(&self.low, &mut side.window)
            .map_err(|e| core.failed(e))?;
        core.latencies().end(Call::Range, began);
        side.filled = true;
        side.last = side.window.high.is_none();
        (side.from, side.to) = (side.window.lower_bound(&self.low), side.window.len());
        Ok(true)
    }

    /// The next window downwards; `false` at the end.
    fn fill_back(&mut self) -> Result<bool> {
        let side = &mut self.back;
        if side.last {
            return Ok(false);
        }
        if side.filled
            && self
                .high
                .as_ref()
                .is_none_or(|high| side.window.low < *high)
        {
            // Everything from there on has come out, or was not there.
            self.high = Some(std::mem::take(&mut side.window.low));
        }
        if self.is_empty() {
            return Ok(false);
        }
        let time = self.time();
        let side = &mut self.back;
        side.time = time;
        let core = self.map.core();
        let began = core.latencies().begin();
        let _pass = core.enter(&self.map.open)?;
        side.grow();
        let structure = &self.map.open.structure;
        let below = self.high.as_deref();
        structure
            .scan_down(below, &mut side.window)
            .map_err(|e| core.failed(e))?;
        core.latencies().end(Call::Range, began);
        side.filled = true;
        side.last = side.window.low.is_empty();
        let end = below.map_or(side.window.len(), |below| side.window.lower_bound(below));
        (side.from, side.to) = (0, end);
        Ok(true)
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<Record>>,
    ) -> Option<Result<Record>> {
        if self.done {
            return None;
        }
        let record = step(self).transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

impl Map {
    /// All records, in the order of the structure: that of the keys in a tree and in a table, in a hash
    /// table one that means nothing but stays the same. Each record that is there all the while comes out
    /// once, as it was at some instant between this call and the one that returns it: many are read at
    /// once. What changes meanwhile may or may not be seen.
    ///
    /// # Errors
    /// When the structure was dropped.
    pub fn iter(&self) -> Result<Range> {
        self.open.check()?;
        Ok(Range::new(self.clone(), Vec::new(), None))
    }

    /// Whether there are no records. Reads a page or two, and more behind many deletes.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.next().transpose()?.is_none())
    }
}

impl Iterator for Range {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(Range::forward)
    }
}

impl DoubleEndedIterator for Range {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(Range::backward)
    }
}

impl std::iter::FusedIterator for Range {}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Range")
            .field("low", &self.low)
            .field("high", &self.high)
            .finish_non_exhaustive()
    }
}
