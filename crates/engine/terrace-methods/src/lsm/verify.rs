//! Walking an LSM-tree and checking every invariant that can be seen from inside.

use terrace_access::{AccessMethod, Flags, LevelFigures, Value, Window};
use terrace_base::{PageId, Result};
use terrace_pages::View;

use super::Lsm;
use super::entry;
use super::filter;
use super::level::{Level, Slot, settled};
use super::page::{self, wrong};
use crate::btree::image::{Payload, parts};
use crate::btree::verify::copy_of;
use crate::overflow;

type Each<'e> = &'e mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>;
type Page<'e> = &'e mut dyn FnMut(PageId) -> Result<()>;

impl Lsm {
    /// See [`terrace_access::AccessMethod::verify`]. O(pages), reads all of them.
    pub(crate) fn check(&self, each: Each<'_>, page: Page<'_>) -> Result<()> {
        // No thread writes, but steps may be under way.
        let _at_work = self.work.keep();
        page(self.root)?;
        let state = settled(&self.store, || self.state())?;
        state.top.verify(&mut |_, _, _| Ok(()), page)?;
        let mut is_cleared = false;
        for level in state.downwards() {
            let mut entries = Vec::new();
            let mut take = |key: &[u8], _: Flags, value: Value<'_>| {
                if let Value::Inline(value) = value {
                    entries.push((key.to_vec(), value.to_vec()));
                }
                Ok(())
            };
            level.index.verify(&mut take, page)?;
            is_cleared |= entries.is_empty();
            self.check_level(level, &entries, page)?;
        }
        // A level without any entry is one that was cleared: there is nothing to be seen from above any more. And a part
        // begins and ends elsewhere in each level.
        if is_cleared || self.is_part {
            return Ok(());
        }
        let mut window = Window::new();
        let mut at = Vec::new();
        loop {
            settled(&self.store, || self.window_from(&at, &mut window))?;
            for i in window.lower_bound(&at)..window.len() {
                let entry = window.entry(i);
                let value = entry
                    .large
                    .map_or(Value::Inline(window.value(i)), Value::Large);
                each(window.key(i), entry.flags, value)?;
            }
            match window.high.take() {
                Some(high) => at = high,
                None => return Ok(()),
            }
        }
    }

    fn check_level(
        &self,
        level: &Level,
        entries: &[(Vec<u8>, Vec<u8>)],
        page: Page<'_>,
    ) -> Result<()> {
        let fail = |what: String| Err(wrong(level.index.root(), what));
        if !self.is_part && entries.first().is_some_and(|(key, _)| !key.is_empty()) {
            return fail(format!(
                "level {} does not begin at the first key",
                level.number
            ));
        }
        let mut sum = LevelFigures::default();
        for (i, (low, value)) in entries.iter().enumerate() {
            let high = entries.get(i + 1).map(|(key, _)| key.clone());
            let Some(entry) = entry::decode(value, level.number) else {
                return fail(format!(
                    "entry {i} of level {} makes no sense",
                    level.number
                ));
            };
            let Some((entry, filter)) = entry else {
                continue;
            };
            entry.add_to(&mut sum);
            let slot = Slot {
                low: low.clone(),
                high,
                entry: Some(entry),
            };
            let on = entries[i..].iter().filter_map(|(_, value)| {
                let (entry, _) = entry::decode(value, level.number)??;
                Some(entry.name.page)
            });
            self.store.read_ahead(on);
            self.check_page(&slot, filter, page)?;
        }
        let said = level.figures();
        let is_known = !entries.is_empty() && !self.is_part && !level.is_estimate();
        if is_known && said != sum {
            return fail(format!(
                "level {} is said to have {said:?}, and has {sum:?}",
                level.number
            ));
        }
        Ok(())
    }

    fn check_page(&self, slot: &Slot, filter: &[u8], page: Page<'_>) -> Result<()> {
        let Some(entry) = slot.entry else {
            return Ok(());
        };
        let pid = entry.name.page;
        page(pid)?;
        let copy = copy_of(&self.store, pid)?;
        let fail = |what: String| Err(wrong(pid, what));
        match page::open(View::of(&copy), &entry.name) {
            Ok(Some(_)) => {}
            _ => {
                return fail(format!(
                    "it is not the page that level {} names",
                    entry.name.level
                ));
            }
        }
        let Some(leaves) = page::leaves_of(&copy) else {
            return fail(
                "a part of it is none, or does not go on where the one before ends".into(),
            );
        };
        let mut all = Vec::with_capacity(leaves.len());
        for leaf in &leaves {
            crate::btree::verify_node(leaf)?;
            let Ok(now) = parts(leaf) else {
                return fail("a record of it reaches past the page".into());
            };
            all.push(now);
        }
        let (low, high) = match (all.first(), all.last()) {
            (Some(first), Some(last)) => (first.low, last.high),
            _ => return fail("it has nothing".into()),
        };
        // The last page of a part ends where that did.
        let is_end = slot.high.as_deref() == high || self.is_part && slot.high.is_none();
        if low != slot.low || !is_end {
            return fail(format!(
                "it covers {low:02x?}..{high:02x?}, but its entry {:02x?}..{:02x?}",
                slot.low, slot.high
            ));
        }
        let items = || all.iter().flat_map(|leaf| &leaf.items);
        let count = items().count();
        let dead = items().filter(|item| item.flags.is_deleted()).count();
        if count != entry.records as usize || dead != entry.tombstones as usize {
            return fail(format!(
                "it has {count} records, {dead} of them tombstones, and its entry says {} and {}",
                entry.records, entry.tombstones
            ));
        }
        for (leaf, item) in all
            .iter()
            .flat_map(|leaf| leaf.items.iter().map(move |i| (leaf, i)))
        {
            let key = item.key();
            if *key < *leaf.low || leaf.high.is_some_and(|high| *key >= *high) {
                return fail("a key of it lies outside of its range".into());
            }
            if item.flags.is_deleted() && entry.name.level == 0 {
                return fail("there is a tombstone on the last level".into());
            }
            // Filters are over keys of the structure that a part was taken out of.
            if !self.is_part && !filter::may_have(filter, filter::hash(self.root.0, &key)) {
                return fail("its filter denies a key that it has".into());
            }
            if let Payload::Value(Value::Large(large)) = item.payload {
                if !entry.has_large {
                    return fail("its entry says nothing of a large value".into());
                }
                // What is left of one when clearing has begun with it.
                if !large.head.is_none() {
                    overflow::verify(&self.store, large, page)?;
                }
            }
        }
        Ok(())
    }
}
