//! Which process something belongs to: `fork` makes a child that has the same memory, locks and files, and
//! none of the threads.
//!
//! Invariant: what an [`Owner`] or a [`OwnWord`] belongs to is used by the process that made it alone, and
//! its children only let go of it. Each of them finds out by reading a word of a mapping that the kernel
//! gives to a child as zeros. Where it cannot (before Linux 4.14, elsewhere), the number of the process is
//! asked for, which takes a call of the operating system: [`OwnWord`] then leaves it to slow paths.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use memmap2::{MmapOptions, MmapRaw};

use crate::checksum::mix;
use crate::{Error, Result};

/// A word that a child process finds zero.
pub struct OwnWord {
    map: MmapRaw,
    /// The process, where its children do not find zero.
    process: Option<u32>,
}

impl OwnWord {
    /// With this value, which is never zero.
    ///
    /// # Errors
    /// When there is no memory for it: a page.
    pub fn new(value: u64) -> Result<OwnWord> {
        let failed = |e| Error::io("reserving memory for", "a word of the process", e);
        let map = MmapOptions::new().len(size_of::<u64>()).map_anon();
        let map = MmapRaw::from(map.map_err(failed)?);
        let process = (!wiped_on_fork(&map)).then(std::process::id);
        let word = OwnWord { map, process };
        word.word().store(value, Ordering::Relaxed);
        Ok(word)
    }

    /// The word. Zero in a child, where that can be had; see [`OwnWord::is_mine`].
    #[inline]
    pub fn word(&self) -> &AtomicU64 {
        // SAFETY: the mapping begins at a page and has at least these eight bytes, which are read and
        // written as this atomic alone; it lives as long as the borrow of `self`.
        unsafe { AtomicU64::from_ptr(self.map.as_mut_ptr().cast()) }
    }

    /// Whether this is the process that made it.
    pub fn is_mine(&self) -> bool {
        match self.process {
            None => self.word().load(Ordering::Relaxed) != 0,
            Some(process) => process == std::process::id(),
        }
    }
}

/// Asks the kernel to give children zeros in the place of this mapping; whether it does.
#[cfg(target_os = "linux")]
fn wiped_on_fork(map: &MmapRaw) -> bool {
    let advice = rustix::mm::Advice::LinuxWipeOnFork;
    // SAFETY: the range is one whole private anonymous mapping of our own, and the advice changes nothing
    // in this process.
    unsafe { rustix::mm::madvise(map.as_mut_ptr().cast(), map.len(), advice) }.is_ok()
}

#[cfg(not(target_os = "linux"))]
fn wiped_on_fork(_: &MmapRaw) -> bool {
    false
}

/// The word of this process, with its number.
static HERE: OnceLock<Option<OwnWord>> = OnceLock::new();

/// The process in which it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner(u64);

impl Owner {
    /// This process.
    pub fn here() -> Owner {
        let word = HERE.get_or_init(|| OwnWord::new(fresh()).ok());
        match word {
            Some(own) if own.process.is_none() => {
                let now = own.word().load(Ordering::Relaxed);
                if now != 0 {
                    return Owner(now);
                }
                // A child: from now on it has a number of its own.
                let relaxed = Ordering::Relaxed;
                let set = own.word().compare_exchange(0, fresh(), relaxed, relaxed);
                Owner(set.map_or_else(|other| other, |_| own.word().load(relaxed)))
            }
            _ => Owner(u64::from(std::process::id())),
        }
    }

    /// Whether this process is that one. No call of the operating system where the kernel helps.
    pub fn is_here(self) -> bool {
        self == Owner::here()
    }

    /// The same for who asks very often.
    pub fn watch(self) -> Watch {
        let word = HERE.get().and_then(Option::as_ref);
        let word = word.filter(|own| own.process.is_none());
        Watch {
            owner: self,
            word: word.map(OwnWord::word),
        }
    }
}

/// An [`Owner`] that is asked for with a load and a comparison, where the kernel helps.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    owner: Owner,
    /// The word of the process, which is the owner's number, or a child's.
    word: Option<&'static AtomicU64>,
}

impl Watch {
    /// As [`Owner::is_here`].
    #[inline]
    pub fn is_here(self) -> bool {
        match self.word {
            // Zero in a child, which is the number of no owner.
            Some(word) => word.load(Ordering::Relaxed) == self.owner.0,
            None => self.owner.is_here(),
        }
    }
}

/// A number that no parent or child of this process has, and not zero.
fn fresh() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = time.map_or(0, |time| time.as_nanos() as u64);
    mix(nanos, u64::from(std::process::id())) | 1
}

/// What a child process is told that uses what its parent opened.
#[cold]
pub fn of_another_process() -> Error {
    Error::invalid(
        "the database was opened by the process that this one was forked from, and only that one can use it; open it after forking, or open it here again once it is closed there",
    )
}
