//! What there is to know of one source file by itself.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;

use crate::methods::Methods;

/// The paths, types, methods and calls of a file.
#[derive(Clone, Debug)]
pub struct Module {
    pub uses: Uses,
    pub methods: Methods,
}

impl Module {
    /// Reads a file; none if it is no Rust.
    pub fn read(text: &str) -> Option<Module> {
        let parsed = syn::parse_file(text).ok()?;
        let mut uses = Uses::default();
        uses.visit_file(&parsed);
        Some(Module {
            uses,
            methods: Methods::of(&parsed),
        })
    }
}

/// The paths that a file uses, and where its names come from.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    pub paths: BTreeSet<Vec<String>>,
    pub names: BTreeMap<String, Vec<String>>,
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
