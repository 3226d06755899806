//! What was made last of a checkpoint, for others who ask for the same one.

use std::sync::{Arc, Weak};
use std::time::SystemTime;

use terrace_base::sync::{Mutex, MutexGuard};

/// What was made last of a checkpoint. It keeps nothing alive.
pub struct Latest<T>(Mutex<Option<Last<T>>>);

impl<T> Default for Latest<T> {
    fn default() -> Latest<T> {
        Latest(Mutex::new(None))
    }
}

impl<T> Latest<T> {
    /// What it is. No other thread makes one while the answer is held.
    pub fn lock(&self) -> MutexGuard<'_, Option<Last<T>>> {
        self.0.lock()
    }
}

/// What was made of a checkpoint, if it is still in use.
pub struct Last<T> {
    generation: u64,
    /// The instant that it shows.
    pub time: SystemTime,
    /// The number of the last logged change that it has.
    pub sequence: u64,
    made: Weak<T>,
}

impl<T> Last<T> {
    /// Of the checkpoint with this generation.
    pub fn new(generation: u64, time: SystemTime, sequence: u64, made: &Arc<T>) -> Last<T> {
        Last {
            generation,
            time,
            sequence,
            made: Arc::downgrade(made),
        }
    }

    /// What was made of the checkpoint with this generation.
    pub fn of(&self, generation: u64) -> Option<Arc<T>> {
        (self.generation == generation).then(|| self.made.upgrade())?
    }
}
