//! Histories of appends to lists, and a search for cycles in them.
//!
//! Each element is appended once, so a list says in which order its writers come, and who has read it says
//! where between them he stands. Three kinds of dependencies follow: a writer after a writer, a reader after
//! the writer of what he has read, and a writer after the reader who has not seen it. With what was over
//! before something else began, a cycle among them is an anomaly; without one there is a serial order.
//! Nothing is taken from the sequence numbers of the log. Source: "Elle" (Kingsbury, Alvaro), for the idea.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{Database, Error, Kind, Map, Merge, TransactionOptions, TreeOptions};
use terrace_sim::{Rng, SimDisk};

/// What a transaction did with a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Appended this element.
    Append(u8, u32),
    /// Found these elements.
    Read(u8, Vec<u32>),
}

/// A transaction that was committed: what it did, in order, and when it began and was over.
#[derive(Clone, Debug, Default)]
pub struct Transaction {
    pub ops: Vec<Op>,
    pub began: u64,
    pub ended: u64,
}

/// What is wrong with a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// A transaction read an element that no committed transaction has appended, or that was not the last one that
    /// its transaction has appended to the list (G1a, G1b).
    Unfinished,
    /// Two reads of a list of which none begins with the other, an element twice, or one lost.
    NoOneOrder,
    /// A cycle of writers (G0).
    OfWriters,
    /// A cycle of writers and readers of what they wrote (G1c).
    OfReads,
    /// A cycle with a reader who has not seen a write (G2; write skew, lost updates).
    OfMissed,
    /// A cycle only with what was over before something else began.
    OfTime,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Edge {
    Write,
    Read,
    Missed,
    Time,
}

/// The edges of a history, or what keeps one from having any.
fn edges(
    history: &[Transaction],
    last: &BTreeMap<u8, Vec<u32>>,
) -> Result<Vec<(usize, usize, Edge)>, Anomaly> {
    // Who has appended an element, and whether it is the last one that it has appended there.
    let mut writers: HashMap<(u8, u32), (usize, bool)> = HashMap::new();
    for (t, transaction) in history.iter().enumerate() {
        let mut latest: BTreeMap<u8, u32> = BTreeMap::new();
        for op in &transaction.ops {
            if let Op::Append(list, element) = op {
                if let Some(before) = latest.insert(*list, *element) {
                    writers.insert((*list, before), (t, false));
                }
                if writers.insert((*list, *element), (t, true)).is_some() {
                    return Err(Anomaly::NoOneOrder);
                }
            }
        }
    }
    let empty = Vec::new();
    let mut edges = BTreeSet::new();
    for (list, order) in last {
        let places: BTreeSet<u32> = order.iter().copied().collect();
        let there = writers.keys().filter(|(of, _)| of == list).count();
        if places.len() != order.len() {
            return Err(Anomaly::NoOneOrder);
        }
        if order
            .iter()
            .any(|element| !writers.contains_key(&(*list, *element)))
        {
            return Err(Anomaly::Unfinished);
        }
        if there != order.len() {
            // What was appended is not there.
            return Err(Anomaly::NoOneOrder);
        }
        for pair in order.windows(2) {
            let [from, to] = [pair[0], pair[1]].map(|element| writers[&(*list, element)].0);
            edges.insert((from, to, Edge::Write));
        }
    }
    for (t, transaction) in history.iter().enumerate() {
        let mut own: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for op in &transaction.ops {
            let (list, found) = match op {
                Op::Append(list, element) => {
                    own.entry(*list).or_default().push(*element);
                    continue;
                }
                Op::Read(list, found) => (*list, found),
            };
            // What it has appended itself comes last; before it is what it has read.
            let mine = own.get(&list).unwrap_or(&empty);
            let order = last.get(&list).unwrap_or(&empty);
            let before = found
                .strip_suffix(&mine[..])
                .filter(|before| order.starts_with(before));
            let Some(before) = before else {
                return Err(unordered(list, found, &writers));
            };
            let seen = before.last().map(|element| writers.get(&(list, *element)));
            match seen {
                Some(Some((writer, true))) => drop(edges.insert((*writer, t, Edge::Read))),
                Some(_) => return Err(Anomaly::Unfinished),
                None => {}
            }
            if let Some((writer, _)) = order
                .get(before.len())
                .and_then(|next| writers.get(&(list, *next)))
            {
                edges.insert((t, *writer, Edge::Missed));
            }
        }
    }
    for (a, first) in history.iter().enumerate() {
        for (b, second) in history.iter().enumerate() {
            if first.ended < second.began {
                edges.insert((a, b, Edge::Time));
            }
        }
    }
    Ok(edges
        .into_iter()
        .filter(|(from, to, _)| from != to)
        .collect())
}

