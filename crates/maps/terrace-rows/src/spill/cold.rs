//! What a table has on the disk: rows by primary key, and for each index its entries, in trees of a database.
//!
//! Entries are exact: whoever writes a row down takes the entries of its old image out and puts those of the new one in,
//! in one batch. A row in memory (or that it is deleted) overrules what is here.

use terrace::encode::{from_key, key as parts};
use terrace::{Database, Durability, MapOptions, Tiers, Tree};

use super::filter::{Filter, hash};
use super::sketch::Sketch;
use crate::error::Error;
use crate::table::index::Extract;
use crate::table::key_map::Span;

/// Kinds of keys in the filter: rows, what primary keys begin with, entries of index `n` from here on.
const ROW: u64 = 0;
const PREFIX: u64 = 1;
const ENTRY: u64 = 2;
/// Counters of what has left memory, by the hash of its key.
const VERSIONS: usize = 1024;

/// The trees: who reads them holds no partition.
#[derive(Clone)]
pub struct Trees {
    db: Database,
    rows: Tree,
    entries: Vec<Tree>,
    extract: Vec<Extract>,
}

/// A row on its way down: its key, and the row, or none where it was deleted; whether there may be an older image.
pub struct Down {
    /// The primary key.
    pub key: Vec<u8>,
    /// The row.
    pub row: Option<Vec<u8>>,
    /// Whether the trees may have one.
    pub stored: bool,
}

/// Rows found by a range, each with the key that it was found by and its primary key.
pub type Found = Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>;

fn entry_bound(key: &[u8]) -> Vec<u8> {
    parts((key,))
}

impl Trees {
    /// Empty ones for a table of a partition.
    pub fn make(
        db: &Database,
        table: &str,
        partition: usize,
        extract: Vec<(String, Extract)>,
    ) -> Result<Trees, Error> {
        let options = || MapOptions::new().tiers(Tiers::One).logged(false);
        let rows = db.create_tree(&format!("{partition}/{table}"), options())?;
        let mut entries = Vec::new();
        for (index, _) in &extract {
            entries.push(db.create_tree(&format!("{partition}/{table}/{index}"), options())?);
        }
        let extract = extract.into_iter().map(|(_, extract)| extract).collect();
        Ok(Trees {
            db: db.clone(),
            rows,
            entries,
            extract,
        })
    }

