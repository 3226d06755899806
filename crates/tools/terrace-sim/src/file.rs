//! One simulated file: what programs see, what is durable, and what lies between.

use std::collections::BTreeSet;

use crate::Rng;

/// The unit that survives or is lost as a whole, in bytes: the smallest sector of any disk.
pub(crate) const SECTOR: u64 = 512;

/// A change that no sync has covered yet.
#[derive(Clone)]
enum Pending {
    /// Whole sectors as they stood after the write (a buffered write below sector size takes its
    /// neighbours along, as the page cache does), and where the write itself ended.
    Write {
        offset: u64,
        sectors: Vec<u8>,
        end: u64,
    },
    /// The file's new length.
    Len(u64),
}

impl Pending {
    /// Numbers of the sectors that it writes.
    fn sectors(&self) -> std::ops::Range<u64> {
        match self {
            Pending::Write {
                offset, sectors, ..
            } => offset / SECTOR..(offset + sectors.len() as u64).div_ceil(SECTOR),
            Pending::Len(_) => 0..0,
        }
    }
}

/// Contents of one file.
#[derive(Clone, Default)]
pub(crate) struct FileState {
    current: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
    /// Sectors that a failed sync dropped and that were not written since: the cache shows them, takes
    /// them for clean, and may let them go.
    lost: BTreeSet<u64>,
}

impl FileState {
    pub(crate) fn len(&self) -> u64 {
        self.current.len() as u64
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.current
    }

    /// The bytes at `offset`, or `None` past the end.
    pub(crate) fn read(&self, offset: u64, len: usize) -> Option<&[u8]> {
        let start = usize::try_from(offset).ok()?;
        self.current.get(start..start.checked_add(len)?)
    }

    pub(crate) fn write(&mut self, buf: &[u8], offset: u64) {
        if buf.is_empty() {
            return;
        }
        let end = offset + buf.len() as u64;
        if self.len() < end {
            self.current.resize(end as usize, 0);
        }
        self.current[offset as usize..end as usize].copy_from_slice(buf);
        let first = offset / SECTOR * SECTOR;
        let last = end.next_multiple_of(SECTOR).min(self.len());
        let sectors = self.current[first as usize..last as usize].to_vec();
        for sector in first / SECTOR..last.div_ceil(SECTOR) {
            self.lost.remove(&sector);
        }
        self.pending.push(Pending::Write {
            offset: first,
            sectors,
            end,
        });
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len != self.len() {
            self.current.resize(len as usize, 0);
            self.pending.push(Pending::Len(len));
        }
    }

    /// Writes what is pending, and only that: what a failed sync dropped stays lost.
    pub(crate) fn sync(&mut self) {
        let mut unused = Rng::new(0);
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change, Keep::All, &mut unused);
        }
    }

    /// A sync that failed: each pending change is durable, or still pending, or taken for clean by
    /// the operating system, so that no later sync will write it.
    pub(crate) fn sync_failed(&mut self, rng: &mut Rng) {
        for change in std::mem::take(&mut self.pending) {
            match rng.below(3) {
                0 => apply(&mut self.durable, &change, Keep::All, rng),
                1 => self.pending.push(change),
                _ => self.lost.extend(change.sectors()),
            }
        }
        // What is still to be written stays in the cache.
        for sector in self.pending.iter().flat_map(Pending::sectors) {
            self.lost.remove(&sector);
        }
    }

    /// Lets the cache go of some of what it takes for clean: what is read from now on is what is durable.
    pub(crate) fn forget(&mut self, rng: &mut Rng) {
        for sector in std::mem::take(&mut self.lost) {
            if rng.below(4) > 0 {
                self.lost.insert(sector);
                continue;
            }
            let from = (sector * SECTOR) as usize;
            let to = (from + SECTOR as usize).min(self.current.len());
            for at in from..to {
                self.current[at] = self.durable.get(at).copied().unwrap_or(0);
            }
        }
    }

    /// Number of changes that no sync has covered.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The file after a power cut.
    pub(crate) fn survivor(&self, keep: Keep, rng: &mut Rng) -> FileState {
        let mut durable = self.durable.clone();
        for change in &self.pending {
            apply(&mut durable, change, keep, rng);
        }
        FileState {
            current: durable.clone(),
            durable,
            ..FileState::default()
        }
    }

    /// A file that holds exactly this, durably.
    pub(crate) fn durable(bytes: Vec<u8>) -> FileState {
        FileState {
            current: bytes.clone(),
            durable: bytes,
            ..FileState::default()
        }
    }
}

/// Which unsynced changes a power cut leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    All,
    Nothing,
    /// Each change is kept, lost or torn.
    Some,
}

fn apply(durable: &mut Vec<u8>, change: &Pending, keep: Keep, rng: &mut Rng) {
    // 0: kept, 1: lost, 2: torn, each sector for itself.
    let fate = match keep {
        Keep::All => 0,
        Keep::Nothing => 1,
        Keep::Some => rng.below(3),
    };
    if fate == 1 {
        return;
    }
    match change {
        Pending::Len(len) => durable.resize(*len as usize, 0),
        Pending::Write {
            offset,
            sectors,
            end,
        } => {
            for (i, sector) in sectors.chunks(SECTOR as usize).enumerate() {
                if fate == 2 && rng.below(2) == 0 {
                    continue;
                }
                let at = *offset as usize + i * SECTOR as usize;
                let reach = at + sector.len();
                // The file grows only as far as the write itself went.
                let limit = durable.len().max((*end as usize).min(reach));
                if durable.len() < limit {
                    durable.resize(limit, 0);
                }
                let upto = reach.min(limit);
                if at < upto {
                    durable[at..upto].copy_from_slice(&sector[..upto - at]);
                }
            }
        }
    }
}
