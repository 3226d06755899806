//! Reads by threads that wait for them: where there is no io_uring.
//!
//! Invariant: who waits for answers makes reads too while there are some, so all of them are made also where no thread
//! could be started.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::Arc;

use super::queue::Queue;
use crate::disk::DiskRead;
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Condvar, Mutex};

/// Threads that read, beside who asks: what a disk answers at once without getting slower.
const THREADS: usize = 7;
/// Memory for the stack of one, which calls the operating system and nothing else.
const STACK_BYTES: usize = 64 << 10;

/// The threads of a disk.
pub(super) struct Threads {
    work: Arc<Work>,
    threads: Vec<JoinHandle<()>>,
}

/// What there is to do.
#[derive(Default)]
struct Work {
    todo: Mutex<Todo>,
    more: Condvar,
}

#[derive(Default)]
struct Todo {
    reads: VecDeque<OneRead>,
    is_over: bool,
}

/// A read that a caller waits for.
struct OneRead {
    file: RawFd,
    bufs: *mut IoSliceMut<'static>,
    count: usize,
    offset: u64,
    number: u64,
    answers: Arc<Answers>,
}

// SAFETY: who has asked keeps file and buffers until the answer, and touches neither meanwhile.
unsafe impl Send for OneRead {}

/// What was answered to one caller.
#[derive(Default)]
struct Answers {
    done: Mutex<Vec<(u64, usize)>>,
    one: Condvar,
}

impl OneRead {
    fn make(self) {
        // SAFETY: as the caller of `Queue::ask` promises, both stay as they are until the answer below.
        let (file, bufs) = unsafe {
            (
                BorrowedFd::borrow_raw(self.file),
                std::slice::from_raw_parts_mut(self.bufs, self.count),
            )
        };
        let there = rustix::io::preadv(file, bufs, self.offset).unwrap_or(0);
        self.answers.done.lock().push((self.number, there));
        self.answers.one.notify_one();
    }
}

impl Work {
    /// Makes reads until there are to be no more.
    fn work(&self) {
        let mut todo = self.todo.lock();
        loop {
            if let Some(read) = todo.reads.pop_front() {
                drop(todo);
                read.make();
                todo = self.todo.lock();
            } else if todo.is_over {
                return;
            } else {
                self.more.wait(&mut todo);
            }
        }
    }
}

impl Threads {
    /// Starts them, as many as there can be.
    pub fn start() -> Threads {
        let work = Arc::new(Work::default());
        let start = |_| {
            let work = work.clone();
            let builder = Builder::new().name("terrace reads".into());
            let thread = builder.stack_size(STACK_BYTES).spawn(move || work.work());
            thread.ok()
        };
        let threads = (0..THREADS).map_while(start).collect();
        Threads { work, threads }
    }

    /// None, as where the system has none.
    #[cfg(test)]
    pub fn none() -> Threads {
        Threads {
            work: Arc::default(),
            threads: Vec::new(),
        }
    }

    /// Goes with the last of them.
    #[cfg(test)]
    pub fn watch(&self) -> std::sync::Weak<impl Sized + use<>> {
        Arc::downgrade(&self.work)
    }

    /// For the reads of one caller.
    pub fn queue(&self) -> Asked<'_> {
        Asked {
            work: &self.work,
            answers: Arc::default(),
        }
    }

    /// Ends them. No caller reads any more.
    pub fn end(self) {
        self.work.todo.lock().is_over = true;
        self.work.more.notify_all();
        for thread in self.threads {
            // None of them panics, and there would be no caller to tell.
            let _ = thread.join();
        }
    }
}

/// The reads of one caller.
pub(super) struct Asked<'t> {
    work: &'t Work,
    answers: Arc<Answers>,
}

impl Queue for Asked<'_> {
    unsafe fn ask(&mut self, file: BorrowedFd<'_>, read: &mut DiskRead<'_>, number: u64) -> bool {
        self.work.todo.lock().reads.push_back(OneRead {
            file: file.as_raw_fd(),
            bufs: read.bufs.as_mut_ptr().cast(),
            count: read.bufs.len(),
            offset: read.offset,
            number,
            answers: self.answers.clone(),
        });
        self.work.more.notify_one();
        true
    }

    fn answer(&mut self) -> (u64, usize) {
        loop {
            if let Some(done) = self.answers.done.lock().pop() {
                return done;
            }
            let read = self.work.todo.lock().reads.pop_front();
            if let Some(read) = read {
                read.make();
                continue;
            }
            let mut done = self.answers.done.lock();
            if done.is_empty() {
                self.answers.one.wait(&mut done);
            }
        }
    }
}
