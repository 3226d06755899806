//! Many records read together: what is in memory first, then the pages of the others at the same time.

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_tier::Missing;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::kinds::spec::Tiers;
use crate::read::leased::{Sight, parts};

impl Core {
    /// The values of keys, in their order.
    pub fn get_many(&self, open: &Open, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values: Vec<Option<Vec<u8>>> = vec![None; keys.len()];
        self.each(open, keys, &mut |i, value| {
            values[i] = value.map(|value| value.to_vec());
        })?;
        Ok(values)
    }

    /// Brings what these keys need into memory, as far as it has room.
    pub fn bring_in(&self, open: &Open, keys: &[&[u8]]) -> Result<()> {
        self.each(open, keys, &mut |_, _| ())
    }

    /// Tells `found` the value of each key, in any order.
    fn each(
        &self,
        open: &Open,
        keys: &[&[u8]],
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut value = Vec::new();
        // From the last to the first, so that they are taken off the end.
        let mut waiting: Vec<usize> = (0..keys.len()).rev().collect();
        let (mut pages, most) = (Vec::new(), self.store().most_together());
        while !waiting.is_empty() {
            let pass = self.enter(open)?;
            let mut missing: Vec<(usize, terrace_base::PageId)> = Vec::new();
            while missing.len() < most
                && let Some(i) = waiting.pop()
            {
                let mut missed = None;
                let read = |value: &mut Vec<u8>| {
                    Ok(match open.structure.get_or_miss(keys[i], value, 0)? {
                        Ok(there) => (there, ()),
                        Err(lacks) => {
                            missed = Some(lacks);
                            (false, ())
                        }
                    })
                };
                let seen = self.seen((open, Some(keys[i])), Sight::Now, &mut value, read);
                let lease = self.heard(seen)?.lease;
                match missed {
                    None => found(i, shown(open, lease, &value)?),
                    Some(Missing::Page(page)) => missing.push((i, page)),
                    // Its pages are read in order, as by any call.
                    Some(Missing::Many) => self.found_at(open, i, keys[i], &mut value, found)?,
                }
            }
            if open.spec.tiers == Tiers::Two {
                missing
                    .iter()
                    .for_each(|(_, page)| self.tiers().note_missed(*page));
            }
            pages.clear();
            pages.extend(missing.iter().map(|(_, page)| *page));
            self.heard(self.store().fetch(&mut pages))?;
            // The first one waits for whatever it needs, so that each round ends with one less, also where
            // pages push each other out.
            let mut missing = missing.iter().map(|(i, _)| *i);
            if let Some(i) = missing.next() {
                self.found_at(open, i, keys[i], &mut value, found)?;
            }
            waiting.extend(missing.rev());
            drop(pass);
        }
        Ok(())
    }

    /// Tells `found` the value of a key, for which it waits.
    fn found_at(
        &self,
        open: &Open,
        i: usize,
        key: &[u8],
        value: &mut Vec<u8>,
        found: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let lease = self.get_at(open, Sight::Now, key, value)?;
        found(i, lease.map(|_| &value[..]));
        Ok(())
    }
}

/// What a reader gets of a stored value.
fn shown<'v>(open: &Open, lease: Option<Lease>, stored: &'v [u8]) -> Result<Option<&'v [u8]>> {
    match lease {
        Some(_) => parts(open, stored).map(|(_, value)| Some(value)),
        None => Ok(None),
    }
}
