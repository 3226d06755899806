//! Files that need one another can only be read together. The circles of files that there are stand in
//! a list, each with its size and its reason; a new one, or one that grows, is a complaint.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::known_circles::KNOWN;
use crate::{Complaints, SourceFile, Tree};

/// Circles of files are those that are listed, and no larger than they are listed.
pub fn circles(tree: &Tree) -> Complaints {
    let mut complaints = Complaints::new();
    let mut found = BTreeSet::new();
    let crates: BTreeSet<_> = tree.sources().filter_map(SourceFile::crate_name).collect();
    for name in crates {
        for circle in Modules::of(tree, name).circles() {
            let known = KNOWN.iter().find(|known| {
                let path = format!("{}.rs", known.file);
                circle.contains(&path)
            });
            let files = circle.join(", ");
            match known {
                None => complaints.push(format!("need one another: {files}")),
                Some(known) => {
                    found.insert(known.file);
                    if circle.len() != known.files {
                        complaints.push(format!(
                            "{} files need one another, and {} are listed (\"{}\"): {files}",
                            circle.len(),
                            known.files,
                            known.reason
                        ));
                    }
                }
            }
        }
    }
    for known in KNOWN.iter().filter(|known| !found.contains(known.file)) {
        complaints.push(format!("{}: is in no circle any more", known.file));
    }
    complaints
}

/// A module's place in its crate; the root's is empty.
type Place = Vec<String>;

/// The modules of a crate, each a file, and the names that each file uses.
struct Modules {
    files: BTreeMap<Place, String>,
    uses: BTreeMap<Place, Uses>,
}

impl Modules {
    fn of(tree: &Tree, name: &str) -> Modules {
        let (mut files, mut uses) = (BTreeMap::new(), BTreeMap::new());
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
            let Ok(parsed) = syn::parse_file(&file.text) else {
                continue;
            };
            let mut found = Uses::default();
            found.visit_file(&parsed);
            files.insert(place.clone(), file.path.clone());
            uses.insert(place, found);
        }
        Modules { files, uses }
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
        // Re-exports of re-exports end somewhere; five are more than anybody can follow.
        if let Some(name) = rest.first().filter(|_| depth < 5)
            && let Some(origin) = self.uses.get(&place).and_then(|uses| uses.names.get(name))
            && let Some(meant) = self.meant(&place, origin, depth + 1)
        {
            return Some(meant);
        }
        Some(place)
    }

    /// What each file needs. The root of a crate is left out: it names all, and is named for its re-exports.
    fn edges(&self) -> BTreeMap<&Place, BTreeSet<Place>> {
        let mut edges = BTreeMap::new();
        for (place, uses) in self.uses.iter().filter(|(place, _)| !place.is_empty()) {
            let meant = uses
                .paths
                .iter()
                .filter_map(|path| self.meant(place, path, 0));
            let needed: BTreeSet<_> = meant
                .filter(|meant| meant != place && !meant.is_empty())
                .collect();
            edges.insert(place, needed);
        }
        edges
    }

    /// The paths of files that need one another, the largest circle first.
    fn circles(&self) -> Vec<Vec<String>> {
        let edges = self.edges();
        let reached: BTreeMap<_, _> = edges
            .keys()
            .map(|place| {
                let (mut seen, mut next) = (BTreeSet::new(), vec![*place]);
                while let Some(place) = next.pop() {
                    for needed in edges.get(place).into_iter().flatten() {
                        if seen.insert(needed) {
                            next.push(needed);
                        }
                    }
                }
                (*place, seen)
            })
            .collect();
        let mut circles = BTreeSet::new();
        for (place, seen) in reached
            .iter()
            .filter(|(place, seen)| seen.contains(**place))
        {
            let both = |other: &&&Place| reached.get(**other).is_some_and(|s| s.contains(place));
            let circle: Vec<_> = seen.iter().filter(both).collect();
            circles.insert(
                circle
                    .iter()
                    .map(|place| self.files[**place].clone())
                    .collect::<Vec<_>>(),
            );
        }
        let mut circles: Vec<_> = circles.into_iter().collect();
        circles.sort_by_key(|circle| std::cmp::Reverse(circle.len()));
        circles
    }
}

/// The paths that a file uses, and where its names come from.
#[derive(Default)]
struct Uses {
    paths: BTreeSet<Vec<String>>,
    names: BTreeMap<String, Vec<String>>,
}

impl Uses {
    fn take(&mut self, before: &[String], tree: &syn::UseTree) {
        let mut path = before.to_vec();
        match tree {
            syn::UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.take(&path, &part.tree);
            }
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.take(&path, tree);
                }
            }
            syn::UseTree::Name(name) => {
                let name = name.ident.to_string();
                if name != "self" {
                    path.push(name);
                }
                let name = path.last().cloned().unwrap_or_default();
                self.names.insert(name, path.clone());
                self.paths.insert(path);
            }
            syn::UseTree::Rename(renamed) => {
                if renamed.ident != "self" {
                    path.push(renamed.ident.to_string());
                }
                self.names.insert(renamed.rename.to_string(), path.clone());
                self.paths.insert(path);
            }
            syn::UseTree::Glob(_) => {
                self.paths.insert(path);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.take(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let parts = path.segments.iter().map(|part| part.ident.to_string());
            self.paths.insert(parts.collect());
        }
        syn::visit::visit_path(self, path);
    }

    // Tests may use anything.
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if item.ident != "tests" {
            syn::visit::visit_item_mod(self, item);
        }
    }
}