    /// The row of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.rows.get(key)?)
    }

    fn keys_of(&self, row: &[u8]) -> Vec<Vec<u8>> {
        let key = |extract: &Extract| {
            let mut key = Vec::new();
            extract(row, &mut key);
            key
        };
        self.extract.iter().map(key).collect()
    }

    /// Writes rows and their entries, all or none.
    pub fn write(&self, rows: &[Down]) -> Result<(), Error> {
        let mut batch = self.db.batch();
        let asked: Vec<&[u8]> = match self.entries.is_empty() {
            true => Vec::new(),
            false => rows
                .iter()
                .filter(|down| down.stored)
                .map(|down| &down.key[..])
                .collect(),
        };
        let mut olds = self.rows.get_many(&asked)?.into_iter();
        for down in rows {
            let old = if down.stored && !self.entries.is_empty() {
                olds.next().flatten()
            } else {
                None
            };
            match &down.row {
                Some(row) => batch.put(&self.rows, &down.key, row),
                None => batch.delete(&self.rows, &down.key),
            };
            let olds = old.map(|old| self.keys_of(&old));
            let news = down.row.as_ref().map(|row| self.keys_of(row));
            for (i, tree) in self.entries.iter().enumerate() {
                let (old, new) = (
                    olds.as_ref().map(|keys| &keys[i]),
                    news.as_ref().map(|keys| &keys[i]),
                );
                if old == new {
                    continue;
                }
                if let Some(old) = old {
                    batch.delete(tree, parts((&old[..], &down.key[..])));
                }
                if let Some(new) = new {
                    batch.put(tree, parts((&new[..], &down.key[..])), "");
                }
            }
        }
        self.db.write(batch, Durability::Buffered)?;
        Ok(())
    }

    /// Up to `limit` rows of a range of keys, of an index or of the primary one, and whether these are all.
    pub fn range(
        &self,
        index: Option<usize>,
        span: Span<'_>,
        limit: usize,
    ) -> Result<(Found, bool), Error> {
        let mut found = Found::new();
        if span.is_empty() {
            return Ok((found, true));
        }
        let (low, high) = match index {
            None => (span.low.to_vec(), span.high.map(<[u8]>::to_vec)),
            Some(_) => (entry_bound(span.low), span.high.map(entry_bound)),
        };
        let tree = index.map_or(&self.rows, |index| &self.entries[index]);
        let mut range = match high {
            Some(high) => tree.range(low..high)?,
            None => tree.range(low..)?,
        };
        let mut complete = false;
        while found.len() < limit {
            let next = if span.back {
                range.next_back()
            } else {
                range.next()
            };
            let Some(entry) = next else {
                complete = true;
                break;
            };
            let (key, value) = entry?;
            match index {
                None => found.push((key.clone(), key, value)),
                Some(_) => {
                    let Some((index_key, key)) = from_key::<(Vec<u8>, Vec<u8>)>(&key) else {
                        continue;
                    };
                    found.push((index_key, key, Vec::new()));
                }
            }
        }
        if index.is_some() {
            let keys: Vec<&[u8]> = found.iter().map(|(_, key, _)| &key[..]).collect();
            let rows = self.rows.get_many(&keys)?;
            for (found, row) in found.iter_mut().zip(rows) {
                found.2 = row.unwrap_or_default();
            }
        }
        Ok((found, complete))
    }

    /// Everything that a filter has to know, of all rows.
    fn each_hash(
        &self,
        prefix: usize,
        unique: &[bool],
        mut see: impl FnMut(u64),
    ) -> Result<(), Error> {
        for row in self.rows.iter()? {
            let (key, _) = row?;
            see(hash(ROW, &key));
            if prefix > 0 {
                see(hash(PREFIX, &key[..prefix.min(key.len())]));
            }
        }
        for (i, tree) in self.entries.iter().enumerate().filter(|(i, _)| unique[*i]) {
            for entry in tree.iter()? {
                if let Some((key, _)) = from_key::<(Vec<u8>, Vec<u8>)>(&entry?.0) {
                    see(hash(ENTRY + i as u64, &key));
                }
            }
        }
        Ok(())
    }
}

/// What memory holds of what is cold.
pub struct Cold {
    /// The trees.
    pub trees: Trees,
    /// Ranges that are read lie within keys that begin with the same so many bytes; 0 where they do not.
    pub prefix: usize,
    unique: Vec<bool>,
    filter: Filter,
    sketch: Sketch,
    greatest: Option<Vec<u8>>,
    versions: Box<[u32]>,
    /// Counts what has left memory.
    pub moves: u64,
    /// Where the hand is.
    pub hand: Vec<u8>,
}

impl Cold {
    /// Nothing is cold.
    pub fn new(trees: Trees, prefix: usize, unique: Vec<bool>, sketch: usize) -> Cold {
        Cold {
            trees,
            prefix,
            unique,
            filter: Filter::new(0),
            sketch: Sketch::new(sketch),
            greatest: None,
            versions: vec![0; VERSIONS].into(),
            moves: 0,
            hand: Vec::new(),
        }
    }

    /// Whether the row of a key may be there.
    pub fn may_have(&self, key: &[u8]) -> bool {
        // Keys that only grow never ask.
        self.greatest
            .as_ref()
            .is_some_and(|greatest| key <= &greatest[..])
            && self.filter.may(hash(ROW, key))
    }

    /// Whether an entry of a unique index may be there.
    pub fn may_have_entry(&self, index: usize, key: &[u8]) -> bool {
        self.greatest.is_some() && self.filter.may(hash(ENTRY + index as u64, key))
    }

