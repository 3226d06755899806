//! Elements of collections: those of the database, with what was changed and not written.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use terrace::Range;

use super::{Staged, Undo, Work};
use crate::stop::{Run, Stop, TOO_LARGE, refuse};
use crate::store::codec;

/// Bytes of elements that are removed in one step, or one element: what removes them has to be in memory.
const STEP_BYTES: usize = 256 << 10;
/// Elements that are gone through on an event loop: more take long.
const FEW: u64 = 10_000;
/// Bytes of room that stay allocated for values that are only looked at.
const KEPT: usize = 64 << 10;

/// Keys of elements and their values.
type Elements = Vec<(Vec<u8>, Vec<u8>)>;

impl Work {
    /// The value of an element, into `value`; whether there is one.
    pub fn element_into(&self, key: &[u8], value: &mut Vec<u8>) -> Run<bool> {
        if !self.elements.is_empty()
            && let Some(staged) = self.elements.get(key)
        {
            value.clear();
            value.extend_from_slice(staged.as_deref().unwrap_or_default());
            return Ok(staged.is_some());
        }
        if key.len() > self.store.longest_key {
            return Ok(false);
        }
        let elements = &self.keyspace.elements;
        if self.waits {
            return Ok(elements.get_into(key, value)?);
        }
        let found = elements.get_if_resident_after(key, value, self.times_missed)?;
        if found.is_none() && !self.blind {
            self.missed.set(Some(((**elements).clone(), key.to_vec())));
        }
        found.ok_or(Stop::Miss)
    }

    /// Tells `f` the value of an element, or that there is none.
    pub fn with_element<T>(&self, key: &[u8], f: impl FnOnce(Option<&[u8]>) -> T) -> Run<T> {
        let mut scratch = self.scratch.borrow_mut();
        let found = self.element_into(key, &mut scratch)?;
        let told = f(found.then_some(scratch.as_slice()));
        if scratch.capacity() > KEPT {
            *scratch = Vec::new();
        }
        Ok(told)
    }

    /// Whether there is an element.
    pub fn has_element(&self, key: &[u8]) -> Run<bool> {
        self.with_element(key, |value| value.is_some())
    }

