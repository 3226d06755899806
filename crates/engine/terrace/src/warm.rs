//! Which records were hot when the database was closed, so that they are hot again soon after the next opening.
//!
//! Hot tiers lie in memory alone, and what the cold tier has of them, too, is not saved: only its keys are, in the file
//! `warm`, a hint that nothing rests on. After an opening a thread reads these records in their order, so that each
//! cold page is read once, at half the speed that it could, until memory is full. `docs/format-data.md` has the bytes.
//!
//! Invariants: whatever is in the file, nothing comes of it but reads; without it, or where it cannot be written or
//! read, memory fills with what is asked for.

use std::time::Instant;

use terrace_access::{Flags, Window};
use terrace_base::checksum::{mix, seeded};
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{Result, StructureId};

use crate::catalog::hot_places::each_saved;
use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::core::Core;

/// Its name.
pub const WARM_FILE: &str = "warm";
const MAGIC: [u8; 8] = *b"TERRWARM";
/// Bytes of a block, beside its head and a record that is longer: as much as is held in memory.
const BLOCK_BYTES: usize = 64 << 10;
/// Head of a block: bytes behind it, and their checksum.
const HEAD_BYTES: usize = 12;
/// Head of a record: number of the structure, length of the key.
const RECORD_BYTES: usize = 6;
/// The file takes one part in this many of the memory: a tenth of what there is hot, with records of a hundred bytes.
const FILE_PART: u64 = 32;
/// Records that are read before the thread rests as long as that took.
const AT_ONCE: usize = 64;

impl Core {
    /// Writes down which clean records are hot, those that are used most if they are many. No thread is at work. Best
    /// effort.
    pub fn note_warm(&self) {
        if self.options().foreground || !self.has_hot_in_memory() {
            return;
        }
        if self.write_warm().is_err() {
            let _ = self.loads().disk().delete(WARM_FILE);
        }
    }

    /// Whether there is anything to be noted, and to be read again.
    pub fn has_hot_in_memory(&self) -> bool {
        self.registry().has_hot_in_memory()
    }

    fn write_warm(&self) -> Result<()> {
        let (disk, database) = (self.loads().disk(), self.store().superblock().database);
        write(disk, database, self.options().memory, &|least, each| {
            self.each_hot(least, each)
        })
    }

