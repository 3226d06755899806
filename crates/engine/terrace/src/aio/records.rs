//! Streams of records: some are read at a time, on a thread, and then given out without one.
//!
//! Invariant: what is being read is kept in the stream, not in the future of its `next`. So who drops that loses
//! nothing.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use terrace_base::Result;
use tokio::runtime::Handle;

use super::pool::{Pool, joined};
use crate::Range;
use crate::structures::range::Record;

/// Most records that are read at a time, and about as many bytes: little memory for a stream, and few threads for
/// a record.
const MOST_RECORDS: usize = 1024;
const MOST_BYTES: usize = 256 << 10;

/// Records of a range, from the lowest key on; it keeps the database open. A [`Stream`], and [`Records::next`] for
/// who needs no more of it.
#[must_use = "it reads only when it is asked for records"]
pub struct Records {
    pool: Pool,
    ready: VecDeque<Result<Record>>,
    source: Source,
}

type Begin = Box<dyn FnOnce() -> Result<Range> + Send>;
/// What was read, and what more comes from, if more may come.
type Read = (VecDeque<Result<Record>>, Option<Box<Range>>);

enum Source {
    /// Nothing was read yet.
    Begin(Begin),
    Rest(Box<Range>),
    Reading(Pin<Box<dyn Future<Output = Result<Read>> + Send>>),
    Ended,
}

impl Records {
    pub(super) fn new(
        pool: Pool,
        begin: impl FnOnce() -> Result<Range> + Send + 'static,
    ) -> Records {
        Records {
            pool,
            ready: VecDeque::new(),
            source: Source::Begin(Box::new(begin)),
        }
    }

    /// The next record. After an error there is none. To drop its future leaves no record out.
    pub async fn next(&mut self) -> Option<Result<Record>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Record>>> {
        loop {
            if let Some(record) = self.ready.pop_front() {
                return Poll::Ready(Some(record));
            }
            let mut reading = match std::mem::replace(&mut self.source, Source::Ended) {
                Source::Ended => return Poll::Ready(None),
                Source::Reading(reading) => reading,
                Source::Begin(begin) => self.reading(|| begin().map(Box::new)),
                Source::Rest(range) => self.reading(|| Ok(range)),
            };
            let read = match reading.as_mut().poll(context) {
                Poll::Ready(read) => read,
                Poll::Pending => {
                    self.source = Source::Reading(reading);
                    return Poll::Pending;
                }
            };
            match read {
                Ok((records, rest)) => {
                    self.ready = records;
                    self.source = rest.map_or(Source::Ended, Source::Rest);
                }
                Err(e) => return Poll::Ready(Some(Err(e))),
            }
        }
    }

    fn reading(
        &self,
        begin: impl FnOnce() -> Result<Box<Range>> + Send + 'static,
    ) -> Pin<Box<dyn Future<Output = Result<Read>> + Send>> {
        let pool = self.pool.clone();
        let reading = async move { pool.run(|| begin().map(read)).await? };
        // A task of its own: a stream that is not asked any more must not keep a place that it was given.
        let Ok(runtime) = Handle::try_current() else {
            return Box::pin(reading);
        };
        let task = runtime.spawn(reading);
        Box::pin(async move { joined(task.await)? })
    }
}

/// The next records of a range.
fn read(mut range: Box<Range>) -> Read {
    let (mut records, mut bytes) = (VecDeque::new(), 0);
    while records.len() < MOST_RECORDS && bytes < MOST_BYTES {
        match range.next() {
            None => return (records, None),
            Some(Ok((key, value))) => {
                bytes += key.len() + value.len();
                records.push_back(Ok((key, value)));
            }
            Some(Err(e)) => {
                records.push_back(Err(e));
                return (records, None);
            }
        }
    }
    (records, Some(range))
}

impl Stream for Records {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll(context)
    }
}

impl std::fmt::Debug for Records {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Records")
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}
