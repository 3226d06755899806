//! What every part of a store goes by: how memory is divided, whether the store may be written to, who waits
//! for whom, the figures, and what is claimed of the free space.

use std::sync::Arc;

use terrace_base::{Error, Result};

use crate::parts::counters::Counters;
use crate::parts::health::Health;
use crate::parts::options::{Layout, StoreOptions};
use crate::parts::pinned::PinState;
use crate::parts::signals::Signals;
use crate::parts::source::Source;
use crate::parts::space_reservations::SpaceReservations;

/// What all parts of a store have in common. It knows of no other part, so all may have it.
pub(crate) struct Common {
    pub options: StoreOptions,
    pub layout: Layout,
    pub health: Health,
    pub signals: Signals,
    pub counters: Counters,
    pub claims: SpaceReservations,
    /// What the store reads, if it is that of an image.
    pub image: Option<Box<dyn Source>>,
}

impl Common {
    pub fn new(options: StoreOptions, layout: Layout, image: Option<Box<dyn Source>>) -> Common {
        Common {
            options,
            layout,
            health: Health::default(),
            signals: Signals::new(),
            counters: Counters::default(),
            claims: SpaceReservations::default(),
            image,
        }
    }

    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.options.page_bytes
    }

    pub fn frames(&self) -> u64 {
        self.layout.frames as u64
    }

    pub fn poison(&self, cause: &Error) -> Error {
        let error = self.health.poison(cause);
        self.signals.note_progress();
        error
    }

    #[inline]
    pub fn is_image(&self) -> bool {
        self.image.is_some()
    }

    #[inline]
    pub fn check_writable(&self) -> Result<()> {
        match &self.image {
            None => Ok(()),
            Some(image) if image.is_alone() => Err(Error::invalid(
                "the database was opened to be read only; open it with Database::open to write to it",
            )),
            Some(_) => Err(Error::invalid(
                "a snapshot cannot be changed; write to the database that it is of",
            )),
        }
    }

    pub fn count_image_bytes(&self, bytes: u64) {
        if let Some(image) = &self.image {
            image.count_bytes(bytes);
        }
    }

    pub fn is_of_another(&self) -> bool {
        self.image.as_ref().is_some_and(|image| !image.is_alone())
    }

    pub fn pinned(&self) -> Option<&Arc<PinState>> {
        self.image.as_ref().map(|image| image.state())
    }
}
