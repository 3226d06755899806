//! The one way in which a record is changed: the index finds it, the row is changed under the latch
//! of the index leaf.
//!
//! Order of latches: index leaf, heap page, page of the directory. A second heap page, and whatever
//! else has no order, is only tried. Invariants: from the call of `commit` on nothing can fail; the
//! latches of heap pages are let go of before the index changes its structure.

use std::cell::{OnceCell, RefCell};

use terrace_access::{
    AccessMethod, Applied, Attempt, Flags, Plan, RecordPage, Retry, Room, Sweep, Value, WriteGuard,
};
use terrace_base::{Error, PageId};
use terrace_pages::Exclusive;

use super::Heap;
use super::layout::{Location, Row, Rows, row_bytes};
use super::page::{self, BAD_ROW, NO_ROWS, Put};
use super::records::Records;
use super::sides::Side;
use crate::fault::{self, Fault};

/// Rounds of finding no room where there was some. Others have taken it each time.
const ROUNDS: u32 = 64;
/// Times that victims are asked for, for one index record: fewer than the index asks at most, so
/// that it is always told that there are no more before it splits a leaf.
const VICTIM_ROUNDS: u32 = 6;

/// Times that victims are asked for, for one row: as many bytes as it takes may lie on several pages,
/// and what is left there is for other newcomers.
const ROW_VICTIM_ROUNDS: u32 = 8;

/// Locations that live as long as an edit: what a plan may refer to.
#[derive(Default)]
struct Spot {
    bytes: OnceCell<[u8; Location::BYTES]>,
    next: OnceCell<Box<Spot>>,
}

impl Spot {
    fn keep(&self, at: Location) -> &[u8] {
        let bytes = self.bytes.get_or_init(|| at.bytes());
        if *bytes == at.bytes() {
            bytes
        } else {
            self.next.get_or_init(Box::default).keep(at)
        }
    }
}

/// A row under the latch of its page.
struct Held<'d> {
    page: Exclusive<'d>,
    slot: usize,
    row: Row,
}

/// What the commit has to do with rows.
enum Todo<'v> {
    Nothing,
    /// The old row goes.
    Erase,
    /// The old row becomes this.
    Change(Put, &'v [u8]),
    /// There is a new row in another page, and the old one, if any, goes.
    Insert(Put, &'v [u8]),
}

/// An edit between plan and commit.
struct Doing<'d, 'v, 'c> {
    heap: &'d Heap,
    door: &'d WriteGuard<'d>,
    key: &'c [u8],
    /// Where a new row is to go.
    target: Option<PageId>,
    commit: &'c mut dyn FnMut() -> Attempt<()>,
    old: Option<Held<'d>>,
    new: Option<Exclusive<'d>>,
    todo: Todo<'v>,
    /// Whether the old row makes way for a large value.
    becomes_large: bool,
    /// Room that a row needs and the target has not, not on which page, and on which side.
    needs: Option<(usize, PageId, Side)>,
    /// Whether a row was changed of which the index need not know.
    changed: bool,
    /// A page whose latch could not be had.
    blocked: Option<PageId>,
}

