//! Drives a map from bytes and compares it with a `BTreeMap`; the first byte says the key type.
//!
//! `cargo +nightly fuzz run drive`, in the folder above this package.
#![no_main]

#[path = "../../tests/support/drive.rs"]
mod drive;

use drive::drive;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => drive::<u64>(rest),
        1 => drive::<i16>(rest),
        2 => drive::<String>(rest),
        3 => drive::<Vec<u8>>(rest),
        4 => drive::<[u8; 4]>(rest),
        5 => drive::<(u16, String)>(rest),
        6 => drive::<u128>(rest),
        _ => drive::<Box<[u8]>>(rest),
    }
});
