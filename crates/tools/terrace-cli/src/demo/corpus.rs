//! Text to count: what was given, or what this machine has anyway.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use terrace_bench::permutation::Permutation;

use super::grams::place;

/// Text is counted in pieces of at most this, so that work can be shared and stopped.
const UNIT_BYTES: u64 = 64 << 10;
/// With this much found, further places are not looked at.
const ENOUGH_BYTES: u64 = 48 << 20;
/// More files than this are not looked at.
const MOST_FILES: usize = 200_000;

/// What a file must be called to be taken from a folder.
const EXTENSIONS: [&str; 15] = [
    "html", "htm", "md", "txt", "rst", "adoc", "tex", "rs", "h", "c", "cpp", "py", "pod", "pm",
    "go",
];

/// A piece of a file.
#[derive(Clone, Debug)]
pub struct Unit {
    file: usize,
    from: u64,
    bytes: u64,
}

/// The text to count.
#[derive(Debug)]
pub struct Corpus {
    files: Vec<PathBuf>,
    units: Vec<Unit>,
    description: String,
}

impl Corpus {
    /// Looks for text, at most `limit` bytes of it.
    pub fn find(given: &[PathBuf], limit: u64) -> Result<Self> {
        let mut found = Found::default();
        if given.is_empty() {
            for place in places() {
                found.add_folder(&place);
                if found.bytes >= ENOUGH_BYTES.min(limit) {
                    break;
                }
            }
            if found.bytes == 0 {
                bail!("no text was found on this machine; give files or folders with text in them");
            }
        }
        for path in given {
            let meta = std::fs::metadata(path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            if meta.is_dir() {
                found.add_folder(path);
            } else {
                found.add_file(path.clone(), meta.len());
                found.places.push(path.clone());
            }
        }
        if found.bytes == 0 {
            bail!(
                "there is no text in what was given; files in folders must end in one of {}",
                EXTENSIONS.join(", ")
            );
        }
        Ok(found.into_corpus(limit))
    }

    /// How much there is.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.units.iter().map(|unit| unit.bytes).sum()
    }

    /// Where it comes from.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The pieces.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Reads the piece of this number into `text`, and says where it is from. A file that has become shorter or
    /// has gone is no error: it is other people's.
    pub fn read(&self, unit: usize, text: &mut Vec<u8>) -> Source {
        text.clear();
        let unit = &self.units[unit];
        let path = &self.files[unit.file];
        let read = File::open(path).and_then(|mut file| {
            file.seek(SeekFrom::Start(unit.from))?;
            file.take(unit.bytes).read_to_end(text)
        });
        if read.is_err() {
            text.clear();
        }
        Source {
            is_html: is_html(path),
            place: place(path),
        }
    }
}

/// Where a piece of text comes from.
#[derive(Clone, Debug)]
pub struct Source {
    pub is_html: bool,
    /// The end of its path.
    pub place: String,
}

fn is_html(path: &Path) -> bool {
    extension(path).is_some_and(|e| e.eq_ignore_ascii_case("html") || e.eq_ignore_ascii_case("htm"))
}

fn extension(path: &Path) -> Option<&str> {
    path.extension().and_then(OsStr::to_str)
}

#[derive(Default)]
struct Found {
    files: Vec<(PathBuf, u64)>,
    bytes: u64,
    places: Vec<PathBuf>,
    /// The number of files when each place was done.
    ends: Vec<usize>,
}

impl Found {
    fn add_file(&mut self, path: PathBuf, bytes: u64) {
        self.bytes += bytes;
        self.files.push((path, bytes));
    }

    /// All text below a folder. What cannot be read is left out; links are not followed, so that
    /// there is no circle.
    fn add_folder(&mut self, folder: &Path) {
        let before = self.files.len();
        let mut folders = vec![folder.to_path_buf()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = std::fs::read_dir(&folder) else {
                continue;
            };
            let mut entries: Vec<_> = entries.flatten().collect();
            // In an order of their own on every machine: by name.
            entries.sort_by_key(std::fs::DirEntry::file_name);
            for entry in entries {
                let Ok(kind) = entry.file_type() else {
                    continue;
                };
                let path = entry.path();
                if kind.is_dir() {
                    folders.push(path);
                } else if kind.is_file()
                    && extension(&path).is_some_and(|e| EXTENSIONS.contains(&e))
                    // All chapters of a book once more.
                    && !path.ends_with("print.html")
                    && let Ok(meta) = entry.metadata()
                    && self.files.len() < MOST_FILES
                {
                    self.add_file(path, meta.len());
                }
            }
        }
        if self.files.len() > before {
            self.places.push(folder.to_path_buf());
            self.ends.push(self.files.len());
        }
    }

