//! F2 of microsoft/FASTER, through the C functions of `f2.cpp`, which build.rs compiles against a checkout of it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;

use terrace_bench::TargetResult;
use terrace_bench::device::REQUEST_BYTES;

use crate::store::{Opening, Paced, Store};

/// Bytes of a value, which the C++ side has fixed.
const VALUE_BYTES: usize = 120;
/// Bytes of a record in a log: a header, the key, the value.
const RECORD_BYTES: u64 = 136;
/// Bytes of a bucket of an index.
const BUCKET_BYTES: u64 = 64;
/// Fewest pages of a log in memory: four that are being written to the disk, two that change.
const LEAST_PAGES: u64 = 6;
/// The same for the cold index, of which six tenths may change, as in its own benchmark.
const LEAST_INDEX_PAGES: u64 = 8;
/// Pages that a compaction reads into.
const COMPACTION_PAGES: u64 = 3;
/// Room for the text of an error.
const ERROR_BYTES: usize = 256;

/// How memory and disk are divided; as in `f2.cpp`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Sizes {
    hot_log: u64,
    read_cache: u64,
    cold_log: u64,
    cold_index_log: u64,
    hot_buckets: u64,
    cold_buckets: u64,
    hot_disk: u64,
    cold_disk: u64,
}

/// A device of a certain speed; as in `f2.cpp`.
#[repr(C)]
struct Device {
    rate: u64,
    latency_ns: u64,
    request_bytes: u64,
    least_bytes: u64,
}

impl Sizes {
    /// Divides `memory` for this many bytes of keys and values, in pages of `page` bytes; nothing if it is too
    /// little.
    fn divide(memory: u64, data: u64, page: u64) -> Option<Sizes> {
        let records = data / 128;
        // A bucket for each 256 records, as its own benchmark has it.
        let cold_buckets = (records / 256).next_power_of_two();
        // The hot log may take a quarter of the data on the disk, and is compacted from a fifth on.
        let hot_disk = (records * RECORD_BYTES / 4).next_multiple_of(page);
        let cold_disk = (records * RECORD_BYTES * 3 / 2).next_multiple_of(page);
        let hot_buckets = (records / 16).next_power_of_two();
        // Buckets that are full have others behind them, a quarter more.
        let indexes = (hot_buckets * 5 / 4 + cold_buckets) * BUCKET_BYTES;
        let cold_log = LEAST_PAGES * page;
        let cold_index_log = (memory / 8 / page).max(LEAST_INDEX_PAGES) * page;
        let fixed = indexes + cold_log + cold_index_log + COMPACTION_PAGES * page;
        let pages = memory.checked_sub(fixed)? / page;
        let hot_pages = pages * 2 / 5;
        let sizes = Sizes {
            hot_log: hot_pages * page,
            read_cache: (pages - hot_pages) * page,
            cold_log,
            cold_index_log,
            hot_buckets,
            cold_buckets,
            hot_disk,
            cold_disk,
        };
        (hot_pages >= LEAST_PAGES).then_some(sizes)
    }
}

/// Changes a value: what it is called with, the old bytes, where the new ones go.
// SAFETY: `call` below is the only one, and says what it is called with.
type Change = unsafe extern "C" fn(*mut c_void, *const u8, *mut u8);

// SAFETY: the signatures are those of `f2.cpp`, which is compiled with this file.
unsafe extern "C" {
    fn f2_page_bytes() -> u64;
    fn f2_open(
        folder: *const c_char,
        sizes: *const Sizes,
        error: *mut c_char,
        room: usize,
    ) -> *mut c_void;
    fn f2_get(of: *mut c_void, key: u64, out: *mut u8, error: *mut c_char, room: usize) -> c_int;
    fn f2_get_many(
        of: *mut c_void,
        keys: *const u64,
        count: usize,
        out: *mut u8,
        found: *mut u8,
        error: *mut c_char,
        room: usize,
    ) -> c_int;
    fn f2_reads(requests: *mut u64, bytes: *mut u64);
    fn f2_pace(device: *const Device);
    fn f2_put(
        of: *mut c_void,
        key: u64,
        value: *const u8,
        error: *mut c_char,
        room: usize,
    ) -> c_int;
    fn f2_change(
        of: *mut c_void,
        key: u64,
        change: Change,
        with: *mut c_void,
        error: *mut c_char,
        room: usize,
    ) -> c_int;
    fn f2_settle(of: *mut c_void);
    fn f2_close(of: *mut c_void);
}

struct F2 {
    store: *mut c_void,
    paced: Option<Paced>,
}

// SAFETY: the library's store may be used by many threads at once, each with a session of its own.
unsafe impl Send for F2 {}
// SAFETY: as above.
unsafe impl Sync for F2 {}

/// Calls a function with room for an error, and reads the text if there is one.
fn told(call: impl FnOnce(*mut c_char, usize) -> c_int) -> TargetResult<bool> {
    let mut error = [0_u8; ERROR_BYTES];
    match call(error.as_mut_ptr().cast(), ERROR_BYTES) {
        1 => Ok(true),
        0 => Ok(false),
        _ => Err(text(&error).into()),
    }
}

