//! Voter: votes by phone, at most a fixed number for each phone, counted by phone and by contestant and
//! state.

use std::collections::BTreeMap;

use terrace_bench::rng::Rng;

use crate::row::{key, row};
use crate::txn::{Engine, Stop, TableDef, scan};

/// Contestants.
pub const CONTESTANTS: u8 = 6;
/// Votes that a phone has.
pub const LIMIT: u32 = 10;
const STATES: u64 = 50;

const PEOPLE: usize = 0;
const VOTES: usize = 1;
const BY_PHONE: usize = 2;
const BY_STATE: usize = 3;

/// The tables. The counts are what H-Store has as views.
pub fn schema() -> Vec<TableDef> {
    let plain = |name, resident| TableDef {
        name,
        indexes: &[],
        resident,
        prefix: 0,
    };
    vec![
        plain("contestants", true),
        plain("votes", false),
        plain("by_phone", false),
        plain("by_state", true),
    ]
}

row!(
    /// A vote.
    Vote { id: u64, phone: u64, state: u8, contestant: u8, created: u64 }
);
row!(
    /// A count of votes.
    Count { votes: u32 }
);

/// Loads the contestants.
///
/// # Errors
/// Those of the engine.
pub fn load(engine: &dyn Engine) -> anyhow::Result<()> {
    for partition in 0..engine.partitions() {
        engine.transact(&[partition], &mut |t| {
            t.on(partition);
            (1..=CONTESTANTS).try_for_each(|c| {
                t.put(PEOPLE, &key(&[&[c]]), format!("contestant {c}").as_bytes())
            })
        })?;
    }
    Ok(())
}

/// A caller of the hotline.
pub struct Client {
    rng: Rng,
    next: u64,
    partition: usize,
    partitions: usize,
    phones: u64,
    /// Votes that counted, and those that did not.
    pub done: [u64; 2],
}

impl Client {
    /// Client number `n`, whose phones are of one partition.
    pub fn new(n: usize, partitions: usize, phones: u64, seed: u64) -> Client {
        let next = (n as u64) << 40;
        Client {
            rng: Rng::new(seed),
            next,
            partition: n % partitions,
            partitions,
            phones,
            done: [0; 2],
        }
    }

    /// One vote.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn step(&mut self, engine: &dyn Engine) -> anyhow::Result<usize> {
        let phone = self.rng.below(self.phones) * self.partitions as u64 + self.partition as u64;
        // One of a hundred votes names a person who does not stand.
        let contestant = if self.rng.below(100) == 0 {
            99
        } else {
            1 + self.rng.below(u64::from(CONTESTANTS)) as u8
        };
        // The area says the state; numbers are spread over areas.
        let state = (phone.wrapping_mul(0x9e37_79b9) >> 16) % STATES;
        self.next += 1;
        let id = self.next;
        let mut counted = false;
        engine.transact(&[self.partition], &mut |t| {
            t.on(self.partition);
            counted = false;
            if t.get(PEOPLE, &key(&[&[contestant]]))?.is_none() {
                return Ok(());
            }
            let by_phone = phone.to_be_bytes();
            let votes = t
                .get(BY_PHONE, &by_phone)?
                .map_or(0, |row| Count::of(&row).votes);
            if votes >= LIMIT {
                return Ok(());
            }
            let vote = Vote {
                id,
                phone,
                state: state as u8,
                contestant,
                created: id,
            };
            if !t.insert(VOTES, &id.to_be_bytes(), &vote.bytes())? {
                return Err(Stop::Failed(anyhow::anyhow!("vote {id} is there already")));
            }
            t.put(BY_PHONE, &by_phone, &Count { votes: votes + 1 }.bytes())?;
            let by_state = key(&[&[contestant], &[state as u8]]);
            let votes = t
                .get(BY_STATE, &by_state)?
                .map_or(0, |row| Count::of(&row).votes);
            t.put(BY_STATE, &by_state, &Count { votes: votes + 1 }.bytes())?;
            counted = true;
            Ok(())
        })?;
        self.done[usize::from(!counted)] += 1;
        Ok(usize::from(!counted))
    }
}

/// The sums agree, and no phone has more votes than the limit; answers how many votes there are.
///
/// # Errors
/// What does not agree; those of the engine.
pub fn check(engine: &dyn Engine) -> anyhow::Result<u64> {
    let (mut by_phone, mut by_state) = (0, BTreeMap::new());
    scan(engine, BY_PHONE, |_, row| {
        let votes = Count::of(row).votes;
        anyhow::ensure!(votes <= LIMIT, "a phone has {votes} votes");
        by_phone += u64::from(votes);
        Ok(())
    })?;
    scan(engine, BY_STATE, |key, row| {
        *by_state.entry((key[0], key[1])).or_insert(0u64) += u64::from(Count::of(row).votes);
        Ok(())
    })?;
    let (mut votes, mut found) = (0, BTreeMap::new());
    scan(engine, VOTES, |key, row| {
        let vote = Vote::of(row);
        anyhow::ensure!(
            vote.id.to_be_bytes() == *key,
            "a vote lies under another number"
        );
        *found.entry((vote.contestant, vote.state)).or_insert(0u64) += 1;
        votes += 1;
        Ok(())
    })?;
    anyhow::ensure!(
        found == by_state,
        "votes by contestant and state do not agree"
    );
    anyhow::ensure!(votes == by_phone, "{votes} votes, and {by_phone} by phone");
    Ok(votes)
}
