//! Reads everything, and checks every invariant.

use std::cmp::Ordering;
use terrace_base::Result;

use crate::arena::BlobRef;
use crate::key::{Own, fingerprint};
use crate::last::Body;
use crate::leaf::{Leaf, compare};
use crate::log::record_at;
use crate::tree::Tree;

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Leaves that were read.
    pub leaves: u64,
    /// Keys that are there.
    pub keys: u64,
    /// Pairs in buffers, deletes included.
    pub buffered: u64,
    /// What is wrong, sentence by sentence; at most a hundred.
    pub problems: Vec<String>,
}

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn say(&mut self, problem: String) {
        if self.problems.len() < 100 {
            self.problems.push(problem);
        }
    }
}

impl<O: Own> Tree<O> {
    /// As `PmMap::verify` says.
    pub fn verify(&self) -> Result<Report> {
        let mut report = Report::default();
        let mut at = O::least();
        let mut before: Option<u32> = None;
        loop {
            let node = self.node(&at)?;
            let body = node.body.read();
            if !body.covers(&at) {
                continue;
            }
            if body.lows.len() != body.leaves.len() || body.lows.first() != Some(&at) {
                report.say("a node does not begin where the one before ends".to_owned());
            }
            self.verify_node(&body, &mut before, &mut report)?;
            match &body.high {
                Some(high) if *high > at => at = high.clone(),
                Some(_) => {
                    report.say("a node ends before it begins".to_owned());
                    break;
                }
                None => break,
            }
        }
        Ok(report)
    }

    fn verify_node(
        &self,
        body: &Body<O>,
        before: &mut Option<u32>,
        report: &mut Report,
    ) -> Result<()> {
        for (i, number) in body.leaves.iter().enumerate() {
            let leaf = match Leaf::checked(&self.arena, *number) {
                Ok(leaf) => leaf,
                Err(error) => {
                    report.say(error.to_string());
                    continue;
                }
            };
            report.leaves += 1;
            if let Some(last) = *before
                && Leaf::new(&self.arena, last).map(|l| l.next()) != Some(*number)
            {
                report.say(format!("leaf {last} does not lead to leaf {number}"));
            }
            *before = Some(*number);
            let low = &body.lows[i];
            if low.word() != leaf.low().0 {
                report.say(format!(
                    "leaf {number} has another lower fence than its node"
                ));
            }
            let high = body.lows.get(i + 1).or(body.high.as_ref());
            let mut keys = Vec::new();
            for (slot, pair) in leaf.pairs() {
                let own = O::of_pair(&self.arena, pair.0, pair.1);
                let is_within = own >= *low && high.is_none_or(|high| own < *high);
                if !is_within || own.word() != pair.0 {
                    report.say(format!(
                        "slot {slot} of leaf {number} has a key that does not belong there"
                    ));
                }
                if fingerprint(own.hash()) != leaf.fingerprint(slot) {
                    report.say(format!(
                        "the fingerprint of slot {slot} of leaf {number} is not that of its key"
                    ));
                }
                if self.settings.blobs
                    && !self.arena.blob(BlobRef(pair.1)).is_some_and(|b| b.is_whole)
                {
                    report.say(format!(
                        "the blob of slot {slot} of leaf {number} is not what was written"
                    ));
                }
                keys.push(own);
            }
            let stored = keys.len();
            keys.sort();
            keys.dedup();
            if keys.len() != stored {
                report.say(format!("leaf {number} has a key twice"));
            }
            report.keys += stored as u64;
        }
        self.verify_buffer(body, report);
        Ok(())
    }

    fn verify_buffer(&self, body: &Body<O>, report: &mut Report) {
        for (number, entry) in body.buffer.iter() {
            report.buffered += 1;
            let own = O::of_pair(&self.arena, entry.key, entry.value);
            if !body.covers(&own) || body.leaf_of(&own) != entry.leaf as usize {
                report.say("a buffered pair waits for a leaf that is not its own".to_owned());
                continue;
            }
            let again = body.buffer.iter().skip(number + 1).any(|(_, other)| {
                compare(&self.arena, (other.key, other.value), &own) == Ordering::Equal
            });
            if again {
                report.say("a key is buffered twice".to_owned());
            }
            let at = record_at(entry.place.segment, entry.place.index);
            if self.arena.load(at) != entry.key || self.arena.load(at + 1) != entry.value {
                report.say(format!(
                    "the record of a buffered pair is not in segment {} of the log",
                    entry.place.segment
                ));
            }
            let stored =
                Leaf::new(&self.arena, body.leaves[entry.leaf as usize]).is_some_and(|l| {
                    l.find(fingerprint(own.hash()), |k, v| {
                        compare(&self.arena, (k, v), &own) == Ordering::Equal
                    })
                    .is_some()
                });
            match (stored, entry.is_delete) {
                (true, true) => report.keys = report.keys.saturating_sub(1),
                (false, false) => report.keys += 1,
                _ => {}
            }
        }
    }
}
