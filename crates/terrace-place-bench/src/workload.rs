//! Which keys are asked for, and what is done with them.

use crate::random::{Random, Zipf, mix};

/// How keys are chosen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Keys {
    /// Zipf's law over keys that lie anywhere.
    Zipf(f64),
    /// 90 % of requests on 5 % of the keys, side by side (the paper's SP).
    Range,
    Uniform,
    /// The last ones that were inserted, by Zipf's law (YCSB D).
    Latest,
    /// Extents of a block device, by Zipf's law, each read or written from its first block on: made
    /// up, after published statistics of such traces.
    Extents,
}

/// A workload: keys, and shares of operations in percent; the rest are lookups.
#[derive(Debug, Clone, Copy)]
pub struct Workload {
    pub name: &'static str,
    pub keys: Keys,
    pub update: u64,
    pub insert: u64,
    pub scan: u64,
}

const READ: Workload = Workload {
    name: "",
    keys: Keys::Zipf(0.99),
    update: 0,
    insert: 0,
    scan: 0,
};

pub const ZIPF: Workload = Workload {
    name: "zipf",
    ..READ
};
pub const ZIPF_90: Workload = Workload {
    name: "zipf.9",
    keys: Keys::Zipf(0.9),
    ..READ
};
pub const RANGE: Workload = Workload {
    name: "sp",
    keys: Keys::Range,
    ..READ
};
pub const UNIFORM: Workload = Workload {
    name: "uniform",
    keys: Keys::Uniform,
    ..READ
};
pub const RANGE_INSERT: Workload = Workload {
    name: "sp-insert",
    keys: Keys::Range,
    insert: 5,
    ..READ
};
pub const RANGE_UPDATE: Workload = Workload {
    name: "sp-update",
    keys: Keys::Range,
    update: 50,
    ..READ
};
pub const RANGE_SCAN: Workload = Workload {
    name: "sp-ranges",
    keys: Keys::Range,
    scan: 95,
    insert: 5,
    ..READ
};
pub const YCSB: [Workload; 6] = [
    Workload {
        name: "ycsb-a",
        update: 50,
        ..READ
    },
    Workload {
        name: "ycsb-b",
        update: 5,
        ..READ
    },
    Workload {
        name: "ycsb-c",
        ..READ
    },
    Workload {
        name: "ycsb-d",
        keys: Keys::Latest,
        insert: 5,
        ..READ
    },
    Workload {
        name: "ycsb-e",
        scan: 95,
        insert: 5,
        ..READ
    },
    Workload {
        name: "ycsb-f",
        update: 50,
        ..READ
    },
];
pub const BLOCKS: Workload = Workload {
    name: "blocks",
    keys: Keys::Extents,
    update: 70,
    ..READ
};

/// One operation; keys are numbers from 0, in the order of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Get(u64),
    Update(u64),
    /// A key that is not there, beside this one.
    Insert(u64),
    /// So many entries from this key on.
    Scan(u64, usize),
}

/// Draws operations.
pub struct Stream {
    workload: Workload,
    entries: u64,
    zipf: Option<Zipf>,
    random: Random,
    moved: bool,
    inserted: Vec<u64>,
    /// Block and blocks left of the extent that is being read.
    extent: (u64, u64),
}

/// Blocks of an extent.
const EXTENT: u64 = 64;

impl Stream {
    pub fn new(workload: Workload, entries: u64, seed: u64) -> Stream {
        let zipf = match workload.keys {
            Keys::Zipf(theta) => Some(Zipf::new(entries, theta)),
            Keys::Latest => Some(Zipf::new(entries, 0.99)),
            Keys::Extents => Some(Zipf::new(entries / EXTENT, 0.9)),
            Keys::Range | Keys::Uniform => None,
        };
        Stream {
            workload,
            entries,
            zipf,
            random: Random::new(seed),
            moved: false,
            inserted: vec![],
            extent: (0, 0),
        }
    }

    /// What is hot lies elsewhere from now on.
    pub fn shift(&mut self) {
        self.moved = true;
    }

    fn key(&mut self) -> u64 {
        let n = self.entries;
        let salt = if self.moved { 0xABCD_EF12_345 } else { 0 };
        match (self.workload.keys, &self.zipf) {
            (Keys::Zipf(_), Some(zipf)) => mix(zipf.rank(&mut self.random) ^ salt) % n,
            (Keys::Latest, Some(zipf)) => {
                let rank = zipf.rank(&mut self.random);
                let newest = self.inserted.len() as u64;
                match newest.checked_sub(rank + 1) {
                    Some(at) => self.inserted[at as usize],
                    // Before these, keys as they were loaded: in no order.
                    None => mix(rank - newest) % n,
                }
            }
            (Keys::Extents, Some(zipf)) => {
                if self.extent.1 == 0 {
                    let extent = mix(zipf.rank(&mut self.random) ^ salt) % (n / EXTENT).max(1);
                    self.extent = (extent * EXTENT, 1 + self.random.below(EXTENT));
                }
                self.extent.1 -= 1;
                self.extent.0 += 1;
                (self.extent.0 - 1) % n
            }
            (Keys::Range, _) => {
                let first = if self.moved { 2 * n / 3 } else { n / 3 };
                if self.random.unit() < 0.9 {
                    first + self.random.below(n / 20)
                } else {
                    self.random.below(n)
                }
            }
            _ => self.random.below(n),
        }
    }

    pub fn next(&mut self) -> Operation {
        let w = self.workload;
        let dice = match w.update + w.insert + w.scan {
            0 => 100,
            _ => self.random.below(100),
        };
        if dice < w.insert {
            // New keys of the latest ones come anywhere, others beside those that are asked for.
            let key = match w.keys {
                Keys::Latest => self.random.below(self.entries),
                _ => self.key(),
            };
            if w.keys == Keys::Latest {
                self.inserted.push(key);
            }
            return Operation::Insert(key);
        }
        let key = self.key();
        if dice < w.insert + w.update {
            Operation::Update(key)
        } else if dice < w.insert + w.update + w.scan {
            Operation::Scan(key, 1 + self.random.below(100) as usize)
        } else {
            Operation::Get(key)
        }
    }
}
