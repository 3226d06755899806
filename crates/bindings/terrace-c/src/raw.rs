//! What C hands over and gets: pointers become slices and texts here, and nowhere else.
//!
//! Only the exported functions call these, with what C gave them. The header says of every pointer what it has
//! to be: NULL where that is allowed, or good for as many bytes as its length says until the call returns.
//! That is the bound on which each `SAFETY` rests; what can be checked is checked before.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, CString, OsStr, c_char};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::{self, NonNull};

use terrace_ffi::terrace::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES};
use terrace_ffi::{Failure, Kind, Result};

use crate::status::{terrace_error, terrace_status};

/// Bytes that are lent: of the caller for a call, or of Terrace for as long as the function says. `data` may be
/// NULL if `len` is 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct terrace_slice {
    /// The first byte.
    pub data: *const u8,
    /// How many there are.
    pub len: usize,
}

/// Bytes that are the caller's, to be given back with terrace_bytes_free. A zero byte that does not count lies
/// behind them, so texts are strings of C.
#[repr(C)]
pub struct terrace_bytes {
    /// The first byte; NULL if there is nothing, as opposed to nothing in it.
    pub data: *mut u8,
    /// How many there are.
    pub len: usize,
}

impl terrace_bytes {
    /// No value.
    pub const NONE: terrace_bytes = terrace_bytes {
        data: ptr::null_mut(),
        len: 0,
    };

    /// A copy.
    pub fn of(bytes: &[u8]) -> terrace_bytes {
        let mut copy = Vec::with_capacity(bytes.len() + 1);
        copy.extend_from_slice(bytes);
        copy.push(0);
        let mut copy = ManuallyDrop::new(copy.into_boxed_slice());
        terrace_bytes {
            data: copy.as_mut_ptr(),
            len: bytes.len(),
        }
    }

    /// A copy of what may be missing.
    pub fn some(bytes: Option<&[u8]>) -> terrace_bytes {
        bytes.map_or(terrace_bytes::NONE, terrace_bytes::of)
    }
}

impl terrace_slice {
    pub const NONE: terrace_slice = terrace_slice {
        data: ptr::null(),
        len: 0,
    };

