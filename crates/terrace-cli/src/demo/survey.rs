//! A first look at the text: how much data its counts will be, on which the memory depends.

use anyhow::Result;
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::corpus::Corpus;
use super::words::words;
use crate::progress;

/// The bytes of a count.
pub const COUNT_BYTES: u64 = 8;

/// What the text amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// All words.
    pub words: u64,
    /// Different words.
    pub distinct_words: u64,
    /// Different pairs of neighbours.
    pub distinct_pairs: u64,
    key_bytes: u64,
}

impl Survey {
    /// Reads all of the text once. Different words are told apart by 64-bit hashes: a collision
    /// among millions is unlikely and would only move the size of the memory by a few bytes.
    pub fn of(corpus: &Corpus, threads: usize, quiet: bool) -> Result<Self> {
        let bar = progress::bytes(corpus.bytes(), quiet);
        bar.set_message("reading");
        let shared = Shared::default();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| shared.work(corpus, &bar));
            }
        });
        bar.finish_and_clear();
        let distinct = |set: &Shards| set.0.iter().map(|s| lock(s).len() as u64).sum::<u64>();
        Ok(Survey {
            words: shared.words.load(Ordering::Relaxed),
            distinct_words: distinct(&shared.distinct_words),
            distinct_pairs: distinct(&shared.distinct_pairs),
            key_bytes: shared.key_bytes.load(Ordering::Relaxed),
        })
    }

    /// The bytes of all keys and counts.
    pub fn data_bytes(&self) -> u64 {
        self.key_bytes + (self.distinct_words + self.distinct_pairs) * COUNT_BYTES
    }
}

#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    words: AtomicU64,
    key_bytes: AtomicU64,
    distinct_words: Shards,
    distinct_pairs: Shards,
}

/// Sets of hashes, apart by their upper bits so that threads rarely meet.
struct Shards(Vec<Mutex<HashSet<u64>>>);

impl Default for Shards {
    fn default() -> Self {
        Shards((0..64).map(|_| Mutex::default()).collect())
    }
}

impl Shards {
    fn insert(&self, hash: u64) -> bool {
        lock(&self.0[(hash >> 58) as usize]).insert(hash)
    }
}

fn lock(set: &Mutex<HashSet<u64>>) -> std::sync::MutexGuard<'_, HashSet<u64>> {
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn work(&self, corpus: &Corpus, bar: &indicatif::ProgressBar) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let mut text = Vec::new();
        while let Some(unit) = corpus
            .units()
            .get(self.next.fetch_add(1, Ordering::Relaxed))
        {
            let html = corpus.read(unit, &mut text);
            let (mut count, mut key_bytes) = (0, 0);
            let mut before: Option<(u64, usize)> = None;
            let visit = |word: &str| -> Result<(), Infallible> {
                let hash = hasher.hash_one(word);
                count += 1;
                if self.distinct_words.insert(hash) {
                    key_bytes += word.len();
                }
                if let Some((first, length)) = before
                    && self.distinct_pairs.insert(hasher.hash_one((first, hash)))
                {
                    key_bytes += length + 1 + word.len();
                }
                before = Some((hash, word.len()));
                Ok(())
            };
            let Ok(()) = words(&text, html, visit);
            self.words.fetch_add(count, Ordering::Relaxed);
            self.key_bytes
                .fetch_add(key_bytes as u64, Ordering::Relaxed);
            bar.inc(text.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_the_store_will_hold() {
        let path = std::env::temp_dir().join(format!("terrace-survey-{}.txt", std::process::id()));
        std::fs::write(&path, "a bb a bb c").unwrap();
        let corpus = Corpus::find(std::slice::from_ref(&path), 1000).unwrap();
        let survey = Survey::of(&corpus, 2, true).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            (survey.words, survey.distinct_words, survey.distinct_pairs),
            (5, 3, 3)
        );
        // a, bb, c; "a bb", "bb a", "bb c"; six counts.
        assert_eq!(survey.data_bytes(), 4 + 12 + 48);
    }
}
