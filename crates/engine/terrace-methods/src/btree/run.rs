//! A run of records, in the order of their keys, put into one leaf: one way down, one latch, and the slots
//! of those that are new moved once.
//!
//! What a sweep demotes are such runs. One by one, the way down and the moving of slots took most of the
//! time. Whatever is not simple (no room, a large value, another prefix) ends the run, and is done as
//! any single record is.
//!
//! Invariant: a group of new records is inserted as a whole, or not at all.

use std::ops::Range;

use terrace_access::{Attempt, Edge, Flags, Retry, Value, Window, WriteGuard};
use terrace_base::max_key_bytes;
use terrace_base::sync::spin_loop;
use terrace_pages::{Exclusive, Shared};

use super::BTree;
use super::descend::{PATIENCE, node_of, sound};
use super::edit::is_thin;
use super::insert::{How, Put};
use super::layout::{
    LeafRecord, Node, SLOT_BYTES, Seen, encode_leaf, encode_slot, head_of, key_bytes, value_bytes,
};
use super::leaf::{Counts, check_erasable, erase};
use crate::fault::{self, Fault};
use crate::slotted::fit::Stretch;

/// Some records of a window, in the order of their keys.
#[derive(Clone, Copy)]
pub(crate) struct Run<'w> {
    pub window: &'w Window,
    pub which: &'w [usize],
}

impl<'w> Run<'w> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.which.len()
    }

    /// The key of one.
    pub fn key(&self, n: usize) -> &'w [u8] {
        self.window.key(self.which[n])
    }

    /// The value of one that is neither large nor longer than `most`.
    pub fn value(&self, n: usize, most: usize) -> Option<&'w [u8]> {
        let i = self.which[n];
        let value = self.window.value(i);
        (self.window.entry(i).large.is_none() && value.len() <= most).then_some(value)
    }

    /// Whether one is to be erased.
    pub fn erases(&self, n: usize) -> bool {
        self.window.entry(self.which[n]).flags.is_deleted()
    }
}

/// What lies beside the keys of a run in a leaf, which is latched.
pub(crate) trait Beside {
    /// What is stored beside the key of record `n`; what it says counts once the record was prepared, but
    /// its length always. `None` ends the run.
    fn value(&self, n: usize) -> Option<Value<'_>>;
    /// These records are new: does what has to be done before the leaf has them. Returns for how many.
    fn prepare(&mut self, new: Range<usize>) -> usize;
    /// Record `n` is there: changes it. Returns false where that ends the run.
    fn replace(&mut self, n: usize, leaf: &mut Exclusive<'_>, there: There) -> bool;
    /// The leaf has been let go of, and now everything else is: others may be latched.
    fn release(&mut self) {}
}

/// A record that is in the leaf already.
pub(crate) struct There {
    /// Number of its slot.
    pub at: usize,
    pub flags: Flags,
    pub record: LeafRecord,
}

/// A record of a run that the leaf does not have.
struct New {
    /// Where it goes, in the leaf as it is.
    place: usize,
    bytes: usize,
}

impl BTree {
    /// Puts the first records of a run into the leaf that covers the first key; returns how many. O(log n +
    /// records of the leaf + records of the run).
    pub(crate) fn run(
        &self,
        door: &WriteGuard<'_>,
        run: Run<'_>,
        beside: &mut dyn Beside,
    ) -> usize {
        if run.len() == 0 {
            return 0;
        }
        let Ok(mut leaf) = self.latch_first(door, run.key(0)) else {
            return 0;
        };
        let fill = |leaf: &Exclusive<'_>| node_of!(leaf).map_or(0.0, |node| node.fill());
        let before = fill(&leaf);
        let (done, erased) = put_into(&mut leaf, run, beside).unwrap_or_default();
        let thin = erased > 0
            && is_thin(
                before,
                fill(&leaf),
                node_of!(leaf).is_ok_and(|n| n.count == 0),
            );
        drop(leaf);
        beside.release();
        if thin {
            self.nodes().tidy(door, run.key(0));
        }
        done
    }

