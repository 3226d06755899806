//! The tail protocol against a model of a disk whose unsynced blocks survive in any subset.
//!
//! Blocks are one unit long and there is one endless file; everything else, the rules above all,
//! is the code that recovery and the writers use.

use std::collections::BTreeMap;

use terrace_sim::Rng;

use crate::lsn::Lsn;
use crate::tail::{GapRule, TailScan, Verdict, Watermarks};

/// A mistake in how the protocol is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mistake {
    None,
    AnyLaterBlockIsDamage,
    NoBlockProvesDamage,
    ScanFromStart,
    NoSalt,
    StampWritten,
    StampAppended,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Block {
    at: u64,
    synced: Lsn,
    incarnation: u64,
    payload: u64,
}

const START: u64 = 8;

fn lsn(at: u64) -> Lsn {
    Lsn::new(1, at as u32)
}

/// One life after the other of a log; what went wrong, if anything did.
fn run(seed: u64, mistake: Mistake, rot: bool) -> Option<&'static str> {
    let mut rng = Rng::new(seed);
    let mut durable: BTreeMap<u64, Block> = BTreeMap::new();
    let mut pending: Vec<Block> = Vec::new();
    // The incarnation that holds from each address on.
    let mut incarnations = vec![(START, 0u64)];
    let mut marks = Watermarks::new(lsn(START));
    let mut tail = START;
    let mut history: Vec<u64> = Vec::new();
    let (mut cut, mut at_cut) = (START, 0);
    for _ in 0..80 {
        match rng.below(100) {
            0..50 => {
                let synced = match mistake {
                    Mistake::StampWritten => marks.written_to(),
                    Mistake::StampAppended => lsn(tail),
                    _ => marks.stamp(),
                };
                let incarnation = incarnations.last()?.1;
                let payload = rng.next_u64();
                pending.push(Block {
                    at: tail,
                    synced,
                    incarnation,
                    payload,
                });
                history.push(payload);
                tail += 1;
                marks.append(lsn(tail));
                marks.wrote(lsn(tail));
            }
            50..65 => {
                durable.extend(pending.drain(..).map(|b| (b.at, b)));
                marks.synced(marks.written_to());
            }
            // A checkpoint becomes durable; the log before its cut perhaps not.
            65..72 => (cut, at_cut) = (tail, history.len()),
            72..82 => {
                let synced = marks.synced_to();
                for block in pending.drain(..) {
                    match rng.below(5) {
                        0 | 1 => drop(durable.insert(block.at, block)),
                        2 => drop(durable.remove(&block.at)),
                        _ => {}
                    }
                }
                let mut rotten = None;
                if rot && lsn(cut) < synced && rng.percent(50) {
                    let at = cut + rng.below(synced.offset() as u64 - cut);
                    durable.remove(&at);
                    rotten = Some(at);
                }
                let valid = |at: u64| {
                    let salt = incarnations
                        .iter()
                        .rev()
                        .find(|(from, _)| *from <= at)
                        .map(|(_, i)| *i);
                    durable
                        .get(&at)
                        .filter(|b| mistake == Mistake::NoSalt || Some(b.incarnation) == salt)
                };
                let rule = match mistake {
                    Mistake::AnyLaterBlockIsDamage => GapRule::AnyLaterBlock,
                    Mistake::NoBlockProvesDamage => GapRule::Nothing,
                    _ => GapRule::Stamps,
                };
                let (from, before) = if mistake == Mistake::ScanFromStart {
                    (START, 0)
                } else {
                    (cut, at_cut)
                };
                let mut scan = TailScan::new(lsn(from), rule);
                let mut recovered = history[..before].to_vec();
                let mut at = from;
                while let Some(block) = valid(at) {
                    recovered.push(block.payload);
                    at += 1;
                    scan.chain(block.synced, lsn(at));
                }
                for later in durable.range(at + 1..).filter_map(|(&at, _)| valid(at)) {
                    scan.later(lsn(later.at), later.synced);
                }
                match scan.verdict() {
                    Verdict::Damage { .. } if rotten.is_some() => return None,
                    Verdict::Damage { .. } => return Some("an honest tail is taken for damage"),
                    Verdict::Tail(end) if end != lsn(at) => {
                        return Some("the tail is not where the chain ends");
                    }
                    Verdict::Tail(_) => {}
                }
                if let Some(rotten) = rotten {
                    // The one thing that cannot be seen: rot with no later block that saw a sync
                    // behind it.
                    let mut later = durable.range(rotten + 1..).filter_map(|(&at, _)| valid(at));
                    let witness = later.any(|b| b.synced > lsn(rotten));
                    return if witness {
                        Some("rot below what was synced is taken for the tail")
                    } else {
                        None
                    };
                }
                if at < cut {
                    return Some("less than the checkpoint is recovered");
                }
                if recovered != history[..recovered.len().min(history.len())] {
                    return Some("dropped records come back");
                }
                if lsn(at) < synced {
                    return Some("an acknowledged record is lost");
                }
                history = recovered;
                tail = at;
                marks = Watermarks::new(lsn(at));
                let next = incarnations.len() as u64;
                incarnations.push((at, next));
            }
            _ => {}
        }
    }
    None
}

fn failures(mistake: Mistake, rot: bool) -> Vec<(u64, &'static str)> {
    (0..4000)
        .filter_map(|seed| Some((seed, run(seed, mistake, rot)?)))
        .collect()
}

#[test]
fn the_rules_hold() {
    assert_eq!(failures(Mistake::None, false).first(), None);
    assert_eq!(failures(Mistake::None, true).first(), None);
}

#[test]
fn every_planted_mistake_is_caught() {
    let caught = |mistake, rot, what: &str| {
        let found = failures(mistake, rot);
        assert!(
            found.iter().any(|(_, found)| found.contains(what)),
            "{mistake:?}: {:?}",
            found.first()
        );
    };
    caught(Mistake::AnyLaterBlockIsDamage, false, "taken for damage");
    caught(Mistake::ScanFromStart, false, "less than the checkpoint");
    caught(Mistake::NoSalt, false, "come back");
    caught(Mistake::StampWritten, false, "taken for damage");
    caught(Mistake::StampAppended, false, "taken for damage");
    caught(Mistake::NoBlockProvesDamage, true, "taken for the tail");
}
