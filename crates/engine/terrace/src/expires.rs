//! Until when a record is there, as users say it.

use std::time::SystemTime;

use terrace_base::lease::Lease;

use crate::millis::{millis, time_of};

/// Until when a record is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expires {
    /// It stays until it is removed.
    Never,
    /// It is gone from this instant on, which is a whole millisecond.
    At(SystemTime),
}

impl Expires {
    /// The instant, if there is one.
    pub fn at(self) -> Option<SystemTime> {
        match self {
            Expires::Never => None,
            Expires::At(time) => Some(time),
        }
    }

    pub(crate) fn of(lease: Lease) -> Expires {
        lease
            .end()
            .map_or(Expires::Never, |end| Expires::At(time_of(end)))
    }

    pub(crate) fn lease(self) -> Lease {
        self.at().map_or(Lease::ENDLESS, lease_until)
    }
}

/// The lease up to a time; a part of a millisecond counts as a whole one.
pub fn lease_until(time: SystemTime) -> Lease {
    let ms = millis(time);
    Lease::until(ms.saturating_add(u64::from(time > time_of(ms))))
}
