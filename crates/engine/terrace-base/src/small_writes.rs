//! Writing a file front to back in small pieces, without a system call for each.
//!
//! A write of some hundred bytes through the operating system takes ten times as long as copying
//! them. So they are copied to a window of the file that is mapped into memory and moves along with
//! the writes: the bytes are in the cache of the operating system then, as after a write call, and
//! survive the process.
//!
//! Invariants:
//! - A window lies in what this handle has reserved, in a file system that keeps it in place; it
//!   is shut before the file is cut.
//! - A window that is lent belongs to the borrower alone.
//! - Where there is no window, for whatever reason, the write goes through the operating system;
//!   what is in the file is the same, in whatever way each piece came there.
//! - A sync shuts the window, and only after some writes there is one again: who syncs often gains
//!   nothing from it, and pages after the last write would be synced along.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::sync::Mutex;
use crate::window::{Window, page_bytes, stays_in_place};

/// Length of a window (more on systems with large pages). What counts is how often it moves, once
/// in thousand writes, and that systems may limit what is locked in memory to 64 KiB in all.
const WINDOW_BYTES: usize = 64 << 10;

/// Writes that are longer go through the operating system: what a call costs is little then.
const LONGEST: usize = 8 << 10;

/// Bytes written since the last sync from which on there is a window.
const BYTES_BEFORE: u64 = 64 << 10;

/// How a file is written.
pub(crate) struct SmallWrites {
    state: Mutex<State>,
    #[cfg(test)]
    fault: Fault,
}

#[derive(Default)]
struct State {
    window: Option<Window>,
    /// Everything before is reserved.
    reserved: u64,
    /// Where the write that reached farthest has ended.
    end: u64,
    /// Bytes written in order since the last sync.
    written: u64,
    /// A window could not be had.
    refused: bool,
    /// A writer has the window, and may give it back.
    lent: bool,
}

impl SmallWrites {
    pub(crate) fn new() -> SmallWrites {
        SmallWrites {
            state: Mutex::default(),
            #[cfg(test)]
            fault: Fault::None,
        }
    }

    pub(crate) fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.write_now(bytes, offset)
            || bytes.len() <= LONGEST && self.move_and_write(file, bytes, offset)
        {
            return Ok(());
        }
        file.write_all_at(bytes, offset)
    }

    /// Writes through the window if it is where these bytes go; else does nothing.
    pub(crate) fn write_now(&self, bytes: &[u8], offset: u64) -> bool {
        let mut state = self.state.lock();
        let done = match &mut state.window {
            Some(window) => self.through(window, bytes, offset),
            None => false,
        };
        if done {
            state.end = state.end.max(offset + bytes.len() as u64);
        }
        done
    }

    /// Opens a window where these bytes go, if it is time to, and writes through it; else does
    /// nothing.
    fn move_and_write(&self, file: &File, bytes: &[u8], offset: u64) -> bool {
        let mut state = self.state.lock();
        let in_order = offset >= state.end;
        if !in_order {
            return false;
        }
        state.end = offset.saturating_add(bytes.len() as u64);
        state.written += bytes.len() as u64;
        if state.refused || state.written < BYTES_BEFORE {
            return false;
        }
        let page = page_bytes() as u64;
        let start = offset / page * page;
        let most = (WINDOW_BYTES as u64).max(4 * page);
        let len = most.min((state.reserved / page * page).saturating_sub(start));
        if state.end > start + len {
            return false;
        }
        // The old one first, so that there is never more than one.
        state.window = None;
        state.lent = false;
        match self.open(file, start, len as usize) {
            Ok(mut window) => {
                let done = self.through(&mut window, bytes, offset);
                state.window = Some(window);
                done
            }
            // If that is an error of the disk, writing through the operating system will say so.
            Err(_) => {
                state.refused = true;
                false
            }
        }
    }

    fn open(&self, file: &File, start: u64, len: usize) -> io::Result<Window> {
        #[cfg(test)]
        if self.fault == Fault::Refused {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Window::open(file, start, len)
    }

    fn through(&self, window: &mut Window, bytes: &[u8], offset: u64) -> bool {
        #[cfg(test)]
        match self.fault {
            Fault::WrongPlace => return window.write(bytes, offset + 1),
            Fault::NotCopied => return true,
            _ => {}
        }
        window.write(bytes, offset)
    }

    /// Lends the window if it is open and shows the byte at `offset`. Until it is given back, writes go through
    /// the operating system.
    pub(crate) fn lend(&self, offset: u64) -> Option<Window> {
        let mut state = self.state.lock();
        let window = state.window.take_if(|w| w.range().contains(&offset));
        state.lent |= window.is_some();
        window
    }

    /// Takes a window back that was lent, and that was written up to `end`.
    pub(crate) fn take_back(&self, window: Window, end: u64) {
        let mut state = self.state.lock();
        state.end = state.end.max(end);
        // Else it was shut meanwhile.
        if std::mem::take(&mut state.lent) {
            state.window = Some(window);
        }
    }

    /// Before a sync.
    pub(crate) fn shut(&self) {
        let mut state = self.state.lock();
        state.window = None;
        state.lent = false;
        state.written = 0;
    }

    /// `offset..offset + len` was reserved.
    pub(crate) fn reserved(&self, file: &File, offset: u64, len: u64) {
        let mut state = self.state.lock();
        if offset <= state.reserved && stays_in_place(file) {
            state.reserved = state.reserved.max(offset + len);
        }
    }

    /// Cuts or extends the file.
    pub(crate) fn set_len(&self, file: &File, len: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.window = None;
        state.lent = false;
        state.reserved = state.reserved.min(len);
        file.set_len(len)
    }
}