fn unordered(list: u8, found: &[u32], writers: &HashMap<(u8, u32), (usize, bool)>) -> Anomaly {
    match found
        .iter()
        .all(|element| writers.contains_key(&(list, *element)))
    {
        true => Anomaly::NoOneOrder,
        false => Anomaly::Unfinished,
    }
}

/// Whether edges of these kinds make a cycle: takes out, again and again, what nothing points at.
fn is_cyclic(count: usize, edges: &[(usize, usize, Edge)], kinds: &[Edge]) -> bool {
    let chosen: Vec<_> = edges
        .iter()
        .filter(|(_, _, kind)| kinds.contains(kind))
        .collect();
    let mut into = vec![0; count];
    let mut out = vec![Vec::new(); count];
    for (from, to, _) in chosen {
        into[*to] += 1;
        out[*from].push(*to);
    }
    let mut free: Vec<usize> = (0..count).filter(|t| into[*t] == 0).collect();
    let mut taken = 0;
    while let Some(t) = free.pop() {
        taken += 1;
        for to in &out[t] {
            into[*to] -= 1;
            if into[*to] == 0 {
                free.push(*to);
            }
        }
    }
    taken < count
}

/// What is wrong with a history, the lists having been so `last`; the worst of it.
pub fn anomaly(history: &[Transaction], last: &BTreeMap<u8, Vec<u32>>) -> Option<Anomaly> {
    let edges = match edges(history, last) {
        Ok(edges) => edges,
        Err(anomaly) => return Some(anomaly),
    };
    let with = |kinds: &[Edge]| is_cyclic(history.len(), &edges, kinds);
    if with(&[Edge::Write]) {
        Some(Anomaly::OfWriters)
    } else if with(&[Edge::Write, Edge::Read]) {
        Some(Anomaly::OfReads)
    } else if with(&[Edge::Write, Edge::Read, Edge::Missed]) {
        Some(Anomaly::OfMissed)
    } else if with(&[Edge::Write, Edge::Read, Edge::Missed, Edge::Time]) {
        Some(Anomaly::OfTime)
    } else {
        None
    }
}

/// Lists of a history, each with a place in one of the structures.
const LISTS: u64 = 5;
const MOST_BYTES: usize = 4000;

fn elements(bytes: &[u8]) -> Vec<u32> {
    bytes
        .chunks(4)
        .map(|four| u32::from_be_bytes(four.try_into().unwrap_or([0xff; 4])))
        .collect()
}

fn program(rng: &mut Rng, next: &AtomicU64) -> Vec<Op> {
    let only_reads = rng.below(4) == 0;
    let op = |rng: &mut Rng| {
        let list = rng.below(LISTS) as u8;
        if only_reads || rng.below(2) == 0 {
            Op::Read(list, Vec::new())
        } else {
            Op::Append(list, next.fetch_add(1, Ordering::Relaxed) as u32)
        }
    };
    (0..1 + rng.below(4)).map(|_| op(rng)).collect()
}

