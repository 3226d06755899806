//! The reader: a thread that brings pages in for callers who do not wait on a thread of their own, such as futures.
//! Many wait at the same time, and their pages are read together.
//!
//! Invariants:
//! * Who was taken in is told exactly once, whatever happens: that his page was read, or why it cannot be, or that he
//!   is to look again, because the reader has ended, by a panic too. Once [`Reader::stop`] has returned all were told.
//! * No waiter's code runs while the queue is locked, and a panic of one who is told keeps no other waiting.
//! * Who does not wait any more when his turn comes costs no read.
//! * The thread holds nothing while it reads, and works in no structure: so it may wait for frames.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle, ThreadId};

use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, PageId, Result};
use terrace_pages::PageStore;

use crate::planted::{Fault, planted};

/// Bytes that one who waits takes, at most: his place in the queue, and what he is told by.
const BYTES_EACH: u64 = 160;
/// Most who wait at a time, where there is memory for them: what a device that gives 40,000 pages a second reads in a
/// tenth of a second. Who comes then is read for sooner by a thread of his own.
const MOST_WAITING: u64 = 4096;
/// The part of the memory for iterators and the like that those who wait may take: half of it.
const PART: u64 = 2;
/// Places that the queue keeps when it is empty.
const KEPT: usize = 64;

/// Who waits for a page.
pub trait Waiter: Send {
    /// Whether a caller still waits.
    fn is_wanted(&self) -> bool {
        true
    }

    /// The page was read, and may have left memory again, or cannot be read. Or the reader has ended, which is no error
    /// here: who looks again is told why.
    fn tell(self: Box<Self>, read: Result<()>);
}

/// One that waits for a page.
struct Entry {
    page: PageId,
    waiter: Box<dyn Waiter>,
}

/// Who waits, in the order in which they came.
struct Queue {
    waiting: VecDeque<Entry>,
    most: usize,
    /// No waiter is taken in any more.
    has_ended: bool,
}

impl Queue {
    fn new(most: usize) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            most,
            has_ended: false,
        }
    }

    /// Whether one more is taken in.
    fn has_room(&self) -> bool {
        !self.has_ended && self.waiting.len() < self.most
    }

    /// The first ones, at most `most`.
    fn take(&mut self, most: usize) -> Vec<Entry> {
        let count = most.min(self.waiting.len());
        let taken = self.waiting.drain(..count).collect();
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT);
        }
        taken
    }
}

/// The queue of those who wait for pages, and the thread that reads for them.
pub struct Reader {
    shared: Arc<Shared>,
    /// Begins with the first one that waits.
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Which one that is, or was.
    id: OnceLock<ThreadId>,
    /// Whether there may be a thread.
    may_begin: bool,
}

struct Shared {
    store: Arc<PageStore>,
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Whether the thread waits for a waiter to come.
    #[cfg(feature = "planted-faults")]
    rests: std::sync::atomic::AtomicBool,
}

impl Reader {
    /// Of a store, without a thread yet; `has_threads` tells whether it may have one. Who waits takes a part of the
    /// `scratch` bytes at most.
    pub fn new(store: Arc<PageStore>, scratch: u64, has_threads: bool) -> Reader {
        let most = (scratch / PART / BYTES_EACH).min(MOST_WAITING);
        Reader {
            shared: Arc::new(Shared {
                store,
                queue: Mutex::new(Queue::new(most as usize)),
                changed: Condvar::new(),
                #[cfg(feature = "planted-faults")]
                rests: false.into(),
            }),
            thread: Mutex::default(),
            id: OnceLock::new(),
            may_begin: has_threads,
        }
    }