    pub fn of(bytes: &[u8]) -> terrace_slice {
        terrace_slice {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

/// Frees bytes that Terrace gave, and makes them nothing, so that freeing them again is nothing. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_bytes_free(bytes: *mut terrace_bytes) {
    let Some(mut bytes) = NonNull::new(bytes) else {
        return;
    };
    // SAFETY: not NULL, so it is the caller's structure, which no other code uses during the call.
    let bytes = std::mem::replace(unsafe { bytes.as_mut() }, terrace_bytes::NONE);
    if !bytes.data.is_null() {
        let whole = ptr::slice_from_raw_parts_mut(bytes.data, bytes.len + 1);
        // SAFETY: what is not NULL was made by `of`, as a box of one byte more than it says.
        drop(unsafe { Box::from_raw(whole) });
    }
}

#[cold]
fn is_null(what: &str) -> Failure {
    Failure::invalid(format!("{what} is NULL; give one"))
}

/// Bytes of C, at most this many. They are the caller's until the call returns.
#[inline]
fn lent<'a>(slice: terrace_slice, most: usize, what: &str) -> Result<&'a [u8]> {
    if slice.len == 0 {
        return Ok(&[]);
    }
    if slice.data.is_null() {
        return Err(is_null(what));
    }
    if slice.len > most {
        return Err(Failure::invalid(format!(
            "{what} of {} bytes cannot be; the most is {most}",
            slice.len
        )));
    }
    // SAFETY: not NULL, its length is no more than an object may have, and the caller says that this many bytes
    // are there and stay as they are until the call returns.
    Ok(unsafe { std::slice::from_raw_parts(slice.data, slice.len) })
}

/// A key. One that is longer than any may be is not looked at.
#[inline]
pub fn key<'a>(slice: terrace_slice) -> Result<&'a [u8]> {
    if slice.len > MAX_KEY_BYTES {
        let (len, limit) = (slice.len, MAX_KEY_BYTES);
        return Err(Error::KeyTooLong { len, limit }.into());
    }
    lent(slice, MAX_KEY_BYTES, "the key")
}

/// A value. One that is longer than any may be is not looked at.
#[inline]
pub fn value<'a>(slice: terrace_slice) -> Result<&'a [u8]> {
    if slice.len > MAX_VALUE_BYTES {
        let (len, limit) = (slice.len, MAX_VALUE_BYTES);
        return Err(Error::ValueTooLong { len, limit }.into());
    }
    lent(slice, MAX_VALUE_BYTES, "the value")
}

/// Bytes of whatever length an object may have.
pub fn bytes<'a>(slice: terrace_slice, what: &str) -> Result<&'a [u8]> {
    lent(slice, isize::MAX as usize, what)
}

/// Something of the caller's that may be missing.
pub fn borrowed<'a, T>(pointer: *const T) -> Option<&'a T> {
    // SAFETY: not NULL, so it is one that the caller got from Terrace or made, and keeps until the call returns.
    NonNull::new(pointer.cast_mut()).map(|pointer| unsafe { pointer.as_ref() })
}

/// An array of the caller's.
pub fn array<'a, T>(first: *const T, count: usize, what: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(is_null(what));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::invalid(format!("{count} of {what} cannot be")));
    }
    // SAFETY: not NULL, no longer than an object may be, and the caller says that this many are there and stay as
    // they are until the call returns.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

/// A text that ends with a zero byte, if there is one.
pub fn some_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>> {
    let Some(text) = c_text(pointer) else {
        return Ok(None);
    };
    let text = text.to_str();
    text.map(Some)
        .map_err(|_| Failure::invalid(format!("{what} is no UTF-8")))
}

/// A text that ends with a zero byte.
pub fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str> {
    some_text(pointer, what)?.ok_or_else(|| is_null(what))
}

/// A path that ends with a zero byte.
pub fn path<'a>(pointer: *const c_char, what: &str) -> Result<&'a Path> {
    let path = c_text(pointer).ok_or_else(|| is_null(what))?;
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

fn c_text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: not NULL, so it is a string of the caller's, which ends with a zero byte and stays as it is until
    // the call returns.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

/// Where an answer goes.
pub struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// The answer. What was there is not looked at.
    #[inline]
    pub fn set(&self, answer: T) {
        // SAFETY: not NULL, so it is room for one of these, of the caller's, which no other code uses during the
        // call.
        unsafe { self.0.write(answer) }
    }
}

/// Where an answer goes; nothing has happened if it is missing.
#[inline]
pub fn out<T>(pointer: *mut T, what: &str) -> Result<Out<T>> {
    some_out(pointer).ok_or_else(|| is_null(what))
}

/// Where an answer goes, if the caller wants it.
#[inline]
pub fn some_out<T>(pointer: *mut T) -> Option<Out<T>> {
    NonNull::new(pointer).map(Out)
}

/// Copies a value to a buffer of the caller's if it has room.
#[inline]
pub fn copied(value: &[u8], buffer: *mut u8, room: usize) {
    if value.len() <= room && !buffer.is_null() {
        // SAFETY: not NULL, so it has room for that many bytes, which are the caller's and lie apart from ours.
        unsafe { ptr::copy_nonoverlapping(value.as_ptr(), buffer, value.len()) }
    }
}

/// The number that a pointer carries. It is not looked into.
#[inline]
pub fn handle<T>(pointer: *const T) -> u64 {
    pointer.addr() as u64
}

/// A pointer that carries a number, which no code looks into.
#[inline]
pub fn pointer<T>(handle: u64) -> *mut T {
    ptr::without_provenance_mut(handle as usize)
}

/// Numbers of handles have 64 bits.
const _: () = assert!(size_of::<usize>() >= size_of::<u64>());

/// Runs a call; its failure goes to `error`.
#[inline]
pub fn call(error: *mut *mut terrace_error, call: impl FnOnce() -> Result<()>) -> terrace_status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => terrace_status::TERRACE_OK,
        Ok(Err(failure)) => failed(error, failure),
        Err(_) => failed(error, Failure::new(Kind::Defect, "a panic in the binding")),
    }
}

#[cold]
fn failed(error: *mut *mut terrace_error, failure: Failure) -> terrace_status {
    let status = terrace_status::of(failure.kind);
    if let Some(error) = some_out(error) {
        let mut text = failure.text.clone().into_bytes();
        text.retain(|byte| *byte != 0);
        let text = CString::new(text).unwrap_or_default();
        error.set(Box::into_raw(Box::new(terrace_error { failure, text })));
    }
    status
}

/// Frees an error that `failed` made.
pub fn free_error(error: *mut terrace_error) {
    if !error.is_null() {
        // SAFETY: not NULL, so it came from `failed`, as a box, and was not freed before.
        drop(unsafe { Box::from_raw(error) });
    }
}
