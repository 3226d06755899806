//! A first look at the text: how much data its counts will be, on which the memory depends.

use anyhow::Result;
use std::collections::HashSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::corpus::Corpus;
use super::grams::{NAMES, Window, encoded_bytes};
use super::words::words;
use crate::progress;

/// What the text amounts to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// The pieces of the text that were read: these first ones.
    pub units: usize,
    /// The bytes of these pieces.
    pub text_bytes: u64,
    /// All words.
    pub words: u64,
    /// Different words, pairs and triples.
    pub distinct: [u64; NAMES.len()],
    /// The bytes of all keys and values that will be stored for them.
    pub data_bytes: u64,
}

impl Survey {
    /// Reads the text once, until it would make `enough` bytes of data or the time is over.
    /// Different words are told apart by 64-bit hashes: a collision among millions is unlikely and
    /// would only move the size of the memory by a few bytes.
    pub fn of(
        corpus: &Corpus,
        threads: usize,
        enough: u64,
        time: Duration,
        quiet: bool,
    ) -> Result<Self> {
        let bar = progress::bytes(enough, quiet);
        bar.set_message("looking at the text");
        let shared = Shared::default();
        let until = Instant::now() + time;
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| shared.work(corpus, enough, until, &bar));
            }
        });
        bar.finish_and_clear();
        let distinct = |set: &Shards| set.0.iter().map(|s| lock(s).len() as u64).sum::<u64>();
        Ok(Survey {
            units: shared.next.load(Ordering::Relaxed),
            text_bytes: shared.text_bytes.load(Ordering::Relaxed),
            words: shared.words.load(Ordering::Relaxed),
            distinct: [0, 1, 2].map(|at| distinct(&shared.distinct[at])),
            data_bytes: shared.data_bytes.load(Ordering::Relaxed),
        })
    }
}

#[derive(Default)]
struct Shared {
    next: AtomicUsize,
    words: AtomicU64,
    text_bytes: AtomicU64,
    data_bytes: AtomicU64,
    distinct: [Shards; NAMES.len()],
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
    fn work(&self, corpus: &Corpus, enough: u64, until: Instant, bar: &indicatif::ProgressBar) {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let mut text = Vec::new();
        while self.data_bytes.load(Ordering::Relaxed) < enough && Instant::now() < until {
            // Taken only in order and then finished: what was read is always a beginning of all.
            let take = |next| (next < corpus.units().len()).then_some(next + 1);
            let Ok(at) = self
                .next
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            else {
                break;
            };
            let source = corpus.read(at, &mut text);
            let (mut count, mut data) = (0, 0);
            let mut window = Window::default();
            let visit = |word: &str| -> Result<(), Infallible> {
                count += 1;
                window.push(word);
                let value = encoded_bytes(&source.place, window.context());
                for (n, set) in self.distinct.iter().enumerate() {
                    if let Some(gram) = window.gram(n + 1)
                        && set.insert(hasher.hash_one(gram))
                    {
                        data += (gram.len() + value) as u64;
                    }
                }
                Ok(())
            };
            let Ok(()) = words(&text, source.is_html, visit);
            self.words.fetch_add(count, Ordering::Relaxed);
            self.text_bytes
                .fetch_add(text.len() as u64, Ordering::Relaxed);
            self.data_bytes.fetch_add(data, Ordering::Relaxed);
            bar.inc(data);
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
        let minute = Duration::from_secs(60);
        let survey = Survey::of(&corpus, 2, u64::MAX, minute, true).unwrap();
        let none = Survey::of(&corpus, 2, 0, minute, true).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!((survey.words, survey.distinct), (5, [3, 3, 3]));
        assert_eq!((survey.units, survey.text_bytes, none.units), (1, 11, 0));
        // a, bb, c; "a bb", "bb a", "bb c"; three triples; and where each was seen first.
        let place = super::super::grams::place(&path);
        let contexts = [1, 4, 11, 4, 6, 11, 6, 9, 11];
        let values: usize = contexts.map(|c| 11 + place.len() + c).iter().sum();
        assert_eq!(survey.data_bytes, 4 + 12 + 19 + values as u64);
    }
}