    /// Calls `each` with every clean hot record that was used so often at least.
    fn each_hot(&self, least: u8, each: Each<'_>) -> Result<()> {
        let mut window = Window::new();
        window.set_keys_only(true);
        // Of one that is taken apart some pages are gone already.
        for open in self
            .registry()
            .all()
            .iter()
            .filter(|open| !open.is_dropped())
        {
            let mut from = Vec::new();
            while open.structure.hot_up(&from, least, &mut window)? {
                each_key(open, &window, least, each)?;
                match window.high.take() {
                    Some(next) => from = next,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// The thread that reads them again.
    pub fn run_warm_up(&self) {
        // Whatever is wrong with a hint is not told.
        let _ = self.warm_up();
        let _ = self.loads().disk().delete(WARM_FILE);
    }

    fn warm_up(&self) -> Result<()> {
        let disk = self.loads().disk();
        let Ok(file) = disk.open_buffered(WARM_FILE) else {
            return Ok(());
        };
        let database = self.store().superblock().database;
        let mut at = MAGIC.len() as u64;
        let (mut block, mut value) = (Vec::new(), Vec::new());
        let mut magic = [0; MAGIC.len()];
        if file.read_at(&mut magic, 0).is_err() || magic != MAGIC {
            return Ok(());
        }
        while read_block(&*file, database, &mut at, &mut block) {
            let records: Vec<(StructureId, &[u8])> = Records(&block).collect();
            for some in records.chunks(AT_ONCE) {
                let began = Instant::now();
                if self.tiers().is_full() {
                    return Ok(());
                }
                let pass = self.passes().enter()?;
                for (structure, key) in some {
                    if let Some(open) = self.registry().numbered(*structure)
                        && !open.is_dropped()
                    {
                        open.structure.get(key, &mut value)?;
                    }
                }
                drop(pass);
                if !self.rounds().wait(began.elapsed()) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Is told structure and key of each record, and how often that was used.
type Each<'e> = &'e mut dyn FnMut(StructureId, &[u8], u8) -> Result<()>;

/// Notes the clean records of hot tiers that lay in the file until now. Best effort.
pub fn note_brought_over(disk: &dyn Disk, database: u64, memory: u64, registry: &Registry) {
    let written = write(disk, database, memory, &|least, each| {
        let mut window = Window::new();
        for open in registry.all().iter().filter(|open| !open.is_dropped()) {
            each_saved(open, true, &mut window, &mut |window| {
                each_key(open, window, least, each)
            })?;
        }
        Ok(())
    });
    if written.is_err() {
        let _ = disk.delete(WARM_FILE);
    }
}

fn each_key(open: &Open, window: &Window, least: u8, each: Each<'_>) -> Result<()> {
    let prefix = open.structure.position_prefix();
    for i in 0..window.len() {
        let uses = window.entry(i).flags.use_count();
        if uses >= least {
            let key = window.key(i).get(prefix..).unwrap_or_default();
            each(open.id(), key, uses)?;
        }
    }
    Ok(())
}

/// Writes those of the records that `all` names that are used most, if they are many.
fn write(
    disk: &dyn Disk,
    database: u64,
    memory: u64,
    all: &dyn Fn(u8, Each<'_>) -> Result<()>,
) -> Result<()> {
    let mut bytes = [0u64; Flags::MAX_USE as usize + 1];
    all(0, &mut |_, key, uses| {
        bytes[usize::from(uses.min(Flags::MAX_USE))] += (RECORD_BYTES + key.len()) as u64;
        Ok(())
    })?;
    let most = memory / FILE_PART;
    let (mut least, mut sum) = (Flags::MAX_USE + 1, 0);
    while least > 0 && sum + bytes[usize::from(least - 1)] <= most {
        least -= 1;
        sum += bytes[usize::from(least)];
    }
    let create = |e| terrace_base::Error::io("creating", WARM_FILE, e);
    let file = disk.create_buffered(WARM_FILE).map_err(create)?;
    let mut blocks = Blocks {
        file: &*file,
        database,
        block: Vec::with_capacity(BLOCK_BYTES + HEAD_BYTES),
        offset: MAGIC.len() as u64,
    };
    blocks.write(&MAGIC, 0)?;
    all(least, &mut |structure, key, _| {
        blocks.record(structure, key)
    })?;
    blocks.end()
}

/// The file as it is written.
struct Blocks<'f> {
    file: &'f dyn DiskFile,
    database: u64,
    block: Vec<u8>,
    offset: u64,
}

impl Blocks<'_> {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|e| terrace_base::Error::io("writing", WARM_FILE, e))
    }

    fn record(&mut self, structure: StructureId, key: &[u8]) -> Result<()> {
        if self.block.is_empty() {
            self.block.resize(HEAD_BYTES, 0);
        }
        self.block.extend_from_slice(&structure.0.to_le_bytes());
        self.block
            .extend_from_slice(&(key.len() as u16).to_le_bytes());
        self.block.extend_from_slice(key);
        match self.block.len() > BLOCK_BYTES {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<()> {
        let Some(len) = self.block.len().checked_sub(HEAD_BYTES) else {
            return Ok(());
        };
        let sum = seeded(mix(self.database, self.offset), &self.block[HEAD_BYTES..]);
        self.block[..4].copy_from_slice(&(len as u32).to_le_bytes());
        self.block[4..HEAD_BYTES].copy_from_slice(&sum.to_le_bytes());
        self.write(&self.block, self.offset)?;
        self.offset += self.block.len() as u64;
        self.block.clear();
        Ok(())
    }
}

/// Replaces `block` by the records of the next one; false behind the last, or where it is not whole.
fn read_block(file: &dyn DiskFile, database: u64, at: &mut u64, block: &mut Vec<u8>) -> bool {
    let mut head = [0; HEAD_BYTES];
    if file.read_at(&mut head, *at).is_err() {
        return false;
    }
    let [a, b, c, d, sum @ ..] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len == 0 || len > BLOCK_BYTES + RECORD_BYTES + usize::from(u16::MAX) {
        return false;
    }
    block.resize(len, 0);
    let is_read = file.read_at(block, *at + HEAD_BYTES as u64).is_ok();
    let is_whole = is_read && seeded(mix(database, *at), block) == u64::from_le_bytes(sum);
    *at += (HEAD_BYTES + len) as u64;
    is_whole
}

/// The records of a block.
struct Records<'b>(&'b [u8]);

impl<'b> Iterator for Records<'b> {
    type Item = (StructureId, &'b [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let ([a, b, c, d, e, f], rest) = self.0.split_first_chunk::<RECORD_BYTES>()?;
        let len = usize::from(u16::from_le_bytes([*e, *f]));
        let key = rest.get(..len)?;
        self.0 = &rest[len..];
        Some((StructureId(u32::from_le_bytes([*a, *b, *c, *d])), key))
    }
}

#[cfg(test)]
mod tests {
    use terrace_sim::SimDisk;

    use super::*;
    use crate::{Database, Kind, MapOptions, Options};

    const DATABASE: u64 = 7;

    fn key(i: u32) -> Vec<u8> {
        format!("record {i:08} of those that were hot").into_bytes()
    }

    /// A file of these records, of some blocks.
    fn written(disk: &dyn terrace_base::disk::Disk, records: u32) {
        let file = disk.create_buffered(WARM_FILE).unwrap();
        let mut blocks = Blocks {
            file: &*file,
            database: DATABASE,
            block: Vec::new(),
            offset: MAGIC.len() as u64,
        };
        blocks.write(&MAGIC, 0).unwrap();
        for i in 0..records {
            blocks.record(StructureId(i % 3), &key(i)).unwrap();
        }
        blocks.end().unwrap();
    }

    /// All that is read of it, which is what was written up to some record; how many.
    fn read(disk: &dyn terrace_base::disk::Disk, database: u64) -> u32 {
        let file = disk.open_buffered(WARM_FILE).unwrap();
        let (mut at, mut block) = (MAGIC.len() as u64, Vec::new());
        let mut count = 0;
        while read_block(&*file, database, &mut at, &mut block) {
            for record in Records(&block) {
                assert_eq!(record, (StructureId(count % 3), key(count).as_slice()));
                count += 1;
            }
        }
        count
    }

    #[test]
    fn what_was_written_is_read_up_to_the_first_block_that_is_not_whole() {
        const RECORDS: u32 = 4000;
        let disk = SimDisk::new(1).shared();
        written(&*disk, RECORDS);
        assert_eq!(read(&*disk, DATABASE), RECORDS);
        assert_eq!(read(&*disk, DATABASE + 1), 0, "that of another database");
        let file = disk.open_buffered(WARM_FILE).unwrap();
        let len = file.len().unwrap();
        assert!(len > 2 * BLOCK_BYTES as u64);
        let mut last = 0;
        for at in (MAGIC.len() as u64..len).step_by(997) {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 0x40], at).unwrap();
            let count = read(&*disk, DATABASE);
            assert!((last..RECORDS).contains(&count), "byte {at}: {count}");
            last = count;
            file.write_at(&byte, at).unwrap();
        }
        assert!(last > 0);
    }

    #[test]
    fn what_was_hot_is_hot_again_after_the_next_opening() {
        const HOT: u32 = 300;
        let disk = SimDisk::new(1).shared();
        let options = || Options::new().memory(4 << 20).page_size(4096);
        let hot = |db: &Database| {
            let mut keys = Vec::new();
            let each = &mut |_, key: &[u8], _| {
                keys.push(key.to_vec());
                Ok(())
            };
            db.core().each_hot(0, each).unwrap();
            keys
        };
        let db = Database::open_on(disk.clone(), options()).unwrap();
        let in_memory = MapOptions::new().hot_in_memory(true);
        let map = db.create_map("map", Kind::Tree, in_memory).unwrap();
        let mut loader = map.loader().unwrap();
        for i in 0..20_000 {
            loader.put(key(i), [7; 50]).unwrap();
        }
        loader.finish().unwrap();
        for i in (0..HOT).cycle().take(8 * HOT as usize) {
            map.get(key(i * 60)).unwrap().unwrap();
        }
        let before = hot(&db);
        assert!(before.len() >= HOT as usize / 2, "{}", before.len());
        drop(map);
        db.close().unwrap();
        assert!(disk.open_buffered(WARM_FILE).is_ok());

        let db = Database::open_on(disk.clone(), options()).unwrap();
        while disk.open_buffered(WARM_FILE).is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(hot(&db), before);
        db.close().unwrap();
    }

    /// Pages of a structure that is taken apart are gone; whoever looked for one would wait for ever.
    #[test]
    fn of_what_is_dropped_nothing_is_noted() {
        let options = Options::new().memory(4 << 20).page_size(4096);
        let db = Database::open_on(SimDisk::new(1).shared(), options.foreground(true)).unwrap();
        let in_memory = MapOptions::new().hot_in_memory(true);
        let map = db.create_map("map", Kind::Tree, in_memory).unwrap();
        let mut loader = map.loader().unwrap();
        for i in 0..20_000 {
            loader.put(key(i), [7; 50]).unwrap();
        }
        loader.finish().unwrap();
        for i in 0..300 {
            map.get(key(i * 60)).unwrap().unwrap();
        }
        let noted = || {
            let mut noted = 0;
            let each = &mut |_, _: &[u8], _| {
                noted += 1;
                Ok(())
            };
            db.core().each_hot(0, each).unwrap();
            noted
        };
        assert!(noted() > 0);
        db.core()
            .registry()
            .mark_dropped(&map.open, &mut || ())
            .unwrap();
        assert_eq!(noted(), 0);
    }
}