    fn into_corpus(self, limit: u64) -> Corpus {
        // A mixture within each place: neighbouring files tend to be about the same.
        let mut order = Vec::new();
        let ends = self.ends.iter().copied().chain([self.files.len()]);
        for end in ends {
            let first = order.len();
            let mixed = Permutation::new((end - first).max(1) as u64, 1);
            // The number of files fits: it came from one of them.
            order.extend((0..end - first).map(|at| first + mixed.apply(at as u64) as usize));
        }
        let mut units = Vec::new();
        let mut left = limit;
        for file in order {
            let mut from = 0;
            while from < self.files[file].1 && left > 0 {
                let bytes = UNIT_BYTES.min(self.files[file].1 - from).min(left);
                units.push(Unit { file, from, bytes });
                from += bytes;
                left -= bytes;
            }
        }
        let places: Vec<String> = self
            .places
            .iter()
            .take(3)
            .map(|p| p.display().to_string())
            .collect();
        let more = self.places.len().saturating_sub(places.len());
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let description = format!("{}{more}", places.join(", "));
        Corpus {
            files: self.files.into_iter().map(|f| f.0).collect(),
            units,
            description,
        }
    }
}

/// The books that come with the toolchain, in their folder of documentation.
const BOOKS: [&str; 10] = [
    "book",
    "reference",
    "cargo",
    "nomicon",
    "rust-by-example",
    "rustc",
    "edition-guide",
    "embedded-book",
    "clippy",
    "error_codes",
];

/// Folders that may hold text, the best first.
fn places() -> Vec<PathBuf> {
    let mut places = Vec::new();
    let toolchain = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .ok();
    if let Some(output) = toolchain.filter(|output| output.status.success()) {
        let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        // The books first: prose, where the rest is mostly reference.
        let docs = root.join("share/doc/rust/html");
        places.extend(BOOKS.map(|book| docs.join(book)));
        places.push(docs.join("std"));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let under_home = |variable: &str, name: &str| {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .or(home.as_ref().map(|home| home.join(name)))
    };
    if let Some(cargo) = under_home("CARGO_HOME", ".cargo") {
        places.push(cargo.join("registry/src"));
    }
    if let Some(rustup) = under_home("RUSTUP_HOME", ".rustup") {
        places.push(rustup.join("toolchains"));
    }
    places.extend(
        [
            "/usr/share/doc",
            "/usr/lib/python3",
            "/usr/include",
            "/usr/share",
            "/usr/lib",
        ]
        .map(PathBuf::from),
    );
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn folder(name: &str) -> Temporary {
        let path =
            std::env::temp_dir().join(format!("terrace-corpus-{name}-{}", std::process::id()));
        std::fs::create_dir_all(path.join("sub")).unwrap();
        Temporary(path)
    }

    #[test]
    fn folders_are_searched_and_files_cut_into_pieces() {
        let dir = folder("search");
        std::fs::write(dir.0.join("a.md"), "one two").unwrap();
        std::fs::write(dir.0.join("sub/b.html"), "x".repeat(150 << 10)).unwrap();
        std::fs::write(dir.0.join("sub/c.png"), "not text").unwrap();
        let corpus = Corpus::find(std::slice::from_ref(&dir.0), u64::MAX).unwrap();
        assert_eq!(corpus.bytes(), 7 + (150 << 10));
        assert_eq!(corpus.units().len(), 4);
        let mut text = Vec::new();
        let html = (0..4)
            .filter(|&unit| corpus.read(unit, &mut text).is_html)
            .count();
        assert_eq!(html, 3);
        let little = Corpus::find(std::slice::from_ref(&dir.0), 5).unwrap();
        assert_eq!(little.bytes(), 5);
    }

    #[test]
    fn a_wrong_path_or_no_text_says_so() {
        let dir = folder("wrong");
        let error = Corpus::find(&[dir.0.join("none")], 1000).unwrap_err();
        assert!(error.to_string().contains("cannot read"), "{error}");
        let error = Corpus::find(&[dir.0.join("sub")], 1000).unwrap_err();
        assert!(error.to_string().contains("no text"), "{error}");
    }

    #[test]
    fn a_file_that_has_gone_is_empty() {
        let dir = folder("gone");
        std::fs::write(dir.0.join("a.md"), "one two").unwrap();
        let corpus = Corpus::find(std::slice::from_ref(&dir.0), 1000).unwrap();
        std::fs::remove_file(dir.0.join("a.md")).unwrap();
        let mut text = b"old".to_vec();
        corpus.read(0, &mut text);
        assert!(text.is_empty());
    }
}
