//! Random transactions by several threads, checked by replay in the order of the log.
//!
//! A transaction is a program of operations that is a function of its seed, and its answers. Run on a model
//! in the order of the sequence numbers, each has to give the same answers: then that order is a serial one.
//! Transactions that only read have to fit between two of them, not before what was acknowledged when they
//! began.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terrace::{
    Database, Error, Index, KeySource, Kind, Map, Merge, Options, TableOptions, TransactionOptions,
    TreeOptions, encode,
};
use terrace_sim::{Rng, SimDisk};

/// An operation on one of the structures.
#[derive(Clone, Debug)]
enum Op {
    Get(usize, u8),
    Put(usize, u8, u32),
    Delete(usize, u8),
    Insert(usize, u8, u32),
    Add(usize, u8, i64),
    Range(usize, u8, u8, bool),
    All(usize),
    ByIndex(u8, bool),
    ByUnique(u8),
    Savepoint,
    Rollback,
}

/// What an operation answered.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Nothing,
    Is(bool),
    Value(Option<Vec<u8>>),
    Records(Vec<(Vec<u8>, Vec<u8>)>),
    Wrong,
}

/// Structures: a tree, a hash table, a table with an index over the first byte of its rows and a unique one
/// over another byte, an LSM-tree.
const STRUCTURES: usize = 4;
const TABLE: usize = 2;
const ORDERED: [usize; 3] = [0, TABLE, 3];
/// The byte of a row that no other row may have. Rows that are shorter are in no index of it.
const UNIQUE: usize = 7;

type State = [BTreeMap<Vec<u8>, Vec<u8>>; STRUCTURES];

fn value(n: u32) -> Vec<u8> {
    // The first byte is what the index has; eight bytes, so that it can be added to.
    let mut value = encode::i64(i64::from(n)).to_vec();
    value[0] = b'a' + (n % 5) as u8;
    if n.is_multiple_of(7) {
        value.extend_from_slice(&[n as u8; 60]);
    }
    value
}

fn program(rng: &mut Rng, only_reads: bool) -> Vec<Op> {
    let keys = 24;
    let mut ops = Vec::new();
    for _ in 0..1 + rng.below(7) {
        let s = rng.below(STRUCTURES as u64) as usize;
        let k = rng.below(keys) as u8;
        let op = match rng.below(if only_reads { 5 } else { 14 }) {
            0 | 1 => Op::Get(s, k),
            2 => Op::Range(
                ORDERED[rng.below(3) as usize],
                k,
                k + rng.below(6) as u8,
                rng.below(2) == 0,
            ),
            3 => Op::All(s),
            4 if rng.below(3) == 0 => Op::ByUnique(rng.next_u64() as u8),
            4 => Op::ByIndex(b'a' + rng.below(5) as u8, rng.below(2) == 0),
            5..=7 => Op::Put(s, k, rng.next_u64() as u32),
            8 => Op::Delete(s, k),
            9 => Op::Insert(s, k, rng.next_u64() as u32),
            10 | 11 => Op::Add(s, k, 1 + rng.below(9) as i64),
            12 => Op::Savepoint,
            _ => Op::Rollback,
        };
        ops.push(op);
    }
    ops
}

fn on_model(ops: &[Op], state: &mut State) -> Vec<Answer> {
    let mut saved = Vec::new();
    let mut answers = Vec::new();
    for op in ops {
        answers.push(match op {
            Op::Get(s, k) => Answer::Value(state[*s].get(&vec![*k]).cloned()),
            Op::Put(s, k, n) => {
                state[*s].insert(vec![*k], value(*n));
                Answer::Nothing
            }
            Op::Delete(s, k) => {
                state[*s].remove(&vec![*k]);
                Answer::Nothing
            }
            Op::Insert(s, k, n) => {
                let free = !state[*s].contains_key(&vec![*k]);
                if free {
                    state[*s].insert(vec![*k], value(*n));
                }
                Answer::Is(free)
            }
            Op::Add(s, k, n) => {
                // As the merge does it: appended, so that every value can be merged.
                let old = state[*s].entry(vec![*k]).or_default();
                if old.len() < 100 {
                    old.push(*n as u8);
                }
                Answer::Nothing
            }
            Op::Range(s, a, b, down) => {
                let range = state[*s].range(vec![*a]..vec![*b]);
                let all = range.map(|(k, v)| (k.clone(), v.clone()));
                Answer::Records(if *down {
                    all.rev().collect()
                } else {
                    all.collect()
                })
            }
            Op::All(s) => Answer::Records(
                state[*s]
                    .iter()
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect(),
            ),
            Op::ByIndex(first, down) => {
                let rows = state[TABLE]
                    .iter()
                    .filter(|(_, v)| v.first() == Some(first));
                let all = rows.map(|(k, v)| (k.clone(), v.clone()));
                Answer::Records(if *down {
                    all.rev().collect()
                } else {
                    all.collect()
                })
            }
            Op::ByUnique(byte) => {
                let mut rows = state[TABLE].iter();
                let row = rows.find(|(_, v)| v.get(UNIQUE) == Some(byte));
                Answer::Records(
                    row.map(|(k, v)| (k.clone(), v.clone()))
                        .into_iter()
                        .collect(),
                )
            }
            Op::Savepoint => {
                saved.push(state.clone());
                Answer::Nothing
            }
            Op::Rollback => {
                if let Some(before) = saved.pop() {
                    *state = before;
                }
                Answer::Nothing
            }
        });
    }
    answers
}

