//! Who listens to which channels, and the events of keys.
//!
//! Invariant: a client hears what is published after its subscription was answered, in the order of publishing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::glob;
use crate::proto::reply::Reply;

/// A client that listens: its event loop, and its number.
pub type Listener = (usize, u64);

#[derive(Debug, Default)]
struct Tables {
    channels: HashMap<Vec<u8>, Vec<Listener>>,
    patterns: HashMap<Vec<u8>, Vec<Listener>>,
}

/// Who listens.
#[derive(Debug, Default)]
pub struct Channels {
    tables: Mutex<Tables>,
    listeners: AtomicUsize,
}

/// A message as it is sent, in both versions of the protocol.
fn message(parts: &[&[u8]]) -> Arc<[Vec<u8>; 2]> {
    Arc::new([false, true].map(|third| {
        let mut out = Reply::new(third);
        out.push(parts.len());
        parts.iter().for_each(|part| out.bulk(part));
        out.bytes
    }))
}

impl Channels {
    fn locked(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any client listens to anything.
    pub fn are_heard(&self) -> bool {
        self.listeners.load(Ordering::SeqCst) > 0
    }

    /// Begins to listen.
    pub fn listen(&self, name: &[u8], is_pattern: bool, listener: Listener) {
        let mut tables = self.locked();
        let table = match is_pattern {
            true => &mut tables.patterns,
            false => &mut tables.channels,
        };
        table.entry(name.to_vec()).or_default().push(listener);
        self.listeners.fetch_add(1, Ordering::SeqCst);
    }

    /// Listens no longer.
    pub fn leave(&self, name: &[u8], is_pattern: bool, listener: Listener) {
        let mut tables = self.locked();
        let table = match is_pattern {
            true => &mut tables.patterns,
            false => &mut tables.channels,
        };
        if let Some(all) = table.get_mut(name)
            && let Some(at) = all.iter().position(|l| *l == listener)
        {
            all.remove(at);
            self.listeners.fetch_sub(1, Ordering::SeqCst);
            if all.is_empty() {
                table.remove(name);
            }
        }
    }

    /// Publishes a message; how many hear it. `tell` brings it to a client.
    pub fn publish(
        &self,
        channel: &[u8],
        text: &[u8],
        tell: &dyn Fn(Listener, Arc<[Vec<u8>; 2]>),
    ) -> usize {
        if !self.are_heard() {
            return 0;
        }
        let tables = self.locked();
        let mut heard = 0;
        if let Some(listeners) = tables.channels.get(channel) {
            let said = message(&[b"message", channel, text]);
            for listener in listeners {
                tell(*listener, said.clone());
                heard += 1;
            }
        }
        for (pattern, listeners) in &tables.patterns {
            if glob::fits(pattern, channel) {
                let said = message(&[b"pmessage", pattern, channel, text]);
                for listener in listeners {
                    tell(*listener, said.clone());
                    heard += 1;
                }
            }
        }
        heard
    }

    /// How many would hear a message.
    pub fn would_hear(&self, channel: &[u8]) -> usize {
        if !self.are_heard() {
            return 0;
        }
        let tables = self.locked();
        let patterns = tables.patterns.iter();
        let fits = patterns.filter(|(pattern, _)| glob::fits(pattern, channel));
        let patterned: usize = fits.map(|(_, listeners)| listeners.len()).sum();
        tables.channels.get(channel).map_or(0, Vec::len) + patterned
    }

    /// The channels that a client listens to.
    pub fn names(&self, pattern: Option<&[u8]>) -> Vec<Vec<u8>> {
        let tables = self.locked();
        let fits = |name: &&Vec<u8>| pattern.is_none_or(|p| glob::fits(p, name));
        tables.channels.keys().filter(fits).cloned().collect()
    }

    /// How many listen to a channel.
    pub fn listeners(&self, channel: &[u8]) -> usize {
        self.locked().channels.get(channel).map_or(0, Vec::len)
    }

    /// How many patterns there are.
    pub fn patterns(&self) -> usize {
        self.locked().patterns.len()
    }
}

/// Letters of classes of events, as `notify-keyspace-events` has them; the place is the bit.
const LETTERS: &[u8] = b"KEg$lshzxetdmn";
/// What `A` stands for.
const ALL: &[u8] = b"g$lshzxetd";

/// The bits of classes; none for a letter that is none.
pub fn classes(letters: &str) -> Option<u32> {
    let bit = |letter: u8| LETTERS.iter().position(|l| *l == letter).map(|at| 1 << at);
    let mut bits = 0;
    for letter in letters.bytes() {
        bits |= match letter {
            b'A' => ALL.iter().filter_map(|l| bit(*l)).sum(),
            _ => bit(letter)?,
        };
    }
    Some(bits)
}

/// Whether a class is among these bits.
pub fn has_class(bits: u32, letter: u8) -> bool {
    LETTERS
        .iter()
        .position(|l| *l == letter)
        .is_some_and(|at| bits & (1 << at) != 0)
}

/// The letters of classes, as Redis shows them.
pub fn letters(bits: u32) -> String {
    let all = ALL.iter().all(|l| has_class(bits, *l));
    let mut text = String::new();
    if all {
        text.push('A');
    }
    for letter in b"g$lshzxetdKEmn" {
        if has_class(bits, *letter) && !(all && ALL.contains(letter)) {
            text.push(char::from(*letter));
        }
    }
    text
}