/// Mistakes that tests plant, to see that they are caught.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    /// No window can be had.
    Refused,
    /// Bytes are copied to another place.
    WrongPlace,
    /// A window takes writes and does nothing with them.
    NotCopied,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    const FILE_BYTES: u64 = 600_000;

    struct Log {
        _directory: tempfile::TempDir,
        file: File,
        writes: SmallWrites,
        /// What is to be in the file.
        expected: Vec<u8>,
        /// Writes that found a window open.
        through: u64,
        windows_work: bool,
    }

    impl Log {
        fn new(fault: Fault, reserve: bool) -> Log {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            let file = options.open(directory.path().join("log")).unwrap();
            let mut writes = SmallWrites::new();
            writes.fault = fault;
            let mut windows_work = false;
            #[cfg(target_os = "linux")]
            if reserve {
                let flags = rustix::fs::FallocateFlags::empty();
                rustix::fs::fallocate(&file, flags, 0, FILE_BYTES).unwrap();
                writes.reserved(&file, 0, FILE_BYTES);
                windows_work =
                    stays_in_place(&file) && Window::open(&file, 0, page_bytes()).is_ok();
            }
            file.set_len(FILE_BYTES).unwrap();
            Log {
                _directory: directory,
                file,
                writes,
                expected: vec![0; FILE_BYTES as usize],
                through: 0,
                windows_work,
            }
        }

        fn write(&mut self, bytes: &[u8], offset: u64) {
            self.writes.write_at(&self.file, bytes, offset).unwrap();
            let end = offset as usize + bytes.len();
            if end > self.expected.len() {
                self.expected.resize(end, 0);
            }
            self.expected[offset as usize..end].copy_from_slice(bytes);
            self.through += u64::from(self.has_window());
        }

        fn has_window(&self) -> bool {
            self.writes.state.lock().window.is_some()
        }

        fn is_as_written(&self) -> bool {
            let mut found = vec![0; self.file.metadata().unwrap().len() as usize];
            self.file.read_exact_at(&mut found, 0).unwrap();
            found == self.expected
        }
    }

    /// Pieces of all lengths front to back, some gaps, some writes further in front, some syncs, to
    /// the end of what is reserved and beyond; whether all of it is in the file all the time.
    fn a_log_is_as_written(fault: Fault, reserve: bool) -> (Log, bool) {
        let mut log = Log::new(fault, reserve);
        let mut at = 4096;
        let mut good = true;
        for i in 0u64.. {
            let random = crate::checksum::mix(7, i);
            let len = match random % 100 {
                0 => 20_000,
                1..5 => random / 100 % 9000,
                _ => 1 + random / 100 % 300,
            };
            let bytes: Vec<u8> = (0..len).map(|n| (random + n) as u8 | 1).collect();
            log.write(&bytes, at);
            at += len;
            match random >> 32 & 0x7F {
                0 => at = at.next_multiple_of(512),
                1 => log.write(&bytes[..bytes.len().min(24)], 512),
                // Where a window may be open.
                2 => log.write(
                    &bytes[..bytes.len().min(24)],
                    at.saturating_sub(3000).max(4096),
                ),
                3 if i % 3 == 0 => log.writes.shut(),
                _ => {}
            }
            if i % 16 == 0 || at > FILE_BYTES {
                good &= log.is_as_written();
            }
            if at > FILE_BYTES + 3000 {
                break;
            }
        }
        log.writes.shut();
        good &= log.is_as_written();
        (log, good)
    }

    #[test]
    fn what_is_written_is_in_the_file_however_it_comes_there() {
        let (log, good) = a_log_is_as_written(Fault::None, true);
        assert!(good);
        if log.windows_work {
            assert!(log.through > 300, "{} writes through a window", log.through);
        }
        let (log, good) = a_log_is_as_written(Fault::None, false);
        assert!(good && log.through == 0, "a window on what is not reserved");
    }

    #[test]
    fn where_no_window_can_be_had_writes_go_through_the_system() {
        let (log, good) = a_log_is_as_written(Fault::Refused, true);
        assert!(good && log.through == 0);
    }

    #[test]
    fn planted_mistakes_are_noticed() {
        for fault in [Fault::WrongPlace, Fault::NotCopied] {
            let (log, good) = a_log_is_as_written(fault, true);
            assert_eq!(good, !log.windows_work, "{fault:?}");
        }
    }

    fn with_window() -> Option<Log> {
        let mut log = Log::new(Fault::None, true);
        for i in 0..BYTES_BEFORE / 64 + 8 {
            log.write(&[i as u8 | 1; 64], 4096 + i * 64);
        }
        assert_eq!(log.has_window(), log.windows_work);
        log.windows_work.then_some(log)
    }

    #[test]
    fn a_window_is_shut_by_a_sync_and_before_the_file_is_cut() {
        let Some(mut log) = with_window() else { return };
        log.writes.shut();
        assert!(!log.has_window());
        let Some(mut cut) = with_window() else { return };
        cut.writes.set_len(&cut.file, 8000).unwrap();
        assert!(!cut.has_window());
        cut.expected.truncate(8000);
        for log in [&mut log, &mut cut] {
            for i in 0..3 * BYTES_BEFORE / 64 {
                let at = log.expected.len().max(200_000) as u64;
                log.write(&[i as u8 | 1; 64], at);
            }
            assert!(log.is_as_written());
        }
        assert!(
            !cut.has_window(),
            "a window on what is not reserved any more"
        );
    }

    #[test]
    fn a_window_that_is_lent_comes_back_unless_it_was_shut() {
        let Some(mut log) = with_window() else { return };
        let at = log.expected.iter().rposition(|&byte| byte != 0).unwrap() as u64 + 1;
        assert!(log.writes.lend(0).is_none(), "it is not there");
        let mut window = log.writes.lend(at).expect("the window is open");
        assert!(!log.has_window() && log.writes.lend(at).is_none());
        assert!(window.write(&[9; 100], at));
        log.expected[at as usize..][..100].fill(9);
        // Meanwhile through the operating system.
        assert!(!log.writes.write_now(&[8; 10], at + 100));
        log.write(&[8; 10], 512);
        log.writes.take_back(window, at + 100);
        assert!(log.has_window() && log.writes.write_now(&[7; 10], at + 100));
        log.expected[at as usize + 100..][..10].fill(7);
        assert!(log.is_as_written());
        let window = log.writes.lend(at).expect("the window is open");
        log.writes.shut();
        log.writes.take_back(window, at);
        assert!(!log.has_window());
    }

    #[test]
    fn a_window_cannot_be_had_past_the_end_of_a_file() {
        let log = Log::new(Fault::None, true);
        log.file.set_len(page_bytes() as u64).unwrap();
        // An error, and no signal.
        assert!(Window::open(&log.file, 0, 4 * page_bytes()).is_err());
    }

    #[test]
    fn a_window_takes_only_what_lies_inside() {
        let log = Log::new(Fault::None, true);
        let page = page_bytes() as u64;
        let Ok(mut window) = Window::open(&log.file, page, page_bytes()) else {
            return;
        };
        for (offset, len, inside) in [
            (page, page, true),
            (page, page + 1, false),
            (page - 1, 1, false),
            (page - 1, 2, false),
            (2 * page - 1, 1, true),
            (2 * page - 1, 2, false),
            (2 * page, 1, false),
            (2 * page, 0, true),
            (u64::MAX, 8, false),
            (0, 8, false),
        ] {
            let bytes = vec![7; len as usize];
            assert_eq!(window.write(&bytes, offset), inside, "{len} at {offset}");
        }
        drop(window);
        let mut found = vec![0; 3 * page as usize];
        log.file.read_exact_at(&mut found, 0).unwrap();
        let (page, sevens) = (page as usize, |bytes: &[u8]| bytes.iter().all(|&b| b == 7));
        assert!(sevens(&found[page..2 * page]));
        assert!(!found[..page].contains(&7) && !found[2 * page..].contains(&7));
    }
}
