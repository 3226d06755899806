//! Where lines go that would wait for the disk: to threads, each of which takes one, runs its commands as far as they go,
//! and sends it back; or, where a page of one record is all that is missing, to the reader of the database, which
//! reads for many at the same time.
//!
//! Invariant: a line that was handed over comes back to its loop once, with its commands in their order.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::dispatch::Dispatcher;
use crate::host::{Host, locked};
use crate::line::Line;
use crate::mailbox::Mail;
use crate::store::work::Work;

/// So often a command waits for pages without a thread. A record lies some pages below the root, of which nearly always
/// one is not in memory; who misses more often loses them again, or needs many.
const MOST_MISSES: u32 = 4;

/// Lines that wait for a thread.
#[derive(Default)]
pub struct Pool {
    waiting: Mutex<VecDeque<Box<Line>>>,
    woken: Condvar,
    /// Whether no loop hands lines over any more.
    ended: AtomicBool,
}

impl Pool {
    /// Hands a line over that has stopped in this work, which knows the record that was missed if no more is known to
    /// stand in the way.
    pub fn take_missed(&self, mut line: Box<Line>, work: &Work, host: &Arc<Host>) {
        // A client that waits for an element is looked at again by who wakes it.
        let Some((map, key)) = work
            .missed
            .take()
            .filter(|_| line.blocked.is_none() && line.times_missed() < MOST_MISSES)
        else {
            return self.take(line);
        };
        line.miss();
        let line = Arc::new(Mutex::new(Some(line)));
        // No host, whose end would be this thread's: with it a database may close.
        let (back, mail) = (line.clone(), host.mail.clone());
        let look_again = move || {
            if let Some(line) = locked(&back).take()
                && let Some(mailbox) = mail.get(line.session.on)
            {
                mailbox.send(Mail::Back(line.session.id, line));
            }
        };
        // An error is met by who has the line.
        let waits = map.when_resident(&key, look_again).unwrap_or(false);
        let left = (!waits).then(|| locked(&line).take()).flatten();
        if let Some(line) = left {
            self.take(line);
        }
    }

    /// Hands a line over to a thread.
    pub fn take(&self, line: Box<Line>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(line);
        self.woken.notify_one();
    }

    /// No loop hands lines over any more: the threads end once nothing waits.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        let _waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        self.woken.notify_all();
    }

    /// A thread of the pool, until it ends and nothing waits.
    pub fn run(&self, dispatcher: &Dispatcher) {
        let mut work = dispatcher.new_work(true);
        loop {
            let mut line = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                loop {
                    if let Some(line) = waiting.pop_front() {
                        break line;
                    }
                    if self.ended.load(Ordering::SeqCst) {
                        return;
                    }
                    let woken = self.woken.wait(waiting);
                    waiting = woken.unwrap_or_else(PoisonError::into_inner);
                }
            };
            dispatcher.process(&mut line, &mut work);
            let (on, id) = (line.session.on, line.session.id);
            dispatcher.host.tell(on, Mail::Back(id, line));
        }
    }
}
