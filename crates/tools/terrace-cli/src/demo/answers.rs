//! Questions to the finished counts: the most frequent words, and what follows them.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::time::Instant;
use terrace_bench::numbers::{count as number, time};

use super::count::Store;
use super::grams::{NAMES, decode};
use crate::engine::Entries;
use crate::progress;

/// So many words are listed,
const TOP: usize = 10;
/// and for so many of them what follows.
const FOLLOWED: usize = 3;
/// Shorter words are followed by everything, which says little.
const TELLING: usize = 6;

/// What came out.
#[derive(Clone, Debug)]
pub struct Answers {
    /// Words, pairs and triples.
    rankings: [Ranking; NAMES.len()],
    following: Vec<Following>,
}

/// A word, where it was seen last, what follows it, and how long the store took to say.
#[derive(Clone, Debug)]
struct Following {
    word: String,
    seen: String,
    ranking: Ranking,
    took_ns: u64,
}

/// The most frequent entries of a range, and how many there were in all.
#[derive(Clone, Debug, Default)]
struct Ranking {
    top: Vec<(String, u64)>,
    telling: Vec<String>,
    entries: u64,
    sum: u64,
}

/// Whoever has the counts of words, pairs and triples, and can be asked.
pub trait Asked {
    /// All of one kind.
    fn all(&self, which: usize) -> Result<Entries>;
    /// Those that begin so.
    fn prefix(&self, which: usize, prefix: &[u8]) -> Result<Entries>;
    /// The value of one.
    fn get(&self, which: usize, key: &[u8]) -> Result<Option<Vec<u8>>>;
}

impl Asked for Store {
    fn all(&self, which: usize) -> Result<Entries> {
        self.trees[which].range(None, None, false)
    }

    fn prefix(&self, which: usize, prefix: &[u8]) -> Result<Entries> {
        self.trees[which].prefix(prefix, false)
    }

    fn get(&self, which: usize, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.trees[which].get(key)
    }
}

impl Answers {
    /// Asks.
    pub fn of(store: &dyn Asked, quiet: bool) -> Result<Self> {
        let spinner = progress::spinner(quiet);
        spinner.set_message("asking");
        let [words, pairs, triples] = [0, 1, 2];
        let all = |which| Ranking::of(store.all(which)?, 0);
        let ranking = all(words)?;
        let mut following = Vec::new();
        for word in &ranking.telling {
            let prefix = format!("{word} ");
            let began = Instant::now();
            let value = store.get(words, word.as_bytes())?.unwrap_or_default();
            let ranking = Ranking::of(store.prefix(pairs, prefix.as_bytes())?, prefix.len())?;
            let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let seen = decode(&value).map_or("", |(_, seen)| seen).to_owned();
            following.push(Following {
                word: word.clone(),
                seen,
                ranking,
                took_ns,
            });
        }
        // Everything, also to see that it adds up.
        let rankings = [ranking, all(pairs)?, all(triples)?];
        spinner.finish_and_clear();
        Ok(Answers {
            rankings,
            following,
        })
    }

    /// Whether every update is in the counts.
    pub fn check(&self, counted: [u64; NAMES.len()]) -> Result<()> {
        let sums = self.rankings.each_ref().map(|ranking| ranking.sum);
        if sums != counted {
            bail!(
                "{counted:?} words, pairs and triples were counted, but the counts add up to \
                 {sums:?}: updates were lost, this is a defect of the store"
            );
        }
        Ok(())
    }

