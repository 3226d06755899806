//! Any number of records in order, in a memory of a given size: sorted in memory as many as fit, and where
//! there are more, in files, which are merged (Knuth, The Art of Computer Programming 3, 5.4).
//!
//! Invariants: files of a higher level are older than those of a lower one, and within a level later ones are
//! newer, so that of a key the newest record is known. There are never more files than have two blocks each
//! in the memory, or very few; where some of them are merged while records come in, half of the memory is
//! for these, and the files have a block each in the other half.

use std::sync::Arc;
use std::thread::JoinHandle;

use terrace_base::aligned::BLOCK_BYTES;
use terrace_base::{Error, Result};

use super::buffer::Buffer;
use super::merge::Merge;
use super::record::Record;
use super::run_file::{Run, Writer};
use crate::state::loads::Space;

/// One part of the memory in this many is a block of a file.
const BLOCK_PART: usize = 256;
/// Longest block: longer ones are not read faster.
const LONGEST_BLOCK: usize = 256 << 10;
/// As many files there may be in any case: fewer, and most of the time would go by merging them.
const LEAST_FILES: usize = 8;

/// Sorts records in a memory of a given size, and in files where there are more.
pub(crate) struct Sorter {
    space: Arc<Space>,
    memory: usize,
    /// Whether another thread may sort and write while records come in.
    threads: bool,
    /// Records that came in, and the bytes of these.
    records: u64,
    bytes: u64,
    /// Bytes of the longest.
    longest: usize,
    buffer: Buffer,
    /// The other half of the memory, while no thread writes it.
    spare: Option<Buffer>,
    writing: Option<JoinHandle<Result<(Run, Buffer)>>>,
    /// Files by level.
    levels: Vec<Vec<Run>>,
    /// What went wrong where no caller could be told.
    failed: Option<Error>,
}

/// The records in order.
pub(crate) enum Sorted {
    Memory(Buffer),
    Files(Merge),
}

impl Sorted {
    /// The next record.
    pub fn next(&mut self) -> Result<Option<Record<'_>>> {
        match self {
            Sorted::Memory(buffer) => Ok(buffer.next()),
            Sorted::Files(merge) => merge.next(),
        }
    }
}

impl Sorter {
    /// Sorts in `memory` bytes.
    pub fn new(space: Arc<Space>, memory: usize, threads: bool) -> Sorter {
        Sorter {
            space,
            memory,
            threads,
            records: 0,
            bytes: 0,
            longest: 0,
            buffer: Buffer::default(),
            spare: Some(Buffer::default()),
            writing: None,
            levels: Vec::new(),
            failed: None,
        }
    }

    fn block_bytes(&self) -> usize {
        let part = (self.memory / BLOCK_PART).min(LONGEST_BLOCK);
        (part / BLOCK_BYTES * BLOCK_BYTES).max(BLOCK_BYTES)
    }

    /// Most files that there are at once: each has two blocks in memory when they are merged at the end, and
    /// room for a record that goes over the end of one.
    fn most_files(&self) -> usize {
        (self.memory / (2 * self.block_bytes() + self.longest)).max(LEAST_FILES)
    }

    /// Whether a record has no more room in memory: then what is there goes to a file.
    pub fn is_full_for(&self, record: Record<'_>) -> bool {
        !self.buffer.has_room(record)
    }

    /// Adds a record.
    ///
    /// # Errors
    /// Those of the disk: the record is not added then, and those before it are lost.
    pub fn push(&mut self, record: Record<'_>) -> Result<()> {
        if let Some(failed) = &self.failed {
            return Err(failed.clone());
        }
        if self.is_full_for(record) {
            let spilled = self.spill();
            self.note(spilled)?;
        }
        let bytes = record.bytes() as u64;
        if self.buffer.len() == 0 {
            let average = (self.bytes + bytes) / (self.records + 1);
            self.buffer.reserve(self.memory / 2, average as usize);
        }
        self.longest = self.longest.max(record.bytes());
        self.records += 1;
        self.bytes += bytes;
        self.buffer.push(record);
        Ok(())
    }

    fn note<T>(&mut self, done: Result<T>) -> Result<T> {
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }

    /// Sorts what is in the buffer, and writes it to a file.
    fn spill(&mut self) -> Result<()> {
        self.wait()?;
        let (space, block_bytes) = (self.space.clone(), self.block_bytes());
        let other = self.spare.take().unwrap_or_default();
        let full = std::mem::replace(&mut self.buffer, other);
        let write = move || write_sorted(&space, block_bytes, full);
        if !self.threads {
            let (run, buffer) = write()?;
            self.spare = Some(buffer);
            return self.add(run, 0);
        }
        let writing = std::thread::Builder::new()
            .name("terrace-loader".into())
            .spawn(write)
            .map_err(|e| Error::io("starting", "a thread that sorts", e))?;
        self.writing = Some(writing);
        Ok(())
    }

    /// Waits for the file that is being written.
    fn wait(&mut self) -> Result<()> {
        let Some(writing) = self.writing.take() else {
            return Ok(());
        };
        let panicked = |_| Err(Error::invalid("the thread that sorts has panicked"));
        let (run, buffer) = writing.join().unwrap_or_else(panicked)?;
        self.spare = Some(buffer);
        self.add(run, 0)
    }

    /// Adds a file to a level. Where there are too many now, those of the level that has the most become one.
    fn add(&mut self, run: Run, level: usize) -> Result<()> {
        self.push_to(level, run);
        while self.levels.iter().map(Vec::len).sum::<usize>() >= self.most_files() {
            let fullest = (0..self.levels.len()).rev();
            match fullest.max_by_key(|&level| self.levels[level].len()) {
                Some(level) if self.levels[level].len() > 1 => self.lift(level)?,
                _ => break,
            }
        }
        Ok(())
    }

