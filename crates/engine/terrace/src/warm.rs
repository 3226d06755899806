//! Which records were hot when the database was closed, so that they are hot again soon after the next opening.
//!
//! Hot tiers lie in memory alone, and of what the cold tier has, too, nothing is saved, nor how often anything was used.
//! The keys of what is hot and its use counts are in the file `warm`, a hint that nothing rests on. After an opening a
//! thread goes through it in the order of the records, so that each cold page is read once, at half the speed that it
//! could. Use counts count half: what is asked for now may be something else. `docs/format.md` has the bytes.
//!
//! Invariants: whatever is in the file, nothing comes of it but reads; without it, or where it cannot be written or
//! read, memory fills with what is asked for.

use std::time::Instant;

use terrace_access::{Flags, Window};
use terrace_base::checksum::{mix, seeded};
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::file_disk::WARM_FILE;
use terrace_base::{Result, StructureId};

use crate::catalog::hot_places::each_saved;
use crate::catalog::opened::Open;
use crate::catalog::registry::Registry;
use crate::core::Core;

const MAGIC: [u8; 8] = *b"TERRWRM2";
/// Bytes of a block, beside its head and a record that is longer: as much as is held in memory.
const BLOCK_BYTES: usize = 64 << 10;
/// Head of a block: bytes behind it, number of the structure, checksum of both.
const HEAD_BYTES: usize = 16;
/// Head of a record: use count, bytes that its key begins with as the one before, length of the rest.
const RECORD_BYTES: usize = 4;
/// The file takes one part in this many of the memory at most: all that is hot, with records of a hundred bytes.
const FILE_PART: u64 = 8;
/// Records that are looked at before the thread rests as long as that took, at most: they lie on a dozen pages or so.
const AT_ONCE: usize = 512;