impl<'d, 'v> Doing<'d, 'v, '_> {
    /// Lets go of everything.
    fn release(&mut self) {
        self.old = None;
        self.new = None;
        self.todo = Todo::Nothing;
        self.becomes_large = false;
    }

    /// The row that the index names, under the latch of its page.
    fn hold(&mut self, at: Location) -> Attempt<Held<'d>> {
        let (heap, slot) = (self.heap, usize::from(at.slot));
        let page = match heap.grab(self.door, at.page) {
            Err(Retry::Conflict) => {
                self.blocked = Some(at.page);
                return Err(Retry::Conflict);
            }
            other => other?,
        };
        let row = heap.row_in(&page, slot, self.key)?;
        Ok(Held { page, slot, row })
    }

    fn plan<'w>(
        &mut self,
        before: Option<(Flags, Value<'_>)>,
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        spots: &'w Spot,
    ) -> Attempt<Plan<'w>>
    where
        'v: 'w,
    {
        self.release();
        let mut old = None;
        let asked = match before {
            Some((flags, Value::Inline(location))) => {
                match Location::of(location).map_err(|_| self.heap.bad_location(self.key))? {
                    None => plan(Some((flags, Value::Inline(b""))))?,
                    Some(at) => {
                        let held = self.hold(at)?;
                        let from = held.row.value_at();
                        let value = &held.page.bytes()[from..from + held.row.value_len()];
                        let asked = plan(Some((flags, Value::Inline(value))))?;
                        old = Some(held);
                        asked
                    }
                }
            }
            other => plan(other)?,
        };
        Ok(match asked {
            Plan::Keep => Plan::Keep,
            Plan::Flags(flags) => Plan::Flags(flags),
            Plan::Erase => {
                self.lose(old);
                Plan::Erase
            }
            Plan::Put(Value::Large(large), flags) => {
                self.becomes_large = true;
                self.lose(old);
                Plan::Put(Value::Large(large), flags)
            }
            Plan::Put(Value::Inline(value), flags) => {
                return self.plan_row(value, flags, before, old, spots);
            }
        })
    }

    /// The old row, if any, goes at the commit.
    fn lose(&mut self, old: Option<Held<'d>>) {
        if old.is_some() && !fault::planted(Fault::RowLeft) {
            self.todo = Todo::Erase;
        }
        self.old = old;
    }

    fn plan_row<'w>(
        &mut self,
        value: &'v [u8],
        flags: Flags,
        before: Option<(Flags, Value<'_>)>,
        mut old: Option<Held<'d>>,
        spots: &'w Spot,
    ) -> Attempt<Plan<'w>> {
        let limit = super::max_inline(self.heap.store.page_bytes());
        if value.len() > limit {
            let len = value.len();
            return Err(Error::ValueTooLong { len, limit }.into());
        }
        if value.is_empty() && flags.is_deleted() {
            // A tombstone has no row.
            self.lose(old);
            return Ok(Plan::Put(Value::Inline(&[]), flags));
        }
        let len = row_bytes(self.key, value);
        if let Some(held) = &mut old {
            let rows = Rows::open(held.page.view()).map_err(|_| held.page.torn(NO_ROWS))?;
            let planned = page::plan_change(&rows, held.slot, &held.row, len);
            if let Some(put) = planned.map_err(|_| held.page.torn(BAD_ROW))? {
                if before.is_some_and(|(had, _)| had == flags) {
                    // The index need not change, and nothing else can fail.
                    (self.commit)()?;
                    page::put(&mut held.page, put, self.key, value)?;
                    self.changed = true;
                    return Ok(Plan::Keep);
                }
                self.todo = Todo::Change(put, value);
                self.old = old;
                return Ok(Plan::Flags(flags));
            }
        }
        let not = old.as_ref().map_or(PageId::NONE, |held| held.page.pid());
        let scans = &self.heap.scans;
        let of_old = || match (&old, before) {
            (Some(held), _) => scans.side_of(held.page.pid()),
            (None, Some((_, Value::Large(_)))) => scans.side_of_large(self.key),
            (None, _) => scans.side_of_newcomer(),
        };
        let side = of_old();
        let target = self.target.or_else(|| self.heap.space.current(side));
        let found = match target.filter(|target| *target != not) {
            Some(target) => self.room_in(target, len, side)?,
            None => None,
        };
        let Some((page, put)) = found else {
            self.needs = Some((len, not, side));
            return Err(Retry::Conflict);
        };
        if of_old() != side {
            // A scan has begun, or ended, before the target was latched: one that has its page behind
            // it must not get a row that was still before it.
            return Err(Retry::Conflict);
        }
        let mut at = Location {
            page: page.pid(),
            slot: put.slot as u16,
        };
        if let Some(held) = &old
            && fault::planted(Fault::LocationKept)
        {
            at = Location {
                page: held.page.pid(),
                slot: held.slot as u16,
            };
        }
        self.todo = Todo::Insert(put, value);
        (self.old, self.new) = (old, Some(page));
        Ok(Plan::Put(Value::Inline(spots.keep(at)), flags))
    }

    /// A page to which a row of this side may go, latched, and how it would. That it is one with room
    /// is a hint so far.
    fn room_in(
        &self,
        pid: PageId,
        len: usize,
        side: Side,
    ) -> Attempt<Option<(Exclusive<'d>, Put)>> {
        let heap = self.heap;
        let page = match heap.grab(self.door, pid) {
            // It is in use, or not there any more. It may even be the leaf that this edit holds, if it
            // was freed since it was remembered: who waited for it would wait for ever.
            Err(Retry::Conflict) => return Ok(None),
            // Not a page of this tier any more.
            Err(Retry::Miss(_)) if heap.tier.is_hot() => return Ok(None),
            other => other?,
        };
        let put = {
            let Ok(rows) = Rows::open(page.view()) else {
                return Ok(None);
            };
            if rows.owner() != Ok(heap.root) || !heap.is_on_side(pid, side) {
                return Ok(None);
            }
            page::plan_new(&rows, len).map_err(|_| page.torn(BAD_ROW))?
        };
        Ok(put.map(|put| (page, put)))
    }

    /// What was planned for the rows.
    fn apply(&mut self) -> Attempt<()> {
        (self.commit)()?;
        let (old, new) = (self.old.take(), self.new.take());
        let (heap, door) = (self.heap, self.door);
        match std::mem::replace(&mut self.todo, Todo::Nothing) {
            Todo::Nothing => return Ok(()),
            Todo::Erase => {}
            Todo::Change(put, value) => {
                if let Some(mut held) = old {
                    page::put(&mut held.page, put, self.key, value)?;
                }
                return Ok(());
            }
            Todo::Insert(put, value) => {
                if let Some(mut page) = new {
                    let left = page::put(&mut page, put, self.key, value)?;
                    heap.filled(door, page, left, row_bytes(self.key, value));
                }
            }
        }
        if let Some(mut held) = old {
            if self.becomes_large && !fault::planted(Fault::LargeUnnoted) {
                heap.scans.became_large(held.page.pid(), self.key);
            }
            let left = page::erase(&mut held.page, held.slot)?;
            heap.emptied(door, held.page, left);
        }
        Ok(())
    }
}

