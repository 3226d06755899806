//! Records that a thread of its own reads: cursors of other stores borrow what they read from, and cannot be kept from
//! one record to the next.
//!
//! Invariants: what is read ahead has a bound; an error, also a panic of the thread, is never taken for the end.

use anyhow::{Result, anyhow};
use indicatif::ProgressBar;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::SystemTime;

use super::source::{Numbered, Source};
use crate::engine::Entry;

/// A record, and until when it is there.
pub type Record = (Entry, Option<SystemTime>);

/// Records are handed over when there are this many,
const BATCH_RECORDS: usize = 256;
/// or this many bytes; two such batches wait at most.
const BATCH_BYTES: usize = 1 << 20;
const WAITING: usize = 1;

/// What the thread gives records to.
pub struct Feeder {
    to: SyncSender<Vec<Numbered<Record>>>,
    batch: Vec<Numbered<Record>>,
    bytes: usize,
    number: u64,
}

impl Feeder {
    /// One more record, or what is wrong with it. False if no more are wanted.
    #[must_use]
    pub fn give(&mut self, record: Result<Record>) -> bool {
        self.number += 1;
        self.bytes += record
            .as_ref()
            .map_or(0, |((key, value), _)| key.len() + value.len());
        self.batch.push((self.number, record));
        if self.batch.len() < BATCH_RECORDS && self.bytes < BATCH_BYTES {
            return true;
        }
        self.hand_over()
    }

    fn hand_over(&mut self) -> bool {
        self.bytes = 0;
        self.to.send(std::mem::take(&mut self.batch)).is_ok()
    }
}

/// The records, in the order in which they are read.
pub struct Fed {
    from: Receiver<Vec<Numbered<Record>>>,
    reader: Option<JoinHandle<Result<()>>>,
    batch: std::vec::IntoIter<Numbered<Record>>,
    until: Option<SystemTime>,
    bar: ProgressBar,
}

impl Fed {
    /// What `read` gives. The bar goes on by one with each record.
    pub fn new(
        bar: ProgressBar,
        read: impl FnOnce(&mut Feeder) -> Result<()> + Send + 'static,
    ) -> Result<Fed> {
        let (to, from) = sync_channel(WAITING);
        let reader = Builder::new().spawn(move || {
            let mut feeder = Feeder {
                to,
                batch: Vec::new(),
                bytes: 0,
                number: 0,
            };
            let read = read(&mut feeder);
            // Also before an error: they are to be loaded.
            feeder.hand_over();
            read
        })?;
        Ok(Fed {
            from,
            reader: Some(reader),
            batch: Vec::new().into_iter(),
            until: None,
            bar,
        })
    }
}

impl Source for Fed {
    fn next(&mut self) -> Result<Option<Numbered<Entry>>> {
        loop {
            if let Some((number, record)) = self.batch.next() {
                self.bar.inc(1);
                self.until = record.as_ref().ok().and_then(|(_, until)| *until);
                return Ok(Some((number, record.map(|(entry, _)| entry))));
            }
            match self.from.recv() {
                Ok(batch) => self.batch = batch.into_iter(),
                Err(_) => {
                    return match self.reader.take().map(JoinHandle::join) {
                        None | Some(Ok(Ok(()))) => Ok(None),
                        Some(Ok(Err(error))) => Err(error),
                        Some(Err(_)) => Err(anyhow!("the thread that reads has failed")),
                    };
                }
            }
        }
    }

    fn expires(&self) -> Option<SystemTime> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(read: impl FnOnce(&mut Feeder) -> Result<()> + Send + 'static) -> Fed {
        Fed::new(ProgressBar::hidden(), read).unwrap()
    }

    fn entry(n: u64) -> Record {
        ((n.to_be_bytes().to_vec(), vec![0; 10]), None)
    }

    #[test]
    fn all_records_come_and_then_the_end_or_the_error() {
        let mut good = fed(|to| {
            (0..1000).all(|n| to.give(Ok(entry(n))));
            Ok(())
        });
        for n in 0..1000 {
            let (number, record) = good.next().unwrap().unwrap();
            assert_eq!((number, record.unwrap()), (n + 1, entry(n).0));
        }
        assert!(good.next().unwrap().is_none());

        let mut bad = fed(|to| {
            assert!(to.give(Ok(entry(7))));
            Err(anyhow!("the disk"))
        });
        assert!(bad.next().unwrap().is_some());
        assert_eq!(bad.next().unwrap_err().to_string(), "the disk");

        let mut broken = fed(|_| panic!("on purpose"));
        assert!(broken.next().unwrap_err().to_string().contains("failed"));
    }

    #[test]
    fn who_wants_no_more_ends_the_thread() {
        let (said, heard) = std::sync::mpsc::channel();
        let mut endless = fed(move |to| {
            while to.give(Ok(entry(1))) {}
            said.send(()).unwrap();
            Ok(())
        });
        assert!(endless.next().unwrap().is_some());
        drop(endless);
        heard.recv().unwrap();
    }
}