    /// Calls `see` with each leaf that covers keys of a window, from `next` on, latched, and which these are.
    /// It moves `next` behind those that it is done with.
    #[allow(clippy::type_complexity)]
    pub(crate) fn each_leaf_of(
        &self,
        window: &Window,
        next: &mut usize,
        see: &mut dyn FnMut(&Shared<'_>, Range<usize>, &mut usize) -> Attempt<()>,
    ) -> Attempt<()> {
        while *next < window.len() {
            let from = *next;
            let leaf = self.descent().leaf_shared(Edge::From(window.key(from)))?;
            let node = node_of!(leaf)?;
            let covers = |n: usize| node.covers(window.key(n)) == Ok(true);
            let to = match covers(window.len() - 1) {
                true => window.len(),
                false => (from + 1..window.len())
                    .find(|&n| !covers(n))
                    .unwrap_or(window.len()),
            };
            see(&leaf, from..to, next)?;
            *next = to;
        }
        Ok(())
    }

    fn latch_first<'d>(&'d self, door: &'d WriteGuard<'_>, key: &[u8]) -> Attempt<Exclusive<'d>> {
        for _ in 0..PATIENCE {
            match self.descent().latch(door, Edge::From(key), 0, false, false) {
                Err(Retry::Conflict) => spin_loop(),
                other => return other.map(|pair| pair.node),
            }
        }
        Err(Retry::Conflict)
    }
}

/// What comes behind some records that are new.
enum Next {
    /// Nothing that is simple.
    End,
    /// One that the leaf does not have, and that is to be erased.
    Absent,
    /// One that it has, in this slot.
    There(usize),
}

/// How many records of the run were put into this leaf, and how many of these were erased.
fn put_into(
    leaf: &mut Exclusive<'_>,
    run: Run<'_>,
    beside: &mut dyn Beside,
) -> Attempt<(usize, usize)> {
    let end = covered(leaf, run)?;
    let (mut n, mut near, mut erased) = (0, 0, 0);
    let mut new = Vec::with_capacity(end);
    while n < end {
        new.clear();
        // What makes no sense is told by whoever meets it alone.
        let next = look(leaf, (run, beside), n..end, &mut near, &mut new).unwrap_or(Next::End);
        if !new.is_empty() {
            let ready = beside.prepare(n..n + new.len()).min(new.len());
            let lost = usize::from(fault::planted(Fault::RunLosesRecord));
            insert(leaf, (run, beside), n, &new[..ready.saturating_sub(lost)])?;
            n += ready;
            near += ready;
            if ready < new.len() {
                break;
            }
        }
        match next {
            Next::End => break,
            Next::Absent => n += 1,
            Next::There(at) => {
                let there = there(leaf, at + new.len())?;
                if there.record.large().is_some() || !beside.replace(n, leaf, there) {
                    break;
                }
                erased += usize::from(run.erases(n));
                n += 1;
            }
        }
    }
    Ok((n, erased))
}

/// How many of the first keys of the run the leaf covers, and are long enough for it.
fn covered(leaf: &Exclusive<'_>, run: Run<'_>) -> Attempt<usize> {
    let node = node_of!(leaf)?;
    let most = max_key_bytes(leaf.bytes().len());
    let covers = |n: usize| {
        let key = run.key(n);
        let fits = key.len() <= most && (!node.is_loose() || node.has_prefix(key) == Ok(true));
        fits && node.covers(key) == Ok(true)
    };
    // Where all are covered that is most often all that has to be compared.
    if covers(run.len() - 1) && covers(0) {
        let is_short = |n: &usize| run.key(*n).len() <= most;
        return Ok((0..run.len()).take_while(is_short).count());
    }
    Ok((0..run.len()).take_while(|n| covers(*n)).count())
}

