//! The storage below: a directory of files, as a trait with one real and one simulated side.
//!
//! What Terrace assumes of it: a write that returned may be lost, kept or torn at 512-byte
//! granularity by a power cut until `sync` returned; a file's existence and length are durable only
//! after `sync_directory`, respectively the file's `sync`; `sync` that failed says nothing about
//! what is durable. See `docs/format.md`, last section.

use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::sync::Arc;

use crate::window::Part;

/// A directory of files. All names are plain file names without separators.
pub trait Disk: Send + Sync {
    /// Opens an existing file.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file (empty), or truncates the one that is there. Durable after
    /// [`Disk::sync_directory`].
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// As [`Disk::open`], but through the cache of the operating system: any offset, length and
    /// buffer address will do. For files written front to back in small pieces, which direct I/O
    /// would make rewrite whole blocks.
    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// As [`Disk::create`], with the access of [`Disk::open_buffered`].
    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file that is not needed any more another name, in place of making one: returns it with
    /// the access of [`Disk::create_buffered`], `len` bytes that read as zeros, and its space reserved.
    /// It must have that length. Which of the names is there after a crash, and of the zeros and what
    /// was there before any part, is open until the file and then the directory are synced.
    ///
    /// # Errors
    /// `Unsupported` where that is not possible without writing all of it, as by default. After any
    /// error the file may have either name, or none, and any content.
    fn reuse_buffered(&self, old: &str, new: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
        let _ = (old, new, len);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Gives a file another name, in the place of the file that has it, if there is one. Whether it has the
    /// old name or the new one after a crash is open until the directory is synced; the new name is that of
    /// the one file or of the other at every moment.
    ///
    /// # Errors
    /// `Unsupported` by default.
    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        let _ = (old, new);
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Removes a file. Durable after [`Disk::sync_directory`].
    fn delete(&self, name: &str) -> io::Result<()>;

    /// The names of all files, in no order.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Makes creations, deletions and new names durable.
    fn sync_directory(&self) -> io::Result<()>;

    /// Bytes that are free on the device, as far as can be told.
    fn free_bytes(&self) -> io::Result<u64>;

    /// Whether files of [`Disk::open`] and [`Disk::create`] go around the cache of the operating system,
    /// which is outside every budget; `None` where there is no such cache.
    fn goes_around_cache(&self) -> Option<bool> {
        None
    }

    /// The folder of the operating system in which the files lie; `None` where there is none.
    fn folder(&self) -> Option<&std::path::Path> {
        None
    }

    /// A handle of that folder, which stays the same one when the folder gets another name; `None` where
    /// there is none.
    fn directory(&self) -> Option<std::fs::File> {
        None
    }
}

/// One of several reads that are asked for together: it fills `bufs`, one after the other, from `offset`.
pub struct DiskRead<'b> {
    /// Where it begins.
    pub offset: u64,
    /// What it fills.
    pub bufs: Vec<IoSliceMut<'b>>,
}

/// How the files of a folder answer [`DiskFile::read_together`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadsTogether {
    /// By io_uring: one thread has many reads under way.
    Ring,
    /// By some threads, each with one read under way.
    Threads,
}

/// An open file. Every offset, length and buffer address given is a multiple of
/// [`crate::aligned::BLOCK_BYTES`], so that direct I/O can serve it, unless the file was opened
/// with [`Disk::open_buffered`] or [`Disk::create_buffered`].
pub trait DiskFile: Send + Sync {
    /// Fills `buf` from `offset`; `UnexpectedEof` when the file ends before.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;

    /// Fills these one after the other from `offset`, as [`DiskFile::read_at`] does, with one request where the
    /// system has one for it. After an error they may hold anything.
    fn read_many_at(&self, bufs: &mut [IoSliceMut<'_>], mut offset: u64) -> io::Result<()> {
        for buf in bufs {
            self.read_at(buf, offset)?;
            offset += buf.len() as u64;
        }
        Ok(())
    }

    /// Makes all of these reads, as [`DiskFile::read_many_at`] makes one, several at a time where the system can, and
    /// tells `done` of each as soon as it is known: its number among them, itself, and what has become of it. Of each
    /// once, in any order. An error is that of its read alone. By default they are made one after the other, in
    /// their order.
    fn read_together(
        &self,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        for (i, read) in reads.iter_mut().enumerate() {
            let made = self.read_many_at(&mut read.bufs, read.offset);
            done(i, read, made);
        }
    }

    /// Writes all of `buf` at `offset`, growing the file if need be.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;

    /// Does what [`DiskFile::write_at`] does, if that takes no call of the operating system; else
    /// answers `false`, and nothing is done. For who would let go of a lock before such a call.
    fn write_now(&self, _buf: &[u8], _offset: u64) -> bool {
        false
    }

    /// A part of the file in which the byte at `offset` lies and that can be written by copying, if there is one; what
    /// is copied there is in the file as after [`DiskFile::write_at`]. The file must not be cut until it is given
    /// back, and what is written there meanwhile must be written through the part.
    fn take_part(&self, _offset: u64) -> Option<Part> {
        None
    }

    /// Gives back what [`DiskFile::take_part`] has given, in which this was `written`.
    fn give_part(&self, _part: Part, _written: Range<u64>) {}

    /// Says that `offset..offset + len` is not going to be written again, so that what of it is
    /// still in the cache of the operating system may go to the device now and the next sync has
    /// little to do. Promises nothing, and does not wait until it is there.
    fn write_back(&self, _offset: u64, _len: u64) {}

    /// Says that no reader needs what is at `offset..offset + len` any more, so that its space may be given back
    /// although the file stays; then these bytes read as anything. Promises nothing.
    fn discard(&self, _offset: u64, _len: u64) {}

    /// Makes all writes that returned before durable, and the length with them.
    fn sync(&self) -> io::Result<()>;

    /// Reserves space for `offset..offset + len` and grows the file to its end, so that later
    /// writes there cannot run out of space. `StorageFull` when there is none; then nothing
    /// visible has changed.
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()>;

    /// Cuts or extends the file to `len` bytes.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
}
