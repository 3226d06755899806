//! What event loops are told by others.

use std::sync::{Arc, Mutex, PoisonError};

use crate::line::Line;
use crate::net::socket::Socket;
use crate::session::ClientInfo;

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

/// The mail of an event loop.
pub struct Mailbox {
    mail: Mutex<Vec<Mail>>,
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

    /// Tells the loop something.
    pub fn send(&self, mail: Mail) {
        let mut all = self.mail.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(mail);
        if all.len() == 1 {
            drop(all);
            self.wake();
        }
    }

    /// Wakes the loop.
    pub fn wake(&self) {
        // A loop that is gone needs no waking.
        let _ = self.waker.wake();
    }

    /// Everything so far.
    pub fn take(&self) -> Vec<Mail> {
        std::mem::take(&mut *self.mail.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