    /// Has a page brought in. The waiter comes back, and is not told, where too many wait, or there is no thread, or
    /// none any more. The caller holds an operation.
    pub fn ask(
        &self,
        page: PageId,
        waiter: Box<dyn Waiter>,
    ) -> std::result::Result<(), Box<dyn Waiter>> {
        if !self.may_begin {
            return Err(waiter);
        }
        let mut queue = self.shared.queue.lock();
        if !queue.has_room() || !self.has_begun() {
            drop(queue);
            return Err(waiter);
        }
        queue.waiting.push_back(Entry { page, waiter });
        let was_empty = queue.waiting.len() == 1;
        drop(queue);
        if was_empty {
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Whether there is a thread, once it was begun.
    fn has_begun(&self) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let shared = self.shared.clone();
            let run = move || shared.run();
            // Without one all goes on as if there were no reader.
            *thread = Builder::new().name("terrace-reader".into()).spawn(run).ok();
            if let Some(begun) = &*thread {
                let _ = self.id.set(begun.thread().id());
            }
        }
        thread.is_some()
    }

    /// Ends it. All who wait have been told afterwards, but where one of them calls this himself when he is told: the
    /// others are told behind him.
    pub fn stop(&self) {
        self.shared.queue.lock().has_ended = true;
        self.shared.changed.notify_one();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A panic of it was reported by the panic hook already.
            let _ = thread.join();
        }
    }

    /// Whether its thread is the one that asks, also while that is being ended.
    pub fn is_here(&self) -> bool {
        self.id.get() == Some(&std::thread::current().id())
    }

    /// How many wait and are not being read for.
    #[cfg(feature = "planted-faults")]
    pub fn waiting(&self) -> usize {
        self.shared.queue.lock().waiting.len()
    }

    /// Whether all who came were told.
    #[cfg(feature = "planted-faults")]
    pub fn rests(&self) -> bool {
        use std::sync::atomic::Ordering;
        let queue = self.shared.queue.lock();
        queue.waiting.is_empty() && self.shared.rests.load(Ordering::SeqCst)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    /// The thread.
    fn run(&self) {
        let most = self.store.most_together();
        quietly(|| {
            while let Some(entries) = self.next(most) {
                if !self.serve(entries) {
                    break;
                }
            }
        });
        let left = {
            let mut queue = self.queue.lock();
            queue.has_ended = true;
            queue.take(usize::MAX)
        };
        for entry in left {
            match planted(Fault::WaiterLostAtEnd) {
                true => std::mem::forget(entry),
                false => quietly(|| entry.waiter.tell(Ok(()))),
            }
        }
    }

    /// The next ones that wait, once there are some; nothing when it is to end.
    fn next(&self, most: usize) -> Option<Vec<Entry>> {
        let mut queue = self.queue.lock();
        loop {
            if queue.has_ended {
                return None;
            }
            let entries = queue.take(most);
            if !entries.is_empty() {
                return Some(entries);
            }
            self.rests(true);
            self.changed.wait(&mut queue);
            self.rests(false);
        }
    }

    #[cfg(feature = "planted-faults")]
    fn rests(&self, rests: bool) {
        self.rests.store(rests, std::sync::atomic::Ordering::SeqCst);
    }

    #[cfg(not(feature = "planted-faults"))]
    fn rests(&self, _: bool) {}

    /// Reads for these, and tells them. False after a panic: the store is halted then.
    fn serve(&self, entries: Vec<Entry>) -> bool {
        let mut wanted = Vec::with_capacity(entries.len());
        for entry in entries {
            quietly(|| {
                if entry.waiter.is_wanted() {
                    wanted.push(entry);
                }
            });
        }
        let pages: Vec<PageId> = wanted.iter().map(|entry| entry.page).collect();
        let read = catch_unwind(AssertUnwindSafe(|| self.read(pages)));
        if read.is_err() {
            // As with a panic of a call: it is not known what it has left half done. Who looks again is told.
            self.store.halt("the thread that reads for many");
        }
        let failed = read.as_ref().map_or(&[][..], Vec::as_slice);
        for Entry { page, waiter } in wanted {
            let error = failed.iter().find(|(of, _)| *of == page);
            let done = error.map_or(Ok(()), |(_, error)| Err(error.clone()));
            match planted(Fault::WaiterLostByError) && done.is_err() {
                true => std::mem::forget(waiter),
                false => quietly(|| waiter.tell(done)),
            }
        }
        read.is_ok()
    }

    /// Brings pages in; those that cannot be read, each with its own error.
    fn read(&self, mut pages: Vec<PageId>) -> Vec<(PageId, Error)> {
        match self.store.fetch(&mut pages) {
            Ok(()) => Vec::new(),
            // That of one of them. The others are there, so they are not read once more.
            Err(_) => {
                pages.sort_unstable();
                pages.dedup();
                let alone = |page| Some((page, self.store.fault_in(page).err()?));
                pages.into_iter().filter_map(alone).collect()
            }
        }
    }
}

