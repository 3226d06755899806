//! Records on their way out: windows of them, or one by one.
//!
//! Invariant: each record of the source is handed out once, whether by windows or one by one.

use crate::encoding::{push_record, record_at};
use crate::failure::{Failure, Result};
use crate::planted::{Fault, planted};

pub type Record = (Vec<u8>, Vec<u8>);
/// Records in some order.
pub type Source = Box<dyn Iterator<Item = Result<Record>> + Send>;

/// Records of the first window; each has twice as many as the one before.
const FIRST_RECORDS: usize = 32;
/// Most records of a window.
pub const MOST_RECORDS: usize = 1024;
/// Most bytes of a window, unless its only record is longer.
pub const MOST_BYTES: usize = 1 << 20;
/// Bytes before the records of a window: how many there are.
const HEAD: usize = 4;
/// Bytes before each record: two lengths.
const RECORD_HEAD: usize = 8;

/// What goes through records.
pub struct Cursor {
    source: Source,
    /// A record that had no room in the last window.
    ahead: Option<Record>,
    /// What the source ended with, to be told behind the records before it.
    failed: Option<Failure>,
    ended: bool,
    records: usize,
    /// The window from which records are handed out one by one, where the next one is, how many are left.
    window: Vec<u8>,
    at: usize,
    left: usize,
}

impl Cursor {
    pub fn new(source: Source) -> Cursor {
        Cursor {
            source,
            ahead: None,
            failed: None,
            ended: false,
            records: FIRST_RECORDS,
            window: Vec::new(),
            at: 0,
            left: 0,
        }
    }

    fn pull(&mut self) -> Option<Record> {
        if let Some(record) = self.ahead.take() {
            return Some(record);
        }
        if self.ended {
            return None;
        }
        match self.source.next() {
            Some(Ok(record)) => Some(record),
            Some(Err(failure)) => {
                (self.ended, self.failed) = (true, Some(failure));
                None
            }
            None => {
                self.ended = true;
                None
            }
        }
    }

    /// Fills a window; how many records it has.
    fn fill(&mut self, most_bytes: usize, out: &mut Vec<u8>) -> Result<usize> {
        out.clear();
        out.extend_from_slice(&[0; HEAD]);
        let mut records = 0;
        while records < self.records {
            let Some((key, value)) = self.pull() else {
                break;
            };
            let len = RECORD_HEAD + key.len() + value.len();
            if records > 0 && out.len() + len > most_bytes {
                if !planted(Fault::WindowSkips) {
                    self.ahead = Some((key, value));
                }
                break;
            }
            push_record(&key, &value, out);
            records += 1;
        }
        if records == 0
            && let Some(failure) = self.failed.take()
        {
            return Err(failure);
        }
        self.records = (self.records * 2).min(MOST_RECORDS);
        out[..HEAD].copy_from_slice(&(records as u32).to_le_bytes());
        Ok(records)
    }

    pub fn window(&mut self, most_bytes: usize, out: &mut Vec<u8>) -> Result<usize> {
        if self.left == 0 {
            return self.fill(most_bytes, out);
        }
        // Some of them were handed out one by one; the others go as they are.
        let (mut end, mut records) = (self.at, 0);
        while records < self.left
            && let Some((_, _, next)) = record_at(&self.window, end)
            && (records == 0 || HEAD + next - self.at <= most_bytes)
        {
            (end, records) = (next, records + 1);
        }
        out.clear();
        out.extend_from_slice(&(records as u32).to_le_bytes());
        out.extend_from_slice(&self.window[self.at..end]);
        (self.at, self.left) = (end, self.left - records);
        Ok(records)
    }

    pub fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        if self.left == 0 {
            let mut window = std::mem::take(&mut self.window);
            let filled = self.fill(MOST_BYTES, &mut window);
            (self.window, self.at) = (window, HEAD);
            self.left = filled?;
            if self.left == 0 {
                return Ok(None);
            }
        }
        let found = record_at(&self.window, self.at);
        let (key, value, next) = found.ok_or_else(|| Failure::defect("a window lost a record"))?;
        (self.at, self.left) = (next, self.left - 1);
        Ok(Some((key, value)))
    }
}
