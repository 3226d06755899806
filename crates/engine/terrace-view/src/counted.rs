//! Surveys: figures with numbers of records, for which pages are read.
//!
//! Invariants: one survey is made at a time, and they take a small part of the time, however often figures are
//! asked for and however long each takes. One that failed is not made again at once either. No caller waits for a
//! survey while there is an older one to look at.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use terrace::{Result, Stats};

use crate::watched::Watched;

/// The next survey begins this many times later than the last one took, at the earliest.
const REST: u32 = 20;

/// The last survey, and what makes the next one.
#[derive(Debug)]
pub struct Counted {
    watched: Mutex<Watched>,
    last: Mutex<Option<Taken>>,
}

/// A survey that was made.
#[derive(Clone, Debug)]
struct Taken {
    at: Instant,
    took: Duration,
    survey: Result<Arc<Stats>>,
}

impl Counted {
    /// Surveys of this database.
    pub fn new(watched: Watched) -> Counted {
        Counted {
            watched: Mutex::new(watched),
            last: Mutex::new(None),
        }
    }

    /// A survey that is at most so old, or as old as it has to be; or why there is none.
    ///
    /// # Errors
    /// As [`Watched::survey`].
    pub fn at_most(&self, age: Duration) -> Result<Arc<Stats>> {
        if let Some(survey) = self.fresh(age) {
            return survey;
        }
        let mut watched = match (self.watched.try_lock(), self.last()) {
            (Some(watched), _) => watched,
            // Another thread is at it.
            (None, Some(last)) => return last.survey,
            (None, None) => self.watched.lock(),
        };
        // Whoever was faster.
        if let Some(survey) = self.fresh(age) {
            return survey;
        }
        let began = Instant::now();
        let survey = watched.survey().map(Arc::new);
        let taken = Taken {
            at: Instant::now(),
            took: began.elapsed(),
            survey: survey.clone(),
        };
        *self.last.lock() = Some(taken);
        survey
    }

    fn last(&self) -> Option<Taken> {
        self.last.lock().clone()
    }

    fn fresh(&self, age: Duration) -> Option<Result<Arc<Stats>>> {
        let last = self.last()?;
        let good = age.max(last.took * REST);
        (last.at.elapsed() < good).then_some(last.survey)
    }
}
