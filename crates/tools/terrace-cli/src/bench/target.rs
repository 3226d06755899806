//! A structure of a database as a target of benchmarks.

use terrace_bench::{Counters, Feed, Target, TargetError, TargetResult};

use crate::engine::{Db, Durability, Tree};

/// One tree.
pub struct TreeTarget<'a> {
    db: &'a Db,
    tree: &'a Tree,
    durability: Durability,
}

impl<'a> TreeTarget<'a> {
    /// The tree of a database, and what its writes promise.
    pub fn new(db: &'a Db, tree: &'a Tree, durability: Durability) -> Self {
        TreeTarget {
            db,
            tree,
            durability,
        }
    }
}

fn boxed(error: anyhow::Error) -> TargetError {
    error.into()
}

impl Target for TreeTarget<'_> {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        self.tree.get_into(key, out).map_err(boxed)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        self.tree.put(key, value, self.durability).map_err(boxed)
    }

    fn load(&self, feed: &mut Feed<'_>) -> TargetResult<()> {
        let mut loader = self.tree.loader().map_err(boxed)?;
        feed(&mut |key, value| Ok(loader.put(key, value)?))?;
        loader.finish_with(self.durability, |_| ())?;
        Ok(())
    }

    fn update(&self, key: &[u8], value: &[u8]) -> TargetResult<bool> {
        let mut found = false;
        let change = |old: Option<&[u8]>| {
            found = old.is_some();
            found.then(|| value.to_vec())
        };
        self.tree.update(key, change).map_err(boxed)?;
        Ok(found)
    }

    fn read_modify_write(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        let mut found = false;
        let change = |old: Option<&[u8]>| {
            found = old.is_some();
            old.map(|old| {
                let mut new = Vec::with_capacity(old.len());
                change(old, &mut new);
                new
            })
        };
        self.tree.update(key, change).map_err(boxed)?;
        Ok(found)
    }

    fn transfer(
        &self,
        keys: &[[u8; 8]; 2],
        change: &mut dyn FnMut(usize, &[u8], &mut Vec<u8>),
    ) -> TargetResult<bool> {
        self.tree
            .transfer(keys, self.durability, change)
            .map_err(boxed)
    }

    fn get_many(
        &self,
        keys: &[[u8; 8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> TargetResult<()> {
        let values = self.tree.get_many(keys).map_err(boxed)?;
        for (i, value) in values.iter().enumerate() {
            visit(i, value.as_deref());
        }
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        for entry in self
            .tree
            .range(Some(from), None, false)
            .map_err(boxed)?
            .take(limit)
        {
            let (key, value) = entry.map_err(boxed)?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn visit_all(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> TargetResult<bool> {
        if self.tree.is_ordered() {
            return Ok(false);
        }
        for entry in self.tree.range(None, None, false).map_err(boxed)? {
            let (key, value) = entry.map_err(boxed)?;
            visit(&key, &value);
        }
        Ok(true)
    }

    fn counters(&self) -> TargetResult<Counters> {
        Ok(self.db.counters())
    }

    fn settle(&self) -> TargetResult<()> {
        self.db.checkpoint(|_| ()).map_err(boxed)
    }
}
