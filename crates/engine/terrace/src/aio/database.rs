//! A database whose calls are futures.

use std::path::PathBuf;

use terrace_base::Result;
use terrace_wal::Durability;

use super::changes::Changes;
use super::map::Map;
use super::pool::{MOST_THREADS, Pool};
use crate::{Batch, ChangesOptions, CheckpointInfo, Options, Transaction};

/// An open database, for programs that run on Tokio. Clones are the same one; [`Database::get_ref`] is what all else
/// is done with.
#[derive(Clone, Debug)]
pub struct Database {
    db: crate::Database,
    pool: Pool,
}

impl Database {
    /// As [`crate::Database::open`].
    ///
    /// # Errors
    /// As there.
    pub async fn open(path: impl Into<PathBuf>, options: Options) -> Result<Database> {
        let (pool, path) = (Pool::new(MOST_THREADS)?, path.into());
        let db = pool.run(|| crate::Database::open(path, options)).await??;
        Ok(Database { db, pool })
    }

    /// One that is open, of whose calls at most `most` run at a time: at least one.
    ///
    /// # Errors
    /// Another number of calls.
    pub fn with_threads(db: crate::Database, most: usize) -> Result<Database> {
        let pool = Pool::new(most)?;
        Ok(Database { db, pool })
    }

    /// The database itself, for what does not wait for a disk: statistics, batches.
    pub fn get_ref(&self) -> &crate::Database {
        &self.db
    }

    /// The places for calls that are free.
    #[cfg(feature = "planted-faults")]
    #[doc(hidden)]
    pub fn free_places(&self) -> usize {
        self.pool.free()
    }

    /// Any calls of the database, on a thread where they may wait.
    ///
    /// # Errors
    /// Those of the calls.
    pub async fn run<T: Send + 'static>(
        &self,
        calls: impl FnOnce(&crate::Database) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let db = self.db.clone();
        self.pool.run(move || calls(&db)).await?
    }

    /// A structure that is open, with futures for its calls.
    pub fn map(&self, map: &crate::Map) -> Map {
        Map::new(map.clone(), self.pool.clone())
    }

    async fn opened(
        &self,
        open: impl FnOnce(&crate::Database) -> Result<crate::Map> + Send + 'static,
    ) -> Result<Map> {
        Ok(self.map(&self.run(open).await?))
    }

    /// As [`crate::Database::tree`].
    ///
    /// # Errors
    /// As there.
    pub async fn tree(&self, name: &str) -> Result<Map> {
        let name = name.to_owned();
        self.opened(move |db| Ok((*db.tree(&name)?).clone())).await
    }

    /// As [`crate::Database::hash`].
    ///
    /// # Errors
    /// As there.
    pub async fn hash(&self, name: &str) -> Result<Map> {
        let name = name.to_owned();
        self.opened(move |db| Ok((*db.hash(&name)?).clone())).await
    }

    /// As [`crate::Database::lsm`].
    ///
    /// # Errors
    /// As there.
    pub async fn lsm(&self, name: &str) -> Result<Map> {
        let name = name.to_owned();
        self.opened(move |db| Ok((*db.lsm(&name)?).clone())).await
    }

    /// As [`crate::Database::table`].
    ///
    /// # Errors
    /// As there.
    pub async fn table(&self, name: &str) -> Result<Map> {
        let name = name.to_owned();
        self.opened(move |db| Ok((*db.table(&name)?).clone())).await
    }

    /// As [`crate::Database::write`].
    ///
    /// # Errors
    /// As there.
    pub async fn write(&self, batch: Batch, durability: Durability) -> Result<()> {
        self.run(move |db| db.write(batch, durability)).await
    }

    /// As [`crate::Database::transaction`]: the function runs on a thread where it may wait, again if there is a
    /// conflict.
    ///
    /// # Errors
    /// As there.
    pub async fn transaction<T: Send + 'static>(
        &self,
        function: impl FnMut(&mut Transaction) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(move |db| db.transaction(function)).await
    }

    /// As [`crate::Database::changes`], as a stream. While it waits for a commit it has a thread of its own, beside
    /// those for other calls.
    ///
    /// # Errors
    /// As there.
    pub async fn changes(&self, options: ChangesOptions) -> Result<Changes> {
        Ok(Changes::new(self.run(|db| db.changes(options)).await?))
    }

    /// As [`crate::Database::sync`].
    ///
    /// # Errors
    /// As there.
    pub async fn sync(&self) -> Result<()> {
        self.run(crate::Database::sync).await
    }

    /// As [`crate::Database::checkpoint`].
    ///
    /// # Errors
    /// As there.
    pub async fn checkpoint(&self) -> Result<CheckpointInfo> {
        self.run(crate::Database::checkpoint).await
    }

    /// As [`crate::Database::close`].
    ///
    /// # Errors
    /// As there.
    pub async fn close(self) -> Result<()> {
        self.pool.run(move || self.db.close()).await?
    }
}
