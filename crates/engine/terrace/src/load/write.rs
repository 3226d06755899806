//! Writing what a loader has sorted: group by group, each one batch that goes straight to where records
//! rest.
//!
//! One thread merges and fills groups, the caller's writes them, so that neither waits for the other.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use terrace_access::{Flags, Window};
use terrace_base::{Error, Result};
use terrace_tier::Change;
use terrace_wal::Durability;

use super::group::{GROUP_RECORDS, group_bytes};
use super::loader::Loader;
use super::sorter::Sorted;
use crate::handle::map::Map;
use crate::progress::{Progress, Teller, Work};
use crate::write::batch::Batch;

/// Groups that are on their way from one thread to the other.
const GROUPS: usize = 2;

/// Records that are written together, in order, each key once.
#[derive(Default)]
struct Group {
    batch: Batch,
    run: Window,
    /// Records of it that were written already.
    passed: u64,
}

impl Group {
    /// Fills it with the next records, of `most` bytes and no more than one record beyond; `false` when there
    /// are none.
    fn fill(&mut self, map: &Map, sorted: &mut Sorted, most: usize) -> Result<bool> {
        self.batch.clear();
        self.run.clear();
        self.passed = 0;
        while self.batch.len() < GROUP_RECORDS && self.batch.bytes() < most {
            let Some(record) = sorted.next()? else {
                return Ok(!self.batch.is_empty() || self.passed > 0);
            };
            let Some(value) = record.value else {
                self.passed += 1;
                continue;
            };
            self.push(map, record.key, value)?;
        }
        Ok(true)
    }

    fn push(&mut self, map: &Map, key: &[u8], value: &[u8]) -> Result<()> {
        let (open, db) = (&map.open, Some(&map.db));
        self.batch.change(open, db, key, Change::Put(value));
        let append = |bytes: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(bytes);
            Ok::<(), Error>(())
        };
        let of_key = |out: &mut Vec<u8>| append(key, out);
        self.run
            .push(Flags::NONE, None, of_key, |out| append(value, out))
    }

    /// Writes it, if need be in parts.
    fn write(&mut self, map: &Map) -> Result<()> {
        let core = map.core();
        let whole = core.with_room(|| core.write_sorted(&mut self.batch, &self.run))?;
        let Some(first) = whole else {
            return Ok(());
        };
        for records in [0..first, first..self.run.len()] {
            let mut part = Group::default();
            for i in records {
                part.push(map, self.run.key(i), self.run.value(i))?;
            }
            part.write(map)?;
        }
        Ok(())
    }
}

impl Loader {
    /// Writes the records. Returns how many, each key counted once (those of a hash table as often as they
    /// were put). They are as durable then as the database's writes are: see
    /// [`Options::durability`](crate::Options::durability).
    ///
    /// # Errors
    /// Those of [`Map::put`], and of the disk. Some of the records are written then: those with the lowest
    /// keys (of a hash table those put first). What has been written is right, so the same may be loaded again.
    pub fn finish(self) -> Result<u64> {
        self.end(None, &mut |_| ())
    }

    /// [`Loader::finish`], as durable as said, and telling now and then how far it has come
    /// ([`crate::Work::Load`]).
    ///
    /// # Errors
    /// As [`Loader::finish`].
    pub fn finish_with(
        self,
        durability: Durability,
        mut progress: impl FnMut(Progress),
    ) -> Result<u64> {
        self.end(Some(durability), &mut progress)
    }

    fn end(
        mut self,
        durability: Option<Durability>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        self.check_owner()?;
        let core = self.map.core().clone();
        let in_force = core.durability(self.map.open.spec.logged, durability)?;
        let mut teller = Teller::new(progress, Work::Load, self.put);
        teller.is_at(self.written);
        if !self.batch.is_empty() {
            self.write_batch()?;
        }
        if let Some(sorting) = self.sorting.take() {
            let memory = sorting.memory;
            let mut sorted = core.heard(sorting.sorter.finish())?;
            let mut written = 0;
            let mut write = |group: &mut Group| -> Result<()> {
                if self.cancel.is_cancelled() {
                    return Err(Error::Cancelled {
                        what: "the loading; some of the records are written".into(),
                    });
                }
                group.write(&self.map)?;
                written += group.batch.len() as u64 + group.passed;
                teller.is_at(written);
                Ok(())
            };
            let most = group_bytes(core.budget(), memory.bytes());
            if core.options().foreground {
                let mut group = Group::default();
                while group.fill(&self.map, &mut sorted, most)? {
                    write(&mut group)?;
                }
            } else {
                write_beside(&self.map, sorted, most, &mut write)?;
            }
            self.written += written;
            drop(memory);
        }
        if let Some(durability) = in_force {
            core.confirm(durability)?;
        }
        teller.end();
        Ok(self.written)
    }
}

/// Fills groups in a thread of its own, and writes them in this one.
fn write_beside(
    map: &Map,
    sorted: Sorted,
    most: usize,
    write: &mut dyn FnMut(&mut Group) -> Result<()>,
) -> Result<()> {
    let (filled, to_write) = sync_channel(GROUPS);
    let (written, to_fill) = sync_channel(GROUPS);
    std::thread::scope(|scope| {
        let filler = std::thread::Builder::new()
            .name("terrace-loader".into())
            .spawn_scoped(scope, || fill_groups(map, sorted, most, filled, to_fill))
            .map_err(|e| Error::io("starting", "a thread that merges", e))?;
        let done = write_groups(to_write, written, write);
        // It ends when no thread takes its groups any more.
        let panicked = |_| Err(Error::invalid("the thread that merges has panicked"));
        let filled = filler.join().unwrap_or_else(panicked);
        done.and(filled)
    })
}

fn fill_groups(
    map: &Map,
    mut sorted: Sorted,
    most: usize,
    filled: SyncSender<Group>,
    written: Receiver<Group>,
) -> Result<()> {
    loop {
        let mut group = written.try_recv().unwrap_or_default();
        if !group.fill(map, &mut sorted, most)? || filled.send(group).is_err() {
            return Ok(());
        }
    }
}

fn write_groups(
    filled: Receiver<Group>,
    written: SyncSender<Group>,
    write: &mut dyn FnMut(&mut Group) -> Result<()>,
) -> Result<()> {
    for mut group in filled {
        write(&mut group)?;
        // Where no thread fills it any more it is of no use.
        let _ = written.try_send(group);
    }
    Ok(())
}
