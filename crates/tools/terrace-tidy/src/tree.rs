//! The files that are checked, in memory.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::module::Module;

/// Folders that hold nothing of ours.
const SKIPPED: &[&str] = &["target", ".git", "corpus", "artifacts", "shared"];
/// Names of files that are read.
const EXTENSIONS: &[&str] = &["rs", "toml", "md", "sh"];

/// A file by its path from the root of the workspace.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// With forward slashes.
    pub path: String,
    /// What is in it.
    pub text: String,
}

impl SourceFile {
    /// The crate that the file belongs to, if it lies in one.
    pub fn crate_name(&self) -> Option<&str> {
        Some(self.in_crate()?.0)
    }

    /// The crate that the file belongs to, and its path in there: crates lie in `crates/PART/` and in `lab/`.
    pub fn in_crate(&self) -> Option<(&str, &str)> {
        let below = match self.path.strip_prefix("crates/") {
            Some(rest) => rest.split_once('/')?.1,
            None => self.path.strip_prefix("lab/")?,
        };
        below.split_once('/')
    }

    /// Whether it is Rust.
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Lines with their numbers, from 1.
    pub fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(i, line)| (i + 1, line))
    }
}

/// All files, in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<SourceFile>,
    /// Every path of a file, also of those that are not read.
    pub paths: Vec<String>,
    /// What is in the sources, by path: read once, when it is asked for.
    modules: OnceCell<BTreeMap<String, Module>>,
}

impl Tree {
    /// The workspace that this crate lies in.
    pub fn load() -> io::Result<Tree> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        let mut tree = Tree::default();
        let mut folders: Vec<PathBuf> = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                if path.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) && !name.starts_with("target-") {
                        folders.push(path);
                    }
                    continue;
                }
                let relative = path.strip_prefix(&root).unwrap_or(&path);
                let relative = relative.to_string_lossy().replace('\\', "/");
                tree.paths.push(relative.clone());
                let extension = path
                    .extension()
                    .and_then(|e| e.to_str())
                    .unwrap_or_default();
                if EXTENSIONS.contains(&extension) || relative.starts_with(".ci/") {
                    tree.files.push(SourceFile {
                        path: relative,
                        text: std::fs::read_to_string(&path)?,
                    });
                }
            }
        }
        tree.paths.sort();
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// The file of this path.
    pub fn file(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Adds a file, or replaces it: for planting violations.
    pub fn put(&mut self, path: &str, text: &str) {
        self.files.retain(|file| file.path != path);
        if let Some(modules) = self.modules.get_mut() {
            modules.extend(Module::read(text).map(|module| (path.into(), module)));
        }
        self.files.push(SourceFile {
            path: path.into(),
            text: text.into(),
        });
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.into());
        }
    }

    /// Rust files of all crates, below `src`.
    pub fn sources(&self) -> impl Iterator<Item = &SourceFile> {
        self.files
            .iter()
            .filter(|file| file.is_rust())
            .filter(|file| {
                file.in_crate()
                    .is_some_and(|(_, path)| path.starts_with("src/"))
            })
    }

    /// What is in the source of this path.
    pub(crate) fn module(&self, path: &str) -> Option<&Module> {
        let read = || {
            let sources = self.sources();
            let modules = sources.filter_map(|f| Some((f.path.clone(), Module::read(&f.text)?)));
            modules.collect()
        };
        self.modules.get_or_init(read).get(path)
    }
}
