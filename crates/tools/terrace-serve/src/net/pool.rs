//! The threads for what may wait: each takes a line, runs its commands as far as they go, and sends it back.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use crate::dispatch::Dispatcher;
use crate::line::Line;
use crate::mailbox::Mail;

/// Lines that wait for a thread.
#[derive(Default)]
pub struct Pool {
    waiting: Mutex<VecDeque<Box<Line>>>,
    woken: Condvar,
    /// Whether nobody hands lines over any more.
    ended: AtomicBool,
}

impl Pool {
    /// Hands a line over.
    pub fn take(&self, line: Box<Line>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back(line);
        self.woken.notify_one();
    }

    /// Nobody hands lines over any more: the threads end once nothing waits.
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
