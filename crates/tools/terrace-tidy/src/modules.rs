//! The modules of a crate, and what they need of one another through import paths.

use std::collections::BTreeMap;

use crate::Tree;
use crate::components::Needs;
use crate::module::Module;

/// A module's place in its crate; the root's is empty.
type Place = Vec<String>;

/// The modules of a crate, each a file below `src/`, but those of tests.
pub struct Modules<'t> {
    pub name: String,
    files: BTreeMap<Place, (&'t str, &'t Module)>,
}

impl<'t> Modules<'t> {
    pub fn of(tree: &'t Tree, name: &str) -> Modules<'t> {
        let mut files = BTreeMap::new();
        for file in tree.sources() {
            let Some((_, inner)) = file.in_crate().filter(|(found, _)| *found == name) else {
                continue;
            };
            let inner = inner.trim_start_matches("src/");
            let mut place: Place = inner
                .trim_end_matches(".rs")
                .split('/')
                .map(Into::into)
                .collect();
            if ["mod", "lib", "main"].contains(&place[place.len() - 1].as_str()) {
                place.pop();
            }
            // Tests may use anything.
            let tests = place.iter().any(|part| part == "tests");
            if let Some(module) = tree.module(&file.path).filter(|_| !tests) {
                files.insert(place, (inner, module));
            }
        }
        Modules {
            name: name.into(),
            files,
        }
    }

    /// Each file by its path below `src/`.
    pub fn files(&self) -> impl Iterator<Item = (&'t str, &'t Module)> {
        self.files.values().copied()
    }

    /// The module that a path means, as far as it can be told without the compiler: the longest part of it
    /// that is a module, or where that one has the next name from.
    fn meant(&self, from: &Place, path: &[String], depth: usize) -> Option<Place> {
        let (mut place, mut rest) = match path.first()?.as_str() {
            "crate" => (Place::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => (from[..from.len().checked_sub(1)?].to_vec(), &path[1..]),
            child => {
                let mut place = from.clone();
                place.push(child.into());
                self.files.contains_key(&place).then_some(())?;
                (place, &path[1..])
            }
        };
        while let Some(next) = rest.first() {
            if next == "super" {
                place.pop()?;
            } else {
                place.push(next.clone());
                if !self.files.contains_key(&place) {
                    place.pop();
                    break;
                }
            }
            rest = &rest[1..];
        }
        // Re-exports of re-exports end somewhere; five are more than a person can follow.
        if let Some(name) = rest.first().filter(|_| depth < 5)
            && let Some((_, module)) = self.files.get(&place)
            && let Some(origin) = module.uses.names.get(name)
            && let Some(meant) = self.meant(&place, origin, depth + 1)
        {
            return Some(meant);
        }
        Some(place)
    }

    /// What each file needs through its paths. The root of a crate is left out: it names all, and is named for its
    /// re-exports.
    pub fn imports(&self) -> Needs {
        let mut needs = Needs::new();
        for (place, (path, module)) in self.files.iter().filter(|(place, _)| !place.is_empty()) {
            let needed = needs.entry(path.to_string()).or_default();
            let tests = |path: &&Vec<String>| path.iter().any(|part| part == "tests");
            for used in module.uses.paths.iter().filter(|path| !tests(path)) {
                let meant = self.meant(place, used, 0);
                let meant = meant.filter(|meant| meant != place && !meant.is_empty());
                if let Some((file, _)) = meant.and_then(|meant| self.files.get(&meant)) {
                    let by = needed.entry(file.to_string()).or_default();
                    by.insert(used.join("::"));
                }
            }
        }
        needs
    }
}
