//! redb: one writer at a time, copy on write.

use std::sync::atomic::{AtomicUsize, Ordering};

use redb::{Database, Durability, ReadableDatabase, TableDefinition, WriteTransaction};
use terrace_bench::TargetResult;

use crate::store::{Opening, Record, Store};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("bench");
/// Transactions of which one is synced: what it frees it can use again only then.
const SYNC_EVERY: usize = 64;

struct Redb {
    db: Database,
    puts: AtomicUsize,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(opening.memory)?);
    let db = builder.create(opening.folder.join("redb"))?;
    let write = db.begin_write()?;
    write.open_table(TABLE)?;
    write.commit()?;
    let puts = AtomicUsize::new(0);
    Ok(Box::new(Redb { db, puts }))
}

impl Redb {
    fn begin(&self) -> TargetResult<WriteTransaction> {
        let mut write = self.db.begin_write()?;
        let puts = self.puts.fetch_add(1, Ordering::Relaxed);
        if !puts.is_multiple_of(SYNC_EVERY) {
            write.set_durability(Durability::None)?;
        }
        Ok(write)
    }
}

impl Store for Redb {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let found = table.get(key)?;
        if let Some(value) = &found {
            out.extend_from_slice(value.value());
        }
        Ok(found.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let write = self.begin()?;
        let mut table = write.open_table(TABLE)?;
        table.insert(key, value)?;
        drop(table);
        write.commit()?;
        Ok(())
    }

    fn put_all(&self, records: &[Record]) -> TargetResult<()> {
        let write = self.begin()?;
        let mut table = write.open_table(TABLE)?;
        for (key, value) in records {
            table.insert(key.as_slice(), value.as_slice())?;
        }
        drop(table);
        write.commit()?;
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for entry in table.range(from..)?.take(limit) {
            let (key, value) = entry?;
            visit(key.value(), value.value());
        }
        Ok(())
    }

    fn settle(&self) -> TargetResult<()> {
        self.db.begin_write()?.commit()?;
        Ok(())
    }
}