/// Makes room in the index leaf, by way of whole records.
struct Above<'s, 'd, 'v, 'c> {
    doing: &'s RefCell<Doing<'d, 'v, 'c>>,
    heap: &'d Heap,
    door: &'d WriteGuard<'d>,
    room: &'s mut dyn Room,
    asked: u32,
}

impl Room for Above<'_, '_, '_, '_> {
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool> {
        // The index asks once more for the plan, or changes its structure.
        self.doing.borrow_mut().release();
        self.asked += 1;
        if self.asked > VICTIM_ROUNDS {
            return Ok(false);
        }
        let mut records = Records::new(self.heap, self.door, page, None);
        let made = self.room.make(&mut records, needed, keep);
        if let Err(Retry::Conflict) = made {
            self.doing.borrow_mut().blocked = records.blocked();
        }
        made
    }
}

impl Heap {
    /// See [`terrace_access::AccessMethod::try_edit`]. As an edit of the index, and one or two heap
    /// pages.
    pub(crate) fn edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        let index = self.index()?;
        let mut target = self.room_ahead(self.scans.side_of_newcomer());
        for _ in 0..ROUNDS {
            let spots = Spot::default();
            let doing = RefCell::new(Doing {
                heap: self,
                door,
                key,
                target,
                commit: &mut *commit,
                old: None,
                new: None,
                todo: Todo::Nothing,
                becomes_large: false,
                needs: None,
                changed: false,
                blocked: None,
            });
            let mut above = Above {
                doing: &doing,
                heap: self,
                door,
                room: &mut *room,
                asked: 0,
            };
            let done = index.try_edit(
                door,
                key,
                &mut |before| doing.borrow_mut().plan(before, plan, &spots),
                &mut above,
                &mut || doing.borrow_mut().apply(),
            );
            let doing = doing.into_inner();
            let (needs, blocked, changed) = (doing.needs, doing.blocked, doing.changed);
            drop((doing.old, doing.new));
            match done {
                Err(Retry::Conflict) => {}
                Ok(applied) => {
                    return Ok(Applied {
                        changed: applied.changed || changed,
                        ..applied
                    });
                }
                Err(other) => return Err(other),
            }
            if let Some(pid) = blocked {
                return Err(self.why_blocked(key, pid));
            }
            match needs {
                Some(needs) => target = Some(self.room_for(door, key, needs, room)?),
                None => return Err(Retry::Conflict),
            }
        }
        Err(Retry::Conflict)
    }

    /// A page on this side with room for a row of `len` bytes, other than `not`: one that there is; or
    /// the one that victims of the same index leaf leave; or a new one.
    fn room_for(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        (len, not, side): (usize, PageId, Side),
        room: &mut dyn Room,
    ) -> Attempt<PageId> {
        if let Some(pid) = self.find_room(len, not, side)? {
            return Ok(pid);
        }
        let (mut left, mut blocked) = (None, None);
        let visited = self.index()?.try_visit(door, key, &mut |leaf| {
            let mut records = Records::new(self, door, leaf, Some((len, not)));
            for _ in 0..ROW_VICTIM_ROUNDS {
                let made = room.make(&mut records, len, key);
                blocked = records.blocked();
                let made = made?;
                left = records.left();
                if left.is_some() || !made {
                    break;
                }
            }
            Ok(())
        });
        match (visited, blocked) {
            (Err(Retry::Conflict), Some(pid)) => return Err(self.why_blocked(key, pid)),
            (visited, _) => visited?,
        }
        if let Some(pid) = left {
            return Ok(pid);
        }
        // Others may have left some meanwhile.
        match self.find_room(len, not, side)? {
            Some(pid) => Ok(pid),
            None => self.grow(door, len, not, side),
        }
    }
}
