//! What the targets drive, compiled once for all of them: each drives maps from bytes and compares them with a
//! `BTreeMap`.

#[path = "../../tests/support/drive.rs"]
mod drive;
#[path = "../../tests/support/drive_concurrent.rs"]
mod drive_concurrent;
#[path = "../../tests/support/drive_place.rs"]
mod drive_place;

use terrace_mem::Pair;

/// A map of any kind; the first byte says the key type.
pub fn map(bytes: &[u8]) {
    use drive::drive;
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
}

/// A map of one pair.
pub fn pair(pair: Pair, bytes: &[u8]) {
    drive::drive_pair(pair, bytes);
}

/// A concurrent map, by one thread and without a background thread; the first byte says the key type.
pub fn concurrent(bytes: &[u8]) {
    use drive_concurrent::drive;
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => drive::<u64>(rest, false),
        1 => drive::<i16>(rest, false),
        2 => drive::<String>(rest, false),
        _ => drive::<(u16, String)>(rest, false),
    }
}

/// Maps over two memories.
pub fn place(bytes: &[u8]) {
    drive_place::drive(bytes);
}
