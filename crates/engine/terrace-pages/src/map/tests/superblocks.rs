//! The superblock: the newest whole one is chosen, and everything else is an error that says why.

use super::codecs::superblock;
use crate::map::superblock::NEWEST_VERSION;
use crate::map::superblock::{
    CHECKSUM_AT, EPOCH_LIMIT, MAGIC, NUMBER_LIMIT, SUPERBLOCK_BYTES, block_checksum, slot_offset,
    superblock_offset,
};
use crate::map::{MapFile, Superblock, Superblocks};
use proptest::prelude::*;
use terrace_base::Error;

fn make(generation: u64) -> Superblock {
    let map = MapFile {
        number: 1,
        base_pages: 0,
        base_bytes: 4096,
        journal_bytes: 8192,
        chain: 6,
    };
    superblock(generation, 100, 200, map)
}

fn block(superblock: &Superblock) -> Vec<u8> {
    let mut block = vec![0xff; SUPERBLOCK_BYTES];
    assert!(superblock.encode(&mut block));
    block
}

fn reseal(block: &mut [u8], index: usize) {
    let checksum = block_checksum(block, index);
    block[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
}

#[test]
fn every_field_comes_back_and_a_short_block_is_refused() {
    for generation in [0, 7, NUMBER_LIMIT - 1] {
        let written = make(generation);
        let bytes = block(&written);
        let mut blocks: [&[u8]; 2] = [&[], &[]];
        blocks[(generation % 2) as usize] = &bytes;
        let read = Superblocks::read(blocks, None).expect("whole");
        assert_eq!((read.newest, read.other), (written, None));
    }
    assert!(!make(1).encode(&mut [0; SUPERBLOCK_BYTES - 1]));
}

#[test]
fn the_newest_is_chosen_and_a_torn_one_is_passed_over() {
    let (four, five) = (block(&make(4)), block(&make(5)));
    let read = Superblocks::read([&four, &five], Some(16384)).expect("whole");
    assert_eq!((read.newest.generation, read.other), (5, Some(4)));
    let six = block(&make(6));
    for sectors in 0..8 {
        let mut torn = six.clone();
        torn[sectors * 512..].copy_from_slice(&four[sectors * 512..]);
        let newest = Superblocks::read([&torn, &five], None)
            .expect("five is whole")
            .newest;
        assert_eq!(newest.generation, 5);
        // The next attempt goes into the torn block again, not over the whole one.
        assert_eq!(superblock_offset(newest.generation + 1), 0);
    }
}

#[test]
fn any_flipped_bit_is_found() {
    let good = block(&make(3));
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(Superblocks::read([&[], &bad], None).is_err(), "byte {at}");
    }
}

