//! A data page of a level: a leaf of a B+tree as it is packed, under a tag of its own.
//!
//! ```text
//!  16  u8   tag 0xB9                  30  u8  level, counted from the last one, u8 0
//!  32  u64  stamp, which no other page ever has
//! ```
//!
//! Everything else is where a leaf has it. The page is immutable from its installation until it is
//! freed. A reader believes it only if it has the stamp and the level that its entry says: the number of
//! a page that was freed may belong to another one by now.

use terrace_access::{Attempt, Edge, Flags, LargeRef, Value, Window};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{PageStore, Shared, View};

use super::name::Name;
use super::packed::{self, Buffer, Packed};
use crate::btree::image::{Item, Sizes, build, capacity};
use crate::btree::layout::{Extra, HEADER, Node, Seen, Shape};
use crate::btree::scan::fill;
use crate::fault::{self, Fault};

/// Says that a page is a data page of a level.
pub(crate) const TAG: u8 = 0xB9;
const LEVEL: usize = 30;
const STAMP: usize = 32;

/// A page of a level that was opened.
pub(crate) enum Opened<'a> {
    /// One leaf, as it is.
    Leaf(Node<'a>),
    /// Several, compressed.
    Packed(Packed<'a>),
}

/// Opens a page of a level; `None` when it is another one than this.
#[inline]
pub(crate) fn open<'a>(view: View<'a>, name: &Name) -> Seen<Option<Opened<'a>>> {
    let is_stamp = view.u64(STAMP)? == name.stamp || fault::planted(Fault::StampIgnored);
    let tag = view.u8(HEADER)?;
    let is_it = is_stamp && view.u8(LEVEL)? == name.level;
    match tag {
        TAG if is_it => Node::open_as(view, TAG).map(|node| Some(Opened::Leaf(node))),
        packed::TAG if is_it => Packed::open(view).map(|packed| Some(Opened::Packed(packed))),
        _ => Ok(None),
    }
}

/// A page that was built and is in no page of the store yet.
pub(crate) struct Image {
    /// First key that it covers.
    pub low: Vec<u8>,
    pub bytes: Vec<u8>,
    pub records: u32,
    pub tombstones: u32,
    /// Bytes of records and slots.
    pub used: u32,
    pub has_large: bool,
    /// Filter over its keys, or nothing.
    pub filter: Vec<u8>,
}

impl Image {
    /// Writes what only the installation knows.
    pub fn sign(&mut self, stamp: u64, level: u8) {
        self.bytes[LEVEL] = level;
        self.bytes[LEVEL + 1] = 0;
        self.bytes[STAMP..STAMP + 8].copy_from_slice(&stamp.to_le_bytes());
    }
}

/// One record of a page to be built.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
    pub is_deleted: bool,
}

impl<'a> Record<'a> {
    /// Record `i` of a window.
    pub fn of(window: &'a Window, i: usize) -> Record<'a> {
        let entry = window.entry(i);
        Record {
            key: window.key(i),
            value: entry
                .large
                .map_or(Value::Inline(window.value(i)), Value::Large),
            is_deleted: entry.flags.is_deleted(),
        }
    }

    /// The shortest key that is greater than this one's and not greater than the next one's.
    pub fn separator(&self, next: &Record<'_>) -> Vec<u8> {
        self.item().separator(&next.item())
    }

    fn item(&self) -> Item<'a> {
        let flags = match self.is_deleted {
            true => Flags::DELETED,
            false => Flags::NONE,
        };
        Item::leaf(self.key, self.value, flags)
    }
}