    /// The value of an element.
    pub fn element(&self, key: &[u8]) -> Run<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.element_into(key, &mut value)?.then_some(value))
    }

    pub(super) fn set_element(&mut self, key: Vec<u8>, value: Staged) {
        let bytes = key.len() + value.as_ref().map_or(0, Vec::len);
        (self.bytes, self.kept) = (self.bytes + bytes, self.kept + bytes);
        if self.fresh {
            self.elements.insert(key, value);
            return;
        }
        let old = self.elements.insert(key.clone(), value);
        self.undo.push(Undo::Element(key, old));
    }

    /// Stores an element.
    pub fn put_element(&mut self, key: Vec<u8>, value: &[u8]) -> Run {
        if key.len() > self.store.longest_key {
            let most = self.store.longest_key - codec::MEMBER_AT;
            return refuse(format!("ERR field or member is longer than {most} bytes"));
        }
        self.set_element(key, Some(value.to_vec()));
        Ok(())
    }

    /// Removes an element.
    pub fn delete_element(&mut self, key: Vec<u8>) {
        self.set_element(key, None);
    }

    /// Checks that this many elements may be gone through here.
    ///
    /// # Errors
    /// They are many, and others wait for this thread.
    pub fn may_go_through(&self, many: u64) -> Run {
        match self.waits || many <= FEW {
            true => Ok(()),
            false => Err(Stop::Miss),
        }
    }

    /// Tells `f` the elements from `low` to below `high`, from the last one on if `reverse`, until it breaks.
    pub fn each(
        &self,
        low: &[u8],
        high: &[u8],
        reverse: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Run {
        if self.hurries && !self.waits {
            return Err(Stop::Miss);
        }
        if low >= high {
            return Ok(());
        }
        let mut base = self.keyspace.elements.range(low..high)?;
        let next = |base: &mut Range| match reverse {
            true => base.next_back(),
            false => base.next(),
        };
        let mut staged = self.elements.range::<[u8], _>((
            std::ops::Bound::Included(low),
            std::ops::Bound::Excluded(high),
        ));
        let mut next_staged = || match reverse {
            true => staged.next_back(),
            false => staged.next(),
        };
        let mut below = next(&mut base).transpose()?;
        let mut above = next_staged();
        loop {
            let order = match (&below, &above) {
                (None, None) => return Ok(()),
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some((b, _)), Some((a, _))) if reverse => b.as_slice().cmp(a),
                (Some((b, _)), Some((a, _))) => a.as_slice().cmp(b),
            };
            let flow = match (order, &below, above) {
                (Ordering::Greater, Some((key, value)), _) => f(key, value),
                (_, _, Some((key, Some(value)))) => f(key, value),
                _ => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(());
            }
            if order.is_ge() {
                below = next(&mut base).transpose()?;
            }
            if order.is_le() {
                above = next_staged();
            }
        }
    }

    /// The first elements from `low` to below `high`, at most `most` and as many as one step may remove; and
    /// whether there may be more.
    pub fn step(&self, low: &[u8], high: &[u8], most: usize) -> Run<(Vec<Vec<u8>>, bool)> {
        let (mut keys, mut bytes, mut more) = (Vec::new(), 0, false);
        self.each(low, high, false, &mut |key, value| {
            bytes += key.len() + value.len();
            keys.push(key.to_vec());
            more = keys.len() >= most || bytes >= STEP_BYTES;
            match more {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok((keys, more))
    }

    /// As [`Work::step`], from the last one on.
    pub fn step_back(&self, low: &[u8], high: &[u8], most: usize) -> Run<Vec<Vec<u8>>> {
        let (mut keys, mut bytes) = (Vec::new(), 0);
        self.each(low, high, true, &mut |key, value| {
            bytes += key.len() + value.len();
            keys.push(key.to_vec());
            match keys.len() < most && bytes < STEP_BYTES {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(keys)
    }

    /// Whether the elements from `low` to below `high`, at most `most`, each with some bytes `beside` it in an answer,
    /// are no more than one command may gather.
    pub fn fits(
        &self,
        (low, high): (&[u8], &[u8]),
        reverse: bool,
        most: u64,
        beside: usize,
    ) -> Run<bool> {
        let (mut left, mut bytes) = (most, 0);
        self.each(low, high, reverse, &mut |key, value| {
            bytes += key.len() + value.len() + beside;
            left -= 1;
            match left > 0 && bytes <= self.most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(bytes <= self.most)
    }

    /// The elements from `low` to below `high`, at most `most`.
    pub fn range(&self, low: &[u8], high: &[u8], reverse: bool, most: usize) -> Run<Elements> {
        self.bounded(low, high, reverse, (most, usize::MAX))
    }

    /// The same, for an answer.
    ///
    /// # Errors
    /// They take more than one command may gather.
    pub fn gathered(&self, low: &[u8], high: &[u8], reverse: bool, most: usize) -> Run<Elements> {
        self.bounded(low, high, reverse, (most, self.most))
    }

    /// The same, for what is written elsewhere.
    ///
    /// # Errors
    /// They take more than one command may gather to store it.
    pub fn gathered_to_store(&self, low: &[u8], high: &[u8]) -> Run<Elements> {
        self.bounded(low, high, false, (usize::MAX, self.most_stored()))
    }

    fn bounded(
        &self,
        low: &[u8],
        high: &[u8],
        reverse: bool,
        (most, most_bytes): (usize, usize),
    ) -> Run<Elements> {
        let (mut all, mut bytes) = (Vec::new(), 0);
        if most == 0 {
            return Ok(all);
        }
        self.each(low, high, reverse, &mut |key, value| {
            bytes += key.len() + value.len();
            all.push((key.to_vec(), value.to_vec()));
            match all.len() < most && bytes <= most_bytes {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        match bytes <= most_bytes {
            true => Ok(all),
            false => refuse(TOO_LARGE),
        }
    }
}
