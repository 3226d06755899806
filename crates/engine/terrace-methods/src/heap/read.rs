//! Reading rows: by key, and by windows of the index.
//!
//! A row is read while nothing is held, or the leaf of the index alone. Whoever does not hold the
//! leaf looks again whether it has changed before it believes anything: a row may have moved, and
//! its page may be another structure's by now.

use terrace_access::{Attempt, Edge, Flags, Found, Retry, Touch, Window};
use terrace_base::sync::{spin_loop, yield_now};
use terrace_base::{Error, PageId};
use terrace_pages::{Exclusive, Optimistic};

use super::Heap;
use super::layout::{Location, Row, Rows, slot_at};
use super::page::{BAD_ROW, NO_ROWS};
use crate::btree::layout::Stored;
use crate::fault::{Point, reached};
use crate::slotted::layout::RECORD_PREFETCHED;

/// Times that a page is looked at while another thread changes it, with the leaf latched.
const TRIES: usize = 1000;
/// Of these without letting others go first.
const SPINS: usize = 100;
/// Rows that are asked for before the first of them is read. Each lies on a page of its own where rows came
/// in another order than that of their keys, and to wait for one after the other is most of what it takes.
const AHEAD: usize = 16;
/// A window ends at a page that is not in memory once it has rows of one in this many frames: with
/// few frames it would never have all its pages at once.
const FRAME_SHARE: u64 = 8;

/// The rows of a window on their way from their pages.
struct Fetch<'f> {
    heap: &'f Heap,
    records: &'f Window,
    window: &'f mut Window,
    /// Changes from one page to another so far, and how many are enough.
    pages: u64,
    enough: u64,
    page: PageId,
}

impl<'f> Fetch<'f> {
    fn new(heap: &'f Heap, records: &'f Window, window: &'f mut Window) -> Fetch<'f> {
        Fetch {
            heap,
            records,
            window,
            pages: 0,
            enough: (heap.store.frames() / FRAME_SHARE).max(1),
            page: PageId::NONE,
        }
    }

    /// Has the rows of some of these records brought into the caches of the processor.
    fn ask_for(&self, indexes: impl Iterator<Item = usize>) {
        let (heap, records) = (self.heap, self.records);
        let mut places = [None; AHEAD];
        for (i, place) in indexes.zip(&mut places) {
            *place = Location::of(records.value(i)).ok().flatten();
            if let Some(at) = place {
                heap.store.prefetch_at(at.page, slot_at(at.slot.into()));
            }
        }
        for at in places.into_iter().flatten() {
            // What it says may be of another moment: it is asked again when the row is read.
            if let Ok(page) = heap.store.optimistic_at(at.page, slot_at(at.slot.into()))
                && let Ok(rows) = Rows::open(page.view())
                && let Ok(slot) = rows.slot(at.slot.into())
            {
                rows.view.prefetch(slot.at, slot.len.min(RECORD_PREFETCHED));
            }
        }
    }

    /// Fetches these records in this order, up to the one that is returned.
    fn rows(&mut self, indexes: impl Iterator<Item = usize> + Clone) -> Attempt<Option<usize>> {
        let (heap, records) = (self.heap, self.records);
        let mut asked = 0;
        let mut ahead = indexes.clone();
        for i in indexes {
            if asked == 0 && !self.window.keys_only() {
                asked = AHEAD;
                self.ask_for(ahead.by_ref().take(AHEAD));
            }
            asked = asked.saturating_sub(1);
            let (key, entry) = (records.key(i), records.entry(i));
            if self.window.len() >= self.window.limit() {
                return Ok(Some(i));
            }
            let at = match entry.large {
                None if !self.window.keys_only() => {
                    Location::of(records.value(i)).map_err(|_| heap.bad_location(key))?
                }
                _ => None,
            };
            if let Some(at) = at.filter(|at| at.page != self.page) {
                (self.pages, self.page) = (self.pages + 1, at.page);
            }
            let put = self.window.push(
                entry.flags,
                entry.large,
                |out| {
                    out.extend_from_slice(key);
                    Ok(())
                },
                |out| at.map_or(Ok(()), |at| heap.read_row(at, key, out, true)),
            );
            match put {
                Err(Retry::Miss(_)) if self.pages > self.enough => return Ok(Some(i)),
                other => other?,
            }
        }
        Ok(None)
    }
}

impl Heap {
    /// See [`terrace_access::AccessMethod::try_get`]. O(log n).
    #[inline]
    pub(crate) fn get(
        &self,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        value.clear();
        self.index()?.descent().get_through(
            key,
            touch,
            |view, stored| match stored {
                Stored::Inline { at, len } => Location::read(view, at, len),
                Stored::Large { .. } => Ok(None),
            },
            &mut |at: Option<Location>, held| {
                value.clear();
                at.map_or(Ok(()), |at| self.read_row(at, key, value, held))
            },
        )
    }

