//! What a table has on the disk: rows by primary key, and for each index its entries, in trees of a database.
//!
//! Entries are exact: whoever writes a row down takes the entries of its old image out and puts those of the new one in,
//! in one batch. A row in memory (or that it is deleted) overrules what is here.

use terrace::encode::{from_key, key as parts};
use terrace::{Database, Durability, MapOptions, Tiers, Tree};

use super::filter::{Filter, Ranges, StaleFilter, hash, split};
use super::sketch::Sketch;
use crate::error::Error;
use crate::faults::{Fault, planted};
use crate::row::Extract;
use crate::span::Span;

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

/// A name as a part of a longer one: no two longer ones are the same.
fn part(name: &str) -> String {
    name.replace('%', "%25").replace('/', "%2f")
}

fn entry_bound(key: &[u8]) -> Vec<u8> {
    parts((key,))
}

impl Trees {
    /// Empty ones for a table of a partition. Their names go into `made`, also where the next one fails.
    pub fn make(
        db: &Database,
        table: &str,
        partition: usize,
        extract: Vec<(String, Extract)>,
        made: &mut Vec<String>,
    ) -> Result<Trees, Error> {
        let mut make = |name: String| {
            let options = MapOptions::new().tiers(Tiers::One).logged(false);
            let tree = db.create_tree(&name, options)?;
            made.push(name);
            Ok::<Tree, Error>(tree)
        };
        let table = part(table);
        let rows = make(format!("{partition}/{table}"))?;
        let mut entries = Vec::new();
        for (index, _) in &extract {
            entries.push(make(format!("{partition}/{table}/{}", part(index)))?);
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

    /// Writes rows and their entries, all or none; the entries that are there no more, by their indexes.
    pub fn write(&self, rows: &[Down]) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let (mut batch, mut gone) = (self.db.batch(), Vec::new());
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
                    gone.push((i, old.clone()));
                }
                if let Some(new) = new {
                    batch.put(tree, parts((&new[..], &down.key[..])), "");
                }
            }
        }
        self.db.write(batch, Durability::Buffered)?;
        Ok(gone)
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

    /// Filters of all keys of a range, of a unique index or of the primary one, each with its lowest key.
    /// O(keys of the range).
    pub fn filters(
        &self,
        index: Option<usize>,
        prefix: usize,
        due: &StaleFilter,
    ) -> Result<Vec<(Vec<u8>, Filter)>, Error> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        match index {
            None => {
                let range = match &due.high {
                    Some(high) => self.rows.range(due.low.clone()..high.clone())?,
                    None => self.rows.range(due.low.clone()..)?,
                };
                for row in range {
                    keys.push(row?.0);
                }
            }
            Some(index) => {
                let low = entry_bound(&due.low);
                let range = match &due.high {
                    Some(high) => self.entries[index].range(low..entry_bound(high))?,
                    None => self.entries[index].range(low..)?,
                };
                for entry in range {
                    keys.extend(from_key::<(Vec<u8>, Vec<u8>)>(&entry?.0).map(|(key, _)| key));
                }
            }
        }
        if planted(Fault::MadeAnewInPart) {
            keys.truncate(keys.len() / 2);
        }
        let filters = split(&keys).map(|keys| {
            let hashes: Vec<u64> = keys
                .iter()
                .flat_map(|key| hashes(index, prefix, key))
                .collect();
            let different = 1 + hashes.windows(3).filter(|some| some[0] != some[2]).count();
            let mut filter = Filter::to_grow(different);
            for hash in hashes {
                filter.add(hash);
            }
            (keys[0].clone(), filter)
        });
        Ok(filters.collect())
    }
}

/// All that a filter has to know of a key: of an entry of a unique index, or of a row.
fn hashes(index: Option<usize>, prefix: usize, key: &[u8]) -> impl Iterator<Item = u64> {
    let of = hash(index.map_or(ROW, |index| ENTRY + index as u64), key);
    let begins =
        (index.is_none() && prefix > 0).then(|| hash(PREFIX, &key[..prefix.min(key.len())]));
    std::iter::once(of).chain(begins)
}

/// What memory holds of what is cold.
pub struct Cold {
    /// The trees.
    pub trees: Trees,
    /// Ranges that are read lie within keys that begin with the same `prefix` bytes; 0 where they do not.
    pub prefix: usize,
    /// Of the rows.
    rows: Ranges,
    /// Of the entries of each index that is unique.
    unique: Vec<Option<Ranges>>,
    sketch: Sketch,
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
            rows: Ranges::new(),
            unique: unique
                .into_iter()
                .map(|unique| unique.then(Ranges::new))
                .collect(),
            sketch: Sketch::new(sketch),
            versions: vec![0; VERSIONS].into(),
            moves: 0,
            hand: Vec::new(),
        }
    }

    /// Whether the row of a key may be there.
    pub fn may_have(&self, key: &[u8]) -> bool {
        self.rows.may(key, hash(ROW, key))
    }

    /// Whether an entry of a unique index may be there.
    pub fn may_have_entry(&self, index: usize, key: &[u8]) -> bool {
        let known = self.unique.get(index).and_then(Option::as_ref);
        known.is_none_or(|known| known.may(key, hash(ENTRY + index as u64, key)))
    }

    /// Whether a range of primary keys may have rows there.
    /// `number` says that keys are numbers of 8 bytes.
    pub fn may_have_range(&self, span: &Span<'_>, number: bool) -> bool {
        if !self.rows.reaches(span.low) {
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
        !within
            || self
                .rows
                .may_in(span.low, span.high, hash(PREFIX, &span.low[..n]))
    }

    /// Notes a row that is written down: with its keys of all indexes.
    pub fn note(&mut self, down: &Down) {
        let Some(row) = &down.row else {
            self.rows.remove(&down.key);
            return;
        };
        self.rows
            .add(&down.key, hashes(None, self.prefix, &down.key));
        if self.unique.iter().any(Option::is_some) {
            let keys = self.trees.keys_of(row);
            for (i, known) in self.unique.iter_mut().enumerate() {
                if let Some(known) = known {
                    known.add(&keys[i], hashes(Some(i), 0, &keys[i]));
                }
            }
        }
    }

    /// Notes that an entry of an index is there no more.
    pub fn gone(&mut self, index: usize, key: &[u8]) {
        if let Some(known) = &mut self.unique[index] {
            known.remove(key);
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

    /// A filter that is to be made anew from the trees: of which index, and of which keys.
    pub fn due(&self) -> Option<(Option<usize>, StaleFilter)> {
        let indexes = self.unique.iter().enumerate();
        let due = |(i, known): (usize, &Option<Ranges>)| Some((Some(i), known.as_ref()?.due()?));
        let rows = self.rows.due().map(|due| (None, due));
        rows.or_else(|| indexes.map(due).find(Option::is_some).flatten())
    }

    /// Takes what was made.
    pub fn take(
        &mut self,
        index: Option<usize>,
        due: &StaleFilter,
        filters: Vec<(Vec<u8>, Filter)>,
    ) {
        let known = match index {
            None => Some(&mut self.rows),
            Some(index) => self.unique[index].as_mut(),
        };
        if let Some(known) = known {
            known.take(due, filters);
        }
    }

    /// Its bytes in memory.
    pub fn memory(&self) -> usize {
        let unique = self.unique.iter().flatten().map(Ranges::memory);
        self.rows.memory() + unique.sum::<usize>() + self.sketch.memory() + VERSIONS * 4
    }
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