impl Core {
    /// Writes down which records are hot, those that are used most if they are many. No thread is at work. Best
    /// effort.
    pub fn note_warm(&self) {
        if self.options().foreground || !self.has_hot_in_memory() {
            return;
        }
        if !self.has_loaded() || self.loads().disk().open_buffered(WARM_FILE).is_ok() {
            // What was noted when it was closed before is still as good: it was not gone through to its end.
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

    /// Calls `each` with every hot record that was used so often at least.
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
        // What stands in the way of it is met by who asks for it.
        if let Ok(false) = self.load_in_background() {
            return;
        }
        // Whatever is wrong with a hint is not told.
        if !matches!(self.warm_up(), Ok(false)) {
            let _ = self.loads().disk().delete(WARM_FILE);
        }
    }

    /// Whether the threads go on.
    fn warm_up(&self) -> Result<bool> {
        let disk = self.loads().disk();
        let Ok(file) = disk.open_buffered(WARM_FILE) else {
            return Ok(true);
        };
        let database = self.store().superblock().database;
        let (mut at, mut block) = (MAGIC.len() as u64, Block::EMPTY);
        let mut magic = [0; MAGIC.len()];
        if file.read_at(&mut magic, 0).is_err() || magic != MAGIC {
            return Ok(true);
        }
        while read_block(&*file, database, &mut at, &mut block) {
            let mut records = Records::of(&block.bytes);
            let halved = |(key, uses): (Vec<u8>, u8)| (key, uses.div_ceil(2));
            loop {
                let some: Vec<_> = records.by_ref().take(AT_ONCE).map(halved).collect();
                if some.is_empty() {
                    break;
                }
                let mut left = &some[..];
                while !left.is_empty() {
                    let began = Instant::now();
                    let done = self.warm_up_some(block.structure, left)?;
                    left = left.get(done..).unwrap_or_default();
                    if !self.rounds().wait(began.elapsed()) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    /// With how many of these it is done.
    fn warm_up_some(&self, structure: StructureId, some: &[(Vec<u8>, u8)]) -> Result<usize> {
        let _pass = self.passes().enter()?;
        let open = self.registry().numbered(structure);
        let Some(open) = open.filter(|open| !open.is_dropped()) else {
            return Ok(some.len());
        };
        let structure = &open.structure;
        let done = structure.warm_up(some)?.max(1);
        if let (Some((first, _)), Some((last, _))) = (some.first(), some.get(done - 1)) {
            let (low, high) = (structure.position(first)?, structure.position(last)?);
            structure.close_up_hot(&low, Some(&high))?;
        }
        Ok(done)
    }
}

/// Is told structure and key of each record, and how often that was used.
type Each<'e> = &'e mut dyn FnMut(StructureId, &[u8], u8) -> Result<()>;

/// Notes the records of hot tiers that lay in the file until now. Best effort.
pub fn note_brought_over(disk: &dyn Disk, database: u64, memory: u64, registry: &Registry) {
    let written = write(disk, database, memory, &|least, each| {
        let mut window = Window::new();
        for open in registry.all().iter().filter(|open| !open.is_dropped()) {
            for clean in [true, false] {
                each_saved(open, clean, &mut window, &mut |window| {
                    each_key(open, window, least, each)
                })?;
            }
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
        let flags = window.entry(i).flags;
        let uses = flags.use_count();
        if uses >= least && !flags.is_deleted() {
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
        block: Block::EMPTY,
        offset: MAGIC.len() as u64,
    };
    blocks.write(&MAGIC, 0)?;
    all(least, &mut |structure, key, uses| {
        blocks.record(structure, key, uses)
    })?;
    blocks.end()
}

/// Records of one structure that lie together in the file.
struct Block {
    structure: StructureId,
    bytes: Vec<u8>,
    /// The key of the last record that was put in.
    last: Vec<u8>,
}

impl Block {
    const EMPTY: Block = Block {
        structure: StructureId(0),
        bytes: Vec::new(),
        last: Vec::new(),
    };

    fn checksum(&self, database: u64, offset: u64) -> u64 {
        let seed = mix(mix(database, offset), u64::from(self.structure.0));
        seeded(seed, &self.bytes)
    }

    fn push(&mut self, key: &[u8], uses: u8) {
        let same = self.last.iter().zip(key).take_while(|(a, b)| a == b);
        let shared = same.count().min(usize::from(u8::MAX));
        let rest = &key[shared..];
        let [low, high] = (rest.len() as u16).to_le_bytes();
        self.bytes
            .extend_from_slice(&[uses, shared as u8, low, high]);
        self.bytes.extend_from_slice(rest);
        self.last.truncate(shared);
        self.last.extend_from_slice(rest);
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.last.clear();
    }
}

/// Decodes records as a block has them, and encodes them again. Returns how many they are.
///
/// # Panics
/// If they do not come back.
pub fn try_records(bytes: &[u8]) -> usize {
    // No key is longer in a file that was written.
    let is_key = |(key, _): &(Vec<u8>, u8)| key.len() <= usize::from(u16::MAX);
    let records: Vec<_> = Records::of(bytes).take_while(is_key).collect();
    let mut block = Block::EMPTY;
    for (key, uses) in &records {
        block.push(key, *uses);
    }
    assert!(Records::of(&block.bytes).eq(records.iter().cloned()));
    records.len()
}

/// The file as it is written.
struct Blocks<'f> {
    file: &'f dyn DiskFile,
    database: u64,
    block: Block,
    offset: u64,
}

impl Blocks<'_> {
    fn write(&self, bytes: &[u8], offset: u64) -> Result<()> {
        let written = self.file.write_at(bytes, offset);
        written.map_err(|e| terrace_base::Error::io("writing", WARM_FILE, e))
    }

    fn record(&mut self, structure: StructureId, key: &[u8], uses: u8) -> Result<()> {
        if self.block.structure != structure || self.block.bytes.len() > BLOCK_BYTES {
            self.end()?;
            self.block.structure = structure;
        }
        self.block.push(key, uses);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        if self.block.bytes.is_empty() {
            return Ok(());
        }
        let sum = self.block.checksum(self.database, self.offset);
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&(self.block.bytes.len() as u32).to_le_bytes());
        head[4..8].copy_from_slice(&self.block.structure.0.to_le_bytes());
        head[8..].copy_from_slice(&sum.to_le_bytes());
        self.write(&head, self.offset)?;
        self.write(&self.block.bytes, self.offset + HEAD_BYTES as u64)?;
        self.offset += (HEAD_BYTES + self.block.bytes.len()) as u64;
        self.block.clear();
        Ok(())
    }
}

/// Replaces `block` by the next one; false behind the last, or where it is not whole.
fn read_block(file: &dyn DiskFile, database: u64, at: &mut u64, block: &mut Block) -> bool {
    let mut head = [0; HEAD_BYTES];
    if file.read_at(&mut head, *at).is_err() {
        return false;
    }
    let [a, b, c, d, e, f, g, h, sum @ ..] = head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    if len == 0 || len > BLOCK_BYTES + RECORD_BYTES + usize::from(u16::MAX) {
        return false;
    }
    block.structure = StructureId(u32::from_le_bytes([e, f, g, h]));
    block.bytes.resize(len, 0);
    let is_read = file
        .read_at(&mut block.bytes, *at + HEAD_BYTES as u64)
        .is_ok();
    let is_whole = is_read && block.checksum(database, *at) == u64::from_le_bytes(sum);
    *at += (HEAD_BYTES + len) as u64;
    is_whole
}

/// The records of a block: keys and use counts.
struct Records<'b> {
    left: &'b [u8],
    key: Vec<u8>,
}

impl Records<'_> {
    fn of(bytes: &[u8]) -> Records<'_> {
        Records {
            left: bytes,
            key: Vec::new(),
        }
    }
}

impl Iterator for Records<'_> {
    type Item = (Vec<u8>, u8);

    fn next(&mut self) -> Option<Self::Item> {
        let ([uses, shared, low, high], rest) = self.left.split_first_chunk::<RECORD_BYTES>()?;
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let (own, behind) = rest.split_at_checked(len)?;
        self.key.truncate(usize::from(*shared));
        self.key.extend_from_slice(own);
        self.left = behind;
        Some((self.key.clone(), (*uses).min(Flags::MAX_USE)))
    }
}

#[cfg(test)]
mod tests {
    use terrace_sim::SimDisk;