/// Runs a program once; what was read stands in it then.
fn attempt(
    db: &Database,
    maps: &[Map],
    history: u64,
    ops: &mut [Op],
    blind: bool,
) -> Result<(), Error> {
    let place = |list: u8| {
        let mut key = history.to_be_bytes().to_vec();
        key.push(list);
        (&maps[usize::from(list) % maps.len()], key)
    };
    let merge = |element: u32| Merge::Append {
        bytes: element.to_be_bytes().to_vec(),
        limit: MOST_BYTES,
    };
    if let [Op::Append(list, element)] = ops {
        // One append is a plain call now and then.
        let (map, key) = place(*list);
        if blind {
            return map.merge(key, merge(*element)).map(drop);
        }
    }
    let mut t = db.begin(TransactionOptions::new());
    for op in ops {
        match op {
            Op::Append(list, element) if blind => {
                let (map, key) = place(*list);
                t.merge(map, key, merge(*element))?;
            }
            Op::Append(list, element) => {
                let (map, key) = place(*list);
                t.update(map, key, |old| {
                    Some([old.unwrap_or_default(), &element.to_be_bytes()].concat())
                })?;
            }
            Op::Read(list, found) => {
                let (map, key) = place(*list);
                let value = if blind && *list == 0 {
                    // By a range of one key.
                    let end = [&key[..], &[0]].concat();
                    t.range(map, key..end)?
                        .next()
                        .transpose()?
                        .map(|(_, value)| value)
                } else {
                    t.get(map, key)?
                };
                *found = elements(&value.unwrap_or_default());
            }
        }
    }
    t.commit().map(drop)
}

/// A database whose structures histories share, each by keys of its own.
pub struct Bed {
    db: Database,
    maps: Vec<Map>,
}

impl Bed {
    /// With one tier or with two.
    pub fn new(seed: u64) -> Bed {
        let options = super::tiny(seed).memory(2 << 20).foreground(false);
        let db = Database::open_on(SimDisk::new(seed).shared(), options).unwrap();
        let tiers = match seed % 2 {
            0 => terrace::Tiers::Two,
            _ => terrace::Tiers::One,
        };
        let maps = [
            ("tree", Kind::Tree),
            ("hash", Kind::Hash),
            ("table", Kind::Table),
        ];
        let make = |(name, kind)| {
            db.create_map(name, kind, TreeOptions::new().tiers(tiers))
                .unwrap()
        };
        let maps = maps.map(make).to_vec();
        Bed { db, maps }
    }

    /// Runs a history of several threads and looks for an anomaly.
    pub fn check(&self, seed: u64, each: u32) -> Result<(), String> {
        let (clock, next) = (AtomicU64::new(0), AtomicU64::new(1));
        let done: Mutex<Vec<Transaction>> = Mutex::default();
        std::thread::scope(|scope| {
            for thread in 0..3u64 {
                let (clock, next, done) = (&clock, &next, &done);
                scope.spawn(move || {
                    let mut rng = Rng::new(seed * 16 + thread);
                    for _ in 0..each {
                        let mut ops = program(&mut rng, next);
                        let blind = rng.below(2) == 0;
                        loop {
                            let began = clock.fetch_add(1, Ordering::SeqCst);
                            match attempt(&self.db, &self.maps, seed, &mut ops, blind) {
                                Ok(()) => {
                                    let ended = clock.fetch_add(1, Ordering::SeqCst);
                                    let one = Transaction { ops, began, ended };
                                    done.lock().unwrap().push(one);
                                    break;
                                }
                                Err(Error::Conflict { .. }) => {}
                                Err(e) => panic!("{e}"),
                            }
                        }
                    }
                });
            }
        });
        let mut last = BTreeMap::new();
        for list in 0..LISTS as u8 {
            let mut key = seed.to_be_bytes().to_vec();
            key.push(list);
            let value = self.maps[usize::from(list) % self.maps.len()].get(key);
            last.insert(
                list,
                elements(&value.map_err(|e| e.to_string())?.unwrap_or_default()),
            );
        }
        let history = done.into_inner().unwrap();
        match anomaly(&history, &last) {
            None => Ok(()),
            Some(anomaly) => Err(format!(
                "seed {seed}: {anomaly:?} in {history:?}, and at the end {last:?}"
            )),
        }
    }
}