/// Runs what others have given, whose panic is their own: the panic hook has reported it.
fn quietly(run: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(run));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use terrace_pages::{CheckpointMeta, LEARNT_BYTES, StoreOptions};
    use terrace_sim::SimDisk;

    fn reader(most: u64) -> Arc<Reader> {
        let info = CheckpointMeta {
            log_position: [0; 24],
            learnt: [0; LEARNT_BYTES],
            next_structure: 0,
            next_sequence: 0,
            unlogged_from: 0,
            catalog_root: PageId::NONE,
            clean: false,
        };
        let options = StoreOptions {
            page_bytes: 4096,
            memory: 4 << 20,
        };
        let store = PageStore::create(SimDisk::new(1).shared(), options, 1, &info).unwrap();
        let scratch = most * PART * BYTES_EACH;
        Arc::new(Reader::new(Arc::new(store), scratch, true))
    }

    /// One that counts how often it was told, and does something then.
    struct Counts<F> {
        told: Arc<AtomicUsize>,
        is_wanted: bool,
        then: F,
    }

    impl<F: FnOnce(Result<()>) + Send> Waiter for Counts<F> {
        fn is_wanted(&self) -> bool {
            self.is_wanted
        }

        fn tell(self: Box<Self>, read: Result<()>) {
            self.told.fetch_add(1, Ordering::SeqCst);
            (self.then)(read);
        }
    }

    fn counts(told: &Arc<AtomicUsize>) -> Box<dyn Waiter> {
        does(told, |_| ())
    }

    fn does(
        told: &Arc<AtomicUsize>,
        then: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Box<dyn Waiter> {
        Box::new(Counts {
            told: told.clone(),
            is_wanted: true,
            then,
        })
    }

    fn is_taken(reader: &Reader, waiter: Box<dyn Waiter>) -> bool {
        reader.ask(PageId(3), waiter).is_ok()
    }

    /// Keeps the thread until something is sent, or the sender goes.
    fn hold(reader: &Reader) -> Sender<()> {
        let (release, released): (_, Receiver<()>) = channel();
        let (held, holds) = channel();
        let waits = does(&Arc::default(), move |_| {
            held.send(()).unwrap();
            let _ = released.recv();
        });
        assert!(is_taken(reader, waits));
        holds.recv().unwrap();
        release
    }

    #[test]
    fn so_many_are_taken_in_and_each_is_told_once() {
        let (reader, told) = (reader(150), Arc::default());
        let held = hold(&reader);
        let taken = (0..200).filter(|_| is_taken(&reader, counts(&told)));
        assert_eq!(taken.count(), 150);
        let (last, is_last) = channel();
        drop(held);
        // There is room again, sooner or later.
        let mut waiter = does(&told, move |_| last.send(()).unwrap());
        while let Err(back) = reader.ask(PageId(9), waiter) {
            waiter = back;
            std::thread::yield_now();
        }
        is_last.recv().unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 151);
        reader.stop();
        assert_eq!(told.load(Ordering::SeqCst), 151);
    }

    #[test]
    fn who_waits_when_it_ends_is_told_and_nobody_is_taken_in_then() {
        let (reader, told) = (reader(500), Arc::default());
        let held = hold(&reader);
        assert!((0..300).all(|_| is_taken(&reader, counts(&told))));
        std::thread::scope(|scope| {
            scope.spawn(|| reader.stop());
            while is_taken(&reader, counts(&Arc::default())) {
                std::thread::yield_now();
            }
            drop(held);
        });
        assert_eq!(told.load(Ordering::SeqCst), 300);
        assert!(!is_taken(&reader, counts(&told)));
        reader.stop();
        assert_eq!(told.load(Ordering::SeqCst), 300);
    }

    #[test]
    fn who_does_not_wait_any_more_is_let_go_of() {
        let (reader, told) = (reader(100), Arc::default());
        let held = hold(&reader);
        let gone: Arc<AtomicUsize> = Arc::default();
        for is_wanted in [true, false, false] {
            let waiter = Counts {
                told: if is_wanted { &told } else { &gone }.clone(),
                is_wanted,
                then: |_| (),
            };
            assert!(is_taken(&reader, Box::new(waiter)));
        }
        drop(held);
        drop(hold(&reader));
        assert_eq!(told.load(Ordering::SeqCst), 1);
        assert_eq!(
            (gone.load(Ordering::SeqCst), Arc::strong_count(&gone)),
            (0, 1)
        );
    }

    #[test]
    fn who_panics_when_he_is_told_keeps_no_other_waiting() {
        let (reader, told) = (reader(100), Arc::default());
        let held = hold(&reader);
        for i in 0..9 {
            let then = move |_| assert!(i % 2 == 0, "of a waiter");
            assert!(is_taken(&reader, does(&told, then)));
        }
        drop(held);
        drop(hold(&reader));
        assert_eq!(told.load(Ordering::SeqCst), 9);
        assert!(!reader.shared.store.is_halted());
    }

    #[test]
    fn who_is_told_may_ask_again_and_may_end_it() {
        let (reader, told) = (reader(100), Arc::<AtomicUsize>::default());
        let held = hold(&reader);
        let (again, asked) = (reader.clone(), told.clone());
        let (second, is_told) = channel();
        let asks = move |_| {
            let waiter = does(&asked, move |_| second.send(()).unwrap());
            assert!(is_taken(&again, waiter));
        };
        assert!(is_taken(&reader, does(&told, asks)));
        drop(held);
        is_told.recv().unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 2);
        let held = hold(&reader);
        let (ends, (done, is_done)) = (reader.clone(), channel());
        let then = move |_| ends.stop();
        assert!(is_taken(&reader, does(&told, then)));
        assert!(is_taken(
            &reader,
            does(&told, move |_| done.send(()).unwrap())
        ));
        drop(held);
        is_done.recv().unwrap();
        assert_eq!(told.load(Ordering::SeqCst), 4);
        assert!(!is_taken(&reader, counts(&told)));
    }

    #[test]
    fn who_is_told_while_it_ends_knows_where_he_is() {
        let reader = reader(100);
        let held = hold(&reader);
        let (of_waiter, (said, says)) = (reader.clone(), channel());
        let asks = move |_| said.send(of_waiter.is_here()).unwrap();
        assert!(is_taken(&reader, does(&Arc::default(), asks)));
        std::thread::scope(|scope| {
            scope.spawn(|| reader.stop());
            while reader.thread.lock().is_some() {
                std::thread::yield_now();
            }
            drop(held);
        });
        assert!(says.recv().unwrap() && !reader.is_here());
    }

    #[test]
    fn without_a_thread_nobody_is_taken_in() {
        let with = reader(100);
        let store = with.shared.store.clone();
        let without = Reader::new(store, 1 << 20, false);
        assert!(!is_taken(&without, counts(&Arc::default())));
        without.stop();
    }
}
