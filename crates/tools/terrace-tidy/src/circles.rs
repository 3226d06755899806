//! Files that need one another can only be read together, and so can folders. The circles that there are stand in
//! lists, each with its size and its reason; a new one, or one that grows, is a complaint.

use std::collections::BTreeSet;

use crate::calls::calls;
use crate::components::{Needs, components};
use crate::known_circles::{FOLDERS, IMPORTS, Known, METHODS};
use crate::layers::may_need;
use crate::modules::Modules;
use crate::{Complaints, SourceFile, Tree};

/// Circles of files by import paths are those that are listed, and as large as they are listed.
pub fn circles(tree: &Tree) -> Complaints {
    compared(tree, "need one another", IMPORTS, |m| m.imports())
}

/// Circles of files by calls of inherent methods are those that are listed, and as large as they are listed.
pub fn circles_of_methods(tree: &Tree) -> Complaints {
    compared(tree, "call methods of one another", METHODS, |m| {
        let below = may_need(&m.name).iter().map(|name| Modules::of(tree, name));
        calls(m, &below.collect::<Vec<_>>())
    })
}

/// Folders that need one another are those that are listed, and as many as are listed.
pub fn circles_of_folders(tree: &Tree) -> Complaints {
    compared(tree, "are folders that need one another", FOLDERS, folders)
}

/// What the folders and files directly in `src/` need of one another.
fn folders(modules: &Modules<'_>) -> Needs {
    let folder = |path: &str| {
        let first = path.split('/').next().unwrap_or_default();
        first.trim_end_matches(".rs").to_string()
    };
    let mut needs = Needs::new();
    for (file, needed) in modules.imports() {
        let own = folder(&file);
        let needs = needs.entry(own.clone()).or_default();
        for path in needed.into_keys().filter(|path| folder(path) != own) {
            let by = needs.entry(folder(&path)).or_default();
            by.insert(format!("{file} {path}"));
        }
    }
    needs
}

/// The circles of each crate, set against those that are known.
fn compared(
    tree: &Tree,
    what: &str,
    list: &[Known],
    needs: impl Fn(&Modules<'_>) -> Needs,
) -> Complaints {
    let mut complaints = Complaints::new();
    let mut left: Vec<&Known> = list.iter().collect();
    let crates: BTreeSet<_> = tree.sources().filter_map(SourceFile::crate_name).collect();
    for name in crates {
        let needs = needs(&Modules::of(tree, name));
        for circle in components(&needs) {
            let is_it =
                |known: &&Known| known.within == name && circle.iter().any(|m| m == known.member);
            let count = circle.len();
            let members = shown(&circle, &needs);
            match left.iter().position(is_it).map(|found| left.remove(found)) {
                None => complaints.push(format!("{name}: {count} {what}: {members}")),
                Some(known) if known.count == count => {}
                Some(known) => complaints.push(format!(
                    "{name}: {count} {what}, and {} are listed (\"{}\"): {members}",
                    known.count, known.reason
                )),
            }
        }
    }
    for known in left {
        complaints.push(format!(
            "{}: {} is in no circle any more of those that {what}",
            known.within, known.member
        ));
    }
    complaints
}

/// A circle's members, and under them who needs whom, and by which names.
fn shown(circle: &[String], needs: &Needs) -> String {
    let mut text = circle.join(", ");
    for member in circle {
        let needed = needs.get(member).into_iter().flatten();
        for (other, by) in needed.filter(|(other, _)| circle.contains(other)) {
            let by: Vec<_> = by.iter().map(String::as_str).collect();
            text += &format!("\n    {member} -> {other}: {}", by.join(", "));
        }
    }
    text
}
