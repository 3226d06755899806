//! Names of places in the program's code.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;

use addr2line::Loader;
use anyhow::{Result, anyhow};

/// What the debugging information of a program says.
pub struct Sites {
    loader: Loader,
    known: RefCell<HashMap<u64, (String, bool)>>,
}

/// Files that are only the way to what they do for others.
const WAYS: [&str; 1] = ["terrace-base/src/sync.rs"];

impl Sites {
    /// Those of `program`.
    pub fn new(program: &Path) -> Result<Sites> {
        Ok(Sites {
            loader: Loader::new(program).map_err(|error| anyhow!("{error}"))?,
            known: RefCell::default(),
        })
    }

    /// File, line and function of the project that contain the instruction at `at`.
    pub fn place(&self, at: u64) -> String {
        self.looked_up(at).0
    }

    /// Whether the instruction at `at` is of the way to take a mutex.
    pub fn takes_a_lock(&self, at: u64) -> bool {
        self.looked_up(at).1
    }

    fn looked_up(&self, at: u64) -> (String, bool) {
        if let Some(known) = self.known.borrow().get(&at) {
            return known.clone();
        }
        let found = self.look_up(at);
        self.known.borrow_mut().insert(at, found.clone());
        found
    }

    fn look_up(&self, at: u64) -> (String, bool) {
        let (mut place, mut locks, mut last) = (None, false, None);
        if let Ok(mut frames) = self.loader.find_frames(at) {
            while let Ok(Some(frame)) = frames.next() {
                let function = frame
                    .function
                    .as_ref()
                    .and_then(|name| name.demangle().ok());
                let function = function.as_deref().unwrap_or("?");
                let Some(location) = frame.location else {
                    continue;
                };
                let file = location.file.unwrap_or("?");
                // The standard library's, whichever way it takes.
                let takes = function.starts_with("lock") || function.starts_with("try_lock");
                locks |= takes && file.contains("sync/") && file.contains("mutex");
                last = Some(function.to_owned());
                if place.is_some() || WAYS.iter().any(|way| file.ends_with(way)) {
                    continue;
                }
                if let Some((_, file)) = file.split_once("crates/") {
                    place = Some(format!(
                        "{file}:{} {}",
                        location.line.unwrap_or(0),
                        short(function)
                    ));
                }
            }
        }
        (place.or(last).unwrap_or_else(|| format!("{at:#x}")), locks)
    }
}

/// The last part of a path of names.
fn short(function: &str) -> &str {
    let end = function
        .find('<')
        .filter(|at| *at > 0)
        .unwrap_or(function.len());
    function[..end].rsplit("::").next().unwrap_or(function)
}