/// Appends, but not beyond a hundred bytes: what `on_model` does, as a merge.
fn appended(old: Option<&[u8]>, n: i64) -> Option<Vec<u8>> {
    let mut new = old.unwrap_or_default().to_vec();
    if new.len() < 100 {
        new.push(n as u8);
    }
    Some(new)
}

fn run(
    db: &Database,
    maps: &[Map],
    ops: &[Op],
    log: &mut Vec<Answer>,
) -> Result<Option<u64>, Error> {
    let mut t = db.begin(TransactionOptions::new());
    let mut saved = Vec::new();
    log.clear();
    for op in ops {
        let answer = match op {
            Op::Get(s, k) => Answer::Value(t.get(&maps[*s], [*k])?),
            Op::Put(s, k, n) => {
                t.put(&maps[*s], [*k], value(*n))?;
                Answer::Nothing
            }
            Op::Delete(s, k) => {
                t.delete(&maps[*s], [*k])?;
                Answer::Nothing
            }
            Op::Insert(s, k, n) => Answer::Is(t.insert(&maps[*s], [*k], value(*n))?),
            // Half of them by a merge that reads nothing: values are shorter than the limit or at it.
            Op::Add(s, k, n) if n % 2 == 0 => {
                t.update(&maps[*s], [*k], |old| appended(old, *n))?;
                Answer::Nothing
            }
            Op::Add(s, k, n) => {
                let merge = Merge::Append {
                    bytes: vec![*n as u8],
                    limit: 100,
                };
                match t.merge(&maps[*s], [*k], merge) {
                    Err(Error::Invalid { .. }) => {}
                    other => other?,
                }
                Answer::Nothing
            }
            Op::Range(s, a, b, down) => {
                let range = t.range(&maps[*s], [*a]..[*b])?;
                Answer::Records(if *down {
                    range.rev().collect::<Result<_, _>>()?
                } else {
                    range.collect::<Result<_, _>>()?
                })
            }
            Op::All(s) => {
                let mut all: Vec<_> = t.iter(&maps[*s])?.collect::<Result<_, _>>()?;
                all.sort();
                Answer::Records(all)
            }
            Op::ByIndex(first, down) => {
                let table = maps[TABLE].as_table().unwrap();
                let rows = t.index(&table, "first")?.get([*first])?;
                Answer::Records(if *down {
                    rows.rev().collect::<Result<_, _>>()?
                } else {
                    rows.collect::<Result<_, _>>()?
                })
            }
            Op::ByUnique(byte) => {
                let table = maps[TABLE].as_table().unwrap();
                let rows = t.index(&table, "unique")?.get([*byte])?;
                Answer::Records(rows.collect::<Result<_, _>>()?)
            }
            Op::Savepoint => {
                saved.push(t.savepoint());
                Answer::Nothing
            }
            Op::Rollback => {
                if let Some(before) = saved.pop() {
                    t.rollback_to(&before)?;
                }
                Answer::Nothing
            }
        };
        log.push(answer);
    }
    Ok(t.commit()?.sequence)
}

fn open(seed: u64, threads: bool) -> (Database, Vec<Map>) {
    let options: Options = super::tiny(seed).memory(2 << 20).foreground(!threads);
    let db = Database::open_on(SimDisk::new(seed).shared(), options).unwrap();
    let tiers = if seed.is_multiple_of(2) {
        terrace::Tiers::Two
    } else {
        terrace::Tiers::One
    };
    let options = || TreeOptions::new().tiers(tiers);
    let table = TableOptions::from(options())
        .index(Index::on("first", KeySource::bytes(0..1)))
        .index(Index::on("unique", KeySource::bytes(UNIQUE..UNIQUE + 1)).unique());
    let maps = vec![
        db.create_map("tree", Kind::Tree, options()).unwrap(),
        db.create_map("hash", Kind::Hash, options()).unwrap(),
        (*db.create_table("table", table).unwrap()).clone(),
        db.create_map("lsm", Kind::Lsm, options()).unwrap(),
    ];
    (db, maps)
}

struct Done {
    ops: Vec<Op>,
    answers: Vec<Answer>,
    sequence: Option<u64>,
    /// The highest sequence that was acknowledged when it began.
    after: u64,
}

/// Several threads; an error says which transaction did not fit.
pub fn check(seed: u64, each: u32) -> Result<(), String> {
    let mut bed = Bed::new(seed);
    bed.history(seed, each)?;
    bed.finish(seed)
}

/// A database, what it holds after the histories so far, and the last sequence number of theirs.
pub struct Bed {
    db: Database,
    maps: Vec<Map>,
    state: State,
    sequence: u64,
}

