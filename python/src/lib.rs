//! The part of the Python package that is written in Rust: handles of a database and its structures.
//!
//! What holds everywhere:
//! - whoever may wait lets go of the interpreter first, and holds no lock of this crate when it asks for
//!   it again;
//! - the engine calls no function of Python but those that hear how far it is or that a page is there, in a thread
//!   beside: what `update` and `transaction` are given runs between two calls, so greenlets may change places in it;
//! - no panic crosses the border: it becomes an error, and the database refuses everything from then on;
//! - a handle that is used after the database was closed, or in a child after a fork, answers with an error.

#![forbid(unsafe_code)]

mod backup;
mod batch;
mod changes;
mod data;
mod database;
mod errors;
mod follow;
mod iterate;
mod long;
mod map;
mod merge;
mod ordered;
mod removal;
mod shared;
mod snapshot;
mod table;
mod times;
mod transaction;
mod wake;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
fn _terrace(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_KEY_BYTES", terrace::MAX_KEY_BYTES)?;
    module.add("MAX_VALUE_BYTES", terrace::MAX_VALUE_BYTES)?;
    module.add_class::<database::Database>()?;
    module.add_class::<map::Map>()?;
    module.add_class::<ordered::Ordered>()?;
    module.add_class::<ordered::Tree>()?;
    module.add_class::<ordered::Lsm>()?;
    module.add_class::<ordered::Hash>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::Index>()?;
    module.add_class::<batch::Batch>()?;
    module.add_class::<merge::Merge>()?;
    module.add_class::<transaction::Reader>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<transaction::Savepoint>()?;
    module.add_class::<snapshot::Snapshot>()?;
    module.add_class::<snapshot::SnapshotMap>()?;
    module.add_class::<changes::Changes>()?;
    module.add_class::<changes::Commit>()?;
    module.add_class::<changes::Change>()?;
    module.add_class::<iterate::Entries>()?;
    module.add_class::<iterate::View>()?;
    module.add_class::<long::Cancel>()?;
    module.add_class::<follow::Follower>()?;
    module.add_function(wrap_pyfunction!(shared::forked, module)?)?;
    module.add_function(wrap_pyfunction!(backup::restore, module)?)?;
    module.add_function(wrap_pyfunction!(backup::list_backup, module)?)?;
    module.add_function(wrap_pyfunction!(backup::verify_backup, module)?)
}
