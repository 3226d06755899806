//! How rows leave a table's memory and come back, and how rows move together: steps, each over a bounded number of rows.

use super::raw::{RawTable, Target};
use super::slab::{CHUNK, DIRTY, RowId, STORED, USE};
use crate::faults::{Fault, planted};
use crate::span::Span;
use crate::spill::cold::Down;

/// Rows that a step of the hand takes down, and that it looks at, at most.
const TOGETHER: usize = 256;
const LOOKED_AT: usize = 4096;
/// Bytes that it takes down, and a row more: the database takes far larger batches.
const MOST_BYTES: usize = 1 << 20;

impl RawTable {
    /// Takes a row that was read from the disk into memory, if it is asked for often enough and is still only there.
    pub fn admit(&mut self, key: &[u8], row: &[u8], version: u32, room: bool) -> bool {
        let period = self.rows.len();
        let Some(cold) = &mut self.cold else {
            return false;
        };
        let asked = cold.admits(key, period);
        let still = cold.version(key) == version || planted(Fault::StaleRowTaken);
        if !(asked || room) || !still || self.primary.get(key).is_some() {
            return false;
        }
        let Ok((olds, news)) = self.both(None, Some(row)) else {
            return false;
        };
        let done = self.apply(key, None, Target::Row(row, STORED | 1), (&olds, &news));
        (self.old, self.new) = (olds, news);
        done.is_ok()
    }

    /// Drops a row, with its entries, that the disk has as it is.
    fn drop_row(&mut self, key: &[u8], id: RowId) -> bool {
        let Ok((olds, news)) = self.both(Some(id), None) else {
            return false;
        };
        let done = self.apply(key, Some(id), Target::Absent, (&olds, &news));
        (self.old, self.new) = (olds, news);
        if let Some(cold) = &mut self.cold
            && !planted(Fault::VersionStays)
        {
            cold.leaves(key);
        }
        done.is_ok()
    }

    /// A step of the hand: drops unused rows that the disk has, and hands out those that it has not. How many left.
    pub fn sweep(&mut self) -> (Vec<Down>, u64) {
        let RawTable {
            rows,
            primary,
            cold,
            ..
        } = self;
        let Some(cold) = cold else {
            return (Vec::new(), 0);
        };
        let (mut downs, mut clean, mut seen, mut last) = (Vec::new(), Vec::new(), 0, None);
        let mut bytes = 0;
        let span = Span {
            low: &cold.hand,
            high: None,
            back: false,
        };
        primary.each(span, |key, id| {
            seen += 1;
            if id == RowId::GONE {
                downs.push(Down {
                    key: key.to_vec(),
                    row: None,
                    stored: true,
                });
            } else {
                let state = rows.state(id);
                match state & USE {
                    0 if state & (DIRTY | STORED) == STORED => clean.push((key.to_vec(), id)),
                    0 => {
                        // It may be there from here on, whatever happens meanwhile.
                        rows.set_state(id, STORED);
                        bytes += key.len() + rows.get(id).len();
                        downs.push(Down {
                            key: key.to_vec(),
                            row: Some(rows.get(id).to_vec()),
                            stored: state & STORED != 0,
                        });
                    }
                    _ => rows.set_state(id, state - 1),
                }
            }
            let goes_on =
                downs.len() + clean.len() < TOGETHER && seen < LOOKED_AT && bytes < MOST_BYTES;
            if !goes_on {
                last = Some([key, &[0]].concat());
            }
            goes_on
        });
        cold.hand = last.unwrap_or_default();
        let dropped = clean
            .into_iter()
            .filter(|(key, id)| self.drop_row(key, *id))
            .count();
        (downs, dropped as u64)
    }

    /// The end of a step: what was written down leaves memory, if it is as it was and unused. How many left.
    pub fn swept(&mut self, downs: &[Down]) -> u64 {
        let mut left = 0;
        for down in downs {
            if let Some(cold) = &mut self.cold
                && !planted(Fault::FilterForgets)
            {
                cold.note(down);
            }
            match (self.primary.get(&down.key), &down.row) {
                (Some(RowId::GONE), None) => {
                    self.primary.remove(&down.key);
                    if let Some(cold) = &mut self.cold {
                        cold.leaves(&down.key);
                    }
                    left += 1;
                }
                (Some(id), Some(_))
                    if id != RowId::GONE && self.rows.state(id) & (DIRTY | USE) == 0 =>
                {
                    left += u64::from(self.drop_row(&down.key, id));
                }
                _ => {}
            }
        }
        left
    }

    /// A step that came to nothing: nothing was written.
    pub fn not_swept(&mut self, downs: &[Down]) {
        for down in downs {
            if let (Some(id), Some(_)) = (self.primary.get(&down.key), &down.row)
                && id != RowId::GONE
            {
                let state = self.rows.state(id);
                self.rows.set_state(id, state | DIRTY);
            }
        }
    }

    // ---------------------------------------------------------------- moving together

    /// Whether chunks of rows are being emptied, or are to be from now on, as at least this many bytes come free by it.
    pub fn is_sparse(&mut self, least: usize) -> bool {
        if self.emptied_to.is_none()
            && !planted(Fault::ChunksStaySparse)
            && !planted(Fault::FreeSlotsUncounted)
            && self.rows.begin_emptying(least.max(2 * CHUNK))
        {
            self.emptied_to = Some(Vec::new());
        }
        self.emptied_to.is_some()
    }

    /// A step of emptying: goes on in key order, and moves what lies in the chunks that are to be emptied.
    pub fn empty_some(&mut self) {
        let Some(from) = self.emptied_to.take() else {
            return;
        };
        let (mut moving, mut seen, mut next) = (Vec::new(), 0, None);
        let (rows, span) = (
            &self.rows,
            Span {
                low: &from,
                high: None,
                back: false,
            },
        );
        self.primary.each(span, |key, id| {
            seen += 1;
            if id != RowId::GONE && rows.is_closing(id) {
                moving.push((key.to_vec(), id));
            }
            let goes_on = moving.len() < TOGETHER && seen < LOOKED_AT;
            if !goes_on {
                next = Some([key, &[0]].concat());
            }
            goes_on
        });
        for (key, id) in moving {
            self.move_row(&key, id);
        }
        if next.is_none() {
            self.rows.end_emptying();
        }
        self.emptied_to = next;
    }

    /// Lets a row lie elsewhere, under the keys that it has. It stays where it is if its keys cannot be told, or it
    /// cannot be numbered.
    fn move_row(&mut self, key: &[u8], old: RowId) {
        let Ok((olds, news)) = self.both(Some(old), None) else {
            return;
        };
        let (row, state) = (self.rows.get(old).to_vec(), self.rows.state(old));
        if let Some(new) = self.rows.insert(&row, state) {
            self.primary.set(key, new);
            for (i, index) in self.indexes.iter_mut().enumerate() {
                if !index.unique {
                    index.remove(olds.of(i), old);
                }
                index.insert(olds.of(i), new);
            }
            self.rows.remove(old);
        }
        (self.old, self.new) = (olds, news);
    }
}
