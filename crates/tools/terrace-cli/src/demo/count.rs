//! Counting words and pairs in a store: one atomic update for each.

use anyhow::{Result, anyhow};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use terrace_bench::numbers::{count as number, ratio};
use terrace_bench::{Counters, resident};

use super::corpus::Corpus;
use super::grams::{NAMES, Window, decode, encode};
use super::words::words;
use crate::engine::{Db, Settings, Tree, TreeSettings};
use crate::progress;
use crate::watch;

/// A database with its structures.
pub struct Store {
    pub db: Db,
    pub trees: [Tree; NAMES.len()],
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
    /// Where a page shows what goes on.
    pub view: Option<SocketAddr>,
}

/// What a run has done.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: &'static str,
    /// Pieces counted: these first ones, and all of each.
    pub units: usize,
    /// Of how many.
    pub of_units: usize,
    /// Words, pairs and triples counted.
    pub counted: [u64; NAMES.len()],
    /// The bytes of the keys and values that were written.
    pub user_bytes: u64,
    pub seconds: f64,
    /// What the store counted meanwhile.
    pub counters: Counters,
    /// The most resident memory of the process, from opening the store to the end of counting.
    pub peak_resident: Option<u64>,
}

impl Outcome {
    pub fn updates(&self) -> u64 {
        self.counted.iter().sum()
    }

    pub fn updates_per_second(&self) -> f64 {
        self.updates() as f64 / self.seconds.max(1e-9)
    }

    /// Bytes written to disk for each byte of a key or value that was written.
    pub fn written_per_user_byte(&self) -> f64 {
        self.counters.disk_bytes_written as f64 / self.user_bytes.max(1) as f64
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
    counted: [AtomicU64; NAMES.len()],
    user_bytes: AtomicU64,
    failure: Mutex<Option<anyhow::Error>>,
}

impl Counting {
    /// Counts; the database stays open for questions.
    pub fn run(&self, corpus: &Corpus) -> Result<(Store, Outcome)> {
        let settings = Settings {
            memory: self.memory,
            create: true,
            control: true,
            ..Settings::default()
        };
        let peak_is_from_here = resident::reset_peak();
        let db = Db::open(&self.db, &settings)?;
        let view = self.view.map(|address| watch::page(&db, &self.db, address));
        let _page = view.transpose()?;
        let trees = TreeSettings {
            tiers: self.tiers,
            ..TreeSettings::default()
        };
        let [words, pairs, triples] = NAMES.map(|name| db.tree_or_create(name, &trees));
        let trees = [words?, pairs?, triples?];
        let store = Store { db, trees };
        let mut outcome = self.count(&store, corpus)?;
        outcome.peak_resident = resident::peak().filter(|_| peak_is_from_here);
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
            counted: shared.counted.map(AtomicU64::into_inner),
            user_bytes: shared.user_bytes.into_inner(),
            seconds,
            peak_resident: None,
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
        let updates: u64 = shared
            .counted
            .iter()
            .map(|n| n.load(Ordering::Relaxed))
            .sum();
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
        while !shared.stop.load(Ordering::Relaxed) {
            // Taken only in order and then finished: what is done is always a beginning of all.
            let taken = shared
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
                    (next < self.units).then_some(next + 1)
                });
            let Ok(at) = taken else { break };
            let source = corpus.read(at, &mut text);
            let mut window = Window::default();
            words(&text, source.is_html, |word| {
                window.push(word);
                for (n, tree) in store.trees.iter().enumerate() {
                    let Some(gram) = window.gram(n + 1) else {
                        break;
                    };
                    let bytes = increment(tree, gram, &source.place, window.context())?;
                    shared.counted[n].fetch_add(1, Ordering::Relaxed);
                    shared.user_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
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

/// Counts one up, notes where it was seen, and says how many bytes that was.
fn increment(tree: &Tree, gram: &str, place: &str, context: &str) -> Result<usize> {
    let mut wrong = false;
    let mut bytes = 0;
    tree.update(gram.as_bytes(), |old| {
        let count = match old.map(decode) {
            None => 0,
            Some(Some((count, _))) => count,
            Some(None) => {
                wrong = true;
                0
            }
        };
        let value = encode(count + 1, place, context);
        bytes = gram.len() + value.len();
        Some(value)
    })?;
    if wrong {
        return Err(anyhow!(
            "the store gave a count for {gram:?} that was never written: this is a defect of the \
             store"
        ));
    }
    Ok(bytes)
}