    /// Appends the value of the row that the index says is there. `held`: the leaf of the index is
    /// latched, so it is there. Otherwise `Fail` says nothing as long as the leaf is not validated.
    #[inline]
    pub(crate) fn read_row(
        &self,
        at: Location,
        key: &[u8],
        value: &mut Vec<u8>,
        held: bool,
    ) -> Attempt<()> {
        if !held {
            reached(Point::Following);
        }
        let start = value.len();
        for n in 0..TRIES {
            let read = self
                .store
                .optimistic_at(at.page, slot_at(at.slot.into()))
                .and_then(|page| self.read_once(&page, at, key, value));
            match read {
                Err(Retry::Conflict) if held => {
                    value.truncate(start);
                    if !self.store.exists(at.page) {
                        return Err(self.bad_location(key));
                    }
                    if n < SPINS { spin_loop() } else { yield_now() }
                }
                other => return other,
            }
        }
        Err(Retry::Conflict)
    }

    #[inline]
    fn read_once(
        &self,
        page: &Optimistic<'_>,
        at: Location,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<()> {
        let Ok(rows) = Rows::open(page.view()) else {
            return Err(page.torn(NO_ROWS));
        };
        let read = rows
            .row_of(at.slot.into(), key)
            .and_then(|row| rows.view.append_to(row.value_at(), row.value_len(), value));
        if read.is_err() {
            return Err(page.torn(BAD_ROW));
        }
        page.validate()
    }

    /// The row of a key in a latched page; the index says that it is there. It can be changed and
    /// erased then.
    pub(crate) fn row_in(&self, page: &Exclusive<'_>, slot: usize, key: &[u8]) -> Attempt<Row> {
        let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
        if rows.owner() != Ok(self.root) {
            return Err(page.torn(NO_ROWS));
        }
        let row = rows.row_of(slot, key).map_err(|_| page.torn(BAD_ROW))?;
        // Or it could not be taken out.
        if rows.numbers.garbage + row.len > rows.numbers.heap || rows.rows == 0 {
            return Err(page.torn(NO_ROWS));
        }
        Ok(row)
    }

    /// The index says something of this key that cannot be.
    #[cold]
    pub(crate) fn bad_location(&self, key: &[u8]) -> Retry {
        let shown = key[..key.len().min(32)].escape_ascii();
        let what = format!(
            "{}, of a heap: the row of key {shown} is nowhere",
            self.root
        );
        Retry::Fail(Error::corrupt("data", None, what))
    }

    /// Why the latch of the page that the index names for this position could not be had: another
    /// thread has it, or it is the leaf of the index itself, which is damage.
    #[cold]
    pub(crate) fn why_blocked(&self, position: &[u8], pid: PageId) -> Retry {
        if !self.store.exists(pid) {
            // The leaf named it while it was latched, or names another by now.
            let mut value = Vec::new();
            return match self.get(position, Touch::No, &mut value) {
                Err(failed @ Retry::Fail(_)) => failed,
                _ => Retry::Conflict,
            };
        }
        let mut leaf = Window::new();
        let seen = self.index().and_then(|index| {
            use terrace_access::Ordered;
            index.try_window_if(Edge::From(position), &mut |_| false, &mut leaf)
        });
        if seen.is_ok() && leaf.page == Some(pid) {
            return self.bad_location(position);
        }
        Retry::Conflict
    }

    /// Fills `window` with the rows of the index records in `records`, whose leaf is latched: those
    /// behind the edge, and with `whole` those before it, too. As many as can be had: see
    /// [`FRAME_SHARE`].
    fn fetch(
        &self,
        edge: Edge<'_>,
        whole: bool,
        records: &Window,
        window: &mut Window,
    ) -> Attempt<()> {
        window.clear();
        window.membership = records.membership;
        window.ticket = records.ticket;
        window.page = records.page;
        window.low.extend_from_slice(&records.low);
        window.high.clone_from(&records.high);
        let (count, up) = (records.len(), matches!(edge, Edge::From(_)));
        let middle = match edge {
            Edge::From(at) | Edge::Below(at) => records.lower_bound(at),
            Edge::End => count,
        };
        let mut fetch = Fetch::new(self, records, window);
        let last = if up {
            fetch.rows(middle..count)?
        } else {
            fetch.rows((0..middle).rev())?
        };
        // Where there is no more to be had on this side, the other one need not be tried.
        let both = whole && last.is_none();
        let other = match both {
            false => None,
            true if up => fetch.rows((0..middle).rev())?,
            true => fetch.rows(middle..count)?,
        };
        // The index of the record that is missing bounds the range: itself above, the one behind
        // it below.
        let (above, below) = if up { (last, other) } else { (other, last) };
        if let Some(i) = above {
            window.high = Some(records.key(i).to_vec());
        }
        if let Some(i) = below {
            window.low.clear();
            match edge {
                Edge::From(from) if i + 1 == middle => window.low.extend_from_slice(from),
                _ => window.low.extend_from_slice(records.key(i + 1)),
            }
        }
        if !both {
            match edge {
                Edge::From(from) => window.low = from.to_vec(),
                Edge::Below(below) => window.high = Some(below.to_vec()),
                Edge::End => {}
            }
        }
        if !up || both && middle > 0 {
            window.sort();
        }
        // Keys of a leaf that are in no order bound it so that who goes on there would go in a circle.
        if (above.is_some() || below.is_some()) && !window.advances(edge) {
            let what = "the keys of a leaf of the index of this heap are in no order";
            return Err(Error::corrupt("data", None, format!("{}: {what}", self.root)).into());
        }
        Ok(())
    }

    /// See [`terrace_access::Ordered::try_window_held`]. O(records copied), as many pages at most.
    pub(crate) fn window(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        use terrace_access::Ordered;
        self.with_scratch(|records| {
            records.set_limit(window.limit());
            self.index()?
                .try_window_held(edge, records, &mut |records| {
                    self.fetch(edge, false, records, window)?;
                    inside(window)
                })
        })
    }

    /// See [`terrace_access::Ordered::try_window_if`]. O(records), and the pages of those selected.
    pub(crate) fn window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.with_scratch(|records| {
            self.index()?
                .descent()
                .window_if_held(edge, select, records, &mut |records| {
                    self.fetch(edge, true, records, window)
                })
        })
    }

