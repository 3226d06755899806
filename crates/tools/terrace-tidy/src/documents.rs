//! The documents: what they point to exists, and nothing speaks of where it was made.

use crate::{Complaints, Tree};

/// What has no place in the product: paths of one machine, and how it came about. Written so that
/// this file does not contain it.
const FORBIDDEN: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("this ses", "sion"),
    concat!("last ses", "sion"),
    concat!("earlier ses", "sion"),
    concat!("sub", "agent"),
    concat!("issue", " #"),
];

/// The example whose text is the tour.
const TOUR: &str = "crates/engine/terrace/examples/tour.rs";

/// No file has a forbidden word.
pub fn forbidden_words(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in &tree.files {
        for (number, line) in file.lines() {
            let lower = line.to_lowercase();
            for word in FORBIDDEN.iter().filter(|word| lower.contains(**word)) {
                complaints.push(format!(
                    "{}:{number}: \"{word}\" does not belong here",
                    file.path
                ));
            }
        }
    }
    complaints
}

/// Every relative link of a document leads to something that is there.
pub fn links(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in file.lines() {
            for link in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                let target = link.split('#').next().unwrap_or_default();
                if target.is_empty() || target.contains("://") {
                    continue;
                }
                let path = resolve(folder, target);
                let below = format!("{path}/");
                if !tree
                    .paths
                    .iter()
                    .any(|known| *known == path || known.starts_with(&below))
                {
                    complaints.push(format!("{}:{number}: {target} is not there", file.path));
                }
            }
        }
    }
    complaints
}

fn resolve(folder: &str, target: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// What the README shows as a program is the example, which is compiled.
pub fn tour_of_the_readme(tree: &Tree) -> Complaints {
    let (Some(readme), Some(tour)) = (tree.file("README.md"), tree.file(TOUR)) else {
        return vec![format!("README.md or {TOUR} is missing")];
    };
    let block = readme
        .text
        .split("```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    match block {
        Some(block) if tour.text.contains(block) => Complaints::new(),
        _ => vec![format!("README.md: its program is not a part of {TOUR}")],
    }
}

/// Every test that the promises name exists: `file.rs::function`, or a whole `tests/file.rs`.
pub fn tests_of_the_promises(tree: &Tree) -> Complaints {
    let path = "docs/promises.md";
    let Some(document) = tree.file(path) else {
        return vec![format!("{path} is missing")];
    };
    let mut complaints = Complaints::new();
    for (number, line) in document.lines() {
        for name in line.split('`').skip(1).step_by(2) {
            let (file, function) = match name.split_once("::") {
                Some((file, function)) if file.ends_with(".rs") => (file, Some(function)),
                None if name.ends_with(".rs") => (name, None),
                _ => continue,
            };
            let text = tree
                .files
                .iter()
                .find(|known| known.in_crate() == file.split_once('/'))
                .map(|file| &file.text);
            let there = match function {
                Some(function) => text.is_some_and(|t| t.contains(&format!("fn {function}("))),
                None => text.is_some(),
            };
            if !there {
                complaints.push(format!("{path}:{number}: there is no {name}"));
            }
        }
    }
    complaints
}