fn text(error: &[u8]) -> String {
    CStr::from_bytes_until_nul(error).map_or_else(
        |_| "no text".into(),
        |text| text.to_string_lossy().into_owned(),
    )
}

pub fn open(opening: &Opening<'_>) -> TargetResult<Box<dyn Store>> {
    // SAFETY: it takes and changes nothing.
    let page = unsafe { f2_page_bytes() };
    let sizes = Sizes::divide(opening.memory, opening.data, page)
        .ok_or("the memory is less than six pages of each log and the indexes")?;
    let folder = CString::new(opening.folder.as_os_str().as_bytes())?;
    let mut error = [0_u8; ERROR_BYTES];
    // SAFETY: folder and sizes are read during the call; the text of an error fits its room.
    let store = unsafe {
        f2_open(
            folder.as_ptr(),
            &sizes,
            error.as_mut_ptr().cast(),
            ERROR_BYTES,
        )
    };
    if store.is_null() {
        return Err(text(&error).into());
    }
    Ok(Box::new(F2 {
        store,
        paced: opening.paced,
    }))
}

impl Drop for F2 {
    fn drop(&mut self) {
        // SAFETY: it is open, and the threads that used it have ended, and their sessions with them.
        unsafe { f2_close(self.store) };
    }
}

fn number(key: &[u8]) -> TargetResult<u64> {
    Ok(u64::from_be_bytes(
        key.try_into().map_err(|_| "a key has 8 bytes here")?,
    ))
}

/// A change of the benchmark, and whether it has made a value of another length.
struct Changing<'a> {
    change: &'a mut dyn FnMut(&[u8], &mut Vec<u8>),
    new: Vec<u8>,
    wrong: bool,
}

/// Calls a change of the benchmark.
///
/// # Safety
/// `with` is a `Changing` that no other code uses; `old` and `new` have the bytes of a value.
unsafe extern "C" fn call(with: *mut c_void, old: *const u8, new: *mut u8) {
    // SAFETY: as the caller promises; `f2_change` calls from one thread at a time.
    let (changing, old, new) = unsafe {
        (
            &mut *with.cast::<Changing<'_>>(),
            std::slice::from_raw_parts(old, VALUE_BYTES),
            std::slice::from_raw_parts_mut(new, VALUE_BYTES),
        )
    };
    changing.new.clear();
    (changing.change)(old, &mut changing.new);
    changing.wrong = changing.new.len() != VALUE_BYTES;
    new.copy_from_slice(if changing.wrong { old } else { &changing.new });
}

impl Store for F2 {
    fn get(&self, key: &[u8], out: &mut Vec<u8>) -> TargetResult<bool> {
        let key = number(key)?;
        out.resize(VALUE_BYTES, 0);
        // SAFETY: the store is open, and `out` has room for a value during the call.
        let found =
            told(|error, room| unsafe { f2_get(self.store, key, out.as_mut_ptr(), error, room) })?;
        if !found {
            out.clear();
        }
        Ok(found)
    }

    fn put(&self, key: &[u8], value: &[u8]) -> TargetResult<()> {
        let key = number(key)?;
        if value.len() != VALUE_BYTES {
            return Err("a value has 120 bytes here".into());
        }
        // SAFETY: the store is open, and the value is read during the call.
        told(|error, room| unsafe { f2_put(self.store, key, value.as_ptr(), error, room) })?;
        Ok(())
    }

    fn change(
        &self,
        key: &[u8],
        change: &mut dyn FnMut(&[u8], &mut Vec<u8>),
    ) -> Option<TargetResult<bool>> {
        let key = match number(key) {
            Ok(key) => key,
            Err(error) => return Some(Err(error)),
        };
        let mut changing = Changing {
            change,
            new: Vec::new(),
            wrong: false,
        };
        let with: *mut Changing<'_> = &mut changing;
        // SAFETY: the store is open. `changing` outlives the call, during which this thread does not use it. Another
        // thread may use it then: what the benchmark's changes hold, numbers and places for results, is bound to
        // no thread, and it is one thread at a time, handed on by the library's queues.
        let found = told(|error, room| unsafe {
            f2_change(self.store, key, call, with.cast(), error, room)
        });
        Some(match found {
            Ok(_) if changing.wrong => Err("a value has 120 bytes here".into()),
            Ok(false) => Err("there was no such record; F2 has made one".into()),
            other => other,
        })
    }

    fn scan(&self, _: &[u8], _: usize, _: &mut dyn FnMut(&[u8], &[u8])) -> TargetResult<()> {
        Err("F2 keeps no order of keys".into())
    }

