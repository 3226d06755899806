//! A compressed data page of a level: some leaves of a B+tree, each compressed by itself.
//!
//! ```text
//!  16  u8   tag 0xBB                  18  u16 number of leaves, 1 to 64
//!  30  u8   level, counted from the last one, u8 0
//!  32  u64  stamp, which no other page ever has
//!  40  10 bytes for each leaf: where the first key that it covers lies (u16) and its bytes (u16),
//!      where the leaf lies (u16), its bytes compressed (u16) and decompressed (u16)
//! ```
//!
//! A look decompresses one leaf, into a buffer of its own: frames hold pages as they are on the disk, so
//! memory has as many more of them. No leaf names a chain: what is large is not compressed, and clearing
//! changes pages that have chains.

use terrace_access::{Edge, Value};
use terrace_base::sync::Mutex;
use terrace_pages::{PageStore, Torn, View};

use super::name::Name;
use crate::btree::image::{Item, Payload, Sizes, build};
use crate::btree::layout::{Extra, HEADER, Node, SLOTS, Seen, Shape};
use crate::fault::{self, Fault};

/// Says that a page is a compressed data page of a level.
pub(crate) const TAG: u8 = 0xBB;
const COUNT: usize = 18;
const DIRECTORY: usize = 40;
const PLACE_BYTES: usize = 10;

/// Most leaves of a page, so that the bytes of its records have a bound, whatever they are like.
const MOST_LEAVES: usize = 64;
/// Most records of a page: an entry counts no more.
const MOST_RECORDS: usize = 60_000;
/// A leaf has the part of a page, as it is without compression, but not much less than this: of smaller ones
/// compression makes little, and of larger ones looks decompress more than they need.
const LEAVES_PER_PAGE: usize = 4;
const LEAST_LEAF: usize = 2048;
/// Smaller leaves that are tried where one does not fit into what is left of a page.
const TRIES: usize = 4;

/// Where a leaf lies.
struct Place {
    low: (usize, usize),
    at: usize,
    bytes: usize,
    raw: usize,
}

/// A compressed page that was opened. Nothing but its head is known to be sound.
#[derive(Clone, Copy)]
pub(crate) struct Packed<'a> {
    view: View<'a>,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Opens a page that has the tag.
    pub fn open(view: View<'a>) -> Seen<Packed<'a>> {
        let count = usize::from(view.u16(COUNT)?);
        match view.u8(HEADER)? == TAG && (1..=MOST_LEAVES).contains(&count) {
            true => Ok(Packed { view, count }),
            false => Err(Torn),
        }
    }

    /// How many leaves there are.
    pub fn count(&self) -> usize {
        self.count
    }

    fn place(&self, leaf: usize) -> Seen<Place> {
        let at = DIRECTORY + leaf * PLACE_BYTES;
        let short = |n: usize| Ok(usize::from(self.view.u16(at + 2 * n)?));
        Ok(Place {
            low: (short(0)?, short(1)?),
            at: short(2)?,
            bytes: short(3)?,
            raw: short(4)?,
        })
    }

    /// The first key that a leaf covers.
    pub fn low(&self, leaf: usize) -> Seen<Vec<u8>> {
        let (at, len) = self.place(leaf)?.low;
        let mut key = Vec::new();
        self.view.append_to(at, len, &mut key)?;
        Ok(key)
    }

    /// The leaf at an edge; the first one where the page begins behind it. O(log leaves).
    pub fn leaf_at(&self, edge: Edge<'_>) -> Seen<usize> {
        let (key, at_key) = match edge {
            Edge::From(key) => (key, true),
            Edge::Below(key) => (key, false),
            Edge::End => return Ok(self.count - 1),
        };
        let (mut from, mut to) = (0, self.count);
        while to - from > 1 {
            let middle = (from + to) / 2;
            let (at, len) = self.place(middle)?.low;
            let is_before = match self.view.compare(at, len, key)? {
                std::cmp::Ordering::Less => true,
                std::cmp::Ordering::Equal => at_key,
                std::cmp::Ordering::Greater => false,
            };
            match is_before {
                true => from = middle,
                false => to = middle,
            }
        }
        Ok(from)
    }

    /// Decompresses a leaf, unless the buffer has it. What comes out is no longer than a page.
    pub fn leaf<'b>(&self, name: &Name, leaf: usize, buffer: &'b mut Buffer) -> Seen<Node<'b>> {
        if buffer.has(name, leaf) {
            return buffer.node();
        }
        self.decompress(leaf, buffer)
    }

    fn decompress<'b>(&self, leaf: usize, buffer: &'b mut Buffer) -> Seen<Node<'b>> {
        let place = self.place(leaf)?;
        if !(SLOTS..=self.view.len()).contains(&place.raw) {
            return Err(Torn);
        }
        buffer.holds = None;
        buffer.packed.clear();
        self.view
            .append_to(place.at, place.bytes, &mut buffer.packed)?;
        buffer.leaf.resize(place.raw, 0);
        match lz4_flex::block::decompress_into(&buffer.packed, &mut buffer.leaf) {
            Ok(bytes) if bytes == place.raw => buffer.node(),
            _ => Err(Torn),
        }
    }

    /// The same of a latched page, which cannot change; the buffer keeps the leaf for the next look.
    pub fn latched_leaf<'b>(
        &self,
        name: &Name,
        leaf: usize,
        buffer: &'b mut Buffer,
    ) -> Seen<Node<'b>> {
        self.leaf(name, leaf, buffer)?;
        buffer.keep(name, leaf);
        buffer.node()
    }
}

