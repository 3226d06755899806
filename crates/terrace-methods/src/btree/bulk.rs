//! Loading sorted records into an empty tree, leaf by full leaf.

use terrace_access::{Attempt, Door, Edge, Flags, Interrupt, LargeRef, Value};
use terrace_base::{Error, PageId, Result, max_key_bytes};

use super::BTree;
use super::descend::{node_of, sound};
use super::image::{Item, Parts, Sizes, build, capacity, install};
use super::insert::{InnerRoom, inner_room};
use super::layout::{Extra, Node, Shape, common_prefix};
use super::leaf::Counts;
use super::split::{Cut, Step};
use crate::overflow;

/// A record that waits for its leaf to be full.
struct Waiting {
    key: Vec<u8>,
    value: Vec<u8>,
    large: Option<LargeRef>,
}

impl Waiting {
    fn item(&self, flags: Flags) -> Item<'_> {
        let value = self.large.map_or(Value::Inline(&self.value), Value::Large);
        Item::leaf(&self.key, value, flags)
    }
}

impl BTree {
    /// Loads records, whose keys must rise strictly, into a tree that is empty and that nobody else
    /// writes to meanwhile. Leaves are filled up to `fill` (0.5 to 1) of a page and linked one by
    /// one, each within one entry of the gate. Returns the number of records. Blocking.
    /// O(records), one page write per leaf.
    ///
    /// # Errors
    /// `Invalid` when the tree is not empty or a key is not above the one before it; those of the
    /// store; those of the input. What was linked until then stays.
    pub fn bulk_load<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        records: impl IntoIterator<Item = Result<(K, V)>>,
        flags: Flags,
        fill: f64,
    ) -> Result<u64> {
        let mut waiting = Vec::new();
        // From the first page of a large value until the leaf that refers to it is linked.
        let mut guard = None;
        let take = || self.store.large_guard();
        let loaded = self.load(records, flags, fill, &mut waiting, &mut guard, take);
        // In a damaged tree a leaf may have them although it is not linked.
        if matches!(&loaded, Err(e) if !matches!(e, Error::Corrupt { .. })) {
            for large in waiting.into_iter().filter_map(|record| record.large) {
                // Nothing refers to it. The first error is the one to tell.
                let _ = overflow::free(&self.store, large);
            }
        }
        drop(guard);
        loaded
    }

    /// See [`BTree::bulk_load`]. `waiting`: what is not linked, to begin with and in the end. `guard` is
    /// what `take` returns, as long as there are large values among it.
    fn load<K: AsRef<[u8]>, V: AsRef<[u8]>, G>(
        &self,
        records: impl IntoIterator<Item = Result<(K, V)>>,
        flags: Flags,
        fill: f64,
        waiting: &mut Vec<Waiting>,
        guard: &mut Option<G>,
        take: impl Fn() -> G,
    ) -> Result<u64> {
        let page_bytes = self.store.page_bytes();
        let most = (capacity(page_bytes) as f64 * fill.clamp(0.5, 1.0)) as usize;
        let inline = super::max_inline(page_bytes);
        let longest = max_key_bytes(page_bytes);
        let (mut low, mut bytes, mut loaded) = (Vec::new(), 0, 0);
        for record in records {
            let (key, value) = record?;
            let (key, value) = (key.as_ref(), value.as_ref());
            if key.len() > longest {
                return Err(Error::KeyTooLong {
                    len: key.len(),
                    limit: longest,
                });
            }
            if waiting.last().is_some_and(|last| *last.key >= *key) {
                return Err(Error::invalid(format!(
                    "record {loaded} of a sorted load has a key that is not above the one before it"
                )));
            }
            let prefix = common_prefix(&low, key);
            let estimate = bytes - waiting.len() * prefix + low.len() + key.len();
            if waiting.len() > 1 && estimate > most {
                let linked = self.link_full(waiting, &low, flags, most)?;
                waiting.drain(..linked.0);
                low = linked.1;
                bytes = Sizes::of(&items(waiting, flags)).records(0, waiting.len(), 0);
                if waiting.iter().all(|w| w.large.is_none()) {
                    *guard = None;
                }
            }
            let large = if value.len() > inline {
                guard.get_or_insert_with(&take);
                Some(overflow::write(&self.store, value)?)
            } else {
                None
            };
            let value = if large.is_some() {
                Vec::new()
            } else {
                value.to_vec()
            };
            let record = Waiting {
                key: key.to_vec(),
                value,
                large,
            };
            bytes += Sizes::of(&[record.item(flags)]).records(0, 1, 0);
            waiting.push(record);
            loaded += 1;
        }
        while !waiting.is_empty() {
            let all = items(waiting, flags);
            if Sizes::of(&all).node(0, all.len(), &low, None) <= capacity(page_bytes) {
                self.finish(waiting, flags)?;
                break;
            }
            let linked = self.link_full(waiting, &low, flags, capacity(page_bytes))?;
            waiting.drain(..linked.0);
            low = linked.1;
        }
        waiting.clear();
        Ok(loaded)
    }

    /// Makes the last leaf of the tree, which is empty, a full one and puts a new empty one behind
    /// it. Returns how many records went in, and the new leaf's low fence.
    fn link_full(
        &self,
        waiting: &[Waiting],
        low: &[u8],
        flags: Flags,
        most: usize,
    ) -> Result<(usize, Vec<u8>)> {
        let items = items(waiting, flags);
        let sizes = Sizes::of(&items);
        let separator = |n: usize| items[n - 1].separator(&items[n]);
        let fits = |n: usize| sizes.node(0, n, low, Some(&separator(n))) <= most;
        // At least one record goes in, even if it is larger than asked for.
        let n = (2..items.len()).rev().find(|&n| fits(n)).unwrap_or(1);
        let cut = Cut {
            left: n,
            right: n,
            separator: separator(n),
            runs: ((0, 0), (0, 0)),
        };
        loop {
            let door = self.store.enter()?;
            match self.link(&door, low, &items[..n], &cut) {
                Ok(()) => return Ok((n, cut.separator)),
                Err(interrupt) => {
                    drop(door);
                    self.store.settle(interrupt)?;
                }
            }
        }
    }

    fn link(&self, door: &Door<'_>, low: &[u8], items: &[Item<'_>], cut: &Cut) -> Attempt<()> {
        loop {
            let pair = self.latch(door, Edge::End, 0, true, true)?;
            let copy = BTree::private(&pair.node);
            let node = sound!(pair.node, Node::open(terrace_pages::View::of(&copy)))?;
            if node.count != 0 || sound!(pair.node, node.low())? != low {
                return Err(not_empty());
            }
            let now = Parts {
                node,
                low,
                high: None,
                items: items.to_vec(),
            };
            let Some(parent) = pair.parent else {
                self.split_root(door, pair, &now, cut)?;
                return Ok(());
            };
            let room = inner_room(&parent, pair.child, &cut.separator, PageId::NONE)?;
            let step = match room {
                InnerRoom::None => {
                    drop((parent, pair.node));
                    Step::ParentFull
                }
                _ => self.split_child(door, parent, pair.child, pair.node, &now, cut)?,
            };
            match step {
                Step::Done => return Ok(()),
                Step::ParentFull => self.split_from(door, &cut.separator, None, 1, true)?,
            }
        }
    }

    /// Puts the last records into the last leaf.
    fn finish(&self, waiting: &[Waiting], flags: Flags) -> Result<()> {
        let items = items(waiting, flags);
        loop {
            let door = self.store.enter()?;
            match self.fill_last(&door, &items) {
                Ok(()) => return Ok(()),
                Err(interrupt) => {
                    drop(door);
                    self.store.settle(interrupt)?;
                }
            }
        }
    }

    fn fill_last(&self, door: &Door<'_>, items: &[Item<'_>]) -> Attempt<()> {
        let mut page = self.latch(door, Edge::End, 0, false, true)?.node;
        let node = node_of!(page)?;
        if node.count != 0 {
            return Err(not_empty());
        }
        let low = sound!(page, node.low())?;
        let members = Counts::of(&page)?.members.wrapping_add(1);
        let shape = Shape {
            level: 0,
            low: &low,
            high: None,
            extra: Extra::Members(members),
        };
        let mut image = vec![0; page.bytes().len()];
        if !build(&mut image, &shape, items, (0, 0)) {
            return Err(page.torn("the last records of a load do not fit"));
        }
        install(page.change_all()?, &image);
        Ok(())
    }
}

fn items(waiting: &[Waiting], flags: Flags) -> Vec<Item<'_>> {
    waiting.iter().map(|w| w.item(flags)).collect()
}

fn not_empty() -> Interrupt {
    Error::invalid("a sorted load needs an empty tree that nobody else writes to").into()
}
