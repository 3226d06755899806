//! Where facts about the machine come from: the system's own files, or a tree of strings.

use std::collections::BTreeMap;

/// Files of text below one root.
pub trait Files {
    /// The text of a file; `None` if it is not there or may not be read.
    fn read(&self, path: &str) -> Option<String>;
    /// Names in a folder, none if it is not there.
    fn names(&self, folder: &str) -> Vec<String>;
}

/// The files of the running system.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl Files for System {
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(path).ok()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(folder) else {
            return vec![];
        };
        let names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

/// Files by their paths, for tests and for machines that are elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Fixture {
    files: BTreeMap<String, String>,
}

impl Fixture {
    /// Files written one after the other: a line `== path` begins each.
    pub fn parse(text: &str) -> Fixture {
        let mut files: BTreeMap<String, String> = BTreeMap::new();
        let mut path = None;
        for line in text.lines() {
            if let Some(next) = line.strip_prefix("== ") {
                path = Some(next.trim().to_string());
                files.insert(next.trim().to_string(), String::new());
            } else if let Some(file) = path.as_ref().and_then(|path| files.get_mut(path)) {
                file.push_str(line);
                file.push('\n');
            }
        }
        Fixture { files }
    }
}

impl Files for Fixture {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = format!("{}/", folder.trim_end_matches('/'));
        let below = self.files.keys().filter_map(|p| p.strip_prefix(&prefix));
        let mut names: Vec<String> = below
            .filter_map(|rest| Some(rest.split('/').next()?.to_string()))
            .collect();
        names.dedup();
        names
    }
}
