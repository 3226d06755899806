//! The same counting in redb, a store of pages that many know: one file, one writer at a time.
//!
//! It gets the memory as its cache. Where Terrace acknowledges each update by itself, and goes around the
//! cache of the operating system, redb counts a whole piece of the text in one transaction, which is much the
//! faster way for it, and has that cache beside its own.

use anyhow::{Context, Result, anyhow};
use redb::{Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;
use std::time::Instant;
use terrace_bench::{Counters, resident};

use super::answers::Asked;
use super::corpus::Corpus;
use super::count::{Counting, Outcome};
use super::grams::{NAMES, Window, decode, encode};
use super::words::words;
use crate::engine::Entries;
use crate::progress;

/// What it is called.
pub const NAME: &str = "redb";
/// Transactions of which one is synced: what it frees it can use again only then.
const SYNC_EVERY: usize = 32;

type Bytes = &'static [u8];

const TABLES: [TableDefinition<'static, Bytes, Bytes>; NAMES.len()] = [
    TableDefinition::new(NAMES[0]),
    TableDefinition::new(NAMES[1]),
    TableDefinition::new(NAMES[2]),
];

/// A database of redb.
pub struct Other {
    db: redb::Database,
}

impl Other {
    /// Counts; the database stays open for questions.
    pub fn run(counting: &Counting, corpus: &Corpus) -> Result<(Other, Outcome)> {
        let peak_is_from_here = resident::reset_peak();
        let mut builder = redb::Builder::new();
        builder.set_cache_size(usize::try_from(counting.memory)?);
        let context = || format!("cannot create {}", counting.db.display());
        let other = Other {
            db: builder.create(&counting.db).with_context(context)?,
        };
        let mut outcome = other
            .count(counting, corpus)
            .context("counting with redb failed")?;
        outcome.peak_resident = resident::peak().filter(|_| peak_is_from_here);
        Ok((other, outcome))
    }

    fn count(&self, counting: &Counting, corpus: &Corpus) -> Result<Outcome> {
        let bar = progress::things(counting.units as u64, counting.quiet);
        bar.set_prefix(format!("counting, {:<9}", counting.name));
        let began = Instant::now();
        let mut outcome = Outcome {
            name: counting.name,
            units: 0,
            of_units: counting.units,
            counted: [0; NAMES.len()],
            user_bytes: 0,
            seconds: 0.0,
            peak_resident: None,
            counters: Counters::default(),
        };
        let mut text = Vec::new();
        while outcome.units < counting.units && began.elapsed() < counting.time {
            self.count_unit(&mut outcome, corpus, &mut text)?;
            bar.set_position(outcome.units as u64);
        }
        // What is done is to be durable, as with the others when they are closed.
        self.db.begin_write()?.commit()?;
        outcome.seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        outcome.counters.disk_bytes = file_bytes(&counting.db);
        Ok(outcome)
    }

    fn count_unit(&self, outcome: &mut Outcome, corpus: &Corpus, text: &mut Vec<u8>) -> Result<()> {
        let source = corpus.read(outcome.units, text);
        let mut transaction = self.db.begin_write()?;
        outcome.units += 1;
        if !outcome.units.is_multiple_of(SYNC_EVERY) {
            transaction.set_durability(Durability::None)?;
        }
        {
            let [first, second, third] = TABLES.map(|table| transaction.open_table(table));
            let mut tables = [first?, second?, third?];
            let mut window = Window::default();
            words(text, source.is_html, |word| {
                window.push(word);
                for (n, table) in tables.iter_mut().enumerate() {
                    let Some(gram) = window.gram(n + 1) else {
                        break;
                    };
                    let count = match table.get(gram.as_bytes())? {
                        None => 0,
                        Some(old) => {
                            let wrong =
                                || anyhow!("redb gave a count for {gram:?} that was never written");
                            decode(old.value()).ok_or_else(wrong)?.0
                        }
                    };
                    let value = encode(count + 1, &source.place, window.context());
                    table.insert(gram.as_bytes(), value.as_slice())?;
                    outcome.counted[n] += 1;
                    outcome.user_bytes += (gram.len() + value.len()) as u64;
                }
                anyhow::Ok(())
            })?;
        }
        transaction.commit()?;
        Ok(())
    }

    fn table(&self, which: usize) -> Result<redb::ReadOnlyTable<Bytes, Bytes>> {
        Ok(self.db.begin_read()?.open_table(TABLES[which])?)
    }
}

fn file_bytes(path: &Path) -> Option<u64> {
    path.metadata().ok().map(|meta| meta.len())
}

impl Asked for Other {
    fn all(&self, which: usize) -> Result<Entries> {
        let all = self.table(which)?.range_owned::<&[u8]>(..)?;
        Ok(Box::new(all.map(|entry| {
            let (key, value) = entry?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        })))
    }

    fn prefix(&self, which: usize, prefix: &[u8]) -> Result<Entries> {
        let from = self.table(which)?.range_owned::<&[u8]>(prefix..)?;
        let prefix = prefix.to_vec();
        let entries = from.map(|entry| {
            let (key, value) = entry?;
            anyhow::Ok((key.value().to_vec(), value.value().to_vec()))
        });
        Ok(Box::new(entries.take_while(move |entry| {
            entry
                .as_ref()
                .map_or(true, |(key, _)| key.starts_with(&prefix))
        })))
    }

    fn get(&self, which: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.table(which)?.get(key)?;
        Ok(value.map(|value| value.value().to_vec()))
    }
}
