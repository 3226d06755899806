//! The simulated disk: deterministic from its seed, thread-safe, cheap to clone.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_base::aligned::BLOCK_BYTES;
use terrace_base::checksum;
use terrace_base::disk::{Disk, DiskFile};
use terrace_base::{FilePart, Part};

use crate::fault::{Fault, Injection, Op};
use crate::file::{Keep, SECTOR};
use crate::world::{Verdict, World, error_of, no_space};

/// Which unsynced changes a power cut leaves on the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survival {
    /// All of them: what a crash of the process alone leaves, made durable.
    All,
    /// None of them.
    Nothing,
    /// Each for itself is kept, lost or torn at 512-byte granularity, as this seed has it;
    /// creations and deletions of files are kept or lost.
    Some(u64),
}

/// A directory of files in memory that can lose its power. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk {
    world: Arc<Mutex<World>>,
}

impl SimDisk {
    /// An empty disk of unlimited size; the seed decides what half-done calls leave behind.
    pub fn new(seed: u64) -> SimDisk {
        SimDisk::of(World::new(seed))
    }

    fn of(world: World) -> SimDisk {
        SimDisk {
            world: Arc::new(Mutex::new(world)),
        }
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked with the lock held leaves the state whole: it is only bytes.
        self.world.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// As the trait object that the layers take.
    pub fn shared(&self) -> Arc<dyn Disk> {
        Arc::new(self.clone())
    }

    /// Cuts the power now (if it is not off already): every later call on this disk fails. Returns
    /// the disk that is found afterwards, with each unsynced change kept, lost or torn by `seed`.
    /// Called again with another seed it gives another outcome of the same cut.
    pub fn crash(&self, seed: u64) -> SimDisk {
        self.crash_keeping(Survival::Some(seed))
    }

    /// As [`SimDisk::crash`], the survival chosen.
    pub fn crash_keeping(&self, survival: Survival) -> SimDisk {
        let mut world = self.world();
        world.powered = false;
        let survivor = match survival {
            Survival::All => world.survivor(Keep::All, 0),
            Survival::Nothing => world.survivor(Keep::Nothing, 0),
            Survival::Some(seed) => world.survivor(Keep::Some, seed),
        };
        SimDisk::of(survivor)
    }

    /// The surviving disk after a power cut that was injected; the same as [`SimDisk::crash`].
    pub fn restart(&self, seed: u64) -> SimDisk {
        self.crash(seed)
    }

    /// Another disk that is as this one is now, unsynced changes, waiting faults and all.
    pub fn copy(&self) -> SimDisk {
        SimDisk::of(self.world().clone())
    }

    /// Adds a fault; several may wait at once.
    pub fn inject(&self, injection: Injection) {
        assert!(
            injection.nth > 0,
            "the next call is the first, not the zeroth"
        );
        self.world().injections.push(injection);
    }

    /// Takes back all faults that wait.
    pub fn heal(&self) {
        self.world().injections.clear();
    }

    /// Limits the bytes of all files together; `None` lifts the limit. May be below what is used,
    /// then nothing can grow.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world().capacity = bytes;
    }

    /// Whether the cache may let go of what a failed sync left in it and took for clean: then a later read
    /// gives what is durable, and may give something else than the one before. Else it shows what was
    /// written until it is written again. Files of direct access have no cache to forget.
    pub fn set_forgetful(&self, forgetful: bool) {
        self.world().forgetful = forgetful;
    }

    /// Whether files can be written by copying, some parts of them; what is copied counts as no call.
    pub fn set_lending(&self, lending: bool) {
        self.world().lending = lending;
    }

    /// Bytes of all files together.
    pub fn used_bytes(&self) -> u64 {
        self.world().used()
    }

    /// Whether the power is on.
    pub fn is_powered(&self) -> bool {
        self.world().powered
    }

