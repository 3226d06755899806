//! Loading many records: they are sorted first, and each page is written once.

use terrace::{Durability, Loader, Progress};
use terrace_base::sync::Mutex;

use crate::enter::{entered, map, taken};
use crate::failure::{Failure, Result};
use crate::handles;
use crate::object::Object;

/// Begins to load records into a structure.
///
/// # Errors
/// Those of [`terrace::Map::loader`].
pub fn begin(handle: u64) -> Result<u64> {
    let loader = map(handle, terrace::Map::loader)?;
    entered(handle, "structure", |entry| {
        let loader = Object::Loader(Box::new(Mutex::new(Some(loader))));
        Some(handles::add(&entry.shared, loader))
    })
}

fn with<R>(loader: u64, call: impl FnOnce(&mut Loader) -> Result<R>) -> Result<R> {
    const OVER: &str = "the loader has finished; begin another one";
    entered(loader, "loader", |entry| match &entry.object {
        Object::Loader(loader) => Some(taken(loader, OVER, call)),
        _ => None,
    })
}

/// Adds a record.
///
/// # Errors
/// Those of [`Loader::put`].
pub fn put(loader: u64, key: &[u8], value: &[u8]) -> Result<()> {
    with(loader, |loader| Ok(loader.put(key, value)?))
}

/// Writes what was added; how many records that were. The handle is closed then.
///
/// # Errors
/// Those of [`Loader::finish`].
pub fn finish(loader: u64, durability: Durability, tell: impl FnMut(Progress)) -> Result<u64> {
    let Some(entry) = handles::remove(loader, "loader", is_loader)? else {
        return Err(Failure::closed("loader"));
    };
    let home = entry.shared.home.clone();
    home.check()?;
    home.guarded(|| match entry.object {
        Object::Loader(loader) => match loader.into_inner() {
            Some(loader) => Ok(loader.finish_with(durability, tell)?),
            None => Err(Failure::closed("loader")),
        },
        _ => Err(Failure::closed("loader")),
    })
}

fn is_loader(object: &Object) -> bool {
    matches!(object, Object::Loader(_))
}

/// Gives it up; what was added is forgotten. Twice is nothing.
///
/// # Errors
/// When it is the handle of something else.
pub fn close(loader: u64) -> Result<()> {
    handles::remove(loader, "loader", is_loader).map(drop)
}
