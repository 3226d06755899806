//! How far a recovery has come, in bytes of the log.
//!
//! Invariant: what is told rises, and never passes the total told with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::layout::{BLOCK_HEADER, HEADER_BYTES, peek_block};
use crate::lsn::Lsn;
use crate::options::LogOptions;
use crate::segment::Segment;

/// The way from the cut to the end of the last segment with anything in it.
pub(crate) struct Progress<'a> {
    /// Bytes of the way before each segment, less the offset at which it enters it.
    before: BTreeMap<u32, i64>,
    total: u64,
    done: u64,
    seen: &'a mut dyn FnMut(u64, u64),
}

impl<'a> Progress<'a> {
    pub fn new(
        options: &LogOptions,
        segments: &BTreeMap<u32, Arc<Segment>>,
        from: Lsn,
        seen: &'a mut dyn FnMut(u64, u64),
    ) -> Progress<'a> {
        let mut before = BTreeMap::new();
        let mut total = 0;
        for (&number, segment) in segments.range(from.segment()..) {
            let enters = if number == from.segment() {
                u64::from(from.offset())
            } else if is_begun(segment, options) {
                HEADER_BYTES
            } else {
                // Made ahead: nothing was written there.
                break;
            };
            before.insert(number, total as i64 - enters as i64);
            total += segment.bytes.saturating_sub(enters);
        }
        seen(0, total);
        Progress {
            before,
            total,
            done: 0,
            seen,
        }
    }

    /// Everything before this place has been read.
    pub fn is_at(&mut self, at: Lsn) {
        let Some(before) = self.before.get(&at.segment()) else {
            return;
        };
        let done = before.saturating_add(i64::from(at.offset())).max(0) as u64;
        self.done = self.done.max(done.min(self.total));
        (self.seen)(self.done, self.total);
    }
}

/// Whether a segment begins with what looks like a block. What cannot be read the recovery finds out.
fn is_begun(segment: &Segment, options: &LogOptions) -> bool {
    let mut header = [0; BLOCK_HEADER];
    let at = Lsn::new(segment.number, HEADER_BYTES as u32);
    segment.file.read_at(&mut header, HEADER_BYTES).is_err()
        || peek_block(&header, segment.salt(options), at).is_some()
}
