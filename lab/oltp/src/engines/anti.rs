//! Anti-caching, the rival: rows that are not used leave memory, all index entries stay.
//!
//! After H-Store: each table has a doubly linked list of its rows by use, and of a hundred uses one moves a row to its
//! head. Where memory is past the threshold, the coldest rows go into blocks of 256 KiB in a file; in the place of each
//! stays a *tombstone*, block and slot, to which all index entries lead. A transaction that meets one is aborted, the
//! block is read, the whole of it or the one row comes back, and the transaction runs again. While rows are evicted
//! nothing else runs in the partition.
//!
//! What is kinder to it than the original: a block has a number of 32 bits, not 16.

use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_rows::{Error, Handle, IndexKind, Options, Store, Transaction};

use super::rows::Maps;
use crate::txn::{Ended, Engine, Figures, Key, Span, Stop, TableDef, Txn};

/// Bytes of a block.
const BLOCK: usize = 256 << 10;
/// What a row begins with: whether it is there, and its place in the list by use.
const HEAD: usize = 5;
/// Bytes of links that are counted for a row, beside the four in its head: both together are the original's eight.
const LINKS: u64 = 4;
const NONE: u32 = u32::MAX;

/// How it does it.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Bytes in memory beyond which rows are evicted.
    pub threshold: u64,
    /// One use in this many is noted: 100 in H-Store, 1000 in the branch that the paper measured.
    pub sample: u32,
    /// Whether a whole block comes back, or the row alone.
    pub whole_block: bool,
    /// Transactions of a partition after which memory is looked at.
    pub interval: u64,
}

impl Way {
    /// H-Store's, with rows that come back alone.
    pub fn new(threshold: u64) -> Way {
        Way {
            threshold,
            sample: 100,
            whole_block: false,
            interval: 200,
        }
    }
}

#[derive(Clone, Copy)]
struct Node {
    previous: u32,
    next: u32,
    key: Key,
}

/// The rows of a table by use, the coldest last.
struct List {
    nodes: Vec<Node>,
    free: Vec<u32>,
    head: u32,
    tail: u32,
}

impl List {
    fn new() -> List {
        List {
            nodes: Vec::new(),
            free: Vec::new(),
            head: NONE,
            tail: NONE,
        }
    }

    fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    fn unlink(&mut self, n: u32) {
        let Node { previous, next, .. } = self.nodes[n as usize];
        match previous {
            NONE => self.head = next,
            previous => self.nodes[previous as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            next => self.nodes[next as usize].previous = previous,
        }
    }

    fn link(&mut self, n: u32) {
        let head = self.head;
        let node = &mut self.nodes[n as usize];
        (node.previous, node.next) = (NONE, head);
        match head {
            NONE => self.tail = n,
            head => self.nodes[head as usize].previous = n,
        }
        self.head = n;
    }

    fn add(&mut self, key: Key) -> u32 {
        let node = Node {
            previous: NONE,
            next: NONE,
            key,
        };
        let n = match self.free.pop() {
            Some(n) => {
                self.nodes[n as usize] = node;
                n
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        };
        self.link(n);
        n
    }

    fn remove(&mut self, n: u32) {
        self.unlink(n);
        self.free.push(n);
    }

    fn touch(&mut self, n: u32) {
        if self.head != n {
            self.unlink(n);
            self.link(n);
        }
    }
}

/// What a partition knows beside its rows.
struct Part {
    lists: Vec<List>,
    uses: u32,
    transactions: u64,
    free_blocks: Vec<u32>,
    /// How often each block has become free.
    freed: Vec<u32>,
}

/// The store with its file.
pub struct AntiCache {
    store: Store,
    tables: Vec<Handle>,
    schema: Vec<TableDef>,
    way: Way,
    parts: Vec<Mutex<Part>>,
    files: Vec<std::fs::File>,
    restarts: AtomicU64,
    misses: AtomicU64,
    reads: AtomicU64,
    written: AtomicU64,
    evicted: AtomicU64,
}

/// Where an evicted row is.
type Spot = (u32, u32);

fn spot(row: &[u8]) -> Option<Spot> {
    let word = |at: usize| {
        row.get(at..)?
            .first_chunk()
            .map(|bytes| u32::from_le_bytes(*bytes))
    };
    (row.first() == Some(&1)).then(|| Some((word(1)?, word(5)?)))?
}

fn node(row: &[u8]) -> u32 {
    row.get(1..)
        .and_then(<[u8]>::first_chunk)
        .map_or(NONE, |bytes| u32::from_le_bytes(*bytes))
}

fn headed(node: u32, row: &[u8]) -> Vec<u8> {
    [&[0][..], &node.to_le_bytes(), row].concat()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl AntiCache {
    /// An empty store with a file for each partition in this folder.
    ///
    /// # Errors
    /// Those of the files.
    pub fn open(
        folder: &std::path::Path,
        way: Way,
        schema: Vec<TableDef>,
        maps: Maps,
        partitions: usize,
    ) -> anyhow::Result<AntiCache> {
        let store = Store::with_options(
            Options::new()
                .partitions(partitions)
                .indexes(maps.options()),
        )?;
        let mut tables = Vec::new();
        for table in &schema {
            let mut builder = store.table_of_bytes(table.name, true);
            for index in table.indexes {
                let key = index.key;
                let kind = if index.unique {
                    IndexKind::Unique
                } else {
                    IndexKind::List
                };
                builder =
                    builder.index_of_bytes(index.name, kind, index.number, move |row, out| {
                        row.get(HEAD..).is_some_and(|row| {
                            out.extend_from_slice(&key(row));
                            true
                        })
                    });
            }
            tables.push(*builder.create()?);
        }
        std::fs::create_dir_all(folder)?;
        let (mut parts, mut files) = (Vec::new(), Vec::new());
        for n in 0..partitions {
            let lists = schema.iter().map(|_| List::new()).collect();
            parts.push(Mutex::new(Part {
                lists,
                uses: 0,
                transactions: 0,
                free_blocks: Vec::new(),
                freed: Vec::new(),
            }));
            let mut options = std::fs::OpenOptions::new();
            files.push(
                options
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(folder.join(format!("blocks-{n}")))?,
            );
        }
        let zero = || AtomicU64::new(0);
        let (restarts, misses, reads, written, evicted) = (zero(), zero(), zero(), zero(), zero());
        Ok(AntiCache {
            store,
            tables,
            schema,
            way,
            parts,
            files,
            restarts,
            misses,
            reads,
            written,
            evicted,
        })
    }

    fn memory(&self) -> u64 {
        let links: usize = self
            .parts
            .iter()
            .map(|part| lock(part).lists.iter().map(List::len).sum::<usize>())
            .sum();
        self.store.stats().used() + links as u64 * LINKS
    }

    /// Brings back what a transaction has met.
    fn bring(&self, wants: &[(usize, Spot)]) -> anyhow::Result<()> {
        let mut blocks: BTreeMap<(usize, u32), Vec<u32>> = BTreeMap::new();
        for (partition, (block, slot)) in wants {
            blocks.entry((*partition, *block)).or_default().push(*slot);
        }
        for ((partition, block), slots) in blocks {
            let mut bytes = vec![0; BLOCK];
            let freed = lock(&self.parts[partition]).freed[block as usize];
            self.files[partition].read_exact_at(&mut bytes, u64::from(block) * BLOCK as u64)?;
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.store.transact_in(&[partition], |t| {
                let mut part = lock(&self.parts[partition]);
                // Brought back meanwhile: what was read may be what was written into it since.
                if part.freed[block as usize] != freed {
                    return Ok(());
                }
                let (mut from, mut slot, mut any) = (&bytes[..], 0, false);
                while let Some((table, key, row, rest)) = entry(from) {
                    from = rest;
                    let handle = self.tables[table];
                    let here = t.bytes(handle, &key)?.and_then(spot) == Some((block, slot));
                    if here && (self.way.whole_block || slots.contains(&slot)) {
                        let image = headed(part.lists[table].add(key), row);
                        t.swap_bytes(handle, &key, &image, &image)?;
                        any = true;
                    }
                    slot += 1;
                }
                // Where no row leads to it, another has brought it back, and it is free once already.
                if self.way.whole_block && any {
                    part.freed[block as usize] += 1;
                    part.free_blocks.push(block);
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    /// Rows in memory that may leave it: of a partition, and of all.
    fn evictable(&self, partition: usize) -> (usize, usize) {
        let of = |part: &Mutex<Part>| {
            let part = lock(part);
            let lists = part.lists.iter().zip(&self.schema);
            let some = lists.filter(|(_, table)| !table.resident);
            some.map(|(list, _)| list.len()).sum::<usize>()
        };
        (of(&self.parts[partition]), self.parts.iter().map(of).sum())
    }

    /// Evicts blocks until memory is below the threshold; of what is too much the partition's share.
    fn evict(&self, partition: usize) -> anyhow::Result<()> {
        let excess = self.memory().saturating_sub(self.way.threshold);
        let (mine, all) = self.evictable(partition);
        let mut over = match (mine, all) {
            (0, 1..) => return Ok(()),
            (_, 0) => excess,
            (mine, all) => (excess as f64 * mine as f64 / all as f64) as u64,
        };
        while over > 0 {
            let done = self
                .store
                .transact_in(&[partition], |t| self.evict_block(t, partition))?;
            let Some((bytes, rows)) = done else {
                let limit = self.way.threshold + self.way.threshold / 20;
                anyhow::ensure!(
                    self.memory() <= limit,
                    "no memory: nothing is left to evict, and indexes and tombstones do not fit"
                );
                return Ok(());
            };
            self.written.fetch_add(BLOCK as u64, Ordering::Relaxed);
            self.evicted.fetch_add(rows, Ordering::Relaxed);
            over = over.saturating_sub(bytes);
        }
        Ok(())
    }

    /// Takes the coldest rows of the table that has most into a block: the bytes that this frees, and its rows.
    fn evict_block(
        &self,
        t: &mut Transaction<'_>,
        partition: usize,
    ) -> Result<Option<(u64, u64)>, Failed> {
        let mut part = lock(&self.parts[partition]);
        let evictable = |n: &usize| !self.schema[*n].resident && part.lists[*n].len() > 0;
        let Some(table) = (0..self.schema.len())
            .filter(evictable)
            .max_by_key(|n| part.lists[*n].len())
        else {
            return Ok(None);
        };
        let block = part.free_blocks.pop().unwrap_or_else(|| {
            part.freed.push(0);
            part.freed.len() as u32 - 1
        });
        let (mut bytes, mut freed, mut slot) = (Vec::with_capacity(BLOCK), 0, 0);
        let handle = self.tables[table];
        while part.lists[table].tail != NONE {
            let coldest = part.lists[table].tail;
            let key = part.lists[table].nodes[coldest as usize].key;
            let image = t
                .bytes(handle, &key)?
                .map(<[u8]>::to_vec)
                .ok_or(Error::Missing)?;
            let row = image.get(HEAD..).unwrap_or_default();
            if bytes.len() + row.len() + 16 > BLOCK - 16 {
                break;
            }
            bytes.extend_from_slice(&(table as u32 + 1).to_le_bytes());
            bytes.extend_from_slice(&key);
            bytes.extend_from_slice(&(row.len() as u32).to_le_bytes());
            bytes.extend_from_slice(row);
            let tombstone = [&[1][..], &block.to_le_bytes(), &u32::to_le_bytes(slot)].concat();
            t.swap_bytes(handle, &key, &tombstone, &image)?;
            part.lists[table].remove(coldest);
            freed += (image.len() as u64 + LINKS).saturating_sub(16);
            slot += 1;
        }
        bytes.resize(BLOCK, 0);
        self.files[partition]
            .write_all_at(&bytes, u64::from(block) * BLOCK as u64)
            .map_err(|e| Failed(e.into()))?;
        Ok(Some((freed.max(1), u64::from(slot))))
    }
}

/// The first entry of a block, and what follows.
fn entry(bytes: &[u8]) -> Option<(usize, Key, &[u8], &[u8])> {
    let word = |at: usize| {
        bytes
            .get(at..)?
            .first_chunk()
            .map(|bytes| u32::from_le_bytes(*bytes))
    };
    let table = word(0)?.checked_sub(1)? as usize;
    let key = *bytes.get(4..)?.first_chunk()?;
    let end = 16 + word(12)? as usize;
    Some((table, key, bytes.get(16..end)?, &bytes[end..]))
}

struct Failed(anyhow::Error);

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed(error.into())
    }
}

impl From<Failed> for anyhow::Error {
    fn from(failed: Failed) -> anyhow::Error {
        failed.0
    }
}

struct Open<'a, 't> {
    t: &'a mut Transaction<'t>,
    of: &'a AntiCache,
    at: usize,
    wants: &'a mut Vec<(usize, Spot)>,
    /// Places in lists that go if this comes to nothing, and if it is done.
    new: &'a mut Vec<(usize, usize, u32)>,
    dead: &'a mut Vec<(usize, usize, u32)>,
    failed: Option<anyhow::Error>,
}

fn stop(error: Error) -> Stop {
    Stop::Failed(error.into())
}

impl Open<'_, '_> {
    fn touch(&mut self, table: usize, node: u32) {
        let mut part = lock(&self.of.parts[self.at]);
        part.uses += 1;
        if part.uses >= self.of.way.sample {
            part.uses = 0;
            part.lists[table].touch(node);
        }
    }

    /// The row as it lies there.
    fn raw(&mut self, table: usize, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        let row = self
            .t
            .bytes(self.of.tables[table], key)
            .map_err(stop)?
            .map(<[u8]>::to_vec);
        match row {
            None => Ok(None),
            Some(row) => self.there(row).map(Some),
        }
    }

    /// The row, if it is no tombstone.
    fn there(&mut self, row: Vec<u8>) -> Result<Vec<u8>, Stop> {
        match spot(&row) {
            None => Ok(row),
            Some(spot) => {
                self.wants.push((self.at, spot));
                Err(Stop::Again)
            }
        }
    }

    /// All rows, or all wanted that are not there.
    fn all<T>(&mut self, table: usize, rows: Vec<(T, Vec<u8>)>) -> Result<Vec<(T, Vec<u8>)>, Stop> {
        let (mut all, mut again) = (Vec::with_capacity(rows.len()), false);
        for (key, row) in rows {
            match self.there(row) {
                Ok(mut row) => {
                    self.touch(table, node(&row));
                    row.drain(..HEAD.min(row.len()));
                    all.push((key, row));
                }
                Err(Stop::Again) => again = true,
                Err(stop) => return Err(stop),
            }
        }
        if again { Err(Stop::Again) } else { Ok(all) }
    }
}

impl Txn for Open<'_, '_> {
    fn on(&mut self, partition: usize) {
        self.at = partition;
        if let Err(error) = self.t.on(partition) {
            self.failed = Some(error.into());
        }
    }

    fn get(&mut self, table: usize, key: &Key) -> Result<Option<Vec<u8>>, Stop> {
        let Some(mut row) = self.raw(table, key)? else {
            return Ok(None);
        };
        self.touch(table, node(&row));
        row.drain(..HEAD.min(row.len()));
        Ok(Some(row))
    }

    fn get_many(&mut self, table: usize, keys: &[Key]) -> Result<Vec<Option<Vec<u8>>>, Stop> {
        let (mut rows, mut again) = (Vec::with_capacity(keys.len()), false);
        for key in keys {
            match self.get(table, key) {
                Err(Stop::Again) => again = true,
                row => rows.push(row?),
            }
        }
        if again { Err(Stop::Again) } else { Ok(rows) }
    }

    fn put(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<(), Stop> {
        let place = match self.raw(table, key)? {
            Some(old) => node(&old),
            None => {
                let place = lock(&self.of.parts[self.at]).lists[table].add(*key);
                self.new.push((self.at, table, place));
                place
            }
        };
        self.touch(table, place);
        self.t
            .put_bytes(self.of.tables[table], key, &headed(place, row))
            .map_err(stop)
    }

    fn insert(&mut self, table: usize, key: &Key, row: &[u8]) -> Result<bool, Stop> {
        // That there is a tombstone is answer enough.
        if self
            .t
            .bytes(self.of.tables[table], key)
            .map_err(stop)?
            .is_some()
        {
            return Ok(false);
        }
        self.put(table, key, row)?;
        Ok(true)
    }

    fn delete(&mut self, table: usize, key: &Key) -> Result<(), Stop> {
        let Some(old) = self.raw(table, key)? else {
            return Ok(());
        };
        self.dead.push((self.at, table, node(&old)));
        self.t
            .delete_bytes(self.of.tables[table], key)
            .map_err(stop)
    }

    fn range(&mut self, table: usize, range: Span<'_>) -> Result<Vec<(Key, Vec<u8>)>, Stop> {
        let span = terrace_rows::Span {
            low: range.low,
            high: Some(range.high),
            back: range.back,
        };
        let mut rows: Vec<(Key, Vec<u8>)> = Vec::new();
        let see = |key: &[u8], row: &[u8]| {
            rows.push((key.try_into().unwrap_or_default(), row.to_vec()));
            rows.len() < range.limit
        };
        self.t
            .each_bytes(self.of.tables[table], span, see)
            .map_err(stop)?;
        self.all(table, rows)
    }

    fn index(&mut self, table: usize, index: usize, range: Span<'_>) -> Result<Vec<Vec<u8>>, Stop> {
        let span = terrace_rows::Span {
            low: range.low,
            high: Some(range.high),
            back: range.back,
        };
        let name = self.of.schema[table].indexes[index].name;
        let mut rows: Vec<((), Vec<u8>)> = Vec::new();
        let see = |_: &[u8], row: &[u8]| {
            rows.push(((), row.to_vec()));
            rows.len() < range.limit
        };
        self.t
            .each_by_index(self.of.tables[table], name, span, see)
            .map_err(stop)?;
        Ok(self
            .all(table, rows)?
            .into_iter()
            .map(|(_, row)| row)
            .collect())
    }
}

enum End {
    Stop(Stop),
    Store(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Store(error)
    }
}

impl Engine for AntiCache {
    fn partitions(&self) -> usize {
        self.store.partitions()
    }

    fn transact(
        &self,
        partitions: &[usize],
        f: &mut dyn FnMut(&mut dyn Txn) -> Result<(), Stop>,
    ) -> anyhow::Result<Ended> {
        loop {
            let (mut wants, mut new, mut dead) = (Vec::new(), Vec::new(), Vec::new());
            let done = self.store.transact_in(partitions, |t| {
                let at = partitions.first().copied().unwrap_or(0);
                let (wants, new, dead) = (&mut wants, &mut new, &mut dead);
                let mut open = Open {
                    t,
                    of: self,
                    at,
                    wants,
                    new,
                    dead,
                    failed: None,
                };
                let answer = f(&mut open);
                let ok = answer.is_ok() && open.failed.is_none();
                // Lists change before others get into these partitions.
                for (partition, table, node) in if ok { &*open.dead } else { &*open.new } {
                    lock(&self.parts[*partition]).lists[*table].remove(*node);
                }
                match open.failed {
                    Some(failed) => Err(End::Stop(Stop::Failed(failed))),
                    None => answer.map_err(End::Stop),
                }
            });
            // What a transaction that begins again has brought in stays until it has come to its end: else it might be
            // thrown out each time, and no end would come.
            let again = matches!(done, Err(End::Stop(Stop::Again)));
            for partition in partitions.iter().filter(|_| !again) {
                let look = {
                    let mut part = lock(&self.parts[*partition]);
                    part.transactions += 1;
                    part.transactions.is_multiple_of(self.way.interval)
                };
                if look {
                    self.evict(*partition)?;
                }
            }
            match done {
                Ok(()) => return Ok(Ended::Committed),
                Err(End::Stop(Stop::Rollback)) => return Ok(Ended::RolledBack),
                Err(End::Stop(Stop::Failed(error))) => return Err(error),
                Err(End::Store(error)) => return Err(error.into()),
                Err(End::Stop(Stop::Again)) => {
                    self.restarts.fetch_add(1, Ordering::Relaxed);
                    self.misses.fetch_add(wants.len() as u64, Ordering::Relaxed);
                    self.bring(&wants)?;
                }
            }
        }
    }

    fn figures(&self) -> Figures {
        let stats = self.store.stats();
        let all = self.memory();
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Figures {
            rows: stats.row_bytes(),
            indexes: stats.index_bytes(),
            other: all.saturating_sub(stats.used()) + stats.undo_bytes,
            restarts: count(&self.restarts),
            misses: count(&self.misses),
            reads: count(&self.reads),
            read_bytes: count(&self.reads) * BLOCK as u64,
            written_bytes: count(&self.written),
            evicted: count(&self.evicted),
        }
    }
}

#[cfg(test)]
mod tests;
