//! Whether a store has what it should have: computed without any store, and compared record by record.

use anyhow::{Result, bail};
use std::cmp::Reverse;

use super::people::{People, Person};
use super::stop;
use super::store::Store;
use crate::progress;
use crate::text::escape;

/// This many people are listed.
const TOP: usize = 5;

/// How often each person's visits were counted.
pub struct Counts(Vec<u32>);

impl Counts {
    /// Those of the first groups of visits.
    pub fn of(people: &People, groups: u64) -> Result<Counts> {
        let mut counts = vec![0; usize::try_from(people.count)?];
        for visit in (0..groups).flat_map(|group| people.visits(group)) {
            counts[usize::try_from(visit.person)?] += u32::from(visit.counts);
        }
        Ok(Counts(counts))
    }

    /// An error if the store has anything else.
    pub fn check(&self, people: &People, store: &impl Store, quiet: bool) -> Result<()> {
        let bar = progress::things(people.count, quiet);
        bar.set_prefix("reading every profile");
        let (mut person, mut next) = (Person::default(), 0);
        store.each(&mut |key, value| {
            if next % 1024 == 0 {
                stop::check()?;
                bar.set_position(next);
            }
            let Some(&expected) = self.0.get(usize::try_from(next)?) else {
                bail!("there is a record {} too much", escape(key));
            };
            let counted = people.check(next, &mut person, Some(value))?;
            if key != person.key || counted != u64::from(expected) {
                bail!(
                    "there is {} with {counted} visits where {} with {expected} should be",
                    escape(key),
                    escape(&person.key)
                );
            }
            next += 1;
            Ok(())
        })?;
        bar.finish_and_clear();
        if next != people.count {
            bail!(
                "there are {next} profiles where {} were written",
                people.count
            );
        }
        Ok(())
    }

    /// All that were counted.
    pub fn sum(&self) -> u64 {
        self.0.iter().copied().map(u64::from).sum()
    }

    /// Who has come most often, and how often; among those who came equally often the first of the alphabet.
    pub fn top(&self, people: &People) -> Vec<(String, u64)> {
        let mut order: Vec<usize> = (0..self.0.len()).collect();
        order.sort_by_key(|&number| Reverse(self.0[number]));
        let mut person = Person::default();
        let mut named = |number: usize| {
            people.write(number as u64, &mut person);
            let name = String::from_utf8_lossy(&person.key).into_owned();
            (name, self.0[number].into())
        };
        order.into_iter().take(TOP).map(&mut named).collect()
    }
}