    /// What must be the same for the same text.
    pub fn counts(&self) -> [(u64, &[(String, u64)]); NAMES.len()] {
        self.rankings
            .each_ref()
            .map(|ranking| (ranking.entries, ranking.top.as_slice()))
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let list = |ranking: &Ranking| -> Vec<Value> {
            ranking
                .top
                .iter()
                .map(|(word, n)| json!({ "word": word, "count": n }))
                .collect()
        };
        let following: Vec<Value> = self
            .following
            .iter()
            .map(|f| {
                json!({
                    "word": f.word,
                    "last_seen": f.seen,
                    "nanoseconds": f.took_ns,
                    "followed_by": list(&f.ranking),
                })
            })
            .collect();
        let [words, pairs, triples] = &self.rankings;
        json!({
            "most_frequent": list(words),
            "most_frequent_pairs": list(pairs),
            "most_frequent_triples": list(triples),
            "following": following,
        })
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ranking: &Ranking, most: usize| {
            let item = |(word, n): &(String, u64)| format!("{word} {}", number(*n as f64));
            let items = ranking.top.iter().take(most).map(item);
            items.collect::<Vec<_>>().join(", ")
        };
        let [words, _, triples] = &self.rankings;
        writeln!(f, "Most frequent: {}.", list(words, TOP))?;
        writeln!(f, "Triples: {}.", list(triples, 5))?;
        for following in &self.following {
            writeln!(
                f,
                "After {:?} ({} different, {}): {}.\n  last seen in {}",
                following.word,
                following.ranking.entries,
                time(following.took_ns),
                list(&following.ranking, 6),
                following.seen,
            )?;
        }
        writeln!(f, "All counts add up to what was counted.")
    }
}

impl Ranking {
    /// Ranks entries, leaving so many bytes of their keys out.
    fn of(entries: Entries, skip: usize) -> Result<Self> {
        let mut ranking = Ranking::default();
        let mut top = BinaryHeap::new();
        let mut telling = BinaryHeap::new();
        for entry in entries {
            let (key, value) = entry?;
            let (count, _) = decode(&value)
                .ok_or_else(|| anyhow!("{} is no count", crate::text::escape(&value)))?;
            ranking.entries += 1;
            ranking.sum += count;
            let word = String::from_utf8(key.get(skip..).unwrap_or_default().to_vec())
                .context("a key is not the text that was written")?;
            if word.chars().count() >= TELLING {
                push(&mut telling, FOLLOWED, count, word.clone());
            }
            push(&mut top, TOP, count, word);
        }
        // Sorted by what the heap keeps smallest on top: the most frequent first.
        ranking.top = top
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse((n, w))| (w.0, n))
            .collect();
        ranking.telling = telling
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse((_, w))| w.0)
            .collect();
        Ok(ranking)
    }
}

/// Among equally frequent words the alphabet decides, so that the answer is always the same.
type Heap = BinaryHeap<Reverse<(u64, Reverse<String>)>>;

fn push(heap: &mut Heap, most: usize, count: u64, word: String) {
    heap.push(Reverse((count, Reverse(word))));
    if heap.len() > most {
        heap.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::super::grams::encode;
    use super::*;

    fn entries(list: &[(&str, u64)]) -> Entries {
        let list: Vec<_> = list
            .iter()
            .map(|(w, n)| Ok((w.as_bytes().to_vec(), encode(*n, "p", "c"))))
            .collect();
        Box::new(list.into_iter())
    }

    #[test]
    fn the_most_frequent_come_first() {
        let letters: Vec<String> = ('a'..='p').map(|c| c.to_string()).collect();
        let mut list: Vec<(&str, u64)> = letters.iter().map(|l| (l.as_str(), 5)).collect();
        list.push(("telling", 9));
        let ranking = Ranking::of(entries(&list), 0).unwrap();
        assert_eq!(ranking.top.len(), TOP);
        assert_eq!(ranking.top[0], ("telling".into(), 9));
        assert_eq!(ranking.top[1], ("a".into(), 5));
        assert_eq!(ranking.top[9], ("i".into(), 5));
        assert_eq!(ranking.telling, ["telling"]);
        assert_eq!((ranking.entries, ranking.sum), (17, 89));
    }

    #[test]
    fn a_count_that_is_none_is_an_error() {
        let broken: Entries = Box::new([Ok((b"a".to_vec(), b"123".to_vec()))].into_iter());
        assert!(
            Ranking::of(broken, 0)
                .unwrap_err()
                .to_string()
                .contains("123 is no count")
        );
    }
}
