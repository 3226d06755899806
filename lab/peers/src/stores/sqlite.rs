//! SQLite: one connection that writes, and one for each thread that reads.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, params};
use terrace_bench::TargetResult;

use crate::store::{Opening, Record, Store};

struct Sqlite {
    writer: Mutex<Connection>,
    readers: Vec<Mutex<Connection>>,
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    let path = opening.folder.join("sqlite");
    let kib = opening.memory / 1024 / (opening.threads as u64 + 1);
    let connect = || -> TargetResult<Connection> {
        let connection = Connection::open(&path)?;
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -{kib}; PRAGMA busy_timeout = 10000;"
        ))?;
        Ok(connection)
    };
    let writer = connect()?;
    writer
        .execute_batch("CREATE TABLE bench (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID")?;
    let readers = (0..opening.threads).map(|_| connect().map(Mutex::new));
    Ok(Box::new(Sqlite {
        writer: Mutex::new(writer),
        readers: readers.collect::<TargetResult<Vec<_>>>()?,
    }))
}

impl Sqlite {
    /// One that no thread reads with just now: there are as many as threads.
    fn reader(&self) -> MutexGuard<'_, Connection> {
        let mut free = self
            .readers
            .iter()
            .filter_map(|reader| reader.try_lock().ok());
        free.next().unwrap_or_else(|| {
            self.readers[0]
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
        })
    }
}

impl Store for Sqlite {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let reader = self.reader();
        let mut query = reader.prepare_cached("SELECT v FROM bench WHERE k = ?1")?;
        let mut rows = query.query(params![key])?;
        let Some(row) = rows.next()? else {
            return Ok(false);
        };
        out.extend_from_slice(row.get_ref(0)?.as_blob()?);
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut put =
            writer.prepare_cached("INSERT OR REPLACE INTO bench (k, v) VALUES (?1, ?2)")?;
        put.execute(params![key, value])?;
        Ok(())
    }

    fn put_all(&self, records: &[Record]) -> TargetResult<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = writer.transaction()?;
        {
            let mut put = transaction
                .prepare_cached("INSERT OR REPLACE INTO bench (k, v) VALUES (?1, ?2)")?;
            for (key, value) in records {
                put.execute(params![key, value])?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let reader = self.reader();
        let mut query =
            reader.prepare_cached("SELECT k, v FROM bench WHERE k >= ?1 ORDER BY k LIMIT ?2")?;
        let mut rows = query.query(params![from, limit as i64])?;
        while let Some(row) = rows.next()? {
            visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }

    fn settle(&self) -> TargetResult<()> {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