    /// Calls so far, of every kind.
    pub fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Calls of one kind so far.
    pub fn calls_of(&self, op: Op) -> u64 {
        self.world().calls_of.get(&op).copied().unwrap_or(0)
    }

    /// Requests of reading so far, and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        self.world().reads
    }

    /// Bytes that programs have written.
    pub fn bytes_written(&self) -> u64 {
        self.world().bytes_written
    }

    /// A hash of all calls in their order, with their arguments: two runs of one seed must agree.
    pub fn trace(&self) -> u64 {
        self.world().trace
    }

    /// Number of changes to this file that no sync has covered; `None` without such a file.
    pub fn pending(&self, name: &str) -> Option<usize> {
        let world = self.world();
        let id = world.names.get(name)?;
        Some(world.files[id].pending())
    }

    /// What a file holds, without counting as a call.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let world = self.world();
        let id = world.names.get(name)?;
        Some(world.files[id].bytes().to_vec())
    }

    /// The names of all files, without counting as a call.
    pub fn names(&self) -> Vec<String> {
        self.world().names.keys().cloned().collect()
    }

    /// Puts a file with these contents there, durably, without counting as a call: for rot and
    /// foreign files.
    pub fn place(&self, name: &str, bytes: Vec<u8>) {
        self.world().place(name, bytes);
    }

    fn open_file(
        &self,
        name: &str,
        create: bool,
        any_offset: bool,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let op = if create { Op::Create } else { Op::Open };
        let verdict = world.enter(op, name, any_offset as u64)?;
        if let Verdict::Fail(fault) = verdict {
            if create && fault != Fault::NoSpace && world.rng.below(2) == 0 {
                world.create(name);
            }
            return Err(error_of(fault));
        }
        let id = match (create, world.names.get(name)) {
            (true, _) => world.create(name),
            (false, Some(&id)) => id,
            (false, None) => return Err(not_found(name)),
        };
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            id,
            name: name.to_owned(),
            any_offset,
        }))
    }
}

impl std::fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let world = self.world();
        let mut map = f.debug_map();
        for (name, id) in &world.names {
            map.entry(name, &world.files[id].len());
        }
        map.finish()
    }
}

fn not_found(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        format!("simulated: no file named {name}"),
    )
}

impl Disk for SimDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, false, false)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, true, false)
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, false, true)
    }

    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, true, true)
    }

    fn reuse_buffered(&self, old: &str, new: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world();
        let verdict = world.enter(Op::Reuse, old, checksum::seeded(len, new.as_bytes()))?;
        let Some(file) = world.names.get(old).map(|id| &world.files[id]) else {
            return Err(not_found(old));
        };
        if file.len() != len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("simulated: {old} has another length than {len}"),
            ));
        }
        if let Verdict::Fail(fault) = verdict {
            if fault != Fault::NoSpace && world.rng.below(2) == 0 {
                world.reuse(old, new);
            }
            return Err(error_of(fault));
        }
        let id = world.reuse(old, new).ok_or_else(|| not_found(old))?;
        Ok(Arc::new(SimFile {
            disk: self.clone(),
            id,
            name: new.to_owned(),
            any_offset: true,
        }))
    }

    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        let mut world = self.world();
        let verdict = world.enter(Op::Reuse, old, checksum::seeded(0, new.as_bytes()))?;
        match verdict {
            Verdict::Go => world
                .rename(old, new)
                .map(|_| ())
                .ok_or_else(|| not_found(old)),
            Verdict::Fail(fault) => {
                if fault != Fault::NoSpace && world.rng.below(2) == 0 {
                    world.rename(old, new);
                }
                Err(error_of(fault))
            }
        }
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        let mut world = self.world();
        let verdict = world.enter(Op::Delete, name, 0)?;
        if !world.names.contains_key(name) {
            return Err(not_found(name));
        }
        match verdict {
            Verdict::Go => {
                world.delete(name);
                Ok(())
            }
            Verdict::Fail(fault) => {
                if fault != Fault::NoSpace && world.rng.below(2) == 0 {
                    world.delete(name);
                }
                Err(error_of(fault))
            }
        }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut world = self.world();
        match world.enter(Op::List, "", 0)? {
            Verdict::Go => Ok(world.names.keys().cloned().collect()),
            Verdict::Fail(fault) => Err(error_of(fault)),
        }
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut world = self.world();
        match world.enter(Op::SyncDirectory, "", 0)? {
            Verdict::Go => {
                world.sync_directory();
                Ok(())
            }
            Verdict::Fail(fault) => {
                world.sync_directory_failed();
                Err(error_of(fault))
            }
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut world = self.world();
        match world.enter(Op::FreeBytes, "", 0)? {
            Verdict::Go => Ok(world
                .capacity
                .map_or(u64::MAX / 2, |c| c.saturating_sub(world.used()))),
            Verdict::Fail(fault) => Err(error_of(fault)),
        }
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    name: String,
    /// Whether the file was opened for any offset; else it is as strict as direct I/O.
    any_offset: bool,
}