    fn push_to(&mut self, level: usize, run: Run) {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Vec::new);
        }
        self.levels[level].push(run);
    }

    /// Makes the files of a level one of the next.
    fn lift(&mut self, level: usize) -> Result<()> {
        // Its memory is for the blocks now.
        self.spare = None;
        let runs = std::mem::take(&mut self.levels[level]);
        let mut merge = Merge::new(runs, false)?;
        let mut writer = Writer::create(&self.space, self.block_bytes())?;
        while let Some(record) = merge.next()? {
            writer.push(record)?;
        }
        drop(merge);
        self.push_to(level + 1, writer.finish()?);
        Ok(())
    }

    /// The end of the input: the records in order.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn finish(mut self) -> Result<Sorted> {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        self.wait()?;
        if self.levels.is_empty() {
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.sort();
            return Ok(Sorted::Memory(buffer));
        }
        if self.buffer.len() > 0 {
            self.spill()?;
            self.wait()?;
        }
        self.spare = None;
        self.buffer = Buffer::default();
        let oldest_first = std::mem::take(&mut self.levels).into_iter().rev();
        let runs = oldest_first.flatten().collect();
        Merge::new(runs, self.threads).map(Sorted::Files)
    }
}

impl Drop for Sorter {
    fn drop(&mut self) {
        match self.writing.take() {
            // Its file goes with what it returns.
            Some(writing) if self.space.is_mine() => drop(writing.join()),
            // In a child there is no such thread.
            writing => std::mem::forget(writing),
        }
    }
}

fn write_sorted(
    space: &Arc<Space>,
    block_bytes: usize,
    mut buffer: Buffer,
) -> Result<(Run, Buffer)> {
    buffer.sort();
    let mut writer = Writer::create(space, block_bytes)?;
    while let Some(record) = buffer.next() {
        writer.push(record)?;
    }
    let run = writer.finish()?;
    buffer.clear();
    Ok((run, buffer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use terrace_sim::{Fault, Injection, Op, SimDisk};

    /// Sorts `records` records of keys below `keys` in `memory` bytes of memory; returns how many files there were at
    /// the end.
    fn sort(records: u64, keys: u64, memory: usize, threads: bool) -> usize {
        let disk = SimDisk::new(1).shared();
        let space = Space::new(disk.clone());
        let mut sorter = Sorter::new(space.clone(), memory, threads);
        let mut model = BTreeMap::new();
        for i in 0..records {
            let n = terrace_base::checksum::mix(i, 7) % keys;
            let key = format!("{:03}-a key-{n}", n % 11).into_bytes();
            let value = (i % 13 != 0).then(|| i.to_le_bytes().repeat((n % 40) as usize));
            let record = Record {
                key: &key,
                value: value.as_deref(),
            };
            sorter.push(record).unwrap();
            model.insert(key, value);
        }
        let mut sorted = sorter.finish().unwrap();
        let files = disk.list().unwrap().len();
        let mut expected = model.iter();
        while let Some(record) = sorted.next().unwrap() {
            let (key, value) = expected.next().expect("a record too many");
            assert_eq!(record.key, key);
            assert_eq!(record.value, value.as_deref());
        }
        assert_eq!(expected.next(), None);
        assert!(sorted.next().unwrap().is_none());
        drop(sorted);
        assert!(disk.list().unwrap().is_empty(), "a file stays");
        assert_eq!(space.file_bytes(), 0);
        assert_eq!(space.bytes_written() > 0, files > 0);
        files
    }

    #[test]
    fn records_come_out_in_order_and_the_newest_of_a_key() {
        for threads in [false, true] {
            assert_eq!(sort(0, 1, 1 << 16, threads), 0);
            assert_eq!(sort(100, 1000, 1 << 16, threads), 0);
            // Some files, and with merges on one level, and on more.
            assert!(sort(1000, 10_000, 1 << 16, threads) > 1);
            assert!(sort(3000, 500, 1 << 16, threads) > 1);
            sort(20_000, 20_000, 1 << 16, threads);
            sort(20_000, 5_000, 1 << 14, threads);
        }
    }

    #[test]
    fn no_more_files_are_merged_at_once_than_have_room() {
        let memory = 1 << 16;
        assert!(sort(60_000, 60_000, memory, false) < memory / 2 / BLOCK_BYTES);
    }

    #[test]
    fn a_disk_that_fails_is_an_error_that_stays() {
        for (op, nth) in [(Op::Write, 3), (Op::Write, 30), (Op::Create, 2)] {
            let disk = SimDisk::new(1);
            disk.inject(Injection {
                op: Some(op),
                file: None,
                nth,
                fault: Fault::Eio,
                forever: false,
            });
            let mut sorter = Sorter::new(Space::new(disk.shared()), 1 << 14, true);
            let push = |sorter: &mut Sorter, i: u64| {
                let key = i.to_be_bytes();
                let value = Some(&[1; 100][..]);
                sorter.push(Record { key: &key, value })
            };
            let failed = (0..20_000).find_map(|i| push(&mut sorter, i).err());
            assert!(failed.is_some(), "{op:?}");
            assert!(push(&mut sorter, 0).is_err());
            assert!(sorter.finish().is_err());
            let files = disk.shared().list().unwrap();
            assert!(files.is_empty(), "{files:?} stay");
        }
    }
}