    /// Whether a range of primary keys may have rows there.
    /// `number` says that keys are numbers of 8 bytes.
    pub fn may_have_range(&self, span: &Span<'_>, number: bool) -> bool {
        let Some(greatest) = &self.greatest else {
            return false;
        };
        if span.low > &greatest[..] {
            return false;
        }
        let n = self.prefix;
        // Within one prefix: to before the same or the next one at most.
        let within = n > 0
            && span.low.len() >= n
            && span.high.is_some_and(|high| {
                high.len() >= n && high[..n] == span.low[..n]
                    || is_next(&span.low[..n], high, number)
            });
        !within || self.filter.may(hash(PREFIX, &span.low[..n]))
    }

    /// Notes a row that is written down: with its keys of all indexes.
    pub fn note(&mut self, down: &Down) {
        let Some(row) = &down.row else { return };
        self.filter.add(hash(ROW, &down.key));
        if self.prefix > 0 {
            self.filter
                .add(hash(PREFIX, &down.key[..self.prefix.min(down.key.len())]));
        }
        let keys = if self.unique.contains(&true) {
            self.trees.keys_of(row)
        } else {
            Vec::new()
        };
        for (i, key) in keys.iter().enumerate().filter(|(i, _)| self.unique[*i]) {
            self.filter.add(hash(ENTRY + i as u64, key));
        }
        if self
            .greatest
            .as_ref()
            .is_none_or(|greatest| *greatest < down.key)
        {
            self.greatest = Some(down.key.clone());
        }
    }

    /// The version of a key: another one after its row has left memory.
    pub fn version(&self, key: &[u8]) -> u32 {
        self.versions[hash(ROW, key) as usize % VERSIONS]
    }

    /// Notes that the row of a key leaves memory.
    pub fn leaves(&mut self, key: &[u8]) {
        let version = &mut self.versions[hash(ROW, key) as usize % VERSIONS];
        *version = version.wrapping_add(1);
        self.moves += 1;
    }

    /// Counts an access to a cold row; whether it is to come into memory, where `period` others are.
    pub fn admits(&mut self, key: &[u8], period: usize) -> bool {
        self.sketch.count(hash(ROW, key), period) >= 2
    }

    /// The trees, if the filter is full and has to be made anew from them: with room for so many keys.
    pub fn grow(&self) -> Option<(Trees, u64)> {
        // A sixth more than there are: so it has 10 to 12 bits for a key.
        self.filter.is_full().then(|| {
            (
                self.trees.clone(),
                self.filter.keys() + self.filter.keys() / 6,
            )
        })
    }

    /// Takes a filter that knows everything in the trees.
    pub fn take(&mut self, filter: Filter) {
        self.filter = filter;
    }

    /// What it needs to build a filter without the partition.
    pub fn plan(&self) -> (usize, Vec<bool>) {
        (self.prefix, self.unique.clone())
    }

    /// Its bytes in memory.
    pub fn memory(&self) -> usize {
        self.filter.memory() + self.sketch.memory() + VERSIONS * 4
    }
}

/// A filter of everything in the trees.
pub fn build(trees: &Trees, prefix: usize, unique: &[bool], keys: u64) -> Result<Filter, Error> {
    let mut filter = Filter::new(keys);
    trees.each_hash(prefix, unique, |hash| {
        filter.add(hash);
    })?;
    Ok(filter)
}

/// Whether `high` is the least key past all that begin with `prefix`: of numbers of 8 bytes with zeros behind.
fn is_next(prefix: &[u8], high: &[u8], number: bool) -> bool {
    let mut next = prefix.to_vec();
    while let Some(last) = next.last_mut() {
        if *last < 0xff {
            *last += 1;
            let zeros = |rest: &[u8]| number && rest.iter().all(|&byte| byte == 0);
            return next == high
                || high.len() <= 8 && high.strip_prefix(&next[..]).is_some_and(zeros);
        }
        next.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_prefix_begins_where_no_key_of_it_is_left_out() {
        assert!(is_next(b"aa", b"ab", false) && is_next(b"a\xff", b"b", false));
        // "ab" itself is before this one.
        assert!(!is_next(b"aa", b"ab\0", false) && !is_next(b"\xff", b"\xff\0", false));
        let (low, high) = (1u32.to_be_bytes(), (2u64 << 32).to_be_bytes());
        assert!(is_next(&low, &high, true));
        assert!(!is_next(&low, &[&high[..], &[0]].concat(), true));
    }
}
