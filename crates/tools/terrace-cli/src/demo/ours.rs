//! Terrace in the demonstration, with one tier or two.

use anyhow::Result;
use std::net::SocketAddr;
use std::path::Path;
use terrace_view::http::Server;

use super::people::{People, Person, encode};
use super::stop;
use super::store::{Moved, Store};
use crate::engine::{Db, Durability, Settings, Tree, TreeSettings};
use crate::watch;

/// The structure that holds the people.
pub const NAME: &str = "people";

/// A database with its structure.
pub struct Ours {
    db: Db,
    people: Tree,
}

impl Ours {
    /// Makes a database.
    pub fn create(path: &Path, tiers: u8, memory: u64) -> Result<Ours> {
        let settings = Settings {
            memory,
            create: true,
            control: true,
            ..Settings::default()
        };
        let db = Db::open(path, &settings)?;
        let settings = TreeSettings {
            tiers,
            ..TreeSettings::default()
        };
        let people = db.tree_or_create(NAME, &settings)?;
        Ok(Ours { db, people })
    }

    /// Whether its pages go around the cache of the operating system.
    pub fn goes_around_cache(&self) -> bool {
        self.db.opening().direct_io == Some(true)
    }

    /// Counts a visit, and says whether the profile was the one that was written.
    fn count(&self, people: &People, number: u64, person: &mut Person) -> Result<()> {
        people.write(number, person);
        let key = std::mem::take(&mut person.key);
        let mut count = Ok(0);
        let updated = self.people.update(&key, |old| {
            count = people.check(number, person, old);
            let new = count.as_ref().ok()? + 1;
            Some(encode(new, &person.text))
        });
        updated?;
        count.map(drop)
    }
}

impl Store for Ours {
    fn load(&self, people: &People, told: &dyn Fn(u64)) -> Result<()> {
        let mut loader = self.people.loader()?;
        let cancel = terrace::Cancel::new();
        loader.cancel(&cancel);
        let mut person = Person::default();
        for number in 0..people.count {
            people.write(number, &mut person);
            loader.put(&person.key, encode(0, &person.text))?;
            if number % 1024 == 0 {
                stop::check()?;
                // Taking them is the shorter half of the way.
                told(number / 2);
            }
        }
        let finished = loader.finish_with(Durability::Buffered, |progress| {
            if stop::is_stopped() {
                cancel.cancel();
            }
            let part = progress.done as f64 / progress.total.max(1) as f64;
            told(people.count / 2 + (people.count as f64 * part / 2.0) as u64);
        });
        stop::check()?;
        finished?;
        self.settle()
    }

    fn visit(&self, people: &People, group: u64) -> Result<()> {
        let (mut person, mut value) = (Person::default(), Vec::new());
        for visit in people.visits(group) {
            stop::check()?;
            if visit.counts {
                self.count(people, visit.person, &mut person)?;
                continue;
            }
            people.write(visit.person, &mut person);
            value.clear();
            let found = self.people.get_into(&person.key, &mut value)?;
            people.check(visit.person, &mut person, found.then_some(&value))?;
        }
        Ok(self.db.inner.sync()?)
    }

    fn settle(&self) -> Result<()> {
        self.db.checkpoint(|_| ())
    }

    fn moved(&self) -> Moved {
        let counters = self.db.counters();
        Moved {
            reads: counters.page_reads,
            bytes_read: counters.page_reads * counters.page_bytes,
            bytes_written: counters.disk_bytes_written,
        }
    }

    fn each(&self, visit: &mut dyn FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        for entry in self.people.range(None, None, false)? {
            let (key, value) = entry?;
            visit(&key, &value)?;
        }
        Ok(())
    }

    fn disk_bytes(&self) -> u64 {
        self.db.counters().disk_bytes.unwrap_or(0)
    }

    fn data_file_bytes(&self) -> u64 {
        self.db.counters().data_file_bytes.unwrap_or(0)
    }

    fn page(&self, path: &Path, address: SocketAddr) -> Result<Option<Server>> {
        watch::page(&self.db, path, address).map(Some)
    }

    fn close(self) -> Result<()> {
        self.db.close()
    }
}
