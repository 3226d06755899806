//! A run of rows, in the order of their keys, put by one way down the index: new rows to the end of the
//! page that newcomers go to, and others over what they were.
//!
//! Latches are those of any edit (see [`edit`](super::edit)): the index leaf, then heap pages, which are
//! only tried. The page that new rows come to is held until the index says so.

use std::ops::Range;

use terrace_access::{Attempt, Flags, Retry, Value, Window, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Exclusive, View};

use super::Heap;
use super::layout::{Location, Rows, row_bytes};
use super::page::{self, Left};
use crate::btree::layout::{Node, Seen, Stored, max_inline};
use crate::btree::run::{Beside, Run, There};

struct RowRun<'d, 'w> {
    heap: &'d Heap,
    door: &'d WriteGuard<'d>,
    run: Run<'w>,
    /// The page that new rows come to; what the last one has left of it, and its bytes.
    target: Option<(Exclusive<'d>, Option<(Left, usize)>)>,
    /// Where the last group of new rows is: the number of the first, and the places.
    first: usize,
    places: Vec<[u8; Location::BYTES]>,
}

impl<'w> RowRun<'_, 'w> {
    /// Key and value of one; of a large one, which has no row, the value says nothing.
    fn row(&self, n: usize) -> (&'w [u8], &'w [u8]) {
        let value = self.run.value(n, usize::MAX);
        (self.run.key(n), value.unwrap_or_default())
    }

    /// Latches the page that newcomers go to, if it is one for these.
    fn hold_target(&mut self) -> bool {
        if self.target.is_some() {
            return true;
        }
        let scans = &self.heap.scans;
        let side = scans.side_of_newcomer();
        let Some(pid) = self.heap.space.current(side) else {
            return false;
        };
        let Ok(page) = self.heap.grab(self.door, pid) else {
            return false;
        };
        // A scan that begins or ends from now on meets the latch.
        let mine = Rows::open(page.view()).is_ok_and(|rows| rows.owner() == Ok(self.heap.root))
            && self.heap.is_on_side(pid, side)
            && scans.side_of_newcomer() == side;
        if mine {
            self.target = Some((page, None));
        }
        mine
    }

    /// Puts one row into the page that is held. Where it is then; `None` if there is no room.
    fn append(&mut self, n: usize) -> Option<Location> {
        let (key, value) = self.row(n);
        let (page, last) = self.target.as_mut()?;
        let len = row_bytes(key, value);
        let rows = Rows::open(page.view()).ok()?;
        let put = page::plan_new(&rows, len).ok()??;
        let left = page::put(page, put, key, value).ok()?;
        *last = Some((left, len));
        Some(Location {
            page: page.pid(),
            slot: put.slot as u16,
        })
    }

    /// Changes a row that is there to one of the same length, in its page.
    fn over(&mut self, at: Location, n: usize) -> bool {
        let ((key, value), heap) = (self.row(n), self.heap);
        let change = |page: &mut Exclusive<'_>| {
            let slot = usize::from(at.slot);
            let row = heap.row_in(page, slot, key).ok()?;
            if row.len != row_bytes(key, value) {
                return None;
            }
            let rows = Rows::open(page.view()).ok()?;
            let put = page::plan_change(&rows, slot, &row, row.len).ok()??;
            page::put(page, put, key, value).ok()
        };
        if let Some((page, _)) = &mut self.target
            && page.pid() == at.page
        {
            return change(page).is_some();
        }
        let page = heap.grab(self.door, at.page);
        page.is_ok_and(|mut page| change(&mut page).is_some())
    }
}

impl Beside for RowRun<'_, '_> {
    fn value(&self, n: usize) -> Option<Value<'_>> {
        self.run
            .value(n, max_inline(self.heap.store.page_bytes()))?;
        let place = n.checked_sub(self.first).and_then(|n| self.places.get(n));
        Some(Value::Inline(place.unwrap_or(&[0; Location::BYTES])))
    }

    fn prepare(&mut self, new: Range<usize>) -> usize {
        self.first = new.start;
        self.places.clear();
        for n in new {
            if !self.hold_target() {
                break;
            }
            match self.append(n) {
                Some(at) => self.places.push(at.bytes()),
                // Whoever comes alone finds another page.
                None => break,
            }
        }
        self.places.len()
    }

    fn replace(&mut self, n: usize, leaf: &mut Exclusive<'_>, there: There) -> bool {
        if self.run.erases(n) || self.value(n).is_none() {
            return false;
        }
        let at = match there.record.value {
            Stored::Inline { at, len } => Location::read(leaf.view(), at, len),
            Stored::Large { .. } => return false,
        };
        match at {
            Ok(Some(at)) if there.flags == Flags::NONE && at.page != PageId::NONE => {
                self.over(at, n)
            }
            _ => false,
        }
    }

    /// Lets go of the page that new rows came to.
    fn release(&mut self) {
        if let Some((page, Some((left, len)))) = self.target.take() {
            self.heap.filled(self.door, page, left, len);
        }
    }
}

/// Where a key is in a leaf, or would be, not before slot `near`; and where its row is, if it is there and
/// has one.
fn location_in(view: View<'_>, key: &[u8], near: usize) -> Seen<(usize, Option<Location>)> {
    let node = Node::open(view)?;
    let i = match node.find_behind(key, near)? {
        Err(i) => return Ok((i, None)),
        Ok(i) => i,
    };
    let at = match node.leaf_record(node.slot(i)?)?.value {
        Stored::Inline { at, len } => Location::read(view, at, len)?,
        Stored::Large { .. } => None,
    };
    Ok((i, at))
}

impl Heap {
    /// See [`terrace_access::Ordered::try_reach_run`]: the leaves, and the pages of the rows that are there.
    pub(crate) fn reach_rows(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.index()?
            .each_leaf_of(run, next, &mut |leaf, records, next| {
                let mut near = 0;
                for n in records {
                    *next = n;
                    // What makes no sense here is told by whoever needs it.
                    let Ok((i, at)) = location_in(leaf.view(), run.key(n), near) else {
                        continue;
                    };
                    near = i;
                    if let Some(at) = at
                        && let Err(miss @ Retry::Miss(_)) = self.store.optimistic(at.page)
                    {
                        return Err(miss);
                    }
                }
                Ok(())
            })
    }

    /// See [`terrace_access::Ordered::put_run`].
    pub(crate) fn put_rows(
        &self,
        door: &WriteGuard<'_>,
        window: &Window,
        which: &[usize],
    ) -> usize {
        let Ok(index) = self.index() else { return 0 };
        let run = Run { window, which };
        let mut rows = RowRun {
            heap: self,
            door,
            run,
            target: None,
            first: 0,
            places: Vec::new(),
        };
        index.run(door, run, &mut rows)
    }
}
