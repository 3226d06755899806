//! LMDB: a B+tree mapped into memory, through heed.

use std::ops::Bound;

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions};
use terrace_bench::TargetResult;

use crate::store::{Opening, Record, Store};

/// Of the data: random puts leave pages two thirds full, and a commit needs new ones.
const MAP_OVER_DATA: u64 = 8;
const LEAST_MAP: u64 = 256 << 20;

struct Lmdb {
    env: Env,
    db: Database<'static, Bytes, Bytes>,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let mut options = EnvOpenOptions::new();
    options.map_size(usize::try_from(
        (opening.data * MAP_OVER_DATA).max(LEAST_MAP),
    )?);
    // SAFETY: NO_SYNC leaves the file in order unless the system ends; NO_READ_AHEAD changes nothing that is read.
    unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::NO_READ_AHEAD) };
    // SAFETY: the folder is new, so no other code has its file mapped, and it is opened once in this process.
    let env = unsafe { options.open(opening.folder)? };
    let db = env
        .create_databases_and_commit(env.write_txn()?, |opener, write| {
            let db = opener.create_database(write, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(db))
        })?
        .unwrap_commit();
    Ok(Box::new(Lmdb { env, db }))
}

impl Store for Lmdb {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let read = self.env.read_txn()?;
        let found = self.db.get(&read, key)?;
        if let Some(value) = found {
            out.extend_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let mut write = self.env.write_txn()?;
        self.db.put(&mut write, key, value)?;
        Ok(write.commit()?)
    }

    fn put_all(&self, records: &[Record]) -> TargetResult<()> {
        let mut write = self.env.write_txn()?;
        for (key, value) in records {
            self.db.put(&mut write, key, value)?;
        }
        Ok(write.commit()?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let read = self.env.read_txn()?;
        let from: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(from), Bound::Unbounded);
        for entry in self.db.range(&read, &from)?.take(limit) {
            let (key, value) = entry?;
            visit(key, value);
        }
        Ok(())
    }

    fn settle(&self) -> TargetResult<()> {
        Ok(self.env.force_sync()?)
    }
}
