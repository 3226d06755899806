//! Buffers at each level, as a B-epsilon tree's: half of a node are pivots, half a buffer; a full buffer goes
//! down as a whole, cascades included. Inner nodes lie in DRAM, a log makes puts durable.

use std::sync::Arc;

use terrace_pm::Result;
use terrace_pm::pm::Pm;

use super::pool::Pool;
use super::rival::Rival;

/// Pivots, and pairs of a buffer.
const HALF: usize = 30;
/// Pairs of a leaf.
const SLOTS: usize = 60;
/// Words of a leaf: bits, seven words of fingerprints and fence, pairs.
const WORDS: usize = 8 + 2 * SLOTS;

enum Node {
    Leaf {
        at: usize,
    },
    Inner {
        pivots: Vec<u64>,
        children: Vec<Node>,
        buffer: Vec<(u64, u64)>,
    },
}

type Right = Option<(u64, Node)>;

/// The tree.
pub struct BeTree {
    pool: Pool,
    root: Option<Node>,
    log: (usize, usize),
    log_bytes: u64,
    sequence: u64,
    inner: u64,
}

impl BeTree {
    /// An empty one.
    pub fn new(pm: Arc<dyn Pm>) -> BeTree {
        BeTree {
            pool: Pool::new(pm),
            root: None,
            log: (0, 0),
            log_bytes: 0,
            sequence: 0,
            inner: 0,
        }
    }

    fn append(&mut self, key: u64, value: u64) -> Result<()> {
        if self.log.0 == self.log.1 {
            // A ring of a mebibyte: what lies in it longer is in leaves by then, or would have to be.
            let at = if self.log_bytes < 1 << 20 {
                self.log_bytes += 4096;
                self.pool.take(512)?
            } else {
                self.log.1 - 512
            };
            self.log = (at, at + 512);
        }
        let at = self.log.0;
        self.log.0 += 4;
        self.sequence += 1;
        let check = terrace_base::checksum::mix(key ^ self.sequence, value);
        for (i, word) in [key, value, self.sequence, check].into_iter().enumerate() {
            self.pool.store(at + i, word);
        }
        self.pool.pm.flush(at, 4);
        self.pool.pm.fence()
    }
}

fn pairs_of(pool: &Pool, at: usize) -> Vec<(u64, u64)> {
    let bits = pool.load(at);
    let slots = (0..SLOTS).filter(|slot| bits >> slot & 1 == 1);
    slots
        .map(|slot| (pool.load(at + 8 + 2 * slot), pool.load(at + 9 + 2 * slot)))
        .collect()
}

fn write(pool: &mut Pool, at: usize, pairs: &[(u64, u64)], old: u64) -> Result<()> {
    // Pairs that are there change in place; others go to free slots; then the bits.
    let mut bits = old;
    let mut lines = 0u128;
    for (key, value) in pairs {
        let known = (0..SLOTS).find(|s| bits >> s & 1 == 1 && pool.load(at + 8 + 2 * s) == *key);
        let slot = known.unwrap_or((!bits).trailing_zeros() as usize);
        if slot >= SLOTS {
            break;
        }
        pool.store(at + 8 + 2 * slot, *key);
        pool.store(at + 9 + 2 * slot, *value);
        bits |= 1 << slot;
        lines |= 1 << ((8 + 2 * slot) / 8);
    }
    pool.flush_lines(at, lines);
    pool.pm.fence()?;
    if bits != old {
        pool.store(at, bits);
        pool.persist(at)?;
    }
    Ok(())
}

fn put_leaf(pool: &mut Pool, at: usize, group: Vec<(u64, u64)>) -> Result<Right> {
    pool.pairs += group.len() as u64;
    pool.writes += 1;
    pool.pm.has_read(2);
    let old = pairs_of(pool, at);
    let fresh = group
        .iter()
        .filter(|pair| !old.iter().any(|known| known.0 == pair.0))
        .count();
    if old.len() + fresh <= SLOTS {
        let bits = pool.load(at);
        write(pool, at, &group, bits)?;
        return Ok(None);
    }
    pool.pm.has_read(15);
    let mut all: std::collections::BTreeMap<u64, u64> = old.into_iter().collect();
    all.extend(group.iter().copied());
    let all: Vec<(u64, u64)> = all.into_iter().collect();
    let right = &all[all.len() / 2..];
    let new = pool.take(WORDS)?;
    write(pool, new, right, 0)?;
    let bits = pool.load(at);
    let keep = (0..SLOTS)
        .filter(|s| bits >> s & 1 == 1 && pool.load(at + 8 + 2 * s) < right[0].0)
        .fold(0u64, |bits, slot| bits | 1 << slot);
    pool.store(at, keep);
    pool.persist(at)?;
    let coming: Vec<(u64, u64)> = group.into_iter().filter(|p| p.0 < right[0].0).collect();
    write(pool, at, &coming, keep)?;
    Ok(Some((right[0].0, Node::Leaf { at: new })))
}