impl SimFile {
    fn enter(&self, world: &mut World, op: Op, offset: u64, detail: u64) -> io::Result<Verdict> {
        world.enter(op, &self.name, checksum::mix(offset, detail))
    }

    /// Refuses what direct I/O would refuse, so that a forgotten alignment shows in tests.
    fn check_alignment(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let block = BLOCK_BYTES as u64;
        let aligned = offset.is_multiple_of(block)
            && (buf.len() as u64).is_multiple_of(block)
            && (buf.as_ptr() as u64).is_multiple_of(block);
        if aligned || self.any_offset {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "simulated: {} bytes at offset {offset} of {} are not aligned for direct I/O",
                buf.len(),
                self.name
            ),
        ))
    }

    fn write(&self, world: &mut World, buf: &[u8], offset: u64) -> io::Result<()> {
        let verdict = self.enter(world, Op::Write, offset, checksum::seeded(0, buf))?;
        self.check_alignment(buf, offset)?;
        let fits = world.fits(self.id, offset.saturating_add(buf.len() as u64));
        let fault = match verdict {
            Verdict::Go if fits => {
                world.bytes_written += buf.len() as u64;
                world.file(self.id).write(buf, offset);
                return Ok(());
            }
            Verdict::Go => return Err(no_space()),
            Verdict::Fail(fault) => fault,
        };
        if fits {
            if self.any_offset {
                // The cache is filled from the front, up to where it failed.
                let done = world.rng.below(buf.len() as u64 + 1) as usize;
                world.file(self.id).write(&buf[..done], offset);
            } else {
                // A device writes the sectors of one call in any order.
                for (i, sector) in buf.chunks(SECTOR as usize).enumerate() {
                    if world.rng.below(2) == 0 {
                        let at = offset + i as u64 * SECTOR;
                        world.file(self.id).write(sector, at);
                    }
                }
            }
        }
        Err(error_of(fault))
    }
}

/// A part of a file that is written by copying: no call of the system, so none that could fail.
struct SimPart {
    disk: SimDisk,
    id: u64,
    range: Range<u64>,
}

impl FilePart for SimPart {
    fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    fn write(&self, bytes: &[u8], offset: u64) -> bool {
        let end = offset.saturating_add(bytes.len() as u64);
        if offset < self.range.start || end > self.range.end {
            return false;
        }
        let mut world = self.disk.world();
        // Without power no process sees what is copied.
        if world.powered {
            world.bytes_written += bytes.len() as u64;
            world.file(self.id).write(bytes, offset);
        }
        true
    }
}

