//! A toy access method: all records on one page, in the order of their keys, decoded and written anew by each
//! change. It shows what a method has to have, and does nothing well.
//!
//! The page: behind the bytes of the page store a number of records; each is a length of key, a length of value
//! (`LARGE` for a reference), flags, key, value.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_access::{
    AccessMethod, Applied, Attempt, Edge, Flags, Found, InStorage, LargeRef, Neighbours, Ordered,
    Plan, RangeDeletes, Retry, Room, Rooted, Runs, Sampled, Touch, Value, Window, WriteGuard,
};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, PAGE_HEADER_BYTES, PageStore, Torn, View};

const LARGE: u16 = u16::MAX;

/// A structure whose records are all on one page.
pub struct Card {
    store: Arc<PageStore>,
    root: PageId,
}

#[derive(Clone)]
struct Record {
    flags: Flags,
    value: Vec<u8>,
    large: Option<LargeRef>,
}

impl Record {
    fn value(&self) -> Value<'_> {
        self.large.map_or(Value::Inline(&self.value), Value::Large)
    }
}

type Records = BTreeMap<Vec<u8>, Record>;

fn decode(view: View<'_>) -> std::result::Result<Records, Torn> {
    let mut at = PAGE_HEADER_BYTES + 2;
    let mut records = Records::new();
    let take = |at: &mut usize, len: usize| {
        let mut bytes = Vec::new();
        view.append_to(*at, len, &mut bytes)?;
        *at += len;
        Ok(bytes)
    };
    for _ in 0..view.u16(PAGE_HEADER_BYTES)? {
        let (key_len, value_len) = (view.u16(at)?, view.u16(at + 2)?);
        let flags = Flags(view.u8(at + 4)?);
        at += 5;
        let key = take(&mut at, usize::from(key_len))?;
        let (mut value, mut large) = (Vec::new(), None);
        if value_len == LARGE {
            large = Some(LargeRef::of_word(view.u64(at)?, view.u32(at + 8)?));
            at += 12;
        } else {
            value = take(&mut at, usize::from(value_len))?;
        }
        records.insert(
            key,
            Record {
                flags,
                value,
                large,
            },
        );
    }
    Ok(records)
}

fn encode(records: &Records, page_bytes: usize) -> Result<Vec<u8>> {
    let mut out = (records.len() as u16).to_le_bytes().to_vec();
    for (key, record) in records {
        out.extend((key.len() as u16).to_le_bytes());
        match record.large {
            Some(_) => out.extend(LARGE.to_le_bytes()),
            None => out.extend((record.value.len() as u16).to_le_bytes()),
        }
        out.push(record.flags.0);
        out.extend(key);
        match record.large {
            Some(large) => {
                out.extend(large.word().to_le_bytes());
                out.extend(large.len.to_le_bytes());
            }
            None => out.extend(&record.value),
        }
    }
    match out.len() <= page_bytes - PAGE_HEADER_BYTES {
        true => Ok(out),
        false => Err(Error::invalid("the card is full; take another kind")),
    }
}

impl Card {
    fn records(&self) -> Attempt<Records> {
        let page = self.store.shared(self.root)?;
        decode(page.view()).map_err(|_| page.torn("this is no card"))
    }

    fn copy(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let _ = edge;
        window.clear();
        for (key, record) in self.records()? {
            if select(record.flags) {
                let add = |bytes: Vec<u8>| {
                    move |out: &mut Vec<u8>| {
                        out.extend(bytes);
                        Ok::<_, Retry>(())
                    }
                };
                window.push(record.flags, record.large, add(key), add(record.value))?;
            }
        }
        Ok(())
    }
}

impl AccessMethod for Card {
    fn try_get(&self, key: &[u8], _: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        value.clear();
        Ok(self.records()?.get(key).map(|record| {
            value.extend_from_slice(&record.value);
            Found {
                flags: record.flags,
                large: record.large,
                depth: 0,
            }
        }))
    }

    fn try_edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        _: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        let mut page = self.store.exclusive(self.root, door)?;
        let mut records = decode(page.view()).map_err(|_| page.torn("this is no card"))?;
        let old = records.get(key).cloned();
        let before = old.as_ref().map(|record| (record.flags, record.large));
        let unchanged = Applied {
            before,
            changed: false,
        };
        match plan(old.as_ref().map(|record| (record.flags, record.value())))? {
            Plan::Keep => return Ok(unchanged),
            Plan::Erase if old.is_none() => return Ok(unchanged),
            Plan::Erase => drop(records.remove(key)),
            Plan::Flags(flags) => match records.get_mut(key) {
                Some(record) => record.flags = flags,
                None => return Ok(unchanged),
            },
            Plan::Put(value, flags) => {
                let (value, large) = match value {
                    Value::Inline(value) => (value.to_vec(), None),
                    Value::Large(large) => (Vec::new(), Some(large)),
                };
                let record = Record {
                    flags,
                    value,
                    large,
                };
                records.insert(key.to_vec(), record);
            }
        }
        let bytes = encode(&records, self.store.page_bytes())?;
        commit()?;
        page.change_all()?[PAGE_HEADER_BYTES..][..bytes.len()].copy_from_slice(&bytes);
        Ok(Applied {
            before,
            changed: true,
        })
    }

    fn try_clear_step(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        let mut page = self.store.exclusive(self.root, door)?;
        page.change(PAGE_HEADER_BYTES, 2)?.fill(0);
        Ok(false)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        page(self.root)?;
        let records = loop {
            match self.records() {
                Ok(records) => break records,
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        };
        records
            .iter()
            .try_for_each(|(key, record)| each(key, record.flags, record.value()))
    }
}

impl Ordered for Card {
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        self.copy(edge, &mut |_| true, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.copy(edge, select, window)
    }

    fn still_same(&self, _: &Window) -> bool {
        false
    }

    fn try_reach(&self, _: Edge<'_>) -> Attempt<()> {
        self.store.shared(self.root).map(|_| ())
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let _held = self.store.shared(self.root)?;
        self.try_window(edge, window)?;
        inside(window)
    }
}

impl Sampled for Card {
    fn try_random(&self, _: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        Ok((1.0, Vec::new()))
    }
}

impl Runs for Card {}

impl Neighbours for Card {}

impl RangeDeletes for Card {}

impl InStorage for Card {}

impl Rooted for Card {
    type Order = ();

    fn new_order(_: &mut dyn FnMut() -> u64) {}

    fn create(
        store: &Arc<PageStore>,
        door: &WriteGuard<'_>,
        class: Class,
        (): (),
    ) -> Attempt<Self> {
        let mut page = store.allocate(door, class)?;
        page.fill(PAGE_HEADER_BYTES, 2)?.fill(0);
        let (store, root) = (store.clone(), page.pid());
        Ok(Card { store, root })
    }

    fn try_order(&self) -> Attempt<()> {
        Ok(())
    }

    fn open(store: &Arc<PageStore>, root: PageId, _: Class) -> Self {
        let store = store.clone();
        Card { store, root }
    }

    fn root(&self) -> PageId {
        self.root
    }

    fn free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        self.store.exclusive(self.root, door)?.free();
        Ok(())
    }

    fn max_inline(page_bytes: usize) -> usize {
        page_bytes / 64
    }
}
