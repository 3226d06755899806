//! Changes of a heap page under its exclusive latch: decided first, then done without any way to
//! fail.
//!
//! Every change touches as few bytes as it can, because a checkpoint in progress keeps the old ones.

use terrace_access::Attempt;
use terrace_base::PageId;
use terrace_pages::{Exclusive, PAGE_HEADER_BYTES, Torn};

use super::layout::{
    CLASS, CLASSES, LISTED, LISTED_AT, Numbers, OWNER, ROWS, Row, Rows, SLOTS, Slot, TAG,
    encode_row, row_bytes, slot_at,
};
use crate::slotted::fit::{Fit, Stretch};
use crate::slotted::layout::{COUNT, SLOT_BYTES, Seen, TOO_MUCH_GARBAGE};
use crate::slotted::pack::Packer;

pub(crate) const NO_ROWS: &str =
    "this is not a heap page of its structure, or its header contradicts itself";
pub(crate) const BAD_ROW: &str = "a slot of this heap page has not the row that the index says";

/// How a row will be put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// Its value over one of the same length.
    Over { at: usize },
    /// Into these bytes.
    Into(Stretch),
    /// With the whole page laid out anew.
    Compact,
}

/// Where a row will be put, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Put {
    pub slot: usize,
    how: How,
    /// Bytes of the row that it replaces; 0 when it is a new one.
    held: usize,
}

/// Decides how a new row of `len` bytes could come to this page. O(slots).
pub(crate) fn plan_new(rows: &Rows<'_>, len: usize) -> Seen<Option<Put>> {
    let (mut slot, mut hole) = (rows.slots(), None);
    if rows.rows < rows.slots() {
        let mut any = None;
        let mut next = 0;
        while let Some(i) = rows.free_slot(next)? {
            let seen = rows.slot(i)?;
            any = any.or(Some(i));
            if seen.len >= len {
                any = Some(i);
                hole = Some(seen.at);
                break;
            }
            next = i + 1;
        }
        // Or the page counts fewer rows than it has: whoever looks for room would come back for ever.
        slot = any.ok_or(Torn)?;
    }
    // A hole has its slot.
    if let Some(at) = hole {
        let how = How::Into(Stretch::Within(at));
        return Ok(Some(Put { slot, how, held: 0 }));
    }
    let more = if slot == rows.slots() { SLOT_BYTES } else { 0 };
    fitted(rows, slot, (len, more), 0)
}

/// Decides where the bytes of a row come from that needs this many, and this many more for a slot.
fn fitted(rows: &Rows<'_>, slot: usize, needed: (usize, usize), held: usize) -> Seen<Option<Put>> {
    let how = match rows.numbers.fit(rows.view.len(), needed, held, None) {
        Fit::Free => How::Into(Stretch::Free),
        Fit::Hole(at) => How::Into(Stretch::Within(at)),
        Fit::Rewrite => {
            can_compact(rows, slot, needed.0)?;
            How::Compact
        }
        Fit::Missing(_) => return Ok(None),
    };
    Ok(Some(Put { slot, how, held }))
}

/// Makes sure that the rows can be laid out anew with one of `len` bytes in this slot: what the
/// header counts may not be what there is. O(slots).
fn can_compact(rows: &Rows<'_>, slot: usize, len: usize) -> Seen<()> {
    let mut end = slot_at(rows.slots().max(slot + 1)) + len;
    for i in (0..rows.slots()).filter(|i| *i != slot) {
        let old = rows.slot(i)?;
        end += if old.free { 0 } else { old.len };
    }
    if end <= rows.view.len() {
        Ok(())
    } else {
        Err(Torn)
    }
}

/// Decides how a row could become one of `len` bytes without leaving its page. O(1), or O(slots) to
/// compact.
pub(crate) fn plan_change(
    rows: &Rows<'_>,
    slot: usize,
    old: &Row,
    len: usize,
) -> Seen<Option<Put>> {
    let held = old.len;
    let how = match len {
        _ if len == held => How::Over { at: old.value_at() },
        _ if len < held => How::Into(Stretch::Within(old.at)),
        _ => return fitted(rows, slot, (len, 0), held),
    };
    Ok(Some(Put { slot, how, held }))
}

/// The changeable numbers of a header.
#[derive(Clone, Copy)]
struct Counts {
    numbers: Numbers,
    rows: usize,
}

impl Counts {
    fn of(rows: &Rows<'_>) -> Counts {
        Counts {
            numbers: rows.numbers,
            rows: rows.rows,
        }
    }

    fn write(self, page: &mut Exclusive<'_>, before: Counts) -> Attempt<Left> {
        self.numbers.write(page)?;
        if self.rows != before.rows {
            let rows = (self.rows as u16).to_le_bytes();
            page.change(ROWS, 2)?.copy_from_slice(&rows);
        }
        Ok(self.left(page.bytes().len()))
    }

    /// What that leaves of a page of `page_bytes` bytes.
    fn left(self, page_bytes: usize) -> Left {
        let reclaimable = self.numbers.free(page_bytes) + self.numbers.garbage;
        let slot = if self.rows < self.numbers.count {
            0
        } else {
            SLOT_BYTES
        };
        Left {
            rows: self.rows,
            room: reclaimable.saturating_sub(slot),
            class: (reclaimable * CLASSES / page_bytes.max(1)) as u8,
        }
    }
}

