//! Drives a concurrent map, by one thread and without a background thread, from bytes and compares it
//! with a `BTreeMap`; the first byte says the key type.
//!
//! `cargo +nightly fuzz run concurrent`, in the folder above this package.
#![no_main]

#[allow(dead_code, reason = "only its keys are of use here")]
#[path = "../../tests/support/drive.rs"]
mod drive;
#[path = "../../tests/support/drive_concurrent.rs"]
mod drive_concurrent;

use drive_concurrent::drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => drive::<u64>(rest, false),
        1 => drive::<i16>(rest, false),
        2 => drive::<String>(rest, false),
        _ => drive::<(u16, String)>(rest, false),
    }
});
