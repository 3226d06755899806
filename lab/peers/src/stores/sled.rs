//! sled: a log-structured tree in Rust.

use terrace_bench::TargetResult;

use crate::store::{Opening, Store};

struct Sled {
    db: sled::Db,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let db = sled::Config::new()
        .path(opening.folder.join("sled"))
        .cache_capacity(opening.memory)
        .mode(sled::Mode::HighThroughput)
        .flush_every_ms(Some(500))
        .open()?;
    Ok(Box::new(Sled { db }))
}

impl Store for Sled {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let found = self.db.get(key)?;
        if let Some(value) = &found {
            out.extend_from_slice(value);
        }
        Ok(found.is_some())
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        self.db.insert(key, value)?;
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        for entry in self.db.range(from..).take(limit) {
            let (key, value) = entry?;
            visit(&key, &value);
        }
        Ok(())
    }

    fn settle(&self) -> TargetResult<()> {
        self.db.flush()?;
        Ok(())
    }
}
