//! The guide: its pages and the README are short, every page is in the book, and every program is one that a test
//! runs.

use crate::{Complaints, SourceFile, Tree};

/// Where the pages are.
const PAGES: &str = "docs/guide/";
/// What the book is made of.
const CONTENTS: &str = "docs/SUMMARY.md";
/// Longest page in bytes: what one reads in five minutes.
const MOST_OF_A_PAGE: usize = 8000;
/// Longest README in bytes: two screens.
const MOST_OF_THE_README: usize = 7000;
/// Longest paragraph or item of a list, in characters: more is not read at once.
const MOST_OF_A_PARAGRAPH: usize = 600;
/// Where the Rust programs of pages are taken up by a test.
const TAKEN_UP: &[&str] = &[
    "crates/engine/terrace/src/guide.rs",
    "crates/engine/terrace-metrics/src/lib.rs",
];
/// What a block may be. Rust, Python and command lines are run by tests, `sh` (installing) by
/// `scripts/check-release`; the last two are no programs that stand alone: what needs another machine's store
/// or service, and files.
const KINDS: &[&str] = &["rust", "python", "console", "sh", "text", "toml"];

/// Pages, the README and their paragraphs are as short as they are to be.
pub fn short_pages(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let most = match file.path.as_str() {
            "README.md" => MOST_OF_THE_README,
            path if path.starts_with(PAGES) => MOST_OF_A_PAGE,
            _ => continue,
        };
        let bytes = file.text.len();
        if bytes > most {
            complaints.push(format!("{}: {bytes} bytes, of {most} at most", file.path));
        }
        complaints.extend(long_paragraphs(file));
    }
    complaints
}

/// What is wrong with a document's paragraphs.
pub fn long_paragraphs(file: &SourceFile) -> Complaints {
    let paragraphs = paragraphs(&file.text).into_iter();
    let long = paragraphs.filter(|(_, length)| *length > MOST_OF_A_PARAGRAPH);
    long.map(|(line, length)| {
        format!(
            "{}:{line}: a paragraph of {length} characters, of {MOST_OF_A_PARAGRAPH} at most",
            file.path
        )
    })
    .collect()
}

/// Paragraphs, items and rows, each with its first line and its length in characters; no blocks of programs.
fn paragraphs(text: &str) -> Vec<(usize, usize)> {
    let mut paragraphs: Vec<(usize, usize)> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            inside = !inside;
        }
        let number_of_item = line.split_once(". ").map(|(before, _)| before);
        let is_item = number_of_item.is_some_and(|n| n.parse::<u32>().is_ok());
        let begins = line.starts_with(['|', '#', '>']) || line.starts_with("- ") || is_item;
        if inside || line.is_empty() || line.starts_with("```") {
            goes_on = false;
            continue;
        }
        let length = line.chars().count();
        match paragraphs.last_mut() {
            Some((_, all)) if goes_on && !begins => *all += 1 + length,
            _ => paragraphs.push((number + 1, length)),
        }
        goes_on = true;
    }
    paragraphs
}

/// Every page is in the book, and the book has no page that is not there.
pub fn pages_of_the_book(tree: &Tree) -> Complaints {
    let Some(contents) = tree.file(CONTENTS) else {
        return vec![format!("{CONTENTS} is missing")];
    };
    let pages = tree.files.iter().filter(|f| f.path.starts_with(PAGES));
    let unread = pages.filter(|f| {
        let name = f.path.strip_prefix("docs/").unwrap_or(&f.path);
        f.path.ends_with(".md") && !contents.text.contains(&format!("]({name})"))
    });
    unread
        .map(|f| format!("{}: not in {CONTENTS}", f.path))
        .collect()
}

/// Every block of a page is of a kind that a test runs, and the tests of the Rust ones know their page.
pub fn programs_of_the_guide(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    let taken_up: String = TAKEN_UP
        .iter()
        .filter_map(|path| Some(tree.file(path)?.text.as_str()))
        .collect();
    for file in tree.files.iter().filter(|f| f.path.starts_with(PAGES)) {
        let mut inside = false;
        for (number, line) in file.lines() {
            let Some(kind) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            inside = !inside;
            if inside && !KINDS.contains(&kind) {
                complaints.push(format!(
                    "{}:{number}: no test runs a block of {kind:?}",
                    file.path
                ));
            }
            if inside && kind == "rust" && !taken_up.contains(&format!("/{}\")]", file.path)) {
                complaints.push(format!(
                    "{}:{number}: no test takes up its programs in Rust; add it to {}",
                    file.path, TAKEN_UP[0]
                ));
                break;
            }
        }
    }
    complaints
}
