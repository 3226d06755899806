//! The paper's experiments that counts can show, all of them: every structure at every work, the tail, the log
//! that is held and the memory in each; nodes that split in more than two when they are hot, and that do not; and
//! how long it takes to open the map.

use terrace_pm::Result;

use crate::rivals::Name;
use crate::workload::{Outcome, Plan, Recovery, Work, recovery, run};

/// An opening after a crash, by this many threads.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    threads: usize,
    took: Recovery,
}

impl Opened {
    /// Of a map of this plan.
    pub fn measured(plan: &Plan, threads: usize) -> Result<Opened> {
        let took = recovery(plan.records, plan.bytes_per_key, threads)?;
        Ok(Opened { threads, took })
    }

    /// One JSON object.
    pub fn json(&self) -> String {
        format!(
            "{{\"work\":\"recovery\",\"keys\":{},\"replayed\":{},\"threads\":{},\"seconds\":{:.4}}}",
            self.took.keys, self.took.replayed, self.threads, self.took.seconds
        )
    }

    /// One line.
    pub fn line(&self) -> String {
        format!(
            "opening {} keys, {} records replayed, {} threads: {:.3} s",
            self.took.keys, self.took.replayed, self.threads, self.took.seconds
        )
    }
}

/// Runs all of them, for as many threads of an opening as are given.
pub fn all(plan: &Plan, threads: &[usize]) -> Result<(Vec<Outcome>, Vec<Opened>)> {
    let mut outcomes = Vec::new();
    for work in Work::ALL {
        for name in Name::ALL {
            outcomes.push(run(plan, name, work)?);
        }
        if matches!(work, Work::Insert | Work::InsertSkewed) {
            outcomes.push(run(plan, Name::PaperTwo, work)?);
        }
    }
    let opened = threads.iter().map(|t| Opened::measured(plan, *t));
    Ok((outcomes, opened.collect::<Result<_>>()?))
}
