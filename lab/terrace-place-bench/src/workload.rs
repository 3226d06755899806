//! Which keys are asked for, and what is done with them.

use crate::random::{Random, Zipf, mix};
use anyhow::{Context, Result, ensure};
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

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
    /// Lookups followed by an update of what was found.
    pub modify: u64,
}

const READ: Workload = Workload {
    name: "",
    keys: Keys::Zipf(0.99),
    update: 0,
    insert: 0,
    scan: 0,
    modify: 0,
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
        modify: 50,
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
    /// A lookup, then an update.
    Modify(u64),
    /// A key that is not there, beside this one.
    Insert(u64),
    /// This many entries from this key on.
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
    /// Recorded operations, and how many of them are done.
    recorded: Option<(Arc<Trace>, usize)>,
}

/// A trace of a block device.
#[derive(Debug)]
pub struct Trace {
    /// Blocks that are named, in their order: numbers from 0.
    pub entries: u64,
    /// Blocks, and whether they are written.
    operations: Vec<(u32, bool)>,
}

/// Bytes of a block of a trace.
const BLOCK: u64 = 4096;
/// Blocks of one request at most: those that follow are left out, as a line that long is a mistake.
const LONGEST: u64 = 1 << 16;

impl Trace {
    /// Reads up to this many blocks of a file whose lines are `device,R or W,offset,length,time`,
    /// offset and length in bytes: the form of Alibaba's traces. A heading is passed by.
    pub fn read(path: &Path, most: u64) -> Result<Trace> {
        let file = std::fs::File::open(path)
            .with_context(|| format!("{} cannot be opened", path.display()))?;
        let lines = std::io::BufReader::new(file).lines();
        let trace = Trace::parse(lines.map(|line| Ok(line?)), most);
        trace.with_context(|| format!("{} is no trace", path.display()))
    }

    fn parse(lines: impl Iterator<Item = Result<String>>, most: u64) -> Result<Trace> {
        let mut touched: Vec<((u64, u64), bool)> = vec![];
        for (i, line) in lines.enumerate() {
            let line = line?;
            if touched.len() as u64 >= most {
                break;
            }
            let fields: Vec<&str> = line.split(',').map(str::trim).collect();
            let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
            let kind = fields.get(1).copied().unwrap_or("");
            let known = (number(0), number(2), number(3));
            let (Some(device), Some(offset), Some(len), "R" | "W") =
                (known.0, known.1, known.2, kind)
            else {
                // The names of the columns.
                ensure!(
                    i == 0,
                    "line {}: `device,R or W,offset,length,time` is expected, not `{line}`",
                    i + 1
                );
                continue;
            };
            let first = offset / BLOCK;
            let blocks = len.div_ceil(BLOCK).clamp(1, LONGEST);
            let blocks = blocks.min(most - touched.len() as u64);
            touched.extend((0..blocks).map(|at| ((device, first.saturating_add(at)), kind == "W")));
        }
        let mut blocks: Vec<(u64, u64)> = touched.iter().map(|(block, _)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        ensure!(
            (1000..1 << 31).contains(&blocks.len()),
            "it names {} blocks; a thousand are needed",
            blocks.len()
        );
        let number = |block| blocks.partition_point(|b| *b < block) as u32;
        let operations = touched
            .into_iter()
            .map(|(block, write)| (number(block), write));
        Ok(Trace {
            operations: operations.collect(),
            entries: blocks.len() as u64,
        })
    }
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
            recorded: None,
        }
    }

    /// The operations of a trace, from the beginning on again when it ends.
    pub fn recorded(trace: Arc<Trace>, workload: Workload) -> Stream {
        let entries = trace.entries;
        Stream {
            recorded: Some((trace, 0)),
            ..Stream::new(workload, entries, 123)
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
        if let Some((trace, at)) = &mut self.recorded
            && let Some(&(key, write)) = trace.operations.get(*at % trace.operations.len())
        {
            *at += 1;
            return match write {
                true => Operation::Update(key.into()),
                false => Operation::Get(key.into()),
            };
        }
        let w = self.workload;
        let dice = match w.update + w.insert + w.scan + w.modify {
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
        } else if dice < w.insert + w.update + w.scan + w.modify {
            Operation::Modify(key)
        } else {
            Operation::Get(key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(text: &str, most: u64) -> Result<Trace> {
        Trace::parse(text.lines().map(|line| Ok(line.to_string())), most)
    }

    #[test]
    fn a_trace_is_read_block_by_block() {
        let mut text = String::from("device_id,opcode,offset,length,timestamp\n");
        for i in 0..1000u64 {
            text += &format!(
                "3,{},{},8192,{i}\n",
                if i % 2 == 0 { "W" } else { "R" },
                i * 8192
            );
        }
        let trace = trace(&text, 1 << 20).unwrap();
        assert_eq!((trace.entries, trace.operations.len()), (2000, 2000));
        let mut stream = Stream::recorded(Arc::new(trace), BLOCKS);
        let first: Vec<Operation> = (0..4).map(|_| stream.next()).collect();
        use Operation::{Get, Update};
        assert_eq!(first, [Update(0), Update(1), Get(2), Get(3)]);
        // It begins anew at its end.
        assert_eq!((4..2001).map(|_| stream.next()).last(), Some(Update(0)));
    }

    #[test]
    fn a_trace_that_is_none_says_which_line() {
        let text = "a heading\n1,R,0,4096,1\n1,X,0,4096,1\n";
        let error = trace(text, 100).unwrap_err().to_string();
        assert!(
            error.contains("line 3") && error.contains("1,X,0"),
            "{error}"
        );
        let error = trace("1,R,0,18446744073709551615,1\n", 500).unwrap_err();
        assert!(error.to_string().contains("500 blocks"), "{error}");
        assert!(trace("", 100).is_err());
    }

    #[test]
    fn a_lookup_comes_before_the_update_of_a_modification() {
        let mut stream = Stream::new(YCSB[5], 1000, 1);
        let all: Vec<Operation> = (0..1000).map(|_| stream.next()).collect();
        let modify = |o: &&Operation| matches!(o, Operation::Modify(_));
        let n = all.iter().filter(modify).count();
        assert!((400..600).contains(&n), "{n}");
        assert!(!all.iter().any(|o| matches!(o, Operation::Update(_))));
    }
}