/// What one look decompresses.
#[derive(Default)]
pub(crate) struct Buffer {
    packed: Vec<u8>,
    leaf: Vec<u8>,
    /// Stamp of a page, and which leaf of it is there.
    holds: Option<(u64, usize)>,
    /// Whether its bytes were taken of the memory.
    is_counted: bool,
}

impl Buffer {
    fn node(&self) -> Seen<Node<'_>> {
        let node = Node::open(View::of(&self.leaf))?;
        match node.is_leaf() {
            true => Ok(node),
            false => Err(Torn),
        }
    }

    fn has(&self, name: &Name, leaf: usize) -> bool {
        self.holds.is_some_and(|(stamp, kept)| {
            kept == leaf && (stamp == name.stamp || fault::planted(Fault::LeafBelieved))
        })
    }

    /// What was decompressed last is this leaf, from a page that has not changed meanwhile.
    pub fn keep(&mut self, name: &Name, leaf: usize) {
        self.holds = Some((name.stamp, leaf));
    }
}

/// Buffers that are kept for the next looks, within the memory's limit. More looks at once allocate some that
/// are not.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<Vec<Buffer>>);

/// Buffers that are kept, at most.
const MOST_KEPT: usize = 8;

impl Buffers {
    /// Does something that may decompress a leaf.
    pub fn with<T>(&self, store: &PageStore, f: impl FnOnce(&mut Buffer) -> T) -> T {
        let kept = self.0.lock().pop();
        let mut buffer = kept.unwrap_or_default();
        let done = f(&mut buffer);
        let mut kept = self.0.lock();
        if kept.len() < MOST_KEPT {
            if !buffer.is_counted && buffer.leaf.capacity() > 0 {
                buffer.is_counted = true;
                store.take_extra_bytes(bytes_of_one(store));
            }
            kept.push(buffer);
        } else if buffer.is_counted {
            store.give_extra_bytes(bytes_of_one(store));
        }
        done
    }

    /// Gives the memory of all back.
    pub fn forget(&self, store: &PageStore) {
        let kept = std::mem::take(&mut *self.0.lock());
        let counted = kept.iter().filter(|buffer| buffer.is_counted).count() as u64;
        store.give_extra_bytes(counted * bytes_of_one(store));
    }
}

/// Most bytes that a buffer may take.
fn bytes_of_one(store: &PageStore) -> u64 {
    2 * store.page_bytes() as u64
}

/// A page that was built, and the first record that is not in it.
pub(crate) struct Built {
    pub bytes: Vec<u8>,
    pub end: usize,
}

