//! `docs/format-log.md`, read literally: a reader written from it, with numbers and not with the
//! constants of the code, finds what was appended.

use terrace_base::checksum::{mix, seeded};
use terrace_sim::SimDisk;

use super::basics::{put, recover_with, small};
use crate::{Durability, Log};

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Flags, stamp and payload of the block at `at`, its checksum checked.
fn block(file: &[u8], incarnation: u64, at: usize) -> (u64, u64, &[u8]) {
    let p = mix(incarnation, at as u64);
    let fields = u64_at(file, at + 8) ^ p;
    let length = (fields & 0x07ff_ffff) as usize;
    assert_eq!(u64_at(file, at), seeded(p, &file[at + 8..at + 16 + length]));
    (
        fields >> 27 & 31,
        fields >> 32,
        &file[at + 16..at + 16 + length],
    )
}

#[test]
fn the_format_is_as_documented() {
    let disk = SimDisk::new(1);
    let log = Log::create(disk.shared(), small(1), 6).unwrap();
    let from = log.position();
    put(&log, b"first", Durability::Sync).unwrap();
    put(&log, &[9; 300], Durability::Buffered).unwrap();
    put(&log, b"third", Durability::Sync).unwrap();
    let cut = log.position();
    log.checkpointed(cut, 7).unwrap();
    drop(log);
    recover_with(&disk, small(2), from, 7).unwrap();
    let file = disk.contents("log-00000001").unwrap();

    for place in [0, 2048] {
        let header = &file[place..place + 56];
        assert_eq!(&header[..16], b"TRRCLOG\x01\x01\0\0\0\0\0\0\0");
        assert_eq!(
            [u64_at(header, 16), u64_at(header, 32), u64_at(header, 40)],
            [1, 6, 16384]
        );
        assert_eq!(u64_at(header, 48), seeded(place as u64, &header[..48]));
    }
    let incarnation = u64_at(&file, 24);
    for place in [512, 2560] {
        let note = &file[place..place + 24];
        assert_eq!((&note[..8], u64_at(note, 8)), (&b"TRRCGEN\x01"[..], 7));
        assert_eq!(
            u64_at(note, 16),
            seeded(mix(incarnation, place as u64), &note[..16])
        );
    }

    // SECTOR_END, synced up to offset 4096 of this segment.
    assert_eq!(block(&file, incarnation, 4096), (16, 8, &b"\x05first"[..]));
    // The second block follows at the next sector, and 300 is 0xac 0x02.
    let (flags, stamp, payload) = block(&file, incarnation, 4608);
    assert_eq!((flags, stamp), (0, 9));
    assert_eq!((&payload[..2], payload.len()), (&b"\xac\x02"[..], 302));
    assert_eq!(
        block(&file, incarnation, 4608 + 16 + 302),
        (16, 9, &b"\x05third"[..])
    );
    // The seal: the end of the log, and the number of the next record.
    let (flags, stamp, payload) = block(&file, incarnation, 5120);
    assert_eq!((flags, stamp), (1, 10));
    assert_eq!(
        [u64_at(payload, 0), u64_at(payload, 8)],
        [1 << 32 | 5120, 4]
    );
}
