//! Counting words and pairs in a store: one atomic update for each.

use anyhow::{Result, anyhow};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use terrace_bench::Counters;
use terrace_bench::table::{count as number, ratio};

use super::corpus::Corpus;
use super::words::words;
use crate::engine::{Db, Settings, Tree, TreeSettings};
use crate::progress;

/// A database with its two structures.
pub struct Store {
    pub db: Db,
    pub words: Tree,
    pub pairs: Tree,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Counting {
    /// Where the database goes.
    pub db: PathBuf,
    /// What it is called.
    pub name: &'static str,
    pub tiers: u8,
    pub memory: u64,
    pub threads: usize,
    /// How many pieces of the text to count.
    pub units: usize,
    /// When to stop even if there is more; pieces that are begun are finished.
    pub time: Duration,
    pub quiet: bool,
}

/// What a run has done.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: &'static str,
    /// Pieces counted: these first ones, and all of each.
    pub units: usize,
    /// Of how many.
    pub of_units: usize,
    pub words: u64,
    pub pairs: u64,
    pub seconds: f64,
    /// What the store counted meanwhile.
    pub counters: Counters,
}

impl Outcome {
    pub fn updates(&self) -> u64 {
        self.words + self.pairs
    }

    pub fn updates_per_second(&self) -> f64 {
        self.updates() as f64 / self.seconds.max(1e-9)
    }

    pub fn per_update(&self, n: u64) -> f64 {
        n as f64 / self.updates().max(1) as f64
    }
}

#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    /// Set when time is over, or something failed.
    stop: AtomicBool,
    running: AtomicUsize,
    words: AtomicU64,
    pairs: AtomicU64,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Counting {
    /// Counts; the database stays open for questions.
    pub fn run(&self, corpus: &Corpus) -> Result<(Store, Outcome)> {
        let settings = Settings {
            memory: self.memory,
            create: true,
            ..Settings::default()
        };
        let db = Db::open(&self.db, &settings)?;
        let trees = TreeSettings {
            tiers: self.tiers,
            ..TreeSettings::default()
        };
        let words = db.tree_or_create("words", &trees)?;
        let pairs = db.tree_or_create("pairs", &trees)?;
        let store = Store { db, words, pairs };
        let outcome = self.count(&store, corpus)?;
        Ok((store, outcome))
    }

    fn count(&self, store: &Store, corpus: &Corpus) -> Result<Outcome> {
        let shared = Shared {
            running: AtomicUsize::new(self.threads),
            ..Shared::default()
        };
        let bar = progress::things(self.units as u64, self.quiet);
        bar.set_prefix(format!("counting, {:<9}", self.name));
        let before = store.db.counters();
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.threads {
                scope.spawn(|| {
                    // Counted out even by a panic, or the loop below would never end.
                    let _leave = Leave(&shared);
                    if let Err(error) = self.work(store, corpus, &shared) {
                        shared
                            .failure
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .get_or_insert(error);
                        shared.stop.store(true, Ordering::Relaxed);
                    }
                });
            }
            while shared.running.load(Ordering::Acquire) > 0 {
                std::thread::sleep(Duration::from_millis(20));
                if began.elapsed() >= self.time {
                    shared.stop.store(true, Ordering::Relaxed);
                }
                bar.set_position(shared.next.load(Ordering::Relaxed).min(self.units) as u64);
                bar.set_message(self.message(store, &before, &shared, began.elapsed()));
            }
        });
        let seconds = began.elapsed().as_secs_f64();
        bar.finish_and_clear();
        if let Some(error) = shared
            .failure
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
        {
            return Err(error.context(format!("counting with {} failed", self.name)));
        }
        Ok(Outcome {
            name: self.name,
            units: shared.next.into_inner().min(self.units),
            of_units: self.units,
            words: shared.words.into_inner(),
            pairs: shared.pairs.into_inner(),
            seconds,
            counters: store.db.counters().since(&before),
        })
    }

    fn message(
        &self,
        store: &Store,
        before: &Counters,
        shared: &Shared,
        passed: Duration,
    ) -> String {
        let updates = shared.words.load(Ordering::Relaxed) + shared.pairs.load(Ordering::Relaxed);
        let reads = store
            .db
            .counters()
            .page_reads
            .saturating_sub(before.page_reads);
        format!(
            "{} updates/s, {} page reads each",
            number((updates as f64 / passed.as_secs_f64().max(1e-9)).round()),
            ratio(reads as f64 / updates.max(1) as f64)
        )
    }

    fn work(&self, store: &Store, corpus: &Corpus, shared: &Shared) -> Result<()> {
        let mut text = Vec::new();
        let mut pair = Vec::new();
        while !shared.stop.load(Ordering::Relaxed) {
            // Taken only in order and then finished: what is done is always a beginning of all.
            let taken = shared
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                    (next < self.units).then_some(next + 1)
                });
            let Ok(at) = taken else { break };
            let html = corpus.read(&corpus.units()[at], &mut text);
            let mut before = Vec::new();
            words(&text, html, |word| {
                increment(&store.words, word.as_bytes())?;
                shared.words.fetch_add(1, Ordering::Relaxed);
                if !before.is_empty() {
                    pair.clear();
                    pair.extend_from_slice(&before);
                    pair.push(b' ');
                    pair.extend_from_slice(word.as_bytes());
                    increment(&store.pairs, &pair)?;
                    shared.pairs.fetch_add(1, Ordering::Relaxed);
                }
                before.clear();
                before.extend_from_slice(word.as_bytes());
                anyhow::Ok(())
            })?;
        }
        Ok(())
    }
}

struct Leave<'a>(&'a Shared);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}

fn increment(tree: &Tree, key: &[u8]) -> Result<()> {
    let mut wrong = false;
    tree.update(key, |old| {
        let count = match old {
            None => 0,
            Some(bytes) => decode(bytes).unwrap_or_else(|| {
                wrong = true;
                0
            }),
        };
        Some(encode(count + 1))
    })?;
    if wrong {
        return Err(anyhow!(
            "the store gave a count for {:?} that was never written: this is a defect of the store",
            String::from_utf8_lossy(key)
        ));
    }
    Ok(())
}

/// A count as it is stored: eight decimal digits (or more, if it takes them), so that `terrace scan`
/// shows it readably and counting up does not change its length.
pub fn encode(count: u64) -> Vec<u8> {
    format!("{count:08}").into_bytes()
}

/// The count that is stored so.
pub fn decode(bytes: &[u8]) -> Option<u64> {
    let is_count = bytes.len() >= 8 && bytes.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(bytes)
        .ok()
        .filter(|_| is_count)?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_lead_back() {
        for count in [0, 1, 99_999_999, 100_000_000, u64::MAX] {
            assert_eq!(decode(&encode(count)), Some(count));
        }
        for bad in [
            &b""[..],
            b"123",
            b"+0000001",
            b"0000000x",
            b"99999999999999999999999",
            b"\xff0000000",
        ] {
            assert_eq!(decode(bad), None);
        }
    }
}
