//! RocksDB by its C interface: what is declared here is what `rocksdb/c.h` declares.

use std::ffi::{CStr, CString, c_char, c_int, c_uchar, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use terrace_bench::TargetResult;

use crate::store::{Opening, Store};

/// Any object of the library.
type Handle = *mut c_void;
/// Where the library puts the text of an error.
type Error = *mut c_char;

// SAFETY: the signatures are those of `rocksdb/c.h`, which are the same from version 6 on.
unsafe extern "C" {
    fn rocksdb_options_create() -> Handle;
    fn rocksdb_options_set_create_if_missing(options: Handle, on: c_uchar);
    fn rocksdb_options_set_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_db_write_buffer_size(options: Handle, bytes: usize);
    fn rocksdb_options_set_compression(options: Handle, kind: c_int);
    fn rocksdb_options_set_max_background_jobs(options: Handle, jobs: c_int);
    fn rocksdb_options_set_use_direct_reads(options: Handle, on: c_uchar);
    fn rocksdb_options_set_use_direct_io_for_flush_and_compaction(options: Handle, on: c_uchar);
    fn rocksdb_options_set_block_based_table_factory(options: Handle, table: Handle);
    fn rocksdb_options_set_row_cache(options: Handle, cache: Handle);
    fn rocksdb_block_based_options_create() -> Handle;
    fn rocksdb_block_based_options_set_block_cache(table: Handle, cache: Handle);
    fn rocksdb_block_based_options_set_cache_index_and_filter_blocks(table: Handle, on: c_uchar);
    fn rocksdb_block_based_options_set_filter_policy(table: Handle, policy: Handle);
    fn rocksdb_cache_create_lru(bytes: usize) -> Handle;
    fn rocksdb_filterpolicy_create_bloom_full(bits: f64) -> Handle;
    fn rocksdb_readoptions_create() -> Handle;
    fn rocksdb_writeoptions_create() -> Handle;
    fn rocksdb_flushoptions_create() -> Handle;
    fn rocksdb_open(options: Handle, name: *const c_char, error: *mut Error) -> Handle;
    fn rocksdb_close(db: Handle);
    fn rocksdb_put(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_bytes: usize,
        value: *const c_char,
        value_bytes: usize,
        error: *mut Error,
    );
    fn rocksdb_get_pinned(
        db: Handle,
        options: Handle,
        key: *const c_char,
        key_bytes: usize,
        error: *mut Error,
    ) -> Handle;
    fn rocksdb_pinnableslice_value(slice: Handle, bytes: *mut usize) -> *const c_char;
    fn rocksdb_pinnableslice_destroy(slice: Handle);
    fn rocksdb_create_iterator(db: Handle, options: Handle) -> Handle;
    fn rocksdb_iter_destroy(iter: Handle);
    fn rocksdb_iter_seek(iter: Handle, key: *const c_char, key_bytes: usize);
    fn rocksdb_iter_valid(iter: Handle) -> c_uchar;
    fn rocksdb_iter_next(iter: Handle);
    fn rocksdb_iter_key(iter: Handle, bytes: *mut usize) -> *const c_char;
    fn rocksdb_iter_value(iter: Handle, bytes: *mut usize) -> *const c_char;
    fn rocksdb_iter_get_error(iter: Handle, error: *mut Error);
    fn rocksdb_flush(db: Handle, options: Handle, error: *mut Error);
    fn rocksdb_free(text: *mut c_void);
}

struct RocksDb {
    db: Handle,
    read: Handle,
    write: Handle,
    flush: Handle,
}

// SAFETY: the library's database may be used by many threads at once, and options are only read.
unsafe impl Send for RocksDb {}
// SAFETY: as above.
unsafe impl Sync for RocksDb {}

/// What was said of an error, if there was one.
fn told(error: Error) -> TargetResult<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the library has put a text with an end there, which is ours to free.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        rocksdb_free(error.cast());
        text
    };
    Err(text.into())
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    with_rows(opening, 0.0)
}

pub fn open_with_rows(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    with_rows(opening, 0.9)
}

