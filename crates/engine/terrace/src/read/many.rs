//! Many records read together: what is in memory first, then the pages of the others at the same time.

use terrace_base::Result;
use terrace_base::lease::Lease;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::read::leased::{Sight, parts};

/// Pages that are read together at most: as many as the smallest memory has frames for.
pub const TOGETHER: usize = 64;

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
        let mut pages = Vec::new();
        while !waiting.is_empty() {
            let pass = self.enter(open)?;
            let mut missing: Vec<(usize, terrace_base::PageId)> = Vec::new();
            while missing.len() < TOGETHER
                && let Some(i) = waiting.pop()
            {
                let mut missed = None;
                let read = |value: &mut Vec<u8>| {
                    Ok(match open.structure.get_or_miss(keys[i], value)? {
                        Ok(there) => (there, ()),
                        Err(page) => {
                            missed = Some(page);
                            (false, ())
                        }
                    })
                };
                let (lease, ..) = self
                    .seen((open, Some(keys[i])), Sight::Now, &mut value, read)
                    .map_err(|e| self.failed(e))?;
                match missed {
                    None => found(i, shown(open, lease, &value)?),
                    Some(page) => missing.push((i, page)),
                }
            }
            pages.clear();
            pages.extend(missing.iter().map(|(_, page)| *page));
            self.store.fetch(&mut pages).map_err(|e| self.failed(e))?;
            // The first one waits for whatever it needs, so that each round ends with one less, also where
            // pages push each other out.
            let mut missing = missing.iter().map(|(i, _)| *i);
            if let Some(i) = missing.next() {
                let lease = self.get_at(open, Sight::Now, keys[i], &mut value)?;
                found(i, lease.map(|_| &value[..]));
            }
            waiting.extend(missing.rev());
            drop(pass);
        }
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
