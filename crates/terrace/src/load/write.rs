//! Writing what a loader has sorted: group by group, each one batch that goes straight to where records
//! rest.
//!
//! One thread merges and fills groups, the caller's writes them, so that neither waits for the other.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use terrace_access::{Flags, Window};
use terrace_base::{Error, Result};
use terrace_wal::Durability;

use super::Loader;
use super::sorter::Sorted;
use crate::batch::Batch;
use crate::checkpointer::Speed;
use crate::core::Core;
use crate::map::Map;
use crate::progress::{Progress, Teller, Work};

/// Records of a group, whose locks are held together.
pub(crate) const GROUP_RECORDS: usize = 256;
/// Bytes of a group, and no more than one record beyond.
const GROUP_BYTES: usize = 64 << 10;
/// And no more than one part in so many of the log's buffer: half of what the log takes at once, which it
/// would write itself, inside the gate.
const LOG_PART: usize = 8;
/// Groups that are on their way from one thread to the other.
const GROUPS: usize = 4;

/// Bytes of a group in this database.
pub(crate) fn group_bytes(core: &Core) -> usize {
    GROUP_BYTES.min(core.budget.log as usize / LOG_PART)
}

/// Records that are written together, in order, each key once.
#[derive(Default)]
struct Group {
    batch: Batch,
    run: Window,
    /// Records of it that were written already.
    passed: u64,
}

impl Group {
    /// Fills it with the next records; `false` when there are none.
    fn fill(&mut self, map: &Map, sorted: &mut Sorted) -> Result<bool> {
        self.batch.clear();
        self.run.clear();
        self.passed = 0;
        let most = group_bytes(&map.db.handle.core);
        while self.batch.len() < GROUP_RECORDS && self.batch.bytes() < most {
            let Some(record) = sorted.next()? else {
                return Ok(!self.batch.is_empty() || self.passed > 0);
            };
            let Some(value) = record.value else {
                self.passed += 1;
                continue;
            };
            self.batch.put(map, record.key, value);
            let append = |bytes: &[u8], out: &mut Vec<u8>| {
                out.extend_from_slice(bytes);
                Ok::<(), Error>(())
            };
            let key = |out: &mut Vec<u8>| append(record.key, out);
            self.run
                .push(Flags::NONE, None, key, |out| append(value, out))?;
        }
        Ok(true)
    }
}

impl Loader {
    pub(super) fn end(
        mut self,
        durability: Option<Durability>,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<u64> {
        let core = self.map.db.handle.core.clone();
        let in_force = core.durability(self.map.open.spec.logged, durability)?;
        let mut teller = Teller::new(progress, Work::Load, self.put);
        teller.is_at(self.written);
        if !self.batch.is_empty() {
            self.write_batch()?;
        }
        if let Some(sorting) = self.sorting.take() {
            let memory = sorting.memory;
            let mut sorted = sorting.sorter.finish().map_err(|e| core.failed(e))?;
            let mut written = 0;
            let mut write = |group: &mut Group| -> Result<()> {
                core.with_room(|| core.write_sorted(&mut group.batch, &group.run))?;
                written += group.batch.len() as u64 + group.passed;
                teller.is_at(written);
                Ok(())
            };
            if core.options.foreground {
                let mut group = Group::default();
                while group.fill(&self.map, &mut sorted)? {
                    write(&mut group)?;
                }
            } else {
                write_beside(&self.map, sorted, &mut write)?;
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
    write: &mut dyn FnMut(&mut Group) -> Result<()>,
) -> Result<()> {
    let (filled, to_write) = sync_channel(GROUPS);
    let (written, to_fill) = sync_channel(GROUPS);
    std::thread::scope(|scope| {
        let filler = std::thread::Builder::new()
            .name("terrace-loader".into())
            .spawn_scoped(scope, || fill_groups(map, sorted, filled, to_fill))
            .map_err(|e| Error::io("starting", "a thread that merges", e))?;
        let done = write_groups(to_write, written, write);
        // It ends when nobody takes its groups any more.
        let panicked = |_| Err(Error::invalid("the thread that merges has panicked"));
        let filled = filler.join().unwrap_or_else(panicked);
        done.and(filled)
    })
}

fn fill_groups(
    map: &Map,
    mut sorted: Sorted,
    filled: SyncSender<Group>,
    written: Receiver<Group>,
) -> Result<()> {
    loop {
        let mut group = written.try_recv().unwrap_or_default();
        if !group.fill(map, &mut sorted)? || filled.send(group).is_err() {
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
        // Where nobody fills it any more it is of no use.
        let _ = written.try_send(group);
    }
    Ok(())
}

impl Core {
    /// Writes something that a full disk refuses before anything of it was done; and then once more, after a
    /// checkpoint: what fills the disk may be the log of what was loaded before.
    pub(super) fn with_room(&self, mut write: impl FnMut() -> Result<()>) -> Result<()> {
        match write() {
            Err(full) if full.is_disk_full() => {
                let pass = self.passes.enter()?;
                let made = self.checkpoint(Speed::Fast, false);
                drop(pass);
                made.map_err(|_| full)?;
                write()
            }
            written => written,
        }
    }
}
