//! What event loops are told by others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::line::Line;
use crate::session::ClientInfo;
use crate::socket::Socket;

/// What an event loop is told.
pub enum Mail {
    /// A client has come.
    Came(Socket, Arc<ClientInfo>),
    /// A client's commands were run as far as they go.
    Back(u64, Box<Line>),
    /// A client may get what it waits for.
    Wake(u64),
    /// Something was published for a client: in both versions of the protocol.
    Said(u64, Arc<[Vec<u8>; 2]>),
    /// Everything before this sync is durable.
    Synced,
    /// A client is to be looked at: it is to be sent away, or waits no longer.
    Look(u64),
    /// A client has more to be read, and others came first.
    More(u64),
}

/// Bytes of what was published that lie here at most: a loop that is behind by more has clients that hear too much.
pub const MOST_SAID: usize = 32 << 20;

#[derive(Default)]
struct Letters {
    all: Vec<Mail>,
    /// Bytes of what was published among them: of each text once, and of who hears it.
    said: usize,
}

/// The mail of an event loop.
pub struct Mailbox {
    mail: Mutex<Letters>,
    waker: mio::Waker,
}

impl Mailbox {
    /// An empty one, whose loop `waker` wakes.
    pub fn new(waker: mio::Waker) -> Mailbox {
        Mailbox {
            mail: Mutex::default(),
            waker,
        }
    }

    fn locked(&self) -> MutexGuard<'_, Letters> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells the loop something; what was published is told by [`Mailbox::offer`].
    pub fn send(&self, mail: Mail) {
        self.offer(mail);
    }

    /// Tells the loop something. False if it was left out: too much was published that it has not read yet.
    pub fn offer(&self, mail: Mail) -> bool {
        let mut letters = self.locked();
        if let Mail::Said(_, text) = &mail {
            let same =
                matches!(letters.all.last(), Some(Mail::Said(_, last)) if Arc::ptr_eq(last, text));
            let bytes = if same {
                0
            } else {
                text[0].len() + text[1].len()
            };
            if letters.said + bytes > MOST_SAID {
                return false;
            }
            letters.said += bytes + size_of::<Mail>();
        }
        letters.all.push(mail);
        if letters.all.len() == 1 {
            drop(letters);
            self.wake();
        }
        true
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        // A loop that is gone needs no waking.
        let _ = self.waker.wake();
    }

    /// Everything so far.
    pub fn take(&self) -> Vec<Mail> {
        std::mem::take(&mut *self.locked()).all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_is_bounded_and_counted_once_for_all_who_hear_it() {
        let poll = mio::Poll::new().unwrap();
        let waker = mio::Waker::new(poll.registry(), mio::Token(0)).unwrap();
        let mailbox = Mailbox::new(waker);
        let said = || Arc::new([vec![0; 1 << 19], vec![0; 1 << 19]]);
        let text = said();
        assert!((0..1000).all(|client| mailbox.offer(Mail::Said(client, text.clone()))));
        let many = (0..).take_while(|_| mailbox.offer(Mail::Said(0, said())));
        assert_eq!(many.count(), (MOST_SAID >> 20) - 2);
        // What is not published always goes.
        mailbox.send(Mail::Look(0));
        assert!(matches!(mailbox.take().last(), Some(Mail::Look(0))));
        assert!(mailbox.offer(Mail::Said(0, said())));
    }
}