/// Packs records, in order, into as few pages as it takes; together they cover the range, without gaps. No
/// page where there is no record. `filter` makes the filter of the keys of one page. With `compress` pages
/// are compressed that take in more records so. O(records).
pub(crate) fn pack(
    records: &[Record<'_>],
    (low, high): (&[u8], Option<&[u8]>),
    (page_bytes, compress): (usize, bool),
    filter: impl Fn(&[Record<'_>]) -> Vec<u8>,
) -> Result<Vec<Image>> {
    let items: Vec<Item<'_>> = records.iter().map(Record::item).collect();
    let sizes = Sizes::of(&items);
    let most = capacity(page_bytes);
    let (mut images, mut from, mut low) = (Vec::new(), 0, low.to_vec());
    while from < items.len() {
        let separator = |to: usize| items[to - 1].separator(&items[to]);
        let fits = |to: usize| match to == items.len() {
            true => sizes.node(from, to, &low, high) <= most,
            false => sizes.node(from, to, &low, Some(&separator(to))) <= most,
        };
        let mut good = from + 1;
        if fits(items.len()) {
            good = items.len();
        } else {
            // More records only take more bytes.
            let mut step = 1;
            while good + step < items.len() && fits(good + step) {
                good += step;
                step *= 2;
            }
            let mut bad = (good + step).min(items.len());
            while bad - good > 1 {
                let middle = (good + bad) / 2;
                match fits(middle) {
                    true => good = middle,
                    false => bad = middle,
                }
            }
        }
        let packed = match compress && good < items.len() {
            true => packed::pack((&items, &sizes), from, (&low, high), page_bytes),
            false => None,
        };
        let packed = packed.filter(|packed| packed.end > good);
        good = packed.as_ref().map_or(good, |packed| packed.end);
        let next = (good < items.len()).then(|| separator(good));
        let bytes = match packed {
            Some(packed) => packed.bytes,
            None => {
                let shape = Shape {
                    level: 0,
                    low: &low,
                    high: next.as_deref().or(high),
                    extra: Extra::Members(0),
                };
                let mut bytes = vec![0; page_bytes];
                if !build(&mut bytes, &shape, &items[from..good], (0, 0)) {
                    return Err(Error::invalid(
                        "a record of an LSM-tree does not fit into a page of its own",
                    ));
                }
                bytes[HEADER] = TAG;
                bytes
            }
        };
        let of = &records[from..good];
        images.push(Image {
            records: of.len() as u32,
            tombstones: of.iter().filter(|record| record.is_deleted).count() as u32,
            used: sizes.records(from, good, 0) as u32,
            has_large: of.iter().any(|r| matches!(r.value, Value::Large(_))),
            filter: filter(of),
            bytes,
            low,
        });
        low = next.unwrap_or_default();
        from = good;
    }
    Ok(images)
}

/// Appends the records of a latched page that lie in a range to a window; `Conflict` when it is not the page
/// that was meant.
pub(crate) fn copy(
    page: &Shared<'_>,
    name: &Name,
    (low, high): (&[u8], Option<&[u8]>),
    (buffer, window): (&mut Buffer, &mut Window),
) -> Attempt<()> {
    let bad = |_| page.torn(BAD);
    let packed = match open(page.view(), name).map_err(bad)? {
        None => return Err(terrace_access::Retry::Conflict),
        Some(Opened::Leaf(node)) => {
            return copy_leaf(&node, (low, high), window).map_err(bad);
        }
        Some(Opened::Packed(packed)) => packed,
    };
    for leaf in packed.leaf_at(Edge::From(low)).map_err(bad)?..packed.count() {
        if let Some(high) = high
            && packed.low(leaf).map_err(bad)?.as_slice() >= high
        {
            break;
        }
        let node = packed.latched_leaf(name, leaf, buffer).map_err(bad)?;
        copy_leaf(&node, (low, high), window).map_err(bad)?;
    }
    Ok(())
}

fn copy_leaf(
    node: &Node<'_>,
    (low, high): (&[u8], Option<&[u8]>),
    window: &mut Window,
) -> Seen<()> {
    // Keys outside of the leaf's own range cannot be looked for in it.
    let (own_low, own_high) = (node.low()?, node.high()?);
    let first = match low > own_low.as_slice() {
        true if own_high.as_deref().is_some_and(|end| low >= end) => node.count,
        true => {
            let (Ok(first) | Err(first)) = node.find(low)?;
            first
        }
        false => 0,
    };
    let end = match high {
        Some(high) if high <= own_low.as_slice() => 0,
        Some(high) if own_high.as_deref().is_none_or(|end| high < end) => {
            let (Ok(end) | Err(end)) = node.find(high)?;
            end
        }
        _ => node.count,
    };
    fill(node, first..end.max(first), window, &mut |_| true)
}

pub(crate) const BAD: &str = "a slot or record of this page of a level reaches past it";

/// Checks the bytes of one page on their own, whatever they are, without a store: for fuzzing. Never
/// panics. O(records log records).
///
/// # Errors
/// What is wrong with them.
pub fn verify_page(page: &[u8]) -> Result<()> {
    let bad = || {
        let what = "its header is not that of a page of a level, or a part of it is none";
        wrong(PageId::NONE, what)
    };
    leaves_of(page)
        .ok_or_else(bad)?
        .iter()
        .try_for_each(|leaf| crate::btree::verify_node(leaf))
}

/// The leaves of a page of a level, each as a page of a B+tree, for taking apart and checking. `None` where it
/// is none, or they do not go on where the one before ends.
pub(crate) fn leaves_of(page: &[u8]) -> Option<Vec<Vec<u8>>> {
    let view = View::of(page);
    view.u64(STAMP).ok()?;
    match view.u8(HEADER).ok()? {
        TAG => {
            Node::open_as(view, TAG).ok()?;
            let mut copy = page.to_vec();
            copy[HEADER] = crate::btree::layout::TAG;
            copy[LEVEL..STAMP + 8].fill(0);
            Some(vec![copy])
        }
        _ => packed::leaves(&Packed::open(view).ok()?),
    }
}

/// A page, or an entry, that contradicts what it should be.
pub(crate) fn wrong(pid: PageId, what: impl std::fmt::Display) -> Error {
    Error::corrupt("data", None, format!("{pid}, of an LSM-tree: {what}"))
}

/// A stamp that no other page, and no chain, ever has: numbers while the store is open, epochs beyond.
pub(crate) fn new_stamp(store: &PageStore, epoch: u32) -> u64 {
    let number = store.number_large_value() & (u64::MAX >> 24);
    number | u64::from(epoch) << 40
}

/// The large values among some records.
pub(crate) fn chains(window: &Window) -> impl Iterator<Item = LargeRef> + '_ {
    (0..window.len()).filter_map(|i| window.entry(i).large)
}

/// The range of at most `limit` records of a latched page next to the edge, which the page covers; of one
/// leaf, where there are several.
pub(crate) fn near(
    page: &Shared<'_>,
    name: &Name,
    (edge, limit): (Edge<'_>, usize),
    buffer: &mut Buffer,
) -> Attempt<(Vec<u8>, Option<Vec<u8>>)> {
    let bad = |_| page.torn(BAD);
    let node = match open(page.view(), name).map_err(bad)? {
        None => return Err(terrace_access::Retry::Conflict),
        Some(Opened::Leaf(node)) => node,
        Some(Opened::Packed(packed)) => {
            let leaf = packed.leaf_at(edge).map_err(bad)?;
            packed.latched_leaf(name, leaf, buffer).map_err(bad)?
        }
    };
    let (mut low, mut high) = (node.low().map_err(bad)?, node.high().map_err(bad)?);
    let covers = match edge {
        Edge::From(key) => low.as_slice() <= key && high.as_deref().is_none_or(|h| key < h),
        Edge::Below(key) => low.as_slice() < key && high.as_deref().is_none_or(|h| key <= h),
        Edge::End => true,
    };
    if !covers {
        return Err(page.torn("this page of a level does not cover what its entry covers"));
    }
    if node.count <= limit {
        return Ok((low, high));
    }
    let place = match edge {
        Edge::From(key) | Edge::Below(key) => node.find(key).map_err(bad)?,
        Edge::End => Err(node.count),
    };
    let (Ok(place) | Err(place)) = place;
    if let Edge::From(key) = edge {
        low.clear();
        low.extend_from_slice(key);
        if place.saturating_add(limit) < node.count {
            let mut end = Vec::new();
            node.append_key(place + limit, &mut end).map_err(bad)?;
            high = Some(end);
        }
        return Ok((low, high));
    }
    if let Edge::Below(key) = edge {
        high = Some(key.to_vec());
    }
    if place > limit {
        low.clear();
        node.append_key(place - limit, &mut low).map_err(bad)?;
    }
    Ok((low, high))
}