/// Packs as many records from `from` on as fit into one page compressed. `None` where the first one cannot be
/// in it.
pub(crate) fn pack(
    (items, sizes): (&[Item<'_>], &Sizes<'_>),
    from: usize,
    (low, high): (&[u8], Option<&[u8]>),
    page_bytes: usize,
) -> Option<Built> {
    let target = (page_bytes / LEAVES_PER_PAGE).clamp(LEAST_LEAF, page_bytes) - SLOTS;
    let most = page_bytes.min(usize::from(u16::MAX)) - SLOTS;
    let is_large = |item: &Item<'_>| matches!(item.payload, Payload::Value(Value::Large(_)));
    let mut leaves: Vec<(Vec<u8>, Vec<u8>, usize)> = Vec::new();
    let (mut at, mut low, mut room) = (from, low.to_vec(), page_bytes - DIRECTORY);
    while at < items.len() && leaves.len() < MOST_LEAVES && at - from < MOST_RECORDS {
        let end_of_page = items.len().min(from + MOST_RECORDS);
        let separator = |to: usize| (to < items.len()).then(|| items[to - 1].separator(&items[to]));
        let fence = |to: usize| separator(to).or_else(|| high.map(<[u8]>::to_vec));
        let mut bytes = 0;
        let mut end = at;
        while end < end_of_page && !is_large(&items[end]) {
            bytes += sizes.records(end, end + 1, 0);
            if bytes > target && end > at {
                break;
            }
            end += 1;
        }
        let full = end;
        let mut packed = None;
        for _ in 0..TRIES {
            if end == at {
                break;
            }
            let high = fence(end);
            let raw = SLOTS + sizes.node(at, end, &low, high.as_deref());
            if raw - SLOTS > most {
                end = at + (end - at) / 2;
                continue;
            }
            let mut leaf = vec![0; raw];
            let shape = Shape {
                level: 0,
                low: &low,
                high: high.as_deref(),
                extra: Extra::Members(0),
            };
            if !build(&mut leaf, &shape, &items[at..end], (0, 0)) {
                return None;
            }
            let leaf = lz4_flex::block::compress(&leaf);
            let needs = PLACE_BYTES + low.len() + leaf.len();
            if needs <= room {
                packed = Some((leaf, raw, needs));
                break;
            }
            // As many as would fit if all were alike.
            end = at + ((end - at) * room / needs).min(end - at - 1);
        }
        let Some((leaf, raw, needs)) = packed else {
            break;
        };
        room -= needs;
        let next = separator(end).unwrap_or_default();
        leaves.push((std::mem::replace(&mut low, next), leaf, raw));
        at = end;
        if end < full {
            break;
        }
    }
    (!leaves.is_empty()).then(|| Built {
        bytes: lay_out(&leaves, page_bytes),
        end: at,
    })
}

/// Writes a page of these leaves, which fit: of each the first key, what it is compressed, and its length.
fn lay_out(leaves: &[(Vec<u8>, Vec<u8>, usize)], page_bytes: usize) -> Vec<u8> {
    let mut page = vec![0; page_bytes];
    page[HEADER] = TAG;
    page[COUNT..COUNT + 2].copy_from_slice(&(leaves.len() as u16).to_le_bytes());
    let mut at = DIRECTORY + leaves.len() * PLACE_BYTES;
    for (n, (low, leaf, raw)) in leaves.iter().enumerate() {
        let words = [at, low.len(), at + low.len(), leaf.len(), *raw];
        let place = DIRECTORY + n * PLACE_BYTES;
        for (i, word) in words.into_iter().enumerate() {
            let to = place + 2 * i;
            page[to..to + 2].copy_from_slice(&(word as u16).to_le_bytes());
        }
        for bytes in [low, leaf] {
            page[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        }
    }
    page
}

/// The bytes of each leaf of a page, decompressed, in order. `None` where one is none, or does not go on where the one before it ends.
pub(crate) fn leaves(page: &Packed<'_>) -> Option<Vec<Vec<u8>>> {
    let mut leaves = Vec::with_capacity(page.count());
    let mut end: Option<Vec<u8>> = None;
    for leaf in 0..page.count() {
        let mut buffer = Buffer::default();
        let low = page.low(leaf).ok()?;
        let node = page.decompress(leaf, &mut buffer).ok()?;
        let goes_on = leaf == 0 || end.as_ref() == Some(&low);
        if !goes_on || node.low().ok()? != low {
            return None;
        }
        end = node.high().ok()?;
        leaves.push(buffer.leaf);
    }
    Some(leaves)
}

#[cfg(test)]
mod tests {
    use terrace_access::Flags;
    use terrace_base::checksum::mix;

    use super::*;

    const PAGE: usize = 4096;

    /// Records of which `same` of 100 bytes are all alike, the others random.
    fn records(same: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let value = |n: u64| {
            let random = (0..13).flat_map(|i| mix(n, i).to_le_bytes());
            random.take(100 - same).chain(vec![7; same]).collect()
        };
        (0..2000u64)
            .map(|n| (n.to_be_bytes().to_vec(), value(n)))
            .collect()
    }

    fn packed(same: usize, page_bytes: usize) -> (Built, Vec<(Vec<u8>, Vec<u8>)>) {
        let records = records(same);
        let items: Vec<Item<'_>> = records
            .iter()
            .map(|(key, value)| Item::leaf(key, Value::Inline(value), Flags::NONE))
            .collect();
        let sizes = Sizes::of(&items);
        let built = pack((&items, &sizes), 0, (b"", None), page_bytes).unwrap();
        (built, records)
    }

    #[test]
    fn a_page_has_what_went_into_it() {
        for page_bytes in [4096, 16384, 65536] {
            for same in [0, 50, 90, 100] {
                let (built, records) = packed(same, page_bytes);
                assert_eq!(built.bytes.len(), page_bytes);
                let page = Packed::open(View::of(&built.bytes)).unwrap();
                let mut keys = Vec::new();
                for leaf in leaves(&page).unwrap() {
                    let parts = crate::btree::image::parts(&leaf).unwrap();
                    keys.extend(parts.items.iter().map(Item::key));
                }
                let expected: Vec<_> = records[..built.end].iter().map(|r| r.0.clone()).collect();
                assert_eq!(keys, expected, "{page_bytes} {same}");
                let room = page_bytes / 100;
                let least = match same {
                    0 => room * 7 / 10,
                    50 => room * 7 / 5,
                    _ => room * 3,
                };
                assert!(built.end >= least.min(2000), "{} of {same}", built.end);
            }
        }
    }

    #[test]
    fn each_key_is_found_in_its_leaf_from_either_side() {
        let (built, records) = packed(80, PAGE);
        let page = Packed::open(View::of(&built.bytes)).unwrap();
        assert!(page.count() > 3);
        let lows: Vec<_> = (0..page.count()).map(|n| page.low(n).unwrap()).collect();
        for (key, _) in &records[..built.end] {
            let below = lows.iter().filter(|low| *low < key).count();
            let at = lows.iter().filter(|low| *low <= key).count();
            assert_eq!(page.leaf_at(Edge::From(key)), Ok(at - 1));
            assert_eq!(page.leaf_at(Edge::Below(key)), Ok(below - 1));
        }
        assert_eq!(page.leaf_at(Edge::End), Ok(page.count() - 1));
        assert_eq!(page.leaf_at(Edge::From(b"")), Ok(0));
    }

    /// However well it compresses, a page has a bounded number of bytes.
    #[test]
    fn what_comes_out_of_a_page_has_a_bound() {
        let (built, _) = packed(100, 65536);
        let page = Packed::open(View::of(&built.bytes)).unwrap();
        let bytes: usize = leaves(&page).unwrap().iter().map(Vec::len).sum();
        assert!(bytes <= MOST_LEAVES * 65536 / LEAVES_PER_PAGE);
        // A leaf that says that it is longer than a page is none, whatever is in it.
        let mut longer = packed(100, PAGE).0.bytes;
        longer[DIRECTORY + 8..DIRECTORY + 10].copy_from_slice(&5000u16.to_le_bytes());
        let page = Packed::open(View::of(&longer)).unwrap();
        assert!(leaves(&page).is_none());
    }
}
