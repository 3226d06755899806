//! A file of sorted records, written front to back and read once: what does not fit the memory of a loader.
//!
//! A file is blocks of one length: a checksum over what follows in the block, under a seed of the file and
//! the block; the bytes in use; and these. A record (see [`record`](super::record)) may go on in the next block.
//!
//! Nothing here outlives the loader: no file is synced, and those that a crash has left are removed when the
//! database is opened.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace_base::checksum::{mix, seeded};
use terrace_base::disk::DiskFile;
use terrace_base::{AlignedBuf, Error, Result};

use super::ahead::{Ahead, Coming};
use super::record::{HEADER_BYTES, Lens, Record};
use crate::state::loads::{Space, name_of};

/// Bytes of a block before its content.
const BLOCK_HEADER: usize = 16;
/// Bytes of a file that are read before their space is given back: of many files that are read together, what
/// is written from them has room then.
const DISCARD_BYTES: u64 = 256 << 10;
/// No two files of a process have the same number.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A file that was written; it goes when this is dropped.
pub(crate) struct Run {
    space: Arc<Space>,
    file: Arc<dyn DiskFile>,
    name: String,
    seed: u64,
    block_bytes: usize,
    blocks: u64,
    /// Bytes from the beginning on that are no longer needed, and whose space is given back.
    discarded: u64,
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.space.is_mine() {
            return;
        }
        // If that fails, the next opening does it.
        let _ = self.space.disk().delete(&self.name);
        self.space.deleted(self.bytes() - self.discarded);
    }
}

impl Run {
    /// Blocks before this one are not needed any more.
    fn discard_before(&mut self, block: u64) {
        let read = block * self.block_bytes as u64 - self.discarded;
        if read >= DISCARD_BYTES {
            self.file.discard(self.discarded, read);
            self.space.deleted(read);
            self.discarded += read;
        }
    }

    /// Length of the file.
    pub fn bytes(&self) -> u64 {
        self.blocks * self.block_bytes as u64
    }
}

/// Writes a file.
pub(crate) struct Writer {
    run: Run,
    block: AlignedBuf,
    used: usize,
}

impl Writer {
    /// An empty file. `block_bytes` is a multiple of the block of direct I/O.
    pub fn create(space: &Arc<Space>, block_bytes: usize) -> Result<Writer> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = name_of(number);
        let file = space
            .disk()
            .create(&name)
            .map_err(|e| Error::io("creating", &name, e))?;
        Ok(Writer {
            run: Run {
                space: space.clone(),
                file,
                name,
                seed: mix(number, u64::from(std::process::id())),
                block_bytes,
                blocks: 0,
                discarded: 0,
            },
            block: AlignedBuf::zeroed(block_bytes),
            used: BLOCK_HEADER,
        })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// Those of the disk; then the file is of no use any more.
    pub fn push(&mut self, record: Record<'_>) -> Result<()> {
        self.append(&record.header())?;
        self.append(record.key)?;
        self.append(record.value.unwrap_or_default())
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        loop {
            let part = bytes.len().min(self.block.len() - self.used);
            self.block[self.used..self.used + part].copy_from_slice(&bytes[..part]);
            self.used += part;
            bytes = &bytes[part..];
            if bytes.is_empty() {
                return Ok(());
            }
            self.write_block()?;
        }
    }

    fn write_block(&mut self) -> Result<()> {
        let run = &mut self.run;
        self.block[self.used..].fill(0);
        let len = (self.used - BLOCK_HEADER) as u32;
        self.block[8..12].copy_from_slice(&len.to_le_bytes());
        let sum = seeded(mix(run.seed, run.blocks), &self.block[8..]);
        self.block[..8].copy_from_slice(&sum.to_le_bytes());
        run.file
            .write_at(&self.block, run.bytes())
            .map_err(|e| Error::io("writing", &run.name, e))?;
        run.blocks += 1;
        run.space.wrote(run.block_bytes as u64);
        self.used = BLOCK_HEADER;
        Ok(())
    }

    /// The file as it is now.
    pub fn finish(mut self) -> Result<Run> {
        if self.used > BLOCK_HEADER {
            self.write_block()?;
        }
        Ok(self.run)
    }
}

/// Reads a file.
pub(crate) struct Reader {
    run: Run,
    /// Reads the next block while this one is in use, if it is there.
    ahead: Option<Arc<Ahead>>,
    coming: Option<Coming>,
    block: AlignedBuf,
    /// The next block.
    next: u64,
    /// What of the block was not read yet.
    at: usize,
    end: usize,
    /// Where the key of the record begins that was read last, in the block or, if it goes on in the next, in
    /// `whole`; and its lengths.
    place: (usize, Lens),
    is_whole: bool,
    whole: Vec<u8>,
}

