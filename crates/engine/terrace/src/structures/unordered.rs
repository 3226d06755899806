//! Going through all records in whatever order takes the fewest reads.
//!
//! Invariants: the structure hears of the end of a scan in the order of storage, whatever came of it.
//! One window of records is kept; nothing else, however many there are.

use terrace_access::{StoredScan, Window};
use terrace_base::Result;
use terrace_base::lease::Lease;

use crate::expires::Expires;
use crate::handle::map::Map;
use crate::read::leased::Sight;
use crate::structures::range::{Range, value_of};

/// All records in no order; see [`Map::iter_unordered`]. It keeps the database open.
#[derive(Debug)]
#[must_use = "it reads only when it is asked for records"]
pub struct Unordered(Source);

#[derive(Debug)]
enum Source {
    /// In the order of the structure, where that is as good.
    Ordered(Box<Range>),
    /// In the order in which they lie.
    Stored(Box<Stored>),
}

#[derive(Debug)]
struct Stored {
    map: Map,
    scan: StoredScan,
    window: Window,
    /// The entry of the window that comes next.
    next: usize,
    /// As in [`Range`].
    sight: Sight,
    time: u64,
    lease: Lease,
    done: bool,
}

impl Unordered {
    pub(crate) fn seen(map: &Map, sight: Sight) -> Result<Unordered> {
        Ok(Unordered(match map.open.structure.begin_stored() {
            None => {
                let range = Range::seen(map.clone(), Vec::new(), None, sight);
                Source::Ordered(Box::new(range))
            }
            Some(scan) => Source::Stored(Box::new(Stored {
                map: map.clone(),
                scan,
                window: Window::new(),
                next: 0,
                sight,
                time: 0,
                lease: Lease::ENDLESS,
                done: false,
            })),
        }))
    }

    /// Until when the record is there that came out last.
    pub fn expires(&self) -> Expires {
        match &self.0 {
            Source::Ordered(range) => range.expires(),
            Source::Stored(stored) => Expires::of(stored.lease),
        }
    }
}

impl Map {
    /// All records, in whatever order takes the fewest reads. In a table with one tier that is the
    /// order in which the rows lie, each page of which is read once; in the order of the keys it is
    /// read again for every row that is not on the page of its neighbour. Everywhere else it is the
    /// order of [`Map::iter`]. Each record that is there all the while comes out once; what comes or
    /// goes meanwhile may or may not be seen, and no key comes out twice.
    ///
    /// While it is there rows that come find less room, so drop it when it is done. Four of them go
    /// in the order of the pages at the same time, more of them in the order of the keys. It can
    /// fail, and has to be begun again, if very many rows turn into large values meanwhile.
    ///
    /// # Errors
    /// When the structure was dropped.
    pub fn iter_unordered(&self) -> Result<Unordered> {
        self.open.check()?;
        Unordered::seen(self, Sight::Now)
    }
}

impl Stored {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let open = &self.map.open;
        let prefix = open.structure.position_prefix();
        loop {
            while self.next < self.window.len() {
                let i = self.next;
                self.next += 1;
                let key = self.window.key(i).get(prefix..).unwrap_or_default();
                let stored = (self.window.value(i), self.window.entry(i).large.is_some());
                let value = value_of(&self.map, self.sight, self.time, stored, || key)?;
                if let Some(value) = value {
                    self.lease = value.lease;
                    return Ok(Some((key.to_vec(), value.bytes)));
                }
            }
            let core = self.map.core();
            let _pass = core.enter(open)?;
            if open.spec.expiring {
                self.time = core.clock().long_ago();
            }
            self.next = 0;
            if !core.heard(open.structure.scan_stored(&self.scan, &mut self.window))? {
                return Ok(None);
            }
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if self.map.core().passes().is_mine() {
            self.map.open.structure.end_stored(&self.scan);
        }
    }
}

impl Iterator for Unordered {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Source::Ordered(range) => range.next(),
            Source::Stored(stored) if stored.done => None,
            Source::Stored(stored) => {
                let record = stored.step().transpose();
                stored.done = !matches!(record, Some(Ok(_)));
                record
            }
        }
    }
}

impl std::iter::FusedIterator for Unordered {}