/// What a change has left of a page: whoever made it knows, and need not read the header again.
#[derive(Clone, Copy)]
pub(crate) struct Left {
    /// Rows.
    pub rows: usize,
    /// See [`Rows::room`].
    pub room: usize,
    /// How much of the page is free, in parts of [`CLASSES`].
    pub class: u8,
}

impl Left {
    /// What there is.
    pub fn of(rows: &Rows<'_>) -> Left {
        Counts::of(rows).left(rows.view.len())
    }
}

/// Puts a row as planned for this page as it is. Cannot fail then. O(row), or O(page) to compact.
pub(crate) fn put(page: &mut Exclusive<'_>, plan: Put, key: &[u8], value: &[u8]) -> Attempt<Left> {
    let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
    let before = Counts::of(&rows);
    let (mut counts, len) = (before, row_bytes(key, value));
    let stretch = match plan.how {
        How::Over { at } => {
            page.change(at, value.len())?.copy_from_slice(value);
            return Ok(before.left(page.bytes().len()));
        }
        How::Compact => {
            let image = compacted(&rows, page.bytes(), plan.slot, key, value)
                .map_err(|_| page.torn(BAD_ROW))?;
            page.change_all()?[PAGE_HEADER_BYTES..].copy_from_slice(&image[PAGE_HEADER_BYTES..]);
            let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
            return Ok(Left::of(&rows));
        }
        How::Into(stretch) => stretch,
    };
    let (at, out) = counts.numbers.take(page, stretch, plan.held, len)?;
    encode_row(out, key, value);
    if plan.held == 0 {
        counts.rows += 1;
        counts.numbers.count = counts.numbers.count.max(plan.slot + 1);
    }
    let slot = Slot {
        at,
        len,
        free: false,
    };
    Numbers::set_slot(page, plan.slot, slot.bytes())?;
    counts.write(page, before)
}

/// The page without garbage, with this row in this slot. Free slots at the end fall away.
fn compacted(rows: &Rows<'_>, page: &[u8], slot: usize, key: &[u8], value: &[u8]) -> Seen<Vec<u8>> {
    let mut image = vec![0; page.len()];
    image[PAGE_HEADER_BYTES..SLOTS].copy_from_slice(&page[PAGE_HEADER_BYTES..SLOTS]);
    let mut last = slot;
    for i in slot..rows.slots() {
        if !rows.slot(i)?.free {
            last = i;
        }
    }
    let mut out = Packer::<SLOTS>::new(&mut image, page.len());
    let mut count = 0;
    for i in 0..=last {
        let (old, len) = match i == slot {
            true => (None, row_bytes(key, value)),
            false => Some(rows.slot(i)?)
                .filter(|old| !old.free)
                .map_or((None, 0), |old| (Some(old), old.len)),
        };
        out.add(len, |at, row| {
            match old {
                Some(old) => row.copy_from_slice(&page[old.at..old.at + old.len]),
                None if len > 0 => encode_row(row, key, value),
                None => {}
            }
            let free = len == 0;
            let at = if free { 0 } else { at };
            Slot { at, len, free }.bytes()
        })?;
        count += u16::from(len > 0);
    }
    out.counts().put(&mut image[COUNT..]);
    image[ROWS..ROWS + 2].copy_from_slice(&count.to_le_bytes());
    Ok(image)
}

/// Takes the row out of a slot. Cannot fail when there is one. O(1).
pub(crate) fn erase(page: &mut Exclusive<'_>, slot: usize) -> Attempt<Left> {
    let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
    let row = rows.row(slot).map_err(|_| page.torn(BAD_ROW))?;
    let before = Counts::of(&rows);
    before.numbers.check_loss(page, row.len)?;
    if before.rows == 0 {
        return Err(page.torn(TOO_MUCH_GARBAGE));
    }
    let mut counts = before;
    counts.numbers.garbage += row.len;
    counts.rows -= 1;
    let free = Slot {
        at: row.at,
        len: row.len,
        free: true,
    };
    page.change(slot_at(slot) + 2, 2)?
        .copy_from_slice(&free.bytes()[2..]);
    counts.write(page, before)
}

/// Makes a page that was just allocated one without rows.
pub(crate) fn begin(
    page: &mut Exclusive<'_>,
    owner: PageId,
    directory: PageId,
    entry: usize,
    class: u8,
) -> Attempt<()> {
    let header = page.fill(PAGE_HEADER_BYTES, SLOTS - PAGE_HEADER_BYTES)?;
    let mut put = |at: usize, bytes: &[u8]| {
        let at = at - PAGE_HEADER_BYTES;
        header[at..at + bytes.len()].copy_from_slice(bytes);
    };
    put(PAGE_HEADER_BYTES, &[TAG]);
    put(OWNER, &owner.0.to_le_bytes());
    put(LISTED, &directory.0.to_le_bytes());
    put(LISTED_AT, &(entry as u16).to_le_bytes());
    put(CLASS, &[class]);
    Ok(())
}
