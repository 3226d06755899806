//! The decisions: each begins with what holds today, and their paragraphs are short.

use crate::guide::long_paragraphs;
use crate::{Complaints, Tree};

/// Where they are.
const DECISIONS: &str = "docs/decisions/";
/// How each begins, after its title.
const BEGINNING: &str = "**What holds today.**";
/// Most sentences of the beginning.
const MOST_SENTENCES: usize = 3;

/// Paragraphs of the decisions are as short as those of the guide.
pub fn short_decisions(tree: &Tree) -> Complaints {
    let decisions = tree.files.iter().filter(|f| f.path.starts_with(DECISIONS));
    decisions.flat_map(long_paragraphs).collect()
}

/// Each decision says first what holds today, in few sentences.
pub fn what_holds_today(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|f| f.path.starts_with(DECISIONS)) {
        let mut paragraphs = file.text.split("\n\n").map(str::trim);
        let has_title = paragraphs
            .next()
            .is_some_and(|title| title.starts_with("# "));
        let first = paragraphs.next().unwrap_or_default();
        match first.strip_prefix(BEGINNING).filter(|_| has_title) {
            None => complaints.push(format!(
                "{}: does not begin with its title and {BEGINNING}",
                file.path
            )),
            Some(said) => {
                let sentences = sentences(said);
                if sentences > MOST_SENTENCES {
                    complaints.push(format!(
                        "{}: {sentences} sentences say what holds today, of {MOST_SENTENCES} at most",
                        file.path
                    ));
                }
            }
        }
    }
    complaints
}

/// Sentences end with a full stop, also inside of brackets, and before the next word or the end.
fn sentences(text: &str) -> usize {
    let words = text.split_whitespace();
    words
        .filter(|word| word.trim_end_matches([')', '*', '`']).ends_with('.'))
        .count()
}
