//! Many reads under way at the same time: by io_uring where the kernel has it and lets us, else by some threads that
//! stay for as long as the disk is open.
//!
//! Invariants:
//! * No caller gets a buffer back that may still be filled: [`UnderWay`] waits for all reads, also when who is told of
//!   one panics.
//! * A ring is one caller's at a time. When it is given back nothing is under way in it.
//! * In a child process neither rings nor threads are used: rings are shared with the parent, and threads are not there.

mod queue;
#[cfg(target_os = "linux")]
mod ring;
mod threads;

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;

use crate::disk::{DiskRead, ReadsTogether};
use crate::process::Owner;

use queue::{Queue, UNDER_WAY};
use threads::Threads;

/// Reads that were asked for and not answered.
struct UnderWay<'q> {
    queue: &'q mut dyn Queue,
    count: usize,
}

impl UnderWay<'_> {
    fn answer(&mut self) -> (u64, usize) {
        let answer = self.queue.answer();
        self.count -= 1;
        answer
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        while self.count > 0 && !planted(Fault::LeftUnderWay) {
            self.answer();
        }
    }
}

/// What makes the reads of one disk, many of them at the same time.
pub(crate) struct Together {
    owner: Owner,
    #[cfg(target_os = "linux")]
    rings: ring::Rings,
    threads: OnceLock<Threads>,
}

impl Together {
    /// Takes nothing before the first reads.
    pub fn new() -> Together {
        Together {
            owner: Owner::here(),
            #[cfg(target_os = "linux")]
            rings: ring::Rings::default(),
            threads: OnceLock::new(),
        }
    }

    /// As [`crate::disk::DiskFile::read_together`], of this file.
    pub fn read(
        &self,
        file: &File,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        if reads.len() < 2 || !self.owner.is_here() {
            for (i, read) in reads.iter_mut().enumerate() {
                let made = rest(file, read, 0);
                done(i, read, made);
            }
            return;
        }
        #[cfg(target_os = "linux")]
        if let Some(mut ring) = self.rings.take() {
            make(&mut ring, file, reads, done);
            self.rings.give_back(ring);
            return;
        }
        let threads = self.threads.get_or_init(Threads::start);
        make(&mut threads.queue(), file, reads, done);
    }

    /// How reads are made.
    pub fn how(&self) -> ReadsTogether {
        #[cfg(target_os = "linux")]
        if self.rings.take().is_some() {
            return ReadsTogether::Ring;
        }
        ReadsTogether::Threads
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            match self.owner.is_here() {
                true => threads.end(),
                // They are not there in a child process.
                false => std::mem::forget(threads),
            }
        }
    }
}

/// Makes reads through a queue.
fn make(
    queue: &mut dyn Queue,
    file: &File,
    reads: &mut [DiskRead<'_>],
    done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
) {
    let mut under_way = UnderWay { queue, count: 0 };
    let mut next = 0;
    while next < reads.len() || under_way.count > 0 {
        while next < reads.len() && under_way.count < UNDER_WAY {
            // SAFETY: the file is borrowed for longer than `under_way` lives. The buffers are borrowed by the read, and
            // no thread touches it before it was answered: below after that alone, and `under_way` answers the others
            // before this function is left in any way.
            if !unsafe {
                under_way
                    .queue
                    .ask(file.as_fd(), &mut reads[next], next as u64)
            } {
                break;
            }
            under_way.count += 1;
            next += 1;
        }
        if under_way.count == 0 {
            // No read could be handed over.
            let made = rest(file, &mut reads[next], 0);
            done(next, &reads[next], made);
            next += 1;
            continue;
        }
        let (number, there) = under_way.answer();
        let i = number as usize;
        let made = rest(file, &mut reads[i], there);
        done(i, &reads[i], made);
    }
}

/// Fills these one after the other with one request; what a short one leaves is read one by one.
pub(crate) fn read_many(file: &File, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
    let there = rustix::io::preadv(file, bufs, offset).unwrap_or(0);
    fill(file, bufs, offset, there)
}

/// Reads what is missing of a read that has given `there` bytes; only this knows an error.
fn rest(file: &File, read: &mut DiskRead<'_>, there: usize) -> io::Result<()> {
    if there > 0 && planted(Fault::ShortIsWhole) {
        return Ok(());
    }
    if there == 0 && read.bufs.len() > 1 {
        return read_many(file, &mut read.bufs, read.offset);
    }
    fill(file, &mut read.bufs, read.offset, there)
}

/// Fills these but for `there` bytes at their beginning, each with a request of its own.
fn fill(
    file: &File,
    bufs: &mut [IoSliceMut<'_>],
    mut offset: u64,
    mut there: usize,
) -> io::Result<()> {
    for buf in bufs {
        let len = buf.len();
        if there < len {
            file.read_exact_at(buf, offset)?;
        }
        there = there.saturating_sub(len);
        offset += len as u64;
    }
    Ok(())
}

/// What tests break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Who is left by a panic waits for nothing.
    LeftUnderWay,
    /// What a short read has not given counts as read.
    ShortIsWhole,
}

crate::faults_of_threads!(test, Fault);

#[cfg(test)]
mod tests;
