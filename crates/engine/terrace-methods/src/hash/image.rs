//! Whole buckets as lists of records: what splits, packing and compaction share.
//!
//! Whoever rewrites pages works on private copies, builds the new content in private buffers, and
//! installs it only when everything has turned out possible. So no bucket is ever left half changed.

use terrace_access::{Attempt, Flags, Value};
use terrace_base::PageId;
use terrace_pages::{Exclusive, View};

use super::Secret;
use super::layout::{
    HEADER, Page, SLOT_BYTES, SLOTS, Seen, Shape, Stored, capacity, encode_record, encode_slot,
    record_bytes, write_header,
};
use crate::slotted::pack::Packer;

/// One record, with the hash of its key.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub hash: u64,
    pub key: &'a [u8],
    pub value: Value<'a>,
    pub flags: Flags,
}

impl Item<'_> {
    /// Bytes in a page, slot included.
    pub fn bytes(&self) -> usize {
        record_bytes(self.key, self.value)
    }

    /// Its place in the order of records.
    pub fn order(&self) -> (u64, &[u8]) {
        (self.hash, self.key)
    }
}

fn slice(page: &[u8], at: usize, len: usize) -> Seen<&[u8]> {
    at.checked_add(len)
        .and_then(|end| page.get(at..end))
        .ok_or(terrace_pages::Torn)
}

/// The value of a record.
pub(crate) fn value_in(page: &[u8], value: Stored) -> Seen<Value<'_>> {
    Ok(match value {
        Stored::Inline { at, len } => Value::Inline(slice(page, at, len)?),
        Stored::Large { large, .. } => Value::Large(large),
    })
}

/// Appends the records of a page to `out`.
pub(crate) fn take_apart<'p>(page: &'p [u8], secret: &Secret, out: &mut Vec<Item<'p>>) -> Seen<()> {
    let seen = Page::open(View::of(page))?;
    out.reserve(seen.count());
    for i in 0..seen.count() {
        let slot = seen.slot(i)?;
        let record = seen.record(slot)?;
        let key = slice(page, record.key_at, record.key_len)?;
        out.push(Item {
            hash: secret.hash(key),
            key,
            value: value_in(page, record.value)?,
            flags: slot.flags(),
        });
    }
    Ok(())
}

/// Bytes of records in a page.
pub(crate) fn bytes_of(items: &[Item<'_>]) -> usize {
    items.iter().map(Item::bytes).sum()
}

/// Writes a page with these records, which are in order, into `page`, whose first 16 bytes stay.
/// Returns whether they fit; if not, the page is spoiled.
pub(crate) fn build(page: &mut [u8], shape: &Shape, items: &[Item<'_>]) -> bool {
    let top = page.len();
    let mut out = Packer::<SLOTS>::new(page, top);
    for item in items {
        let added = out.add(item.bytes() - SLOT_BYTES, |at, record| {
            encode_record(record, (item.key, &[]), item.value);
            encode_slot(at, shape.span.tag(item.hash), item.flags)
        });
        if added.is_err() {
            return false;
        }
    }
    let numbers = out.counts();
    write_header(page, shape, numbers);
    true
}

/// How many of the first records fit into one page each, for as many pages as are needed.
pub(crate) fn pages_for(items: &[Item<'_>], page_bytes: usize) -> Vec<usize> {
    let mut pages = vec![0];
    let mut used = 0;
    for item in items {
        if used + item.bytes() > capacity(page_bytes) {
            pages.push(0);
            used = 0;
        }
        used += item.bytes();
        if let Some(count) = pages.last_mut() {
            *count += 1;
        }
    }
    pages
}

/// Writes a built page over a latched one.
pub(crate) fn install(page: &mut Exclusive<'_>, image: &[u8]) -> Attempt<()> {
    let len = image.len() - HEADER;
    page.change(HEADER, len)?.copy_from_slice(&image[HEADER..]);
    Ok(())
}

/// Writes a built page into one that was just allocated.
pub(crate) fn install_new(page: &mut Exclusive<'_>, image: &[u8]) -> Attempt<()> {
    let len = image.len() - HEADER;
    page.fill(HEADER, len)?.copy_from_slice(&image[HEADER..]);
    Ok(())
}

/// The pages of one bucket, built: the first page and its overflow pages, whose numbers are given.
/// `None` when the records need another number of pages.
pub(crate) fn build_bucket(
    items: &[Item<'_>],
    shape: &Shape,
    overflow: &[PageId],
    page_bytes: usize,
) -> Option<Vec<Vec<u8>>> {
    let counts = pages_for(items, page_bytes);
    if counts.len() != overflow.len() + 1 {
        return None;
    }
    let mut rest = items;
    let mut images = Vec::with_capacity(counts.len());
    for (number, count) in counts.into_iter().enumerate() {
        let (here, after) = rest.split_at(count);
        rest = after;
        let mut image = vec![0; page_bytes];
        let shape = Shape {
            overflow: number > 0,
            members: if number == 0 { shape.members } else { 0 },
            next: overflow.get(number).copied().unwrap_or(PageId::NONE),
            ..*shape
        };
        if !build(&mut image, &shape, here) {
            return None;
        }
        images.push(image);
    }
    Some(images)
}
