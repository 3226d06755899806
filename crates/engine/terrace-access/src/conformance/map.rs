//! What a user sees of any structure, and one access method seen that way.

use terrace_base::{Error, Result};

use super::{Fixture, Subject, position, settled};
use crate::{AccessMethod, Edge, Flags, LargeRef, NoRoom, Ordered, Plan, Touch, Value, Window};

/// What verification counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Live records.
    pub records: u64,
    /// Pages.
    pub pages: u64,
}

/// A structure as its user sees it, one tier or several.
pub trait Map {
    /// Where a key stands in the order in which scans go; the key itself unless said otherwise.
    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        Ok(key.to_vec())
    }
    /// The value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// Stores a value, whether or not the key was there.
    fn put(&self, key: &[u8], value: &[u8]) -> Result<()>;
    /// Removes a key, whether or not it was there.
    fn delete(&self, key: &[u8]) -> Result<()>;
    /// Calls `each` with the records from the position `from` on, upwards, until it returns false.
    fn scan_up(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()>;
    /// Calls `each` with the records below the position `below` (`None`: all), downwards, until it
    /// returns false.
    fn scan_down(
        &self,
        below: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()>;
    /// Checks every invariant.
    fn verify(&self) -> Result<Census>;
    /// Makes everything durable, closes, opens again.
    fn reopen(self) -> Result<Self>
    where
        Self: Sized;
}

/// One access method as a map.
pub struct Plain<'f, F: Fixture> {
    fixture: &'f F,
    subject: Subject<F::Method>,
    page_bytes: usize,
}

impl<'f, F: Fixture> Plain<'f, F> {
    /// An empty one.
    pub fn create(fixture: &'f F, page_bytes: usize, pages: usize) -> Result<Plain<'f, F>> {
        Ok(Plain {
            fixture,
            subject: fixture.create(page_bytes, pages)?,
            page_bytes,
        })
    }

    /// Around a subject that is there.
    pub fn of(fixture: &'f F, subject: Subject<F::Method>, page_bytes: usize) -> Plain<'f, F> {
        Plain {
            fixture,
            subject,
            page_bytes,
        }
    }

    /// The method and its store.
    pub fn subject(&self) -> &Subject<F::Method> {
        &self.subject
    }

    fn edit(&self, key: &[u8], plan: Plan<'_>) -> Result<Option<LargeRef>> {
        let Subject { store, method, .. } = &self.subject;
        settled(store, || {
            let door = store.enter()?;
            let mut commits = 0;
            let applied =
                method.try_edit(&door, key, &mut |_| Ok(plan), &mut NoRoom, &mut || {
                    commits += 1;
                    Ok(())
                })?;
            if commits != u32::from(applied.changed) {
                return Err(Error::invalid(format!("{commits} commits for {applied:?}")).into());
            }
            let large = applied.before.and_then(|(_, large)| large);
            Ok(large.filter(|_| applied.changed))
        })
    }

    fn free(&self, old: Option<LargeRef>) -> Result<()> {
        old.map_or(Ok(()), |large| {
            self.fixture.free_large(&self.subject.store, large)
        })
    }

    fn scan(
        &self,
        mut at: Option<Vec<u8>>,
        down: bool,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let Subject { store, method, .. } = &self.subject;
        let (mut window, mut large) = (Window::new(), Vec::new());
        // Whole leaves and parts of leaves must say the same.
        let mut limits = [usize::MAX, 1, 3, 17].into_iter().cycle();
        loop {
            window.set_limit(limits.next().unwrap_or(usize::MAX));
            let edge = match &at {
                Some(key) if down => Edge::Below(key),
                Some(key) => Edge::From(key),
                None => Edge::End,
            };
            settled(store, || method.try_window(edge, &mut window))?;
            let range = match &at {
                Some(key) if down => 0..window.lower_bound(key),
                Some(key) => window.lower_bound(key)..window.len(),
                None => 0..window.len(),
            };
            let mut visit = |i: usize| {
                let value = match window.entry(i).large {
                    None => window.value(i),
                    Some(r) => {
                        settled(store, || self.fixture.read_large(store, r, &mut large))?;
                        &large
                    }
                };
                Ok::<_, Error>(each(F::Method::key_at(window.key(i)), value))
            };
            let mut indexes: Box<dyn Iterator<Item = usize>> = Box::new(range.clone());
            if down {
                indexes = Box::new(range.rev());
            }
            for i in indexes {
                if !visit(i)? {
                    return Ok(());
                }
            }
            at = match (down, &window.high) {
                (true, _) if window.low.is_empty() => return Ok(()),
                (true, _) => Some(window.low.clone()),
                (false, None) => return Ok(()),
                (false, Some(high)) => Some(high.clone()),
            };
        }
    }
}

impl<F: Fixture> Map for Plain<'_, F> {
    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        position(&self.subject, key)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Subject { store, method, .. } = &self.subject;
        settled(store, || {
            let mut value = Vec::new();
            let found = method.try_get(key, Touch::Raise, &mut value)?;
            match found {
                None => Ok(None),
                Some(found) => {
                    if let Some(large) = found.large {
                        self.fixture.read_large(store, large, &mut value)?;
                    }
                    Ok(Some(value))
                }
            }
        })
    }

    fn put(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if value.len() <= self.fixture.max_inline(self.page_bytes) {
            let old = self.edit(key, Plan::Put(Value::Inline(value), Flags::NONE))?;
            return self.free(old);
        }
        let guard = self.subject.store.large_guard();
        let large = self.fixture.write_large(&self.subject.store, value)?;
        let old = self.edit(key, Plan::Put(Value::Large(large), Flags::NONE))?;
        let freed = self.free(old);
        drop(guard);
        freed
    }

    fn delete(&self, key: &[u8]) -> Result<()> {
        let old = self.edit(key, Plan::Erase)?;
        self.free(old)
    }

    fn scan_up(&self, from: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        self.scan(Some(from.to_vec()), false, each)
    }

    fn scan_down(
        &self,
        below: Option<&[u8]>,
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        self.scan(below.map(<[u8]>::to_vec), true, each)
    }

    fn verify(&self) -> Result<Census> {
        let mut census = Census::default();
        let mut seen = std::collections::HashSet::new();
        self.subject.method.verify(
            &mut |_, _, _| {
                census.records += 1;
                Ok(())
            },
            &mut |page| {
                if seen.insert(page) {
                    Ok(())
                } else {
                    Err(Error::invalid(format!(
                        "{page} belongs to the structure twice"
                    )))
                }
            },
        )?;
        census.pages = seen.len() as u64;
        Ok(census)
    }

    fn reopen(self) -> Result<Self> {
        let Plain {
            fixture,
            subject,
            page_bytes,
        } = self;
        Ok(Plain {
            fixture,
            subject: fixture.reopen(subject)?,
            page_bytes,
        })
    }
}
