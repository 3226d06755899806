//! The feed of changes as a stream.
//!
//! Invariant: as with [`super::Records`], what is being read is kept in the stream.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use terrace_base::Result;

use super::pool::run_beside;
use crate::{Commit, Place};

/// How long a thread waits for a commit before it looks whether any caller still wants one.
const LOOKED_AFTER: Duration = Duration::from_millis(100);

/// Commits in their order; see [`super::Database::changes`]. A [`Stream`], and [`Changes::next`] for who needs no more
/// of it. After it is dropped a thread may wait for a tenth of a second more.
#[must_use = "it reads only when it is asked for commits"]
pub struct Changes {
    source: Source,
    place: Place,
}

type Read = (crate::Changes, Option<Result<Commit>>);

enum Source {
    Idle(Box<crate::Changes>),
    Reading(Pin<Box<dyn Future<Output = Result<Read>> + Send>>),
    Ended,
}

impl Changes {
    pub(super) fn new(changes: crate::Changes) -> Changes {
        Changes {
            place: changes.place(),
            source: Source::Idle(Box::new(changes)),
        }
    }

    /// The next commit, once there is one; `None` after the end that was asked for. After an error there is none.
    /// To drop its future leaves no commit out.
    pub async fn next(&mut self) -> Option<Result<Commit>> {
        poll_fn(|context| self.poll(context)).await
    }

    /// The place behind what was given out so far.
    pub fn place(&self) -> Place {
        self.place
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Commit>>> {
        loop {
            let mut reading = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Ended => return Poll::Ready(None),
                Source::Reading(reading) => reading,
                Source::Idle(mut changes) => Box::pin(run_beside(move || {
                    let next = changes.next_within(LOOKED_AFTER).transpose();
                    (*changes, next)
                })) as Pin<Box<_>>,
            };
            match reading.as_mut().poll(context) {
                Poll::Pending => {
                    self.source = Source::Reading(reading);
                    return Poll::Pending;
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Some(Err(e))),
                Poll::Ready(Ok((changes, next))) => {
                    self.place = changes.place();
                    if !changes.is_at_end() {
                        self.source = Source::Idle(Box::new(changes));
                    }
                    if next.is_some() {
                        return Poll::Ready(next);
                    }
                }
            }
        }
    }
}

impl Stream for Changes {
    type Item = Result<Commit>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}
