//! Walking a tree and checking every invariant of every node.

use terrace_access::{Flags, Retry, Value};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{PageStore, View};

use super::BTree;
use super::image::{Payload, parts};
use super::layout::{MAX_LEVEL, Node, SLOTS, head_of, prefix_of_fences, shift_of_fences};
use crate::overflow;

/// What a parent says of a child.
struct Expected<'a> {
    pid: PageId,
    /// `None` for the root.
    level: Option<u8>,
    low: &'a [u8],
    high: Option<&'a [u8]>,
}

/// Whom to tell what was found.
type Each<'e> = &'e mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>;
type Page<'e> = &'e mut dyn FnMut(PageId) -> Result<()>;

/// A page that contradicts what it should be.
pub(crate) fn wrong(pid: PageId, what: impl std::fmt::Display) -> Error {
    Error::corrupt("data", None, format!("{pid}, of a B+tree: {what}"))
}

/// A key for a message: printable, and its front alone when it is long.
fn short(key: &[u8]) -> String {
    const SHOWN: usize = 32;
    let rest = if key.len() > SHOWN {
        format!("… ({} bytes)", key.len())
    } else {
        String::new()
    };
    format!("{}{rest}", key[..key.len().min(SHOWN)].escape_ascii())
}

/// A private copy of a page, read from disk if need be.
pub(crate) fn copy_of(store: &PageStore, pid: PageId) -> Result<Vec<u8>> {
    while store.exists(pid) {
        match store.shared(pid) {
            Ok(page) => {
                let mut copy = Vec::with_capacity(store.page_bytes());
                let all = page.view().append_to(0, store.page_bytes(), &mut copy);
                return all
                    .map(|()| copy)
                    .map_err(|_| wrong(pid, "the page is too short"));
            }
            Err(Retry::Fail(e)) => return Err(e),
            Err(other) => store.settle(other)?,
        }
    }
    Err(wrong(pid, "the page is referred to, but free"))
}

impl BTree {
    /// See [`terrace_access::AccessMethod::verify`]. O(pages), reads all of them.
    pub(crate) fn check(&self, each: Each<'_>, page: Page<'_>) -> Result<()> {
        let root = Expected {
            pid: self.root(),
            level: None,
            low: &[],
            high: None,
        };
        self.check_node(&root, each, page)
    }

    /// Calls `page` with this node on this level and all below it; with what is below one that cannot be read it is
    /// passed over. Reads no leaf but the root.
    pub(crate) fn each_readable(
        &self,
        pid: PageId,
        level: Option<u8>,
        page: &mut dyn FnMut(PageId),
    ) {
        page(pid);
        if level == Some(0) {
            return;
        }
        let Ok(copy) = copy_of(self.store(), pid) else {
            return;
        };
        let Ok(now) = parts(&copy) else {
            return;
        };
        let here = now.node.level;
        if level.is_some_and(|level| level != here) || here > MAX_LEVEL || here == 0 {
            return;
        }
        for child in (0..now.node.children()).map_while(|i| now.node.child(i).ok()) {
            self.each_readable(child, Some(here - 1), page);
        }
    }