/// With this share of what memtables leave for rows.
fn with_rows(opening: &Opening<'_>, rows: f64) -> TargetResult<Box<dyn Store>> {
    let memtables = usize::try_from(opening.memory / 4)?;
    let cache = usize::try_from(opening.memory)? - memtables;
    let row_bytes = (cache as f64 * rows) as usize;
    let name = CString::new(opening.folder.as_os_str().as_bytes())?;
    let mut error = ptr::null_mut();
    // SAFETY: every handle is one that the library has just made, of the kind that the function takes; options
    // and caches are kept until the process ends, which is when this one program is done with its only database.
    let store = unsafe {
        let options = rocksdb_options_create();
        rocksdb_options_set_create_if_missing(options, 1);
        rocksdb_options_set_write_buffer_size(options, memtables / 2);
        rocksdb_options_set_db_write_buffer_size(options, memtables);
        rocksdb_options_set_compression(options, 0);
        rocksdb_options_set_max_background_jobs(options, 2);
        rocksdb_options_set_use_direct_reads(options, 1);
        rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, 1);
        let table = rocksdb_block_based_options_create();
        rocksdb_block_based_options_set_block_cache(
            table,
            rocksdb_cache_create_lru(cache - row_bytes),
        );
        rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
        rocksdb_block_based_options_set_filter_policy(
            table,
            rocksdb_filterpolicy_create_bloom_full(10.0),
        );
        rocksdb_options_set_block_based_table_factory(options, table);
        if row_bytes > 0 {
            rocksdb_options_set_row_cache(options, rocksdb_cache_create_lru(row_bytes));
        }
        RocksDb {
            db: rocksdb_open(options, name.as_ptr(), &mut error),
            read: rocksdb_readoptions_create(),
            write: rocksdb_writeoptions_create(),
            flush: rocksdb_flushoptions_create(),
        }
    };
    told(error)?;
    Ok(Box::new(store))
}

impl Drop for RocksDb {
    fn drop(&mut self) {
        if !self.db.is_null() {
            // SAFETY: it is open, and no code uses it any more.
            unsafe { rocksdb_close(self.db) };
        }
    }
}

/// Bytes that the library has shown.
///
/// # Safety
/// They are valid as long as the reference is used.
unsafe fn bytes<'a>(from: *const c_char, bytes: usize) -> &'a [u8] {
    match bytes {
        0 => &[],
        // SAFETY: the library says that this many bytes are there.
        _ => unsafe { std::slice::from_raw_parts(from.cast(), bytes) },
    }
}

impl Store for RocksDb {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open; the library reads `key.len()` bytes of the key during the call.
        let slice = unsafe {
            rocksdb_get_pinned(
                self.db,
                self.read,
                key.as_ptr().cast(),
                key.len(),
                &mut error,
            )
        };
        told(error)?;
        if slice.is_null() {
            return Ok(false);
        }
        let mut length = 0;
        // SAFETY: the slice is there until it is destroyed, which is after its bytes were copied.
        unsafe {
            let value = rocksdb_pinnableslice_value(slice, &mut length);
            out.extend_from_slice(bytes(value, length));
            rocksdb_pinnableslice_destroy(slice);
        }
        Ok(true)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open; the library reads the bytes of key and value during the call.
        unsafe {
            rocksdb_put(
                self.db,
                self.write,
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &mut error,
            );
        }
        told(error)
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> TargetResult<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the iterator is made, used and destroyed here; key and value are shown until it moves on.
        unsafe {
            let iter = rocksdb_create_iterator(self.db, self.read);
            rocksdb_iter_seek(iter, from.as_ptr().cast(), from.len());
            let mut left = limit;
            while left > 0 && rocksdb_iter_valid(iter) != 0 {
                let (mut key_bytes, mut value_bytes) = (0, 0);
                let key = rocksdb_iter_key(iter, &mut key_bytes);
                let value = rocksdb_iter_value(iter, &mut value_bytes);
                visit(bytes(key, key_bytes), bytes(value, value_bytes));
                rocksdb_iter_next(iter);
                left -= 1;
            }
            rocksdb_iter_get_error(iter, &mut error);
            rocksdb_iter_destroy(iter);
        }
        told(error)
    }

    fn settle(&self) -> TargetResult<()> {
        let mut error = ptr::null_mut();
        // SAFETY: the database is open.
        unsafe { rocksdb_flush(self.db, self.flush, &mut error) };
        told(error)
    }
}
