//! The root page of an LSM-tree: where its parts begin, and what is in them about.
//!
//! ```text
//!  16  u8   tag 0xBA                  17  u8   number of levels
//!  18  u8   levels of which the figures are estimates, a bit for each, the lowest for the last one
//!  24  u64  root of the top
//!  32  40 bytes for each level, the last one first:
//!      u64 root of its index, u64 data pages, u64 bytes of records, u64 records, u64 tombstones
//! ```
//!
//! Levels are counted from the last one, so that a new one, above all others, gets the next number and
//! the number of no other one changes. The figures are hints: a wrong one costs I/O, never an answer.

use terrace_access::{Attempt, LevelFigures};
use terrace_base::PageId;
use terrace_pages::{Exclusive, PAGE_HEADER_BYTES, Shared, View};

use crate::btree::layout::Seen;

/// Most levels: with eight times as much in each, more than there are page numbers for.
pub(crate) const MOST_LEVELS: usize = 8;

const TAG: u8 = 0xBA;
const LEVELS: usize = 17;
const ESTIMATES: usize = 18;
const TOP: usize = 24;
const FIRST: usize = 32;
const LEVEL_BYTES: usize = 40;

const NO_ROOT: &str = "this is not the root of an LSM-tree, or it contradicts itself";

/// What a root page says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Root {
    pub top: PageId,
    /// The last level first.
    pub levels: Vec<(PageId, LevelFigures)>,
    /// Levels of which the figures are estimates: a bit for each, the lowest for the last one.
    pub estimates: u8,
}

fn read(view: View<'_>) -> Seen<Option<Root>> {
    let levels = view.u8(LEVELS)? as usize;
    if view.u8(PAGE_HEADER_BYTES)? != TAG || !(1..=MOST_LEVELS).contains(&levels) {
        return Ok(None);
    }
    let mut root = Root {
        top: PageId(view.u64(TOP)?),
        levels: Vec::with_capacity(levels),
        estimates: view.u8(ESTIMATES)?,
    };
    for n in 0..levels {
        let at = FIRST + n * LEVEL_BYTES;
        let figures = LevelFigures {
            pages: view.u64(at + 8)?,
            bytes: view.u64(at + 16)?,
            records: view.u64(at + 24)?,
            tombstones: view.u64(at + 32)?,
        };
        root.levels.push((PageId(view.u64(at)?), figures));
    }
    Ok(Some(root))
}

impl Root {
    /// Reads it.
    pub fn of(page: &Shared<'_>) -> Attempt<Root> {
        let seen = read(page.view());
        seen.ok().flatten().ok_or_else(|| page.torn(NO_ROOT))
    }

    /// Writes it.
    pub fn write(&self, page: &mut Exclusive<'_>) -> Attempt<()> {
        let end = FIRST + MOST_LEVELS * LEVEL_BYTES;
        let bytes = page.change(PAGE_HEADER_BYTES, end - PAGE_HEADER_BYTES)?;
        bytes.fill(0);
        let mut put = |at: usize, from: &[u8]| {
            let at = at - PAGE_HEADER_BYTES;
            bytes[at..at + from.len()].copy_from_slice(from);
        };
        let head = [TAG, self.levels.len() as u8, self.estimates];
        put(PAGE_HEADER_BYTES, &head);
        put(TOP, &self.top.0.to_le_bytes());
        for (n, (root, figures)) in self.levels.iter().take(MOST_LEVELS).enumerate() {
            let at = FIRST + n * LEVEL_BYTES;
            let f = figures;
            let words = [root.0, f.pages, f.bytes, f.records, f.tombstones];
            for (i, word) in words.into_iter().enumerate() {
                put(at + 8 * i, &word.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Checks the bytes of a root on their own, whatever they are: for fuzzing. Never panics. O(1).
///
/// # Errors
/// What is wrong with them.
pub fn verify_root(page: &[u8]) -> terrace_base::Result<()> {
    match read(View::of(page)) {
        Ok(Some(_)) => Ok(()),
        _ => Err(super::page::wrong(PageId::NONE, NO_ROOT)),
    }
}