impl DiskFile for SimFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        let verdict = self.enter(&mut world, Op::Read, offset, buf.len() as u64)?;
        self.check_alignment(buf, offset)?;
        if let Verdict::Fail(fault) = verdict {
            return Err(error_of(fault));
        }
        world.reads.0 += 1;
        world.reads.1 += buf.len() as u64;
        if world.forgetful && self.any_offset {
            let mut rng = world.rng.clone();
            world.file(self.id).forget(&mut rng);
            world.rng = rng;
        }
        match world.file(self.id).read(offset, buf.len()) {
            Some(bytes) => {
                buf.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                format!(
                    "simulated: {} bytes at {offset} reach past the end of {}",
                    buf.len(),
                    self.name
                ),
            )),
        }
    }

    fn read_many_at(&self, bufs: &mut [io::IoSliceMut<'_>], mut offset: u64) -> io::Result<()> {
        let before = self.disk.world().reads.0;
        for buf in bufs {
            self.read_at(buf, offset)?;
            offset += buf.len() as u64;
        }
        // One request, unless others came in between.
        self.disk.world().reads.0 = before + 1;
        Ok(())
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write(&mut self.disk.world(), buf, offset)
    }

    // Half of the writes, so that both ways of each caller are gone; none that is to fail, which
    // this cannot say.
    fn write_now(&self, buf: &[u8], offset: u64) -> bool {
        let end = offset.saturating_add(buf.len() as u64);
        let mut world = self.disk.world();
        self.any_offset
            && checksum::mix(offset, buf.len() as u64) & 1 == 0
            && !world.would_fail(Op::Write, &self.name)
            && world.fits(self.id, end)
            && self.write(&mut world, buf, offset).is_ok()
    }

    // Three of four times, so that all ways of each caller are gone.
    fn take_part(&self, offset: u64) -> Option<Part> {
        let mut world = self.disk.world();
        let random = checksum::mix(offset, self.id);
        let end = (offset + 1500 + random / 4 % 6000).min(world.file(self.id).len());
        let is_lent = world.lending
            && world.powered
            && self.any_offset
            && !random.is_multiple_of(4)
            && end > offset
            && !world.would_fail(Op::Write, &self.name);
        is_lent.then(|| {
            Part::other(Arc::new(SimPart {
                disk: self.disk.clone(),
                id: self.id,
                range: offset..end,
            }))
        })
    }

    fn sync(&self) -> io::Result<()> {
        let mut world = self.disk.world();
        match self.enter(&mut world, Op::Sync, 0, 0)? {
            Verdict::Go => {
                world.file(self.id).sync();
                Ok(())
            }
            Verdict::Fail(fault) => {
                let mut rng = world.rng.clone();
                world.file(self.id).sync_failed(&mut rng);
                world.rng = rng;
                Err(error_of(fault))
            }
        }
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        let verdict = self.enter(&mut world, Op::Allocate, offset, len)?;
        let end = offset.saturating_add(len);
        if !world.fits(self.id, end) {
            return Err(no_space());
        }
        let grown = end.max(world.file(self.id).len());
        match verdict {
            Verdict::Go => {
                world.file(self.id).set_len(grown);
                Ok(())
            }
            Verdict::Fail(fault) => {
                if fault != Fault::NoSpace && world.rng.below(2) == 0 {
                    world.file(self.id).set_len(grown);
                }
                Err(error_of(fault))
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut world = self.disk.world();
        let verdict = self.enter(&mut world, Op::SetLen, len, 0)?;
        if !world.fits(self.id, len) {
            return Err(no_space());
        }
        match verdict {
            Verdict::Go => {
                world.file(self.id).set_len(len);
                Ok(())
            }
            Verdict::Fail(fault) => {
                if fault != Fault::NoSpace && world.rng.below(2) == 0 {
                    world.file(self.id).set_len(len);
                }
                Err(error_of(fault))
            }
        }
    }

    fn len(&self) -> io::Result<u64> {
        let mut world = self.disk.world();
        match self.enter(&mut world, Op::Len, 0, 0)? {
            Verdict::Go => Ok(world.file(self.id).len()),
            Verdict::Fail(fault) => Err(error_of(fault)),
        }
    }
}