    use super::*;
    use crate::{Database, Kind, Map, MapOptions, Options};

    const DATABASE: u64 = 7;

    fn key(i: u32) -> Vec<u8> {
        format!("record {i:08} of those that were hot").into_bytes()
    }

    fn structure(i: u32) -> StructureId {
        StructureId(i / 3000)
    }

    fn uses(i: u32) -> u8 {
        (i % 8) as u8
    }

    /// A file of these records, of some blocks.
    fn written(disk: &dyn terrace_base::disk::Disk, records: u32) {
        let file = disk.create_buffered(WARM_FILE).unwrap();
        let mut blocks = Blocks {
            file: &*file,
            database: DATABASE,
            block: Block::EMPTY,
            offset: MAGIC.len() as u64,
        };
        blocks.write(&MAGIC, 0).unwrap();
        for i in 0..records {
            blocks.record(structure(i), &key(i), uses(i)).unwrap();
        }
        blocks.end().unwrap();
    }

    /// All that is read of it, which is what was written up to some record; how many.
    fn read(disk: &dyn terrace_base::disk::Disk, database: u64) -> u32 {
        let file = disk.open_buffered(WARM_FILE).unwrap();
        let (mut at, mut block) = (MAGIC.len() as u64, Block::EMPTY);
        let mut count = 0;
        while read_block(&*file, database, &mut at, &mut block) {
            for (read, used) in Records::of(&block.bytes) {
                let record = (block.structure, read, used);
                assert_eq!(record, (structure(count), key(count), uses(count)));
                count += 1;
            }
        }
        count
    }