#[test]
fn a_superblock_in_the_wrong_block_is_not_taken() {
    let odd = block(&make(3));
    assert!(Superblocks::read([&odd, &[]], None).is_err());
    let mut resealed = odd;
    reseal(&mut resealed, 0);
    assert!(matches!(
        Superblocks::read([&resealed, &[]], None),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn a_foreign_file_is_told_from_a_damaged_one() {
    let zeros = vec![0; SUPERBLOCK_BYTES];
    for blocks in [
        [&zeros[..], &[]],
        [b"#!/bin/sh", &[1; SUPERBLOCK_BYTES]],
        [&[], &[]],
    ] {
        assert!(matches!(
            Superblocks::read(blocks, None),
            Err(Error::Invalid { .. })
        ));
    }
    let mut damaged = block(&make(3));
    damaged[100] ^= 1;
    assert!(matches!(
        Superblocks::read([&zeros, &damaged], None),
        Err(Error::Corrupt {
            offset: Some(32768),
            ..
        })
    ));
}

#[test]
fn a_newer_format_is_refused_even_beside_a_superblock_of_this_one() {
    let four = block(&make(4));
    let mut newer = block(&make(5));
    newer[MAGIC.len()..MAGIC.len() + 4].copy_from_slice(&(NEWEST_VERSION + 1).to_le_bytes());
    // A flipped bit in the version is damage, not a version.
    assert_eq!(
        Superblocks::read([&four, &newer], None)
            .expect("four is whole")
            .newest
            .generation,
        4
    );
    reseal(&mut newer, 1);
    let refused = Superblocks::read([&four, &newer], None)
        .expect_err("newer")
        .to_string();
    let newer = format!("format version {}", NEWEST_VERSION + 1);
    assert!(refused.contains(&newer), "{refused}");
    for told in ["byte 32768", "\"data\"", "open the database with"] {
        assert!(refused.contains(told), "{refused}");
    }
}

#[test]
fn another_page_size_or_another_database_is_refused() {
    let four = block(&make(4));
    let refused = Superblocks::read([&four, &[]], Some(4096))
        .expect_err("other size")
        .to_string();
    assert!(
        refused.contains("16384") && refused.contains("4096"),
        "{refused}"
    );
    for told in ["\"data\"", "leave it out"] {
        assert!(refused.contains(told), "{refused}");
    }
    let other = block(&Superblock {
        database: 1,
        ..make(5)
    });
    assert!(matches!(
        Superblocks::read([&four, &other], None),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn slots_begin_behind_the_superblocks_and_never_overflow() {
    assert_eq!(slot_offset(0, 4096), Some(65536));
    assert_eq!(slot_offset(3, 16384), Some(65536 + 3 * 16384));
    assert_eq!(slot_offset(u64::MAX / 4096, 4096), None);
    assert_eq!((superblock_offset(8), superblock_offset(9)), (0, 32768));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is accepted can be worked with: sizes and counts that cannot overflow later on.
    #[test]
    fn damage_under_a_right_checksum_is_plausible_or_refused(changes in prop::collection::vec((8usize..220, any::<u8>()), 1..6)) {
        let mut bytes = block(&make(2));
        for (at, value) in changes {
            bytes[at] = value;
        }
        reseal(&mut bytes, 0);
        if let Ok(read) = Superblocks::read([&bytes, &[]], None) {
            let found = read.newest;
            prop_assert!(found.page_bytes.is_power_of_two() && (4096..=65536).contains(&found.page_bytes));
            prop_assert!(slot_offset(found.slots, found.page_bytes).is_some());
            prop_assert!(found.map.base_pages <= found.pages && found.pages < 1 << 40);
            prop_assert!(found.map.base_bytes.checked_add(found.map.journal_bytes).is_some());
            prop_assert_eq!(found.generation % 2, 0);
        }
    }

    #[test]
    fn any_bytes_end_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..5000), magic in any::<bool>()) {
        let mut bytes = bytes;
        if magic && bytes.len() >= 8 {
            bytes[..8].copy_from_slice(&MAGIC);
        }
        prop_assert!(Superblocks::read([&bytes, &bytes], None).is_err());
    }
}

#[test]
fn numbers_that_no_database_reaches_are_damage() {
    let limit = NUMBER_LIMIT;
    for number in [limit, limit + 1, u64::MAX - 1, u64::MAX] {
        let changes: [fn(&mut Superblock, u64); 4] = [
            |s, n| s.generation = n,
            |s, n| s.map.number = n,
            |s, n| s.next_sequence = n,
            |s, n| s.epoch = n,
        ];
        for (which, change) in changes.into_iter().enumerate() {
            let mut superblock = make(4);
            change(&mut superblock, number);
            let bytes = block(&superblock);
            let mut blocks: [&[u8]; 2] = [&[], &[]];
            blocks[(superblock.generation % 2) as usize] = &bytes;
            let read = Superblocks::read(blocks, None);
            assert!(
                matches!(read, Err(Error::Corrupt { .. })),
                "{which}: {number}"
            );
        }
    }
    let mut superblock = make(4);
    superblock.epoch = u64::from(EPOCH_LIMIT);
    let bytes = block(&superblock);
    assert!(Superblocks::read([&bytes, &[]], None).is_err());
    superblock.epoch -= 1;
    let bytes = block(&superblock);
    assert!(Superblocks::read([&bytes, &[]], None).is_ok());
    // From where on the log has what has no log is no later than the cut.
    superblock.version = NEWEST_VERSION;
    superblock.unlogged_from = 12;
    let bytes = block(&superblock);
    let read = Superblocks::read([&bytes, &[]], None).expect("a superblock");
    assert_eq!(read.newest, superblock);
    superblock.unlogged_from = superblock.next_sequence + 1;
    let bytes = block(&superblock);
    assert!(Superblocks::read([&bytes, &[]], None).is_err());
}
