//! The texts of scripts, for those who call them by their names.
//!
//! Invariants: what a client has loaded stays until it is flushed; what came by a call goes, the oldest first, when
//! there are too many or they take too much memory. What does not fit is not kept, and who loads it is told.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Scripts that are kept; Redis keeps all until it is told otherwise, so it is many.
const MOST: usize = 10_000;
/// Bytes that a script takes beside its text, about.
const OVERHEAD: usize = 256;

struct CachedScript {
    text: Arc<[u8]>,
    /// Whether a client has loaded it.
    loaded: bool,
}

/// Texts by their names.
pub struct Scripts {
    by_name: HashMap<String, CachedScript>,
    /// Those that came by a call, the oldest first; some may be loaded or flushed since.
    called: VecDeque<String>,
    bytes: usize,
    /// Most bytes of all of them.
    most: usize,
}

impl Scripts {
    /// None; all together take `most` bytes at most.
    pub fn new(most: usize) -> Scripts {
        Scripts {
            by_name: HashMap::new(),
            called: VecDeque::new(),
            bytes: 0,
            most,
        }
    }

    /// The text with a name.
    pub fn get(&self, name: &str) -> Option<Arc<[u8]>> {
        self.by_name.get(name).map(|kept| kept.text.clone())
    }

    /// Whether there is one with this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Keeps a text, for good if it is `loaded`; whether it fits.
    pub fn keep(&mut self, name: String, text: Arc<[u8]>, loaded: bool) -> bool {
        if let Some(kept) = self.by_name.get_mut(&name) {
            kept.loaded |= loaded;
            return true;
        }
        let bytes = text.len() + OVERHEAD;
        // What stays for good is not made room of, and nothing goes in vain.
        let lasting = self.by_name.values().filter(|kept| kept.loaded);
        let (count, stays) = lasting.fold((0, 0), |(count, bytes), kept| {
            (count + 1, bytes + kept.text.len() + OVERHEAD)
        });
        if count >= MOST || stays.saturating_add(bytes) > self.most {
            return false;
        }
        while self.by_name.len() >= MOST || self.bytes + bytes > self.most {
            let Some(oldest) = self.called.pop_front() else {
                return false;
            };
            if self.by_name.get(&oldest).is_some_and(|kept| !kept.loaded)
                && let Some(gone) = self.by_name.remove(&oldest)
            {
                self.bytes -= gone.text.len() + OVERHEAD;
            }
        }
        if !loaded {
            self.called.push_back(name.clone());
        }
        self.bytes += bytes;
        self.by_name.insert(name, CachedScript { text, loaded });
        true
    }

    /// Forgets all of them.
    pub fn flush(&mut self) {
        *self = Scripts::new(self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(scripts: &mut Scripts, name: &str, length: usize, loaded: bool) -> bool {
        scripts.keep(name.to_owned(), vec![b'x'; length].into(), loaded)
    }

    #[test]
    fn what_was_loaded_stays_and_what_was_called_goes() {
        let mut scripts = Scripts::new(usize::MAX);
        assert!(keep(&mut scripts, "loaded", 1, true));
        for i in 0..MOST + 5 {
            assert!(keep(&mut scripts, &i.to_string(), 1, false));
        }
        assert!(scripts.has("loaded") && !scripts.has("5") && scripts.has("6"));
        // One that was called first, and then loaded.
        assert!(keep(&mut scripts, "6", 1, true));
        assert!(keep(&mut scripts, "late", 1, true));
        assert!(scripts.has("6") && !scripts.has("7") && scripts.has("late"));
        assert_eq!(scripts.by_name.len(), MOST);
    }

    #[test]
    fn all_of_them_take_bounded_memory() {
        let mut scripts = Scripts::new(10 * (1000 + OVERHEAD));
        for i in 0..20 {
            assert!(keep(&mut scripts, &i.to_string(), 1000, false));
            assert!(scripts.bytes <= scripts.most);
        }
        assert!(!scripts.has("9") && scripts.has("10") && scripts.has("19"));
        for i in 20..30 {
            assert!(keep(&mut scripts, &i.to_string(), 1000, true));
        }
        // Now nothing can go.
        assert!(!keep(&mut scripts, "one", 1, true) && !keep(&mut scripts, "two", 1, false));
        scripts.flush();
        assert!(keep(&mut scripts, "one", 1, true) && !scripts.has("20"));
    }
}
