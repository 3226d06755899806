//! fjall: an LSM-tree in Rust.

use fjall::config::CompressionPolicy;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use terrace_bench::TargetResult;

use crate::store::{Opening, Store};

struct Fjall {
    db: Database,
    keyspace: Keyspace,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let memtables = opening.memory / 4;
    let db = Database::builder(opening.folder)
        .cache_size(opening.memory - memtables)
        .open()?;
    let keyspace = db.keyspace("bench", || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memtables)
            .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
    })?;
    Ok(Box::new(Fjall { db, keyspace }))
}

impl Store for Fjall {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let found = self.keyspace.get(key)?;
        if let Some(value) = &found {
            out.extend_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        Ok(self.keyspace.insert(key, value)?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        for entry in self.keyspace.range(from..).take(limit) {
            let (key, value) = entry.into_inner()?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> TargetResult<()> {
        self.keyspace.rotate_memtable_and_wait()?;
        Ok(self.db.persist(PersistMode::SyncAll)?)
    }
}
