//! Structures by name, and indexes of tables.
#![allow(non_camel_case_types)]

use std::ffi::c_char;

use terrace_ffi::terrace::Kind;
use terrace_ffi::{Failure, Result, database, map};

use crate::database::{answer, terrace_db};
use crate::options;
use crate::raw::{call, handle, out, pointer, terrace_bytes, text};
use crate::status::{terrace_error, terrace_status};
use crate::structs::terrace_map_options;

/// A structure of records by key: a tree, a hash table, a table or an LSM-tree, or one of a snapshot.
pub struct terrace_map {
    _never: [u8; 0],
}

/// An index of a table, for reading.
pub struct terrace_index {
    _never: [u8; 0],
}

/// Kinds of structures.
#[repr(C)]
pub enum terrace_kind {
    /// An ordered map.
    TERRACE_TREE = 1,
    /// A map without order.
    TERRACE_HASH = 2,
    /// Rows by a primary key, with indexes.
    TERRACE_TABLE = 3,
    /// An ordered map for many writes.
    TERRACE_LSM = 4,
}

fn opened(
    error: *mut *mut terrace_error,
    map: *mut *mut terrace_map,
    open: impl FnOnce() -> Result<u64>,
) -> terrace_status {
    call(error, || {
        let map = out(map, "the room for the structure")?;
        map.set(pointer(open()?));
        Ok(())
    })
}

fn of_kind(
    db: *mut terrace_db,
    kind: Kind,
    name: *const c_char,
    options: *const terrace_map_options,
) -> Result<u64> {
    let (options, _) = options::structure(options)?;
    let name = text(name, "the name of the structure")?;
    database::structure(handle(db), kind, name, options)
}

/// The tree of this name, made if there is none. `options` may be NULL. Give it back with terrace_map_close, or
/// leave that to terrace_close.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_tree(
    db: *mut terrace_db,
    name: *const c_char,
    options: *const terrace_map_options,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, map, || of_kind(db, Kind::Tree, name, options))
}

/// The hash table of this name, made if there is none; as terrace_tree.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_hash(
    db: *mut terrace_db,
    name: *const c_char,
    options: *const terrace_map_options,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, map, || of_kind(db, Kind::Hash, name, options))
}

/// The LSM-tree of this name, made if there is none; as terrace_tree.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_lsm(
    db: *mut terrace_db,
    name: *const c_char,
    options: *const terrace_map_options,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, map, || of_kind(db, Kind::Lsm, name, options))
}

/// The table of this name, made if there is none; as terrace_tree. Indexes that the options name are made, and
/// have to be those that a table has that is there.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_table(
    db: *mut terrace_db,
    name: *const c_char,
    options: *const terrace_map_options,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, map, || {
        let (map, indexes) = options::structure(options)?;
        if indexes.is_empty() {
            return of_kind(db, Kind::Table, name, options);
        }
        let name = text(name, "the name of the table")?;
        database::table(handle(db), name, map, &indexes)
    })
}

/// A structure that is there, of whatever kind.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_map_open(
    db: *mut terrace_db,
    name: *const c_char,
    map: *mut *mut terrace_map,
    error: *mut *mut terrace_error,
) -> terrace_status {
    opened(error, map, || {
        database::found(handle(db), text(name, "the name of the structure")?)
    })
}

/// Gives back the handle of a structure; the structure stays. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_map_close(map: *mut terrace_map) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || map::close(handle(map)));
}

/// Its name now.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_map_name(
    map: *mut terrace_map,
    name: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, name, || map::name(handle(map)))
}

/// Its kind.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_map_kind(
    map: *mut terrace_map,
    kind: *mut terrace_kind,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let kind = out(kind, "the room for the kind")?;
        kind.set(match map::kind(handle(map))? {
            Kind::Tree => terrace_kind::TERRACE_TREE,
            Kind::Hash => terrace_kind::TERRACE_HASH,
            Kind::Table => terrace_kind::TERRACE_TABLE,
            Kind::Lsm => terrace_kind::TERRACE_LSM,
            other => {
                return Err(Failure::invalid(format!(
                    "this library has no number for a {other}"
                )));
            }
        });
        Ok(())
    })
}

/// About how many records there are, from a sample: usually within a twentieth, of an LSM-tree within a quarter.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_map_estimate(
    map: *mut terrace_map,
    records: *mut u64,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let records = out(records, "the room for the number of records")?;
        records.set(map::estimated_len(handle(map))?);
        Ok(())
    })
}

/// What structures there are, as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_structures(
    db: *mut terrace_db,
    json: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, json, || database::structures_json(handle(db)))
}

/// Drops a structure. Its space is given back in the background.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_drop(
    db: *mut terrace_db,
    name: *const c_char,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        database::drop_structure(handle(db), text(name, "the name of the structure")?)
    })
}

/// Gives a structure another name. Its handles stay good.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_rename(
    db: *mut terrace_db,
    from: *const c_char,
    to: *const c_char,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let from = text(from, "the name of the structure")?;
        database::rename_structure(handle(db), from, text(to, "the new name")?)
    })
}

/// An index of a table, of a snapshot or not. Give it back with terrace_index_close, or leave that to what closes
/// the table.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_open(
    table: *mut terrace_map,
    name: *const c_char,
    index: *mut *mut terrace_index,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        let index = out(index, "the room for the index")?;
        let name = text(name, "the name of the index")?;
        index.set(pointer(map::index(handle(table), name)?));
        Ok(())
    })
}

/// Gives back the handle of an index; the index stays. Twice, or NULL, is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_index_close(index: *mut terrace_index) {
    // What is none has nothing to give back.
    let _ = call(std::ptr::null_mut(), || map::close_index(handle(index)));
}

/// The indexes of a table, as JSON.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_indexes(
    table: *mut terrace_map,
    json: *mut terrace_bytes,
    error: *mut *mut terrace_error,
) -> terrace_status {
    answer(error, json, || map::indexes_json(handle(table)))
}

/// Makes an index over all rows, as "city=json:/city", "mail=unique:csv:2" or "part=bytes:0..4".
#[unsafe(no_mangle)]
pub extern "C" fn terrace_create_index(
    table: *mut terrace_map,
    index: *const c_char,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        map::create_index(handle(table), text(index, "the index")?)
    })
}

/// Drops an index.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_drop_index(
    table: *mut terrace_map,
    name: *const c_char,
    error: *mut *mut terrace_error,
) -> terrace_status {
    call(error, || {
        map::drop_index(handle(table), text(name, "the name of the index")?)
    })
}