    fn get_many(
        &self,
        keys: &[[u8; 8]],
        visit: &mut dyn FnMut(usize, Option<&[u8]>),
    ) -> TargetResult<()> {
        let keys: Vec<u64> = keys.iter().map(|key| u64::from_be_bytes(*key)).collect();
        let (mut out, mut found) = (vec![0; keys.len() * VALUE_BYTES], vec![0; keys.len()]);
        // SAFETY: the store is open; each key has room for its value, and for whether it was found.
        told(|error, room| unsafe {
            f2_get_many(
                self.store,
                keys.as_ptr(),
                keys.len(),
                out.as_mut_ptr(),
                found.as_mut_ptr(),
                error,
                room,
            )
        })?;
        for (i, (value, found)) in out.chunks_exact(VALUE_BYTES).zip(found).enumerate() {
            visit(i, (found == 1).then_some(value));
        }
        Ok(())
    }

    fn pace(&self, on: bool) {
        let Some(Paced {
            device,
            least_bytes,
        }) = self.paced
        else {
            return;
        };
        let device = Device {
            rate: if on { device.rate.into() } else { 0 },
            latency_ns: device.latency.as_nanos() as u64,
            request_bytes: REQUEST_BYTES,
            least_bytes,
        };
        // SAFETY: the device is read during the call.
        unsafe { f2_pace(&device) };
    }

    fn reads(&self) -> Option<(u64, u64)> {
        let (mut requests, mut bytes) = (0, 0);
        // SAFETY: it writes both numbers during the call.
        unsafe { f2_reads(&mut requests, &mut bytes) };
        Some((requests, bytes))
    }

    fn settle(&self) -> TargetResult<()> {
        // SAFETY: the store is open, and the threads that loaded it have ended, and their sessions with them.
        unsafe { f2_settle(self.store) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u64 = 40_000;
    const THREADS: u64 = 4;

    fn value(key: u64, version: u64) -> Vec<u8> {
        let words = (0..VALUE_BYTES as u64 / 8).map(|i| [key, version][i as usize % 2] ^ i);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// Does it for all keys, some in each of some threads, which end.
    fn all(each: impl Fn(u64) + Sync) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let each = &each;
                    scope.spawn(move || (thread..KEYS).step_by(THREADS as usize).for_each(each))
                })
                .collect();
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
        });
    }

    #[test]
    fn what_was_written_and_changed_is_read_from_memory_and_disk() {
        let folder = std::env::temp_dir().join(format!("terrace-peers-f2-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let opening = Opening {
            folder: &folder,
            memory: 5 << 20,
            data: KEYS * 128,
            threads: THREADS as usize,
            paced: None,
        };
        let store = open(&opening).unwrap();
        all(|key| store.put(&key.to_be_bytes(), &value(key, 0)).unwrap());
        store.settle().unwrap();
        for version in 1..=2 {
            all(|key| {
                let mut change = |old: &[u8], new: &mut Vec<u8>| {
                    assert_eq!(old, value(key, version - 1));
                    new.extend(value(key, version));
                };
                assert!(
                    store
                        .change(&key.to_be_bytes(), &mut change)
                        .unwrap()
                        .unwrap()
                );
            });
            all(|key| {
                let mut out = Vec::new();
                assert!(store.get(&key.to_be_bytes(), &mut out).unwrap());
                assert_eq!(out, value(key, version));
                if key % 100 < THREADS {
                    let keys: Vec<u64> = (key..KEYS + 1).step_by(799).chain([KEYS]).collect();
                    let bytes: Vec<_> = keys.iter().map(|key| key.to_be_bytes()).collect();
                    let mut count = 0;
                    let mut visit = |i: usize, found: Option<&[u8]>| {
                        assert_eq!(i, count);
                        let wanted = (keys[i] < KEYS).then(|| value(keys[i], version));
                        assert_eq!(found, wanted.as_deref());
                        count += 1;
                    };
                    store.get_many(&bytes, &mut visit).unwrap();
                    assert_eq!(count, keys.len());
                }
            });
        }
        let none = std::thread::scope(|scope| {
            let get = || store.get(&KEYS.to_be_bytes(), &mut Vec::new()).unwrap();
            scope.spawn(get).join().unwrap()
        });
        assert!(!none);
        drop(store);
        // The records did not stay in memory.
        let on_disk =
            |log: &str| std::fs::metadata(folder.join(log)).map_or(0, |about| about.len());
        assert!(on_disk("hot/log.log0") > 0 && on_disk("cold/log.log0") > 0);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn no_more_memory_is_given_out_than_there_is() {
        let page = 1 << 17;
        let memory = 39_680_000;
        let sizes = Sizes::divide(memory, 128_000_000, page).unwrap();
        let logs = sizes.hot_log + sizes.read_cache + sizes.cold_log + sizes.cold_index_log;
        let indexes = (sizes.hot_buckets + sizes.cold_buckets) * BUCKET_BYTES;
        assert!(logs + indexes + COMPACTION_PAGES * page <= memory);
        assert!(logs + indexes > memory * 9 / 10);
        assert!(Sizes::divide(1 << 20, 128_000_000, page).is_none());
    }
}