    #[test]
    fn what_was_written_is_read_up_to_the_first_block_that_is_not_whole() {
        const RECORDS: u32 = 8000;
        let disk = SimDisk::new(1).shared();
        written(&*disk, RECORDS);
        assert_eq!(read(&*disk, DATABASE), RECORDS);
        assert_eq!(read(&*disk, DATABASE + 1), 0, "that of another database");
        let file = disk.open_buffered(WARM_FILE).unwrap();
        let len = file.len().unwrap();
        assert!(len > 2 * BLOCK_BYTES as u64);
        let mut last = 0;
        for at in (MAGIC.len() as u64..len).step_by(397) {
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

    fn options() -> Options {
        Options::new().memory(4 << 20).page_size(4096)
    }

    /// A map with its hot tier in memory alone, of 20,000 records in the cold one.
    fn loaded(
        disk: &SimDisk,
        options: Options,
        kind: Kind,
        value: impl Fn(u32) -> Vec<u8>,
    ) -> (Database, Map) {
        let db = Database::open_on(disk.shared(), options).unwrap();
        let in_memory = MapOptions::new().hot_in_memory(true);
        let map = db.create_map("map", kind, in_memory).unwrap();
        let mut loader = map.loader().unwrap();
        for i in 0..20_000 {
            loader.put(key(i), value(i)).unwrap();
        }
        loader.finish().unwrap();
        (db, map)
    }

    fn reopened(disk: &SimDisk) -> Database {
        let db = Database::open_on(disk.shared(), options()).unwrap();
        while disk.shared().open_buffered(WARM_FILE).is_ok() {
            std::thread::yield_now();
        }
        db
    }

    /// What is hot, and how often it was used.
    fn hot(db: &Database, least: u8) -> Vec<(Vec<u8>, u8)> {
        let mut hot = Vec::new();
        let each = &mut |_, key: &[u8], uses| {
            hot.push((key.to_vec(), uses));
            Ok(())
        };
        db.core().each_hot(least, each).unwrap();
        hot
    }

    /// Clean records and dirty ones, with their use counts, and on no more pages than before.
    #[test]
    fn what_was_hot_is_hot_again_after_the_next_opening() {
        const HOT: u32 = 6000;
        for kind in [Kind::Tree, Kind::Hash] {
            let disk = SimDisk::new(1);
            let (db, map) = loaded(&disk, options(), kind, |_| vec![7; 50]);
            for i in 0..HOT {
                if i % 2 == 0 {
                    map.insert(key(i * 3), [8; 50]).unwrap();
                }
                for _ in 0..i % 5 {
                    map.get(key(i * 3)).unwrap().unwrap();
                }
            }
            let (mut before, pages) = (hot(&db, 0), db.core().store().hot_frames());
            assert!(before.len() >= HOT as usize / 2, "{}", before.len());
            assert!((1..4).all(|uses| before.iter().any(|(_, u)| *u == uses)));
            drop(map);
            db.close().unwrap();
            assert!(disk.shared().open_buffered(WARM_FILE).is_ok());

            let db = reopened(&disk);
            let (after, pages_after) = (hot(&db, 0), db.core().store().hot_frames());
            for (_, uses) in &mut before {
                *uses = uses.div_ceil(2);
            }
            let (many, of) = (after.len(), before.len());
            assert!(after == before, "{kind:?}: {many} of {of}");
            assert!(pages_after <= pages, "{kind:?}: {pages_after} of {pages}");
            db.close().unwrap();
        }
    }

    #[test]
    fn a_page_that_cannot_be_read_stops_no_others() {
        let value = |i: u32| i.to_be_bytes().repeat(12);
        let disk = SimDisk::new(1);
        let (db, map) = loaded(&disk, options(), Kind::Tree, value);
        for i in (0..300).cycle().take(2400) {
            map.get(key(i * 60)).unwrap().unwrap();
        }
        let before = hot(&db, 1).len();
        drop(map);
        db.close().unwrap();
        let mut data = disk.contents("data").unwrap();
        let of = value(150 * 60);
        for page in data.chunks_mut(4096) {
            if page.windows(of.len()).any(|bytes| bytes == of) {
                page[3000] ^= 1;
            }
        }
        disk.place("data", data);

        let db = reopened(&disk);
        let after = hot(&db, 1).len();
        assert!(after < before && after + 5 > before, "{after} of {before}");
        let map = db.map("map").unwrap();
        map.get(key(150 * 60)).unwrap_err();
    }

    /// Who closes a database before all is loaded, and before the note was gone through, knows less than the note does.
    #[test]
    fn what_was_noted_stays_until_all_is_loaded() {
        let disk = SimDisk::new(1);
        let (db, map) = loaded(&disk, options(), Kind::Tree, |_| vec![7; 50]);
        drop(map);
        db.close().unwrap();
        let noted = vec![9; 9];
        for (is_loaded, is_there) in [(false, true), (true, true), (true, false), (false, false)] {
            let db = reopened(&disk);
            let then = std::sync::atomic::Ordering::SeqCst;
            db.core().loaded_saved().store(is_loaded, then);
            if is_there {
                disk.place(WARM_FILE, noted.clone());
            }
            db.close().unwrap();
            let now = disk.contents(WARM_FILE);
            assert_eq!(now.as_ref() == Some(&noted), is_there);
            assert_eq!(now.is_some(), is_there || is_loaded);
        }
    }

    /// Pages of a structure that is taken apart are gone; whoever looked for one would wait for ever.
    #[test]
    fn of_what_is_dropped_nothing_is_noted() {
        let disk = SimDisk::new(1);
        let in_calls = options().foreground(true);
        let (db, map) = loaded(&disk, in_calls, Kind::Tree, |_| vec![7; 50]);
        for i in 0..300 {
            map.get(key(i * 60)).unwrap().unwrap();
        }
        assert!(!hot(&db, 0).is_empty());
        db.core()
            .registry()
            .mark_dropped(&map.open, &mut || ())
            .unwrap();
        assert!(hot(&db, 0).is_empty());
    }
}
