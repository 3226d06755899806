//! From where the changes are read, and how long.

use std::time::Duration;

use super::place::Place;
use crate::gentle::Cancel;

/// How often what was written is made durable for who waits for it, if nothing else does it.
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// From where the changes of a database are read, and how long; see [`crate::Database::changes`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until changes are read with them"]
pub struct ChangesOptions {
    pub(crate) from: Option<Place>,
    pub(super) sync_every: Option<Duration>,
    pub(super) waits: bool,
    pub(super) cancel: Option<Cancel>,
}

impl Default for ChangesOptions {
    fn default() -> ChangesOptions {
        ChangesOptions {
            from: None,
            sync_every: Some(SYNC_EVERY),
            waits: true,
            cancel: None,
        }
    }
}

impl ChangesOptions {
    /// From now on, for ever.
    pub fn new() -> ChangesOptions {
        ChangesOptions::default()
    }

    /// From behind a commit that was seen before.
    pub fn from(mut self, place: Place) -> ChangesOptions {
        self.from = Some(place);
        self
    }

    /// Ends with the last commit that there was when reading began, instead of waiting for more.
    pub fn until_now(mut self) -> ChangesOptions {
        self.waits = false;
        self
    }

    /// How long a commit may wait, while a reader waits for it, until it is made durable and given out: a
    /// second, if nothing is said. With `None` only others make it durable.
    pub fn sync_every(mut self, every: Option<Duration>) -> ChangesOptions {
        self.sync_every = every;
        self
    }

    /// Ends the waiting, and the reading with it, when it is cancelled.
    pub fn cancel(mut self, cancel: &Cancel) -> ChangesOptions {
        self.cancel = Some(cancel.clone());
        self
    }
}
