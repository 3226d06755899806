//! What a transaction has asked of the disk, and what came of it: kept while its closure runs again.

use std::collections::HashMap;

use super::cold::Found;
use crate::span::Span;

/// Rows of a range at first; four times as many each time that is too few.
const FIRST: usize = 32;

/// A key of a table of a partition.
type Place = (usize, u32, Vec<u8>);

/// Something that has to be read.
#[derive(Clone, Debug)]
pub enum Want {
    /// The row of a key.
    Row {
        /// Where.
        partition: usize,
        /// Where.
        table: u32,
        /// Which.
        key: Vec<u8>,
    },
    /// Rows of a range.
    Range {
        /// Where.
        partition: usize,
        /// Where.
        table: u32,
        /// By which index, or by the primary key.
        index: Option<usize>,
        /// From.
        low: Vec<u8>,
        /// To before.
        high: Option<Vec<u8>>,
        /// From the high end.
        back: bool,
        /// This many.
        limit: usize,
    },
}

/// A range that was read.
pub struct FetchedRange {
    partition: usize,
    table: u32,
    index: Option<usize>,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    back: bool,
    limit: usize,
    moves: u64,
    /// What is there.
    pub found: Found,
    /// Whether that is all.
    pub complete: bool,
}

/// What a transaction has asked of the disk, and what came of it.
#[derive(Default)]
pub struct Fetched {
    rows: HashMap<Place, (Option<Vec<u8>>, u32)>,
    /// Of these the ones that came last.
    fresh: Vec<Place>,
    ranges: Vec<FetchedRange>,
    /// What is to be read before the closure runs again.
    pub wants: Vec<Want>,
    /// Rows that were asked for and not there.
    pub misses: u64,
}

impl Fetched {
    /// The row of a key, if it was read and has not been in memory since.
    pub fn row(
        &self,
        partition: usize,
        table: u32,
        key: &[u8],
        version: u32,
    ) -> Option<Option<&[u8]>> {
        if self.rows.is_empty() {
            return None;
        }
        let (row, read_at) = self.rows.get(&(partition, table, key.to_vec()))?;
        (*read_at == version).then_some(row.as_deref())
    }

    /// Asks for a row.
    pub fn want_row(&mut self, partition: usize, table: u32, key: &[u8]) {
        self.misses += 1;
        self.wants.push(Want::Row {
            partition,
            table,
            key: key.to_vec(),
        });
    }

    /// Keeps a row.
    pub fn keep_row(
        &mut self,
        partition: usize,
        table: u32,
        key: Vec<u8>,
        row: Option<Vec<u8>>,
        version: u32,
    ) {
        if !self.fresh.contains(&(partition, table, key.clone())) {
            self.fresh.push((partition, table, key.clone()));
        }
        self.rows.insert((partition, table, key), (row, version));
    }

    /// A range that was read, if nothing has left memory since.
    pub fn range(
        &self,
        partition: usize,
        table: u32,
        index: Option<usize>,
        span: &Span<'_>,
        moves: u64,
    ) -> Option<&FetchedRange> {
        self.ranges
            .iter()
            .rev()
            .find(|range| range.is(partition, table, index, span) && range.moves == moves)
    }

    /// Asks for a range, or for more of it.
    pub fn want_range(
        &mut self,
        partition: usize,
        table: u32,
        index: Option<usize>,
        span: &Span<'_>,
    ) {
        let last = self
            .ranges
            .iter()
            .rev()
            .find(|range| range.is(partition, table, index, span));
        let limit = last.map_or(FIRST, |range| {
            if range.complete {
                range.limit
            } else {
                range.limit * 4
            }
        });
        self.misses += 1;
        self.wants.push(Want::Range {
            partition,
            table,
            index,
            low: span.low.to_vec(),
            high: span.high.map(<[u8]>::to_vec),
            back: span.back,
            limit,
        });
    }

    /// Keeps a range.
    pub fn keep_range(&mut self, want: Want, found: Found, complete: bool, moves: u64) {
        if let Want::Range {
            partition,
            table,
            index,
            low,
            high,
            back,
            limit,
        } = want
        {
            self.ranges.push(FetchedRange {
                partition,
                table,
                index,
                low,
                high,
                back,
                limit,
                moves,
                found,
                complete,
            });
        }
    }

    /// Hands out the rows that were read last, to be taken into memory.
    pub fn rows(&self) -> impl Iterator<Item = (usize, u32, &[u8], &[u8], u32)> {
        self.fresh.iter().filter_map(|place| {
            let (row, version) = self.rows.get(place)?;
            Some((place.0, place.1, &place.2[..], row.as_deref()?, *version))
        })
    }

    /// They have been looked at.
    pub fn settle(&mut self) {
        self.fresh.clear();
    }
}

impl FetchedRange {
    fn is(&self, partition: usize, table: u32, index: Option<usize>, span: &Span<'_>) -> bool {
        self.partition == partition
            && self.table == table
            && self.index == index
            && self.back == span.back
            && self.low == span.low
            && self.high.as_deref() == span.high
    }
}
