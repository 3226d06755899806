//! Any bytes at all: decoding and recovery answer or refuse, and never panic or run away.

use proptest::prelude::*;
use terrace_base::codec::u64_at;
use terrace_sim::{Rng, SimDisk};

use super::basics::{payload, put, recover_with, small};
use crate::layout::{HEADER_BYTES, SegmentHeader, decode_segment, seal_block};
use crate::lsn::Lsn;
use crate::{Durability, Log, Position};

/// A log of some segments.
fn written(seed: u64) -> (SimDisk, Position) {
    let disk = SimDisk::new(seed);
    let log = Log::create(disk.shared(), small(seed), 0).unwrap();
    let from = log.position();
    let mut rng = Rng::new(seed);
    for _ in 0..120 {
        let bytes = payload(&mut rng);
        let durability = if rng.percent(20) {
            Durability::Sync
        } else {
            Durability::Buffered
        };
        put(&log, &bytes, durability).unwrap();
    }
    (disk, from)
}

/// Makes the checksums of all blocks of a segment right again, as far as blocks can be followed.
fn reseal(bytes: &mut [u8], offsets: &[u64]) {
    let Some(header) = SegmentHeader::decode(bytes) else {
        return;
    };
    for (i, &offset) in offsets.iter().enumerate() {
        let end = offsets.get(i + 1).copied().unwrap_or(offset + 64) as usize;
        let start = offset as usize;
        if let Some(block) = bytes.get_mut(start..end.max(start + 16)) {
            let at = Lsn::new(header.number, offset as u32);
            // Whatever the mutation made of the flags is kept; only the sums are made to fit.
            let flags = u64_at(block, 8).unwrap_or(0) as u32 & 0xf800_0000;
            seal_block(
                block,
                header.incarnation,
                at,
                Lsn::new(header.number, 4096),
                flags,
            );
        }
    }
}

#[test]
fn a_segment_decodes_to_what_was_appended() {
    let (disk, _) = written(3);
    let segment = decode_segment(&disk.contents("log-00000001").unwrap()).unwrap();
    assert_eq!((segment.number, segment.generation), (1, 0));
    assert!(segment.blocks.len() > 5);
    assert!(segment.blocks.last().unwrap().last);
    let mut rng = Rng::new(3);
    assert_eq!(segment.blocks[0].pieces[0], payload(&mut rng));
    assert!(decode_segment(b"").is_none());
    assert!(decode_segment(&[0; 10_000]).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_decode_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let _ = decode_segment(&bytes);
    }

    #[test]
    fn a_changed_log_is_refused_or_gives_a_prefix(
        seed in 0u64..20,
        changes in prop::collection::vec((0usize..3, 0usize..16_384, any::<u8>()), 1..6),
    ) {
        let (disk, from) = written(seed);
        let (_, _, whole) = recover_with(&disk.crash(0), small(900), from, 0).unwrap();
        let copy = disk.crash(0);
        for (file, at, byte) in changes {
            let name = format!("log-{:08x}", file + 1);
            let Some(mut bytes) = copy.contents(&name) else { continue };
            bytes[at] = byte;
            let _ = decode_segment(&bytes);
            copy.place(&name, bytes);
        }
        if let Ok((_, _, records)) = recover_with(&copy, small(901), from, 0) {
            prop_assert!(records.len() <= whole.len());
            prop_assert_eq!(&records[..], &whole[..records.len()]);
        }
    }

    #[test]
    fn changed_blocks_with_good_checksums_are_no_panic(
        seed in 0u64..20,
        changes in prop::collection::vec((4096usize..16_384, any::<u8>()), 1..40),
        from_offset in prop_oneof![Just(4096u64), 0..20_000u64],
    ) {
        let (disk, from) = written(seed);
        let mut bytes = disk.contents("log-00000001").unwrap();
        let offsets: Vec<u64> = decode_segment(&bytes).unwrap().blocks.iter().map(|b| b.offset).collect();
        for (at, byte) in changes {
            bytes[at] = byte;
        }
        reseal(&mut bytes, &offsets);
        let _ = decode_segment(&bytes);
        let copy = disk.crash(0);
        copy.place("log-00000001", bytes);
        let _ = recover_with(&copy, small(901), Position { offset: from_offset, ..from }, 0);
    }

    #[test]
    fn a_changed_header_with_a_good_checksum_is_no_panic(
        seed in 0u64..4,
        number in prop_oneof![Just(1u32), any::<u32>()],
        segment_bytes in prop_oneof![0u64..40_000, any::<u64>()],
        length in 0usize..40_000,
    ) {
        let (disk, from) = written(seed);
        let mut bytes = disk.contents("log-00000001").unwrap();
        let old = SegmentHeader::decode(&bytes).unwrap();
        let header = SegmentHeader { number, segment_bytes, ..old };
        bytes[..HEADER_BYTES as usize].copy_from_slice(&header.page());
        bytes.resize(length, 0);
        let copy = disk.crash(0);
        copy.place("log-00000001", bytes);
        let _ = recover_with(&copy, small(901), from, 0);
    }
}
