//! Reads by io_uring: the caller's thread hands them over and takes what is done, with one call of the operating system
//! for several of both.
//!
//! Invariant: a ring whose calls the system has begun to refuse answers what it has not taken yet with no bytes, waits
//! for what it has taken, and is used no more. After it no other is used either.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use io_uring::{IoUring, opcode, types};

use super::queue::{Queue, UNDER_WAY};
use crate::disk::DiskRead;
use crate::sync::{Mutex, pause};

/// Rings that are kept for the next caller: as many threads as usually read many records at the same time. Each has 3 KiB
/// of requests, and what the kernel keeps of it.
const KEPT: usize = 8;
/// So often in a row the system may have too much under way before reads are made without rings for good: a tenth of a
/// second, in which other callers would wait as long.
const MOST_REFUSALS: u32 = 2000;

/// The rings of a disk.
#[derive(Default)]
pub(super) struct Rings {
    idle: Mutex<Vec<IoUring>>,
    /// Whether the system has none for us.
    refused: AtomicBool,
}

impl Rings {
    /// One that no caller uses, if there can be one.
    pub fn take(&self) -> Option<Ring> {
        if self.refused.load(Ordering::Relaxed) {
            return None;
        }
        let idle = self.idle.lock().pop();
        let ring = match idle.map_or_else(|| IoUring::new(UNDER_WAY as u32), Ok) {
            Ok(ring) => ring,
            Err(e) => {
                // A kernel without it, or who may not have it; else only now.
                let (none, denied) = (io::ErrorKind::Unsupported, io::ErrorKind::PermissionDenied);
                self.refused
                    .store([none, denied].contains(&e.kind()), Ordering::Relaxed);
                return None;
            }
        };
        Some(Ring {
            ring,
            taken: VecDeque::new(),
            unread: Vec::new(),
            is_refused: false,
            refusals: 0,
        })
    }

    /// Takes one back in which nothing is under way.
    pub fn give_back(&self, ring: Ring) {
        if ring.is_refused {
            return self.refused.store(true, Ordering::Relaxed);
        }
        let mut idle = self.idle.lock();
        if idle.len() < KEPT {
            idle.push(ring.ring);
        }
    }
}

/// A ring of one caller.
pub(super) struct Ring {
    ring: IoUring,
    /// The numbers of what the kernel has not taken, the oldest first.
    taken: VecDeque<u64>,
    /// The numbers of what it will never take.
    unread: Vec<u64>,
    is_refused: bool,
    /// How often in a row the system had too much under way.
    refusals: u32,
}

impl Ring {
    /// Hands over what was asked for, and waits until something is done.
    fn enter(&mut self) {
        let entered = self.ring.submit_and_wait(1);
        let left = self.ring.submission().len();
        while self.taken.len() > left {
            self.taken.pop_front();
        }
        match entered {
            Ok(_) => self.refusals = 0,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            // Too much is under way in the system.
            Err(e)
                if matches!(
                    e.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
                ) =>
            {
                self.refusals += 1;
                match self.refusals < MOST_REFUSALS {
                    true => pause(u32::MAX),
                    false => self.refuse(),
                }
            }
            // A process that has forbidden itself such calls meanwhile, say.
            Err(_) => self.refuse(),
        }
    }

    /// The system takes no more.
    pub(super) fn refuse(&mut self) {
        self.is_refused = true;
        self.unread.extend(self.taken.drain(..));
    }
}

impl Queue for Ring {
    unsafe fn ask(&mut self, file: BorrowedFd<'_>, read: &mut DiskRead<'_>, number: u64) -> bool {
        if self.is_refused {
            return false;
        }
        let bufs = read.bufs.as_mut_ptr().cast();
        let count = read.bufs.len() as u32;
        let entry = opcode::Readv::new(types::Fd(file.as_raw_fd()), bufs, count)
            .offset(read.offset)
            .build()
            .user_data(number);
        // SAFETY: the caller keeps file, buffers and their list until the answer, and an `IoSliceMut` is laid out as
        // an `iovec`.
        let pushed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        if pushed {
            self.taken.push_back(number);
        }
        pushed
    }

    fn answer(&mut self) -> (u64, usize) {
        loop {
            if let Some(done) = self.ring.completion().next() {
                return (done.user_data(), done.result().try_into().unwrap_or(0));
            }
            if let Some(number) = self.unread.pop() {
                return (number, 0);
            }
            match self.is_refused {
                false => self.enter(),
                // What is done appears in the mapping all the same.
                true => pause(u32::MAX),
            }
        }
    }
}
