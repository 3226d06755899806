//! What C asks of a status and of an error.

use std::ffi::c_char;

use terrace_ffi::Kind;

use crate::raw;
use crate::status::{terrace_error, terrace_status, word};

/// The version of the library, as "0.1.0". It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// The word of a status, as "disk_full"; "ok" for 0, "unknown" for others. It is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_status_name(status: u32) -> *const c_char {
    let name = match status {
        0 => c"ok",
        other => Kind::of_number(other).map_or(c"unknown", word),
    };
    name.as_ptr()
}

/// The status that came with the error; TERRACE_OK for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_error_status(error: *const terrace_error) -> terrace_status {
    raw::borrowed(error).map_or(terrace_status::TERRACE_OK, |error| {
        terrace_status::of(error.failure.kind)
    })
}

/// What happened, where, and the way out, in UTF-8; "" for NULL. It lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_error_message(error: *const terrace_error) -> *const c_char {
    raw::borrowed(error).map_or(c"".as_ptr(), |error| error.text.as_ptr())
}

/// The number of the operating system's error (errno), where it was one; else 0.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_error_os(error: *const terrace_error) -> i32 {
    raw::borrowed(error).map_or(0, |error| error.failure.os.unwrap_or(0))
}

/// Frees an error. NULL is nothing.
#[unsafe(no_mangle)]
pub extern "C" fn terrace_error_free(error: *mut terrace_error) {
    raw::free_error(error);
}