/// Looks for the keys of some records, from the first on, as long as they are new and there is room:
/// these go into `new`. `near` is a slot before which none of them is.
fn look(
    leaf: &Exclusive<'_>,
    (run, beside): (Run<'_>, &dyn Beside),
    records: Range<usize>,
    near: &mut usize,
    new: &mut Vec<New>,
) -> Seen<Next> {
    let node = Node::open(leaf.view())?;
    let mut free = node.free();
    for n in records {
        let key = run.key(n);
        let place = node.find_behind(key, *near)?;
        let (Ok(at) | Err(at)) = place;
        *near = at;
        match place {
            Ok(at) => return Ok(Next::There(at)),
            Err(_) if run.erases(n) => return Ok(Next::Absent),
            Err(place) => {
                let Some(value) = beside.value(n) else {
                    return Ok(Next::End);
                };
                let bytes = key_bytes(key.len() - node.prefix_len) + value_bytes(value);
                let Some(left) = free.checked_sub(bytes + SLOT_BYTES) else {
                    return Ok(Next::End);
                };
                free = left;
                new.push(New { place, bytes });
            }
        }
    }
    Ok(Next::End)
}

/// The record in a slot.
fn there(leaf: &Exclusive<'_>, at: usize) -> Attempt<There> {
    let node = node_of!(leaf)?;
    let slot = sound!(leaf, node.slot(at))?;
    Ok(There {
        at,
        flags: slot.flags(),
        record: sound!(leaf, node.leaf_record(slot))?,
    })
}

/// Puts records of the run, from `first` on, where they were found to go. There is room. O(slots behind
/// the first of them).
fn insert(
    leaf: &mut Exclusive<'_>,
    (run, beside): (Run<'_>, &dyn Beside),
    first: usize,
    new: &[New],
) -> Attempt<()> {
    let Some(lowest) = new.first().map(|new| new.place) else {
        return Ok(());
    };
    let node = node_of!(leaf)?;
    let (shift, prefix_len, count) = (node.shift, node.prefix_len, node.count);
    let mut counts = Counts::of(leaf)?;
    let bytes: usize = new.iter().map(|new| new.bytes).sum();
    let (start, records) = counts.numbers.take(leaf, Stretch::Free, 0, bytes)?;
    // Each below the one before, as they come one by one.
    let mut end = bytes;
    let mut slots: Vec<[u8; SLOT_BYTES]> = Vec::with_capacity(new.len());
    for (n, new) in (first..).zip(new) {
        let (key, at) = (run.key(n), end - new.bytes);
        let suffix = &key[prefix_len..];
        let value = beside.value(n).unwrap_or(Value::Inline(&[]));
        encode_leaf(&mut records[at..end], (suffix, &[]), value);
        slots.push(encode_slot(start + at, head_of(suffix, shift), Flags::NONE));
        end = at;
    }
    // From behind, so that each slot moves once.
    let moved = leaf.change(
        Node::slot_at(lowest),
        (count - lowest + new.len()) * SLOT_BYTES,
    )?;
    let mut end = count - lowest;
    for (i, (new, slot)) in new.iter().zip(&slots).enumerate().rev() {
        let place = new.place - lowest;
        moved.copy_within(
            place * SLOT_BYTES..end * SLOT_BYTES,
            (place + i + 1) * SLOT_BYTES,
        );
        moved[(place + i) * SLOT_BYTES..(place + i + 1) * SLOT_BYTES].copy_from_slice(slot);
        end = place;
    }
    counts.numbers.count += new.len();
    for (i, new) in new.iter().enumerate() {
        counts.inserted(new.place + i);
    }
    counts.write(leaf)
}

/// Values that lie in the leaf itself.
struct Inline<'w> {
    run: Run<'w>,
    /// Bytes of the longest one that may.
    most: usize,
    /// Tombstones whose place one of the run has taken.
    revived: usize,
}

impl Beside for Inline<'_> {
    fn value(&self, n: usize) -> Option<Value<'_>> {
        self.run.value(n, self.most).map(Value::Inline)
    }

    fn prepare(&mut self, new: Range<usize>) -> usize {
        new.len()
    }

    fn replace(&mut self, n: usize, leaf: &mut Exclusive<'_>, there: There) -> bool {
        let mut replace = || {
            if self.run.erases(n) {
                check_erasable(leaf, there.at)?;
                return erase(leaf, there.at).map(|_| true);
            }
            let Some(value) = self.value(n) else {
                return Ok(false);
            };
            let put = Put {
                key: self.run.key(n),
                value,
                flags: Flags::NONE,
                place: Ok(there.at),
                old: Some(there.record),
                hole: None,
            };
            match put.plan(leaf)? {
                How::NoRoom(_) => return Ok(false),
                how => put.apply(leaf, how)?,
            }
            self.revived += usize::from(there.flags.is_deleted());
            Ok(true)
        };
        replace().unwrap_or(false)
    }
}

impl BTree {
    /// See [`terrace_access::Ordered::put_run`]. Returns also how many of them have taken the place of a tombstone.
    pub(crate) fn put_records(
        &self,
        door: &WriteGuard<'_>,
        window: &Window,
        which: &[usize],
    ) -> (usize, usize) {
        let run = Run { window, which };
        let most = super::max_inline(self.store().page_bytes());
        let mut inline = Inline {
            run,
            most,
            revived: 0,
        };
        let put = self.run(door, run, &mut inline);
        (put, inline.revived)
    }
}