    /// See [`terrace_access::Ordered::try_window_within`]. O(log n + records between the bounds), and the
    /// pages of those selected.
    pub(crate) fn window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.with_scratch(|records| {
            self.index()?.descent().window_within_held(
                (low, high),
                select,
                records,
                &mut |records| self.fetch(Edge::From(low), false, records, window),
            )
        })
    }

    /// A window to work with; its buffers are kept for the next one.
    pub(crate) fn with_scratch<T>(&self, f: impl FnOnce(&mut Window) -> T) -> T {
        let mut window = self.scratch.lock().pop().unwrap_or_default();
        let result = f(&mut window);
        let mut scratch = self.scratch.lock();
        // More than the threads that usually scan at once are not kept.
        if scratch.len() < 4 {
            scratch.push(window);
        }
        result
    }

    /// See [`terrace_access::Ordered::try_reach`]: the leaf, and the page of the row at the edge
    /// itself.
    pub(crate) fn reach(&self, edge: Edge<'_>) -> Attempt<()> {
        use terrace_access::Ordered;
        let index = self.index()?;
        index.try_reach(edge)?;
        if let Edge::From(key) = edge {
            let follow = &mut |at: Option<Location>, held: bool| {
                let Some(at) = at else {
                    return Ok(());
                };
                match self.store.optimistic(at.page) {
                    Err(Retry::Conflict) if held && !self.store.exists(at.page) => {
                        Err(self.bad_location(key))
                    }
                    other => other.map(|_| ()),
                }
            };
            let take = |view: terrace_pages::View<'_>, stored| match stored {
                Stored::Inline { at, len } => Location::read(view, at, len),
                Stored::Large { .. } => Ok(None),
            };
            index.descent().get_through(key, Touch::No, take, follow)?;
        }
        Ok(())
    }
}