impl Bed {
    pub fn new(seed: u64) -> Bed {
        let (db, maps) = open(seed, true);
        Bed {
            db,
            maps,
            state: State::default(),
            sequence: 0,
        }
    }

    /// Runs a history of several threads, each with `each` transactions.
    pub fn history(&mut self, seed: u64, each: u32) -> Result<(), String> {
        let done = threads(&self.db, &self.maps, seed, each, self.sequence);
        replay(seed, done, &mut self.state, &mut self.sequence)
    }

    /// Looks at what is there in the end.
    pub fn finish(self, seed: u64) -> Result<(), String> {
        let report = self.db.verify().map_err(|e| e.to_string())?;
        if !report.problems.is_empty() {
            return Err(format!("seed {seed}: {:?}", report.problems));
        }
        let mut last = State::default();
        for (map, want) in self.maps.iter().zip(&mut last) {
            for record in map.iter().map_err(|e| e.to_string())? {
                let (key, value) = record.map_err(|e| e.to_string())?;
                want.insert(key, value);
            }
        }
        if last != self.state {
            return Err(format!(
                "seed {seed}: what is there is not what was written"
            ));
        }
        Ok(())
    }
}

/// What the threads of a history have done.
fn threads(db: &Database, maps: &[Map], seed: u64, each: u32, before: u64) -> Vec<Done> {
    let done: Mutex<Vec<Done>> = Mutex::default();
    let acknowledged = AtomicU64::new(before);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (done, acknowledged) = (&done, &acknowledged);
            scope.spawn(move || {
                let mut rng = Rng::new(seed * 1000 + thread);
                let mut answers = Vec::new();
                for i in 0..each {
                    let ops = program(&mut rng, i.is_multiple_of(3));
                    loop {
                        let after = acknowledged.load(Ordering::SeqCst);
                        match run(db, maps, &ops, &mut answers) {
                            Ok(sequence) => {
                                acknowledged.fetch_max(sequence.unwrap_or(0), Ordering::SeqCst);
                                done.lock().unwrap().push(Done {
                                    ops,
                                    answers: answers.clone(),
                                    sequence,
                                    after,
                                });
                                break;
                            }
                            Err(Error::Conflict { .. }) => {}
                            // A merge of a value that was too long when it was committed; a row with a byte
                            // that another one had.
                            Err(Error::Invalid { .. } | Error::Duplicate { .. }) => break,
                            Err(e) => panic!("{e}"),
                        }
                    }
                }
            });
        }
    });
    done.into_inner().unwrap()
}

/// Replays a history in the order of the log.
fn replay(seed: u64, mut done: Vec<Done>, state: &mut State, last: &mut u64) -> Result<(), String> {
    done.sort_by_key(|d| d.sequence);
    let mut states = vec![(*last, state.clone())];
    for d in done.iter().filter(|d| d.sequence.is_some()) {
        let answers = on_model(&d.ops, state);
        if answers != d.answers {
            return Err(format!(
                "seed {seed}: {:?} answered {:?}, and in the order of the log {answers:?}",
                d.ops, d.answers
            ));
        }
        if !is_unique(&state[TABLE]) {
            return Err(format!(
                "seed {seed}: {:?} made two rows with one key",
                d.ops
            ));
        }
        *last = d.sequence.unwrap_or(0);
        states.push((*last, state.clone()));
    }
    for d in done.iter().filter(|d| d.sequence.is_none()) {
        let from = states.partition_point(|(sequence, _)| *sequence <= d.after) - 1;
        let fits = |(_, state): &(u64, State)| {
            let mut state = state.clone();
            on_model(&d.ops, &mut state) == d.answers
        };
        if !states[from..].iter().any(fits) {
            return Err(format!(
                "seed {seed}: {:?} answered {:?}, which never was so",
                d.ops, d.answers
            ));
        }
    }
    Ok(())
}

/// Whether no two rows have the same byte where the unique index is.
fn is_unique(table: &BTreeMap<Vec<u8>, Vec<u8>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut keys = table.values().filter_map(|row| row.get(UNIQUE));
    keys.all(|key| seen.insert(*key))
}

/// One transaction after the other: nothing conflicts, and each answers as the model does. How many were
/// refused because a row wanted a key that another one had.
pub fn check_alone(seed: u64, transactions: u32) -> Result<u32, String> {
    let (db, maps) = open(seed, false);
    let mut rng = Rng::new(seed);
    let mut state = State::default();
    let mut answers = Vec::new();
    let mut duplicates = 0;
    for _ in 0..transactions {
        let ops = program(&mut rng, false);
        let before = state.clone();
        let want = on_model(&ops, &mut state);
        match run(&db, &maps, &ops, &mut answers) {
            Ok(_) if answers == want && is_unique(&state[TABLE]) => {}
            Err(Error::Duplicate { .. }) if !is_unique(&state[TABLE]) => {
                state = before;
                duplicates += 1;
            }
            Ok(_) => return Err(format!("seed {seed}: {ops:?}\n{answers:?}\n{want:?}")),
            Err(Error::Invalid { .. }) => state = before,
            Err(e) => return Err(format!("seed {seed}: {ops:?}: {e}")),
        }
    }
    Ok(duplicates)
}
