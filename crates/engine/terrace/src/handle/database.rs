//! A database as its user holds it. Its calls are in `api/`.

use std::sync::Arc;

use crate::core::Core;
use crate::handle::shared::Handle;

/// An open database. Clones are the same database; it is closed when the last one, and the last
/// handle of a structure, is dropped, or by [`Database::close`]. Dropped by a panic it makes no last
/// checkpoint; what was acknowledged is in the log.
///
/// Calls block. They may be made from any number of threads, but not in a process that was forked
/// meanwhile: there they are errors (but for [`Database::stats`], which is not to be called there), and
/// handles that are dropped touch nothing.
///
/// ```
/// use terrace::{Database, Durability, Options};
///
/// # fn main() -> terrace::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// let db = Database::open(path, Options::new().memory(16 << 20))?;
/// let users = db.tree("users")?;
/// users.put(b"alice", b"1")?;
/// assert_eq!(users.get(b"alice")?.as_deref(), Some(&b"1"[..]));
/// for entry in users.range(b"a".as_slice()..b"b")? {
///     let (key, value) = entry?;
///     println!("{key:?} {value:?}");
/// }
/// let mut batch = db.batch();
/// batch.put(&users, b"bob", b"2").delete(&users, b"alice");
/// db.write(batch, Durability::Sync)?;
/// println!("{}", db.stats());
/// db.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) handle: Arc<Handle>,
}

impl Database {
    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.handle.core()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("structures", &self.core().structures())
            .finish_non_exhaustive()
    }
}
