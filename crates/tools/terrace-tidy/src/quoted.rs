//! Paths in back quotes, in documents: what they name is there.

use std::collections::BTreeSet;

use crate::{Complaints, Tree};

/// How paths of files end that are looked for.
const ENDINGS: &[&str] = &[".rs", ".md", ".toml", ".sh"];
/// Folders of programs without an ending.
const PROGRAMS: &[&str] = &["scripts", ".ci"];

/// Every path that a document quotes is one of the repository's: from its root, from a part of `crates/` or `lab/`,
/// or from the document's own folder. `{a,b}` stands for both, `*` for anything. A source by its name alone is somewhere.
pub fn quoted_paths(tree: &Tree) -> Complaints {
    let places = Places::of(tree);
    let mut complaints = Complaints::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut inside = false;
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("```") {
                inside = !inside;
            }
            if inside {
                continue;
            }
            for quoted in line.split('`').skip(1).step_by(2) {
                let path = quoted.split("::").next().unwrap_or_default();
                let missing = expanded(path)
                    .into_iter()
                    .filter(|path| places.are_meant(path) && !places.have(path, folder));
                complaints.extend(
                    missing.map(|path| format!("{}:{number}: there is no {path}", file.path)),
                );
            }
        }
    }
    complaints
}

/// Where files of the repository are.
struct Places<'t> {
    paths: BTreeSet<&'t str>,
    /// The first parts of all paths, in full and short.
    roots: BTreeSet<&'t str>,
    /// The names of all files.
    names: BTreeSet<&'t str>,
}

impl<'t> Places<'t> {
    fn of(tree: &'t Tree) -> Places<'t> {
        let mut paths: BTreeSet<&str> = tree.paths.iter().map(String::as_str).collect();
        // Short forms begin with the crate.
        let crates = tree.paths.iter().filter_map(|path| {
            let below = path.strip_prefix("crates/")?;
            Some(below.split_once('/')?.1)
        });
        let lab = tree
            .paths
            .iter()
            .filter_map(|path| path.strip_prefix("lab/"));
        paths.extend(crates.chain(lab).collect::<Vec<_>>());
        let roots = paths
            .iter()
            .filter_map(|path| Some(path.split_once('/')?.0));
        let roots = roots.collect();
        let names = paths.iter().filter_map(|path| path.rsplit('/').next());
        let names = names.collect();
        Places {
            paths,
            roots,
            names,
        }
    }

    /// Whether something is a path of the repository's, by its form: a file that ends as sources and documents do or is a
    /// program, a folder below one that there is, or the name of a source.
    fn are_meant(&self, path: &str) -> bool {
        let is_path = path
            .chars()
            .all(|c| c.is_alphanumeric() || "/._-*".contains(c));
        match path.split_once('/') {
            None => is_path && path.ends_with(".rs") && path.len() > ".rs".len(),
            Some((root, _)) => {
                let is_file =
                    PROGRAMS.contains(&root) || ENDINGS.iter().any(|ending| path.ends_with(ending));
                let is_folder = path.ends_with('/') && self.roots.contains(root);
                is_path && !root.is_empty() && (is_file || is_folder)
            }
        }
    }

    fn have(&self, path: &str, folder: &str) -> bool {
        if !path.contains('/') {
            return self.names.iter().any(|name| matches(path, name));
        }
        let here = format!("{folder}/{path}");
        self.paths.iter().any(|known| {
            [path, &here].iter().any(|path| {
                let path = path.trim_start_matches("./");
                match path.strip_suffix('/') {
                    Some(_) => known.starts_with(path),
                    None => matches(path, known),
                }
            })
        })
    }
}

/// Whether a pattern with at most one `*` is the path's.
fn matches(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        Some((before, after)) => path.starts_with(before) && path.ends_with(after),
        None => pattern == path,
    }
}

/// Every path that `{a,b}` in one stands for.
fn expanded(path: &str) -> Vec<String> {
    let parts = path
        .split_once('{')
        .and_then(|(before, rest)| Some((before, rest.split_once('}')?)));
    let Some((before, (choices, after))) = parts else {
        return vec![path.into()];
    };
    let choices = choices.split(',');
    choices
        .flat_map(|choice| expanded(&format!("{before}{choice}{after}")))
        .collect()
}
