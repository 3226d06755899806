//! A search index that is kept beside a database by its changes, and goes on where it was when its program was
//! killed: `cargo run --example search_index -- notes.db index.db`, then lines on the standard input: `put
//! NAME TEXT`, `delete NAME`, `find WORD`.
//!
//! The index is a database of its own. With each commit it takes over, it stores the place behind it in the
//! same batch: so after a crash the two still fit together.

use std::collections::BTreeSet;
use std::io::BufRead;
use std::ops::Bound;

use terrace::{
    Batch, Change, ChangesOptions, Commit, Database, Error, Options, Place, Result, Tree, encode,
};

struct SearchIndex {
    db: Database,
    /// Word and name of a note, for each word of each note; and the words of each note, to remove them by.
    words: Tree,
    notes: Tree,
    state: Tree,
}

impl SearchIndex {
    fn open(path: &str) -> Result<SearchIndex> {
        let db = Database::open(path, Options::new().memory(16 << 20))?;
        Ok(SearchIndex {
            words: db.tree("words")?,
            notes: db.tree("notes")?,
            state: db.tree("state")?,
            db,
        })
    }

    /// The place that the index has come to.
    fn place(&self) -> Result<Option<Place>> {
        let stored = self.state.get("place")?;
        Ok(stored.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok()))
    }

    fn forget(&self, batch: &mut Batch, name: &[u8]) -> Result<()> {
        let text = self.notes.get(name)?.unwrap_or_default();
        for word in words_of(&text) {
            batch.delete(&self.words, encode::key((word, name)));
        }
        batch.delete(&self.notes, name);
        Ok(())
    }

    fn note(&self, batch: &mut Batch, name: &[u8], text: &[u8]) -> Result<()> {
        self.forget(batch, name)?;
        for word in words_of(text) {
            batch.put(&self.words, encode::key((word, name)), "");
        }
        batch.put(&self.notes, name, text);
        Ok(())
    }

    /// Takes a commit over. A note that a commit changes twice is looked at once, as it is in the end.
    fn apply(&self, commit: &Commit) -> Result<()> {
        let mut batch = self.db.batch();
        let mut seen = BTreeSet::new();
        let changes: Vec<Change<'_>> = commit.changes().collect();
        for change in changes.iter().rev() {
            match *change {
                Change::Put { key, value, .. } if seen.insert(key) => {
                    self.note(&mut batch, key, value)?;
                }
                Change::Delete { key, .. } if seen.insert(key) => self.forget(&mut batch, key)?,
                Change::DeleteRange { low, high, .. } => {
                    let low = Bound::Included(low);
                    let high = high.map_or(Bound::Unbounded, Bound::Excluded);
                    for entry in self.notes.range::<&[u8]>((low, high))? {
                        self.forget(&mut batch, &entry?.0)?;
                    }
                }
                _ => {}
            }
        }
        batch.put(&self.state, "place", commit.place().to_string());
        self.db.write(batch, None)
    }

    /// Begins anew, from everything as it is.
    fn rebuild(&self, source: &Database) -> Result<()> {
        let (changes, snapshot) = source.changes_and_snapshot(ChangesOptions::new())?;
        for entry in snapshot.tree("notes")?.iter()? {
            let (name, text) = entry?;
            let mut batch = self.db.batch();
            self.note(&mut batch, &name, &text)?;
            self.db.write(batch, None)?;
        }
        self.state.put("place", changes.place().to_string())
    }

    /// Takes over all that was changed in the notes since.
    fn catch_up(&self, source: &Database) -> Result<()> {
        let Some(place) = self.place()? else {
            return self.rebuild(source);
        };
        match source.changes(ChangesOptions::new().from(place).until_now()) {
            Ok(mut commits) => commits.try_for_each(|commit| self.apply(&commit?)),
            Err(Error::ChangesGone { .. }) => self.rebuild(source),
            Err(e) => Err(e),
        }
    }

    fn find(&self, word: &str) -> Result<Vec<String>> {
        let entries = self.words.prefix(encode::key((word,)))?;
        let names = entries.map(|entry| {
            let found: Option<(String, Vec<u8>)> = encode::from_key(&entry?.0);
            Ok(found.map(|(_, name)| String::from_utf8_lossy(&name).into_owned()))
        });
        names.filter_map(Result::transpose).collect()
    }
}

fn words_of(text: &[u8]) -> BTreeSet<String> {
    let text = String::from_utf8_lossy(text).to_lowercase();
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|word| !word.is_empty())
        .map(Into::into)
        .collect()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut paths = std::env::args().skip(1);
    let mut path = |default: &str| paths.next().unwrap_or_else(|| default.to_owned());
    let (notes_path, index_path) = (path("notes.db"), path("notes-index.db"));
    // As much log as a reader may be behind.
    let options = Options::new().memory(16 << 20).keep_changes(64 << 20);
    let source = Database::open(notes_path, options)?;
    let notes = source.tree("notes")?;
    let index = SearchIndex::open(&index_path)?;
    index.catch_up(&source)?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        match line.split_once(' ') {
            Some(("put", rest)) => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                notes.put(name, text)?;
            }
            Some(("delete", name)) => notes.delete(name)?,
            Some(("find", word)) => {
                index.catch_up(&source)?;
                println!("{}", index.find(&word.to_lowercase())?.join(" "));
            }
            _ => eprintln!("put NAME TEXT, delete NAME, or find WORD"),
        }
    }
    Ok(())
}
