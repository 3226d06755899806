//! A structure whose calls are futures.

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime};

use terrace_base::{Error, Result};
use terrace_wal::Durability;

use super::pool::Pool;
use super::reads;
use super::records::Records;
use crate::structures::ordered::{between, bounds};
use crate::structures::range::past_prefix;
use crate::{Expires, Merge};

/// A structure of any kind. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Map {
    map: crate::Map,
    pool: Pool,
}

impl Map {
    pub(super) fn new(map: crate::Map, pool: Pool) -> Map {
        Map { map, pool }
    }

    /// The structure itself, for what does not wait for a disk.
    pub fn get_ref(&self) -> &crate::Map {
        &self.map
    }

    /// Any calls of the structure, on a thread where they may wait.
    ///
    /// # Errors
    /// Those of the calls.
    pub async fn run<T: Send + 'static>(
        &self,
        calls: impl FnOnce(&crate::Map) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let map = self.map.clone();
        self.pool.run(move || calls(&map)).await?
    }

    /// As [`crate::Map::get`]; without a thread, also while it waits for the disk.
    ///
    /// # Errors
    /// As there.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let (key, mut value) = (key.as_ref(), Vec::new());
        match reads::get(&self.map, key, &mut value).await? {
            Some(found) => Ok(found.then_some(value)),
            None => {
                let key = key.to_vec();
                self.run(move |map| map.get(key)).await
            }
        }
    }

    /// As [`crate::Map::get_many`]; without a thread, also while it waits for the disk.
    ///
    /// # Errors
    /// As there.
    pub async fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        let places = reads::get_many(&self.map, keys, &mut values).await?;
        if !places.is_empty() {
            let keys: Vec<Vec<u8>> = places.iter().map(|i| keys[*i].as_ref().to_vec()).collect();
            let read = self.run(move |map| map.get_many(&keys)).await?;
            for (i, value) in places.into_iter().zip(read) {
                values[i] = value;
            }
        }
        Ok(values)
    }

    /// As [`crate::Map::contains_key`]; without a thread, also while it waits for the disk.
    ///
    /// # Errors
    /// As there.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let (key, mut value) = (key.as_ref(), Vec::new());
        match reads::get(&self.map, key, &mut value).await? {
            Some(found) => Ok(found),
            None => {
                let key = key.to_vec();
                self.run(move |map| map.contains_key(key)).await
            }
        }
    }

    /// As [`crate::Map::put`].
    ///
    /// # Errors
    /// As there.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |map| map.put(key, value)).await
    }

    /// As [`crate::Map::put_with`].
    ///
    /// # Errors
    /// As there.
    pub async fn put_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        durability: Durability,
    ) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |map| map.put_with(key, value, durability))
            .await
    }

    /// As [`crate::Map::put_for`]; the time counts from when the call has its thread.
    ///
    /// # Errors
    /// As there.
    pub async fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        duration: Duration,
    ) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |map| map.put_for(key, value, duration)).await
    }

    /// As [`crate::Map::put_until`].
    ///
    /// # Errors
    /// As there.
    pub async fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |map| map.put_until(key, value, time)).await
    }

    /// As [`crate::Map::expire_in`]; the time counts from when the call has its thread.
    ///
    /// # Errors
    /// As there.
    pub async fn expire_in(
        &self,
        key: impl AsRef<[u8]>,
        duration: Option<Duration>,
    ) -> Result<bool> {
        let key = key.as_ref().to_vec();
        self.run(move |map| map.expire_in(key, duration)).await
    }

    /// As [`crate::Map::expires`].
    ///
    /// # Errors
    /// As there.
    pub async fn expires(&self, key: impl AsRef<[u8]>) -> Result<Option<Expires>> {
        let key = key.as_ref().to_vec();
        self.run(move |map| map.expires(key)).await
    }

    /// As [`crate::Tree::delete_range`]; of a structure that is no tree an error.
    ///
    /// # Errors
    /// As there.
    pub async fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let (low, high) = bounds(&range);
        let call = move |map: &crate::Map| map.delete_between(&low, high.as_deref(), None);
        self.run(call).await
    }

    /// As [`crate::Map::delete`].
    ///
    /// # Errors
    /// As there.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref().to_vec();
        self.run(move |map| map.delete(key)).await
    }

    /// As [`crate::Map::insert`].
    ///
    /// # Errors
    /// As there.
    pub async fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run(move |map| map.insert(key, value)).await
    }

    /// As [`crate::Map::remove`].
    ///
    /// # Errors
    /// As there.
    pub async fn remove(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run(move |map| map.remove(key)).await
    }

    /// As [`crate::Map::merge`].
    ///
    /// # Errors
    /// As there.
    pub async fn merge(&self, key: impl AsRef<[u8]>, merge: Merge) -> Result<bool> {
        let key = key.as_ref().to_vec();
        self.run(move |map| map.merge(key, merge)).await
    }

    /// The records of a range, in order, as [`crate::Tree::range`]. Of a hash table, which has no order, it is an
    /// error.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Records {
        let (low, high) = bounds(&range);
        self.between(low, high)
    }

    /// The records whose keys begin with `prefix`, in order, as [`crate::Tree::prefix`]. Of a hash table it is an
    /// error.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Records {
        let prefix = prefix.as_ref();
        self.between(prefix.to_vec(), past_prefix(prefix))
    }

    fn between(&self, low: Vec<u8>, high: Option<Vec<u8>>) -> Records {
        let map = self.map.clone();
        Records::new(self.pool.clone(), move || {
            match map.as_tree().is_some() || map.as_table().is_some() {
                true => between(&map, low, high),
                false => Err(Error::invalid(format!(
                    "'{}' is a hash table, which has no order; iter() goes through all of it",
                    map.name()
                ))),
            }
        })
    }

    /// All records, as [`crate::Map::iter`].
    pub fn iter(&self) -> Records {
        let map = self.map.clone();
        Records::new(self.pool.clone(), move || map.iter())
    }
}