    fn check_node(&self, at: &Expected<'_>, each: Each<'_>, page: Page<'_>) -> Result<()> {
        page(at.pid)?;
        let copy = copy_of(self.store(), at.pid)?;
        let fail = |what: String| Err(wrong(at.pid, what));
        let Ok(now) = parts(&copy) else {
            return fail("it is not a node, or a record of it reaches past the page".into());
        };
        let level = now.node.level;
        if at.level.is_some_and(|expected| expected != level) || level > MAX_LEVEL {
            return fail(format!(
                "it is on level {level}, but its parent says {:?}",
                at.level
            ));
        }
        let begins_anywhere = self.is_part() && at.level.is_none();
        if !begins_anywhere && (now.low != at.low || now.high != at.high) {
            return fail(format!(
                "its fences {}..{:?} are not the {}..{:?} of its parent's separators",
                short(now.low),
                now.high.map(short),
                short(at.low),
                at.high.map(short)
            ));
        }
        if !now.node.is_loose() && now.node.prefix_len != prefix_of_fences(now.low, now.high)
            || now.node.is_loose() && level > 0
        {
            return fail(format!("its prefix has {} bytes", now.node.prefix_len));
        }
        let shift = shift_of_fences(now.low, now.high);
        if now.node.shift != if now.node.is_loose() { 0 } else { shift } {
            return fail(format!("its heads leave out {} bits", now.node.shift));
        }
        check_heap(&now.node, at.pid)?;
        let mut last: Option<Vec<u8>> = None;
        for (i, item) in now.items.iter().enumerate() {
            let key = item.key();
            let above_low = if level == 0 {
                *key >= *now.low
            } else {
                *key > *now.low
            };
            let below_high = now.high.is_none_or(|high| *key < *high);
            let in_order = last.as_ref().is_none_or(|last| *last < key);
            if !above_low || !below_high || !in_order {
                return fail(format!(
                    "key {i} is out of order or outside the fences: {}",
                    short(&key)
                ));
            }
            let head = now.node.slot(i).map(|slot| slot.head());
            if head != Ok(head_of(item.tail, now.node.shift)) {
                return fail(format!("the head in slot {i} is not that of its key"));
            }
            if let Payload::Value(value) = item.payload {
                if let Value::Large(large) = value
                    && self.owns_chain(item.flags)
                {
                    overflow::verify(self.store(), large, page)?;
                }
                each(&key, item.flags, value)?;
            }
            last = Some(key);
        }
        if level == 0 {
            return Ok(());
        }
        let keys: Vec<_> = now.items.iter().map(|item| item.key()).collect();
        let mut ahead = 0;
        for i in 0..now.node.children() {
            let Ok(pid) = now.node.child(i) else {
                return fail(format!("child {i} cannot be read"));
            };
            if i >= ahead {
                let on = (i..now.node.children()).map_while(|i| now.node.child(i).ok());
                self.store().read_ahead(on);
                ahead = i + self.store().most_together();
            }
            let low = if i == 0 { now.low } else { &keys[i - 1] };
            let high = keys.get(i).map_or(now.high, |key| Some(key.as_slice()));
            self.check_node(
                &Expected {
                    pid,
                    level: Some(level - 1),
                    low,
                    high,
                },
                each,
                page,
            )?;
        }
        Ok(())
    }
}

/// Records lie apart from each other and from slots and fences, and with the garbage they add up to
/// the heap.
fn check_heap(node: &Node<'_>, pid: PageId) -> Result<()> {
    let len = node.view.len();
    let mut spans = Vec::with_capacity(node.count);
    for i in 0..node.count {
        let span = node.slot(i).and_then(|slot| {
            if node.is_leaf() {
                node.leaf_record(slot).map(|r| (r.start, r.end))
            } else {
                node.inner_record(slot).map(|r| (r.start, r.end()))
            }
        });
        match span {
            Ok(span) => spans.push(span),
            Err(_) => return Err(wrong(pid, format!("record {i} reaches past the page"))),
        }
    }
    spans.sort_unstable();
    let (mut used, mut end) = (node.low_len + node.high_len, len - node.heap);
    for (from, to) in spans {
        if from < end {
            return Err(wrong(
                pid,
                format!("the record at byte {from} overlaps what is before it"),
            ));
        }
        used += to - from;
        end = to;
    }
    if end > len - node.low_len - node.high_len || SLOTS > end {
        return Err(wrong(pid, "a record overlaps the fences"));
    }
    if used + node.garbage != node.heap {
        return Err(wrong(
            pid,
            format!(
                "records and fences take {used} bytes, garbage {}, but the heap has {}",
                node.garbage, node.heap
            ),
        ));
    }
    Ok(())
}

/// Checks one node's bytes on their own, whatever they are, without a store: for fuzzing. Never
/// panics. O(records log records).
///
/// # Errors
/// What is wrong with them.
pub fn verify_node(page: &[u8]) -> Result<()> {
    let pid = PageId::NONE;
    let node = Node::open(View::of(page)).map_err(|_| wrong(pid, "its header is no node's"))?;
    check_heap(&node, pid)?;
    let now = parts(page).map_err(|_| wrong(pid, "a record reaches past the page"))?;
    if now
        .items
        .windows(2)
        .any(|pair| pair[0].key() >= pair[1].key())
    {
        return Err(wrong(pid, "its keys are out of order"));
    }
    Ok(())
}