fn put(pool: &mut Pool, node: &mut Node, group: Vec<(u64, u64)>, inner: &mut u64) -> Result<Right> {
    let (pivots, children, buffer) = match node {
        Node::Leaf { at } => return put_leaf(pool, *at, group),
        Node::Inner {
            pivots,
            children,
            buffer,
        } => (pivots, children, buffer),
    };
    for pair in group {
        match buffer.iter_mut().find(|known| known.0 == pair.0) {
            Some(known) => known.1 = pair.1,
            None => buffer.push(pair),
        }
    }
    if buffer.len() < HALF {
        return Ok(None);
    }
    let mut groups: std::collections::BTreeMap<usize, Vec<(u64, u64)>> = Default::default();
    for pair in buffer.drain(..) {
        let child = pivots.partition_point(|pivot| *pivot <= pair.0);
        groups.entry(child).or_default().push(pair);
    }
    for (child, group) in groups.into_iter().rev() {
        // A leaf takes a leaf's worth at a time.
        for part in group.chunks(SLOTS / 2) {
            let at = pivots
                .partition_point(|pivot| *pivot <= part[0].0)
                .max(child);
            let (mut here, mut beyond) = (Vec::new(), Vec::new());
            for pair in part {
                let to = pivots.partition_point(|pivot| *pivot <= pair.0);
                if to == at {
                    here.push(*pair)
                } else {
                    beyond.push(*pair)
                }
            }
            if !here.is_empty()
                && let Some((pivot, right)) = put(pool, &mut children[at], here, inner)?
            {
                pivots.insert(at, pivot);
                children.insert(at + 1, right);
            }
            buffer.extend(beyond);
        }
    }
    if pivots.len() <= HALF {
        return Ok(None);
    }
    let half = pivots.len() / 2;
    let right_pivots = pivots.split_off(half + 1);
    let right_children = children.split_off(half + 1);
    let Some(pivot) = pivots.pop() else {
        return Ok(None);
    };
    let (right_buffer, left): (Vec<_>, Vec<_>) = buffer.drain(..).partition(|p| p.0 >= pivot);
    *buffer = left;
    *inner += 1;
    Ok(Some((
        pivot,
        Node::Inner {
            pivots: right_pivots,
            children: right_children,
            buffer: right_buffer,
        },
    )))
}

fn collect(pool: &Pool, node: &Node, from: u64, count: usize, found: &mut Vec<(u64, u64)>) {
    match node {
        Node::Leaf { at } => {
            pool.pm.has_read(16);
            found.extend(pairs_of(pool, *at).into_iter().filter(|p| p.0 >= from));
        }
        Node::Inner {
            pivots,
            children,
            buffer,
        } => {
            let first = pivots.partition_point(|pivot| *pivot <= from);
            let begin = found.len();
            let mut end = u64::MAX;
            for (i, child) in children.iter().enumerate().skip(first) {
                collect(pool, child, from, count, found);
                if found.len() - begin >= count {
                    end = pivots.get(i).copied().unwrap_or(u64::MAX);
                    break;
                }
            }
            // Pairs above are newer than those below.
            for pair in buffer
                .iter()
                .filter(|p| p.0 >= from && (p.0 < end || end == u64::MAX))
            {
                match found[begin..].iter_mut().find(|known| known.0 == pair.0) {
                    Some(known) => known.1 = pair.1,
                    None => found.push(*pair),
                }
            }
        }
    }
}

impl Rival for BeTree {
    fn put(&mut self, key: u64, value: u64) -> Result<()> {
        self.append(key, value)?;
        let mut root = match self.root.take() {
            Some(root) => root,
            None => Node::Leaf {
                at: self.pool.take(WORDS)?,
            },
        };
        let right = put(
            &mut self.pool,
            &mut root,
            vec![(key, value)],
            &mut self.inner,
        )?;
        self.root = Some(match right {
            None => root,
            Some((pivot, right)) => {
                self.inner += 1;
                Node::Inner {
                    pivots: vec![pivot],
                    children: vec![root, right],
                    buffer: Vec::new(),
                }
            }
        });
        Ok(())
    }

    fn get(&self, key: u64) -> Result<Option<u64>> {
        let mut node = self.root.as_ref();
        while let Some(now) = node {
            match now {
                Node::Leaf { at } => {
                    self.pool.pm.has_read(2);
                    let pairs = pairs_of(&self.pool, *at);
                    return Ok(pairs.iter().find(|pair| pair.0 == key).map(|pair| pair.1));
                }
                Node::Inner {
                    pivots,
                    children,
                    buffer,
                } => {
                    if let Some(pair) = buffer.iter().find(|pair| pair.0 == key) {
                        return Ok(Some(pair.1));
                    }
                    node = children.get(pivots.partition_point(|pivot| *pivot <= key));
                }
            }
        }
        Ok(None)
    }

    fn range(&self, from: u64, count: usize) -> Result<Vec<(u64, u64)>> {
        let mut found = Vec::new();
        if let Some(root) = &self.root {
            collect(&self.pool, root, from, count, &mut found);
        }
        found.sort_unstable();
        found.truncate(count);
        Ok(found)
    }

    fn dram(&self) -> u64 {
        self.inner * (2 * HALF as u64 * 18 + 40)
    }

    fn log(&self) -> u64 {
        self.log_bytes
    }

    fn leaf_writes(&self) -> (u64, u64) {
        (self.pool.pairs, self.pool.writes)
    }

    fn reset(&mut self) {
        (self.pool.pairs, self.pool.writes) = (0, 0);
    }
}
