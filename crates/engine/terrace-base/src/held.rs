//! Which directories this process has locked, so that who opens one a second time is told that it is here.
//!
//! Only for what is said: the lock itself is the operating system's. So no thread waits for this list, and a
//! directory that it misses is said to be open elsewhere.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;

/// Process, device and number of a directory: a forked process has a copy of the list.
type Id = (u32, u64, u64);

static HELD: Mutex<Vec<Id>> = Mutex::new(Vec::new());

fn id(directory: &File) -> Option<Id> {
    let meta = directory.metadata().ok()?;
    Some((std::process::id(), meta.dev(), meta.ino()))
}

/// A directory that this process has locked, until it is dropped.
pub struct Held(Option<Id>);

impl Held {
    /// This one, from now on.
    pub fn new(directory: &File) -> Held {
        let id = id(directory);
        if let (Some(id), Ok(mut held)) = (id, HELD.try_lock()) {
            held.push(id);
        }
        Held(id)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let (Some(id), Ok(mut held)) = (self.0, HELD.try_lock())
            && let Some(at) = held.iter().position(|other| *other == id)
        {
            held.swap_remove(at);
        }
    }
}

/// Whether this process has locked it.
pub fn is_held(directory: &File) -> bool {
    match (id(directory), HELD.try_lock()) {
        (Some(id), Ok(held)) => held.contains(&id),
        _ => false,
    }
}