impl Reader {
    /// The file from its beginning. With `ahead` it takes the memory of two blocks, else of one.
    pub fn new(run: Run, ahead: Option<Arc<Ahead>>) -> Reader {
        let block = AlignedBuf::zeroed(run.block_bytes);
        let first = |ahead: &Arc<Ahead>| {
            let block = AlignedBuf::zeroed(run.block_bytes);
            ahead.ask(&run.file, 0, block)
        };
        let coming = ahead.as_ref().map(first);
        Reader {
            run,
            ahead,
            coming,
            block,
            next: 0,
            at: 0,
            end: 0,
            place: (0, Lens::default()),
            is_whole: false,
            whole: Vec::new(),
        }
    }

    /// The record that was read last.
    pub fn record(&self) -> Record<'_> {
        let bytes: &[u8] = if self.is_whole {
            &self.whole
        } else {
            &self.block
        };
        let (from, lens) = self.place;
        Record::at(bytes, from, lens)
    }

    /// Reads the next record; `false` at the end.
    pub fn advance(&mut self) -> Result<bool> {
        if self.at == self.end && !self.read_block()? {
            return Ok(false);
        }
        let rest = &self.block[self.at..self.end];
        if rest.len() >= HEADER_BYTES {
            let lens = Lens::read(rest);
            if HEADER_BYTES + lens.bytes() <= rest.len() {
                let from = self.at + HEADER_BYTES;
                (self.place, self.is_whole) = ((from, lens), false);
                self.at = from + lens.bytes();
                return Ok(true);
            }
        }
        let mut whole = std::mem::take(&mut self.whole);
        whole.clear();
        self.take(HEADER_BYTES, &mut whole)?;
        let lens = Lens::read(&whole);
        // No more than that: there may be many readers.
        whole.reserve_exact(lens.bytes().min(self.run.block_bytes * 8));
        self.take(lens.bytes(), &mut whole)?;
        self.whole = whole;
        (self.place, self.is_whole) = ((HEADER_BYTES, lens), true);
        Ok(true)
    }

    /// Appends the next `len` bytes to `out`.
    fn take(&mut self, mut len: usize, out: &mut Vec<u8>) -> Result<()> {
        loop {
            let part = len.min(self.end - self.at);
            out.extend_from_slice(&self.block[self.at..self.at + part]);
            self.at += part;
            len -= part;
            if len == 0 {
                return Ok(());
            }
            if !self.read_block()? {
                return Err(self.damaged("ends within a record"));
            }
        }
    }

    fn read_block(&mut self) -> Result<bool> {
        if self.next == self.run.blocks {
            return Ok(false);
        }
        let run = &self.run;
        let at = self.next * run.block_bytes as u64;
        let read = match self.coming.take() {
            Some(coming) => coming
                .wait()
                .map(|block| std::mem::replace(&mut self.block, block))
                .map(Some),
            None => run.file.read_at(&mut self.block, at).map(|()| None),
        };
        let spare = read.map_err(|e| Error::io("reading", &run.name, e))?;
        if let (Some(ahead), Some(spare)) = (&self.ahead, spare)
            && self.next + 1 < run.blocks
        {
            let behind = at + run.block_bytes as u64;
            self.coming = Some(ahead.ask(&run.file, behind, spare));
        }
        let word = |at: usize| -> [u8; 8] { self.block[at..at + 8].try_into().unwrap_or_default() };
        let sum = seeded(mix(self.run.seed, self.next), &self.block[8..]);
        let len = u32::from_le_bytes(self.block[8..12].try_into().unwrap_or_default()) as usize;
        if word(0) != sum.to_le_bytes() || len == 0 || len > self.block.len() - BLOCK_HEADER {
            return Err(self.damaged("is not as it was written"));
        }
        (self.at, self.end) = (BLOCK_HEADER, BLOCK_HEADER + len);
        self.run.discard_before(self.next);
        self.next += 1;
        Ok(true)
    }

    /// Of a file that is gone in a moment, there is nothing to restore.
    fn damaged(&self, what: &str) -> Error {
        Error::Corrupt {
            file: self.run.name.clone(),
            offset: Some(self.next * self.run.block_bytes as u64),
            what: format!("this file of a loader {what}"),
            way_out: "load the records again, after a look at the disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::loads::remove_leftovers;
    use terrace_base::disk::Disk;
    use terrace_sim::{Fault, Injection, Op, Rng, SimDisk};

    const BLOCK: usize = 4096;

    fn records() -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        // All lengths up to more than two blocks, and around the ends of a block.
        let lens = (0..200).map(|i| i * 61).chain([0, 4067, 4068, 4074, 4080]);
        let record = |(i, len): (usize, usize)| {
            let value = (i % 7 != 3).then(|| vec![i as u8; len]);
            (format!("key-{i:05}").into_bytes(), value)
        };
        lens.enumerate().map(record).collect()
    }

    fn write(disk: &Arc<dyn Disk>) -> Result<Run> {
        let mut writer = Writer::create(&Space::new(disk.clone()), BLOCK)?;
        for (key, value) in &records() {
            writer.push(Record {
                key,
                value: value.as_deref(),
            })?;
        }
        writer.finish()
    }

    /// Without reading ahead, and with.
    fn ways() -> [Option<Arc<Ahead>>; 2] {
        [None, Some(Arc::new(Ahead::start().unwrap()))]
    }

    #[test]
    fn what_was_written_is_read_and_the_file_goes() {
        for ahead in ways() {
            let disk = SimDisk::new(1).shared();
            let run = write(&disk).unwrap();
            assert_eq!(disk.list().unwrap().len(), 1);
            let mut reader = Reader::new(run, ahead);
            for (key, value) in records() {
                assert!(reader.advance().unwrap());
                assert_eq!(reader.record().key, key);
                assert_eq!(reader.record().value, value.as_deref());
            }
            assert!(!reader.advance().unwrap());
            assert!(!reader.advance().unwrap());
            drop(reader);
            assert!(disk.list().unwrap().is_empty());
        }
    }

    /// Reads until it fails.
    fn failure(run: Run, ahead: Option<Arc<Ahead>>) -> Error {
        let mut reader = Reader::new(run, ahead);
        loop {
            match reader.advance() {
                Ok(more) => assert!(more, "nothing was found"),
                Err(error) => return error,
            }
        }
    }

    #[test]
    fn a_byte_that_has_changed_is_found() {
        for at in [0, 8, 9, 12, 17, 4095, 3 * BLOCK, 7 * BLOCK + 77] {
            for ahead in ways() {
                let disk = SimDisk::new(1).shared();
                let run = write(&disk).unwrap();
                let mut block = AlignedBuf::zeroed(BLOCK);
                let from = (at / BLOCK * BLOCK) as u64;
                run.file.read_at(&mut block, from).unwrap();
                block[at % BLOCK] ^= 4;
                run.file.write_at(&block, from).unwrap();
                let error = failure(run, ahead);
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            }
        }
    }

    /// No writer writes that, but who knows what a disk does.
    #[test]
    fn any_bytes_under_right_checksums_are_records_or_an_error() {
        let mut rng = Rng::new(1);
        let (mut whole, mut torn) = (0, 0);
        for round in 0..2000 {
            let disk = SimDisk::new(1).shared();
            let mut writer = Writer::create(&Space::new(disk), BLOCK).unwrap();
            for _ in 0..rng.below(8) {
                let mut bytes = rng.bytes(rng.clone().below(3000) as usize);
                // Lengths that are not as good as always too long.
                if bytes.len() > 6 && round % 2 == 0 {
                    (bytes[1], bytes[4], bytes[5]) = (bytes[1] % 4, 0, 0);
                }
                writer.append(&bytes).unwrap();
            }
            let mut reader = Reader::new(writer.finish().unwrap(), None);
            loop {
                match reader.advance() {
                    Ok(true) => assert!(reader.record().bytes() < 100_000),
                    Ok(false) => break whole += 1,
                    Err(Error::Corrupt { .. }) => break torn += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        assert!(whole > 100 && torn > 100, "{whole}, {torn}");
    }

    #[test]
    fn a_block_that_cannot_be_read_is_an_error() {
        for nth in [1, 2, 9] {
            for ahead in ways() {
                let disk = SimDisk::new(1);
                let run = write(&disk.shared()).unwrap();
                disk.inject(Injection {
                    op: Some(Op::Read),
                    file: None,
                    nth,
                    fault: Fault::Eio,
                    forever: false,
                });
                let error = failure(run, ahead);
                assert!(matches!(error, Error::Io { .. }), "{error}");
                assert!(disk.names().is_empty());
            }
        }
    }

    #[test]
    fn leftovers_are_removed_and_nothing_else() {
        let disk = SimDisk::new(1).shared();
        std::mem::forget(write(&disk).unwrap());
        for name in ["load-notes", "load-00000000000000zz", "data"] {
            disk.create(name).unwrap();
        }
        remove_leftovers(&*disk).unwrap();
        assert_eq!(disk.list().unwrap().len(), 3);
    }
}
