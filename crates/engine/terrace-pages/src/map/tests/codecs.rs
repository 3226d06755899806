//! The map file: what is written comes back, and whatever else is there is an error.

use crate::map::map_file::{
    BASE_ENTRIES, BLOCK, CHUNK_BYTES, JOURNAL_ENTRIES, base_bytes, chunk_checksum, header_checksum,
};
use crate::map::superblock::{LEARNT_BYTES, Superblock};
use crate::map::{
    MapFile, MapReader, MapWriter, Place, PlaceTable, Rebuild, Tag, Words, should_fold,
};
use proptest::prelude::*;
use std::cell::RefCell;
use terrace_base::{Error, PageId, Result};

const DATABASE: u64 = 77;
const NUMBER: u64 = 5;

/// A superblock that names `map`.
pub fn superblock(generation: u64, pages: u64, slots: u64, map: MapFile) -> Superblock {
    Superblock {
        version: crate::map::superblock::OLDEST_VERSION,
        page_bytes: 16384,
        database: DATABASE,
        generation,
        epoch: 3,
        pages,
        slots,
        map,
        log_position: [3; 24],
        learnt: [4; LEARNT_BYTES],
        next_structure: 9,
        next_sequence: 1 << 40,
        unlogged_from: 1 << 40,
        catalog_root: PageId(0),
        clean: true,
    }
}

type Records = Vec<(PageId, Place)>;

/// Writes a base table, and one journal for each generation after it.
fn write(bytes: &mut Vec<u8>, base: &[Place], journals: &[Records]) -> Result<MapFile> {
    let mut sink = |offset: u64, chunk: &[u8]| {
        assert_eq!(offset, bytes.len() as u64, "chunks follow one another");
        assert_eq!(
            (chunk.len() % BLOCK, chunk.as_ptr() as usize % BLOCK),
            (0, 0)
        );
        bytes.extend_from_slice(chunk);
        Ok(())
    };
    let mut writer = MapWriter::create(DATABASE, NUMBER, 1, base.len() as u64, &mut sink)?;
    for place in base {
        writer.push_base(*place, &mut sink)?;
    }
    let mut file = writer.finish(&mut sink)?;
    for (at, journal) in journals.iter().enumerate() {
        let mut writer = MapWriter::append(DATABASE, at as u64 + 2, file);
        for (pid, place) in journal {
            writer.push(*pid, *place, &mut sink)?;
        }
        file = writer.finish(&mut sink)?;
    }
    Ok(file)
}

fn read(superblock: &Superblock, bytes: &[u8]) -> Result<Records> {
    let mut records = Records::new();
    let mut reader = MapReader::new(superblock)?;
    let mut before = None;
    while let Some((offset, len)) = reader.next_read() {
        assert!(
            before < Some(offset) && len <= CHUNK_BYTES && len % BLOCK == 0,
            "reading goes on"
        );
        before = Some(offset);
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        reader.decode(&rest[..len.min(rest.len())], |pid, place| {
            records.push((pid, place));
            Ok(())
        })?;
    }
    Ok(records)
}

fn place(number: u64) -> Place {
    match number % 5 {
        0 => Place::FREE,
        _ => Place::used(number >> 3, number as u16, Tag::IMAGE),
    }
}

/// A file with two chunks of base table and journals of three generations, and its superblock.
fn sample() -> (Vec<u8>, Superblock) {
    let base: Vec<Place> = (0..BASE_ENTRIES + 9).map(place).collect();
    let journal = |n: u64| (0..n).map(|pid| (PageId(pid), place(pid + 1))).collect();
    let mut bytes = Vec::new();
    let file = write(
        &mut bytes,
        &base,
        &[journal(3), journal(JOURNAL_ENTRIES + 2), journal(3)],
    );
    let pages = base.len() as u64;
    (bytes, superblock(4, pages, pages, file.expect("a file")))
}

#[test]
fn every_length_around_a_full_chunk_comes_back() {
    for pages in [
        0,
        1,
        BASE_ENTRIES - 1,
        BASE_ENTRIES,
        BASE_ENTRIES + 1,
        2 * BASE_ENTRIES,
    ] {
        let base: Vec<Place> = (0..pages).map(place).collect();
        let mut bytes = Vec::new();
        let file = write(&mut bytes, &base, &[]).expect("a file");
        assert_eq!(
            (file.base_bytes, file.journal_bytes),
            (bytes.len() as u64, 0)
        );
        assert_eq!(file.base_bytes, base_bytes(pages));
        let records = read(&superblock(1, pages, pages + 1, file), &bytes).expect("whole");
        assert!(records.iter().map(|(pid, _)| pid.0).eq(0..pages));
        assert!(records.iter().map(|(_, place)| *place).eq(base));
    }
    for entries in [1, JOURNAL_ENTRIES - 1, JOURNAL_ENTRIES, JOURNAL_ENTRIES + 1] {
        let journal: Records = (0..entries).map(|pid| (PageId(pid), place(pid))).collect();
        let mut bytes = Vec::new();
        let file = write(&mut bytes, &[], std::slice::from_ref(&journal)).expect("a file");
        let records = read(&superblock(2, entries, entries, file), &bytes).expect("whole");
        assert_eq!(records, journal);
    }
}

#[test]
fn any_flipped_bit_is_found() {
    let (bytes, superblock) = sample();
    assert!(read(&superblock, &bytes).is_ok());
    for at in (0..bytes.len())
        .step_by(97)
        .chain(0..256)
        .chain(bytes.len() - 64..bytes.len())
    {
        let mut bad = bytes.clone();
        bad[at] ^= 1 << (at % 8);
        assert!(
            matches!(read(&superblock, &bad), Err(Error::Corrupt { .. })),
            "byte {at}"
        );
    }
}

#[test]
fn a_file_that_ends_early_is_found() {
    let (bytes, superblock) = sample();
    for len in (0..bytes.len()).step_by(BLOCK) {
        assert!(
            matches!(read(&superblock, &bytes[..len]), Err(Error::Corrupt { .. })),
            "{len} bytes"
        );
    }
}

#[test]
fn a_file_of_another_database_number_or_generation_is_found() {
    let (bytes, good) = sample();
    let other_number = MapFile {
        number: NUMBER + 1,
        ..good.map
    };
    for bad in [
        Superblock {
            database: DATABASE + 1,
            ..good.clone()
        },
        Superblock {
            map: other_number,
            ..good.clone()
        },
        Superblock {
            generation: 3,
            ..good.clone()
        },
        Superblock {
            generation: 0,
            ..good.clone()
        },
        Superblock {
            pages: good.pages - 1,
            ..good.clone()
        },
    ] {
        assert!(
            matches!(read(&bad, &bytes), Err(Error::Corrupt { .. })),
            "{bad:?}"
        );
    }
    assert!(
        read(
            &Superblock {
                generation: 9,
                pages: 1 << 30,
                ..good
            },
            &bytes
        )
        .is_ok()
    );
}

#[test]
fn a_chunk_of_a_checkpoint_given_up_is_not_taken_for_the_one_that_replaced_it() {
    let mut bytes = Vec::new();
    let base = [place(1), place(2)];
    write(&mut bytes, &base, &[vec![(PageId(0), place(6))]]).expect("a file");
    let given_up = bytes.clone();
    bytes.clear();
    let file = write(&mut bytes, &base, &[vec![(PageId(1), place(7))]]).expect("a file");
    let superblock = superblock(2, 2, 9, file);
    assert!(read(&superblock, &bytes).is_ok());
    // Each chunk of it is whole, and even of the right generation.
    assert!(matches!(
        read(&superblock, &given_up),
        Err(Error::Corrupt { .. })
    ));
}

#[test]
fn a_base_table_with_too_few_or_too_many_pages_is_refused_when_written() {
    let mut sink = |_: u64, _: &[u8]| Ok(());
    let mut writer = MapWriter::create(1, 1, 1, 2, &mut sink).expect("a writer");
    assert!(writer.push(PageId(0), Place::FREE, &mut sink).is_err());
    assert!(writer.push_base(Place::FREE, &mut sink).is_ok());
    assert!(writer.push_base(Place::FREE, &mut sink).is_ok());
    assert!(writer.push_base(Place::FREE, &mut sink).is_err());
    assert!(writer.push(PageId::NONE, Place::FREE, &mut sink).is_err());
    assert!(writer.finish(&mut sink).is_ok());
    let writer = MapWriter::create(1, 1, 1, 2, &mut sink).expect("a writer");
    assert!(writer.finish(&mut sink).is_err());
    assert!(MapWriter::create(1, 1, 1, u64::MAX, &mut sink).is_err());
}

#[test]
fn a_write_that_fails_is_the_writers_error() {
    let mut fail = |_: u64, _: &[u8]| Err(Error::invalid("no"));
    assert!(MapWriter::create(1, 1, 1, 0, &mut fail).is_err());
    let mut writer = MapWriter::append(
        1,
        2,
        MapFile {
            base_bytes: BLOCK as u64,
            ..MapFile::default()
        },
    );
    assert!(writer.push(PageId(1), Place::FREE, &mut fail).is_ok());
    assert!(writer.finish(&mut fail).is_err());
}

#[test]
fn the_journal_is_folded_when_it_exceeds_an_eighth_of_the_base_but_never_below_a_chunk() {
    let file = |base_bytes, journal_bytes| MapFile {
        base_bytes,
        journal_bytes,
        ..MapFile::default()
    };
    assert!(!should_fold(&file(0, 65536)) && should_fold(&file(0, 65537)));
    assert!(!should_fold(&file(8 << 20, 1 << 20)) && should_fold(&file(8 << 20, (1 << 20) + 1)));
}

#[test]
fn map_file_names_are_read_back_and_others_are_not() {
    for number in [0, 7, u64::MAX] {
        assert_eq!(MapFile::number_of(&MapFile::name(number)), Some(number));
    }
    for name in [
        "map-",
        "map-x",
        "map-+1",
        "map-01",
        "map--1",
        "data",
        "map-18446744073709551616",
    ] {
        assert_eq!(MapFile::number_of(name), None, "{name}");
    }
}

/// Page table of the rebuild tests.
struct Table(RefCell<Vec<Place>>);

impl Words for Table {
    fn place(&self, pid: PageId) -> Place {
        self.0.borrow()[pid.0 as usize]
    }

    fn retag(&self, _: PageId, _: Place, _: Place) -> bool {
        false
    }
}

impl PlaceTable for Table {
    fn set(&mut self, pid: PageId, place: Place) {
        self.0.get_mut()[pid.0 as usize] = place;
    }
}

#[test]
fn a_slot_recorded_twice_or_beyond_the_file_is_found_at_opening_unless_replaced_later() {
    let used = |slot| Place::used(slot, 1, Tag::A);
    let open = |records: &[(u64, Place)]| {
        let mut table = Table(RefCell::new(vec![Place::FREE; 4]));
        let mut rebuild = Rebuild::new(&mut table, "map-1", 4, 3);
        for (pid, place) in records {
            rebuild.apply(PageId(*pid), *place)?;
        }
        let mut free = Vec::new();
        let map = rebuild.finish(|_, pid| free.push(pid.0))?;
        Ok::<_, Error>((map, free, table))
    };
    let (mut map, free, table) =
        open(&[(2, used(0)), (1, used(0)), (2, used(7)), (2, used(2))]).expect("sound");
    assert_eq!(
        (free, map.counts().free, map.counts().image),
        (vec![3, 0], 1, 2)
    );
    assert_eq!(
        map.allocate(5).map(|run| (run.first, run.len)),
        Some((1, 1))
    );
    assert_eq!(table.place(PageId(1)), Place::used(0, 1, Tag::IMAGE));
    let twice = open(&[(0, used(2)), (3, used(2))])
        .err()
        .expect("found")
        .to_string();
    assert!(
        twice.contains("slot 2") && twice.contains("page 0") && twice.contains("page 3"),
        "{twice}"
    );
    assert!(matches!(open(&[(0, used(3))]), Err(Error::Corrupt { .. })));
    assert!(matches!(open(&[(4, used(0))]), Err(Error::Corrupt { .. })));
    // A superblock that says nothing of the older one's slots: all of them may be named there.
    assert_eq!(map.shrinkable_to(), 3);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_records_come_back(base in prop::collection::vec(any::<u32>(), 0..60),
                             journals in prop::collection::vec(prop::collection::vec((0u64..80, any::<u32>()), 0..40), 0..4)) {
        let base: Vec<Place> = base.into_iter().map(|n| place(n.into())).collect();
        let journals: Vec<Records> = journals
            .into_iter()
            .map(|j| j.into_iter().map(|(pid, n)| (PageId(pid), place(n.into()))).collect())
            .collect();
        let mut bytes = Vec::new();
        let file = write(&mut bytes, &base, &journals).expect("a file");
        let found = read(&superblock(journals.len() as u64 + 1, 80, 1 << 32, file), &bytes).expect("whole");
        let wanted: Records = (0..).map(PageId).zip(base).chain(journals.into_iter().flatten()).collect();
        prop_assert_eq!(found, wanted);
    }

    /// Damage under a checksum made right again: what a defect of the writer could leave.
    #[test]
    fn damage_under_a_right_checksum_never_panics(changes in prop::collection::vec((0usize..600, any::<u8>()), 1..8),
                                                  chunk in 0usize..4, chain in any::<bool>()) {
        let (mut bytes, mut superblock) = sample();
        let whole = bytes.clone();
        let offset = [0, BLOCK, superblock.map.base_bytes as usize, superblock.map.base_bytes as usize + BLOCK][chunk];
        for (at, value) in changes {
            // Mostly the header's fields.
            bytes[offset + if at < 300 { at % 48 } else { at }] = value;
        }
        if chunk == 0 {
            let checksum = header_checksum(DATABASE, NUMBER, &bytes[..BLOCK]);
            bytes[BLOCK - 8..BLOCK].copy_from_slice(&checksum.to_le_bytes());
        } else {
            let generation = u64::from_le_bytes(bytes[offset + 16..offset + 24].try_into().expect("eight bytes"));
            let len = if chunk == 1 || chunk == 3 { CHUNK_BYTES } else { BLOCK };
            let checksum = chunk_checksum(DATABASE, NUMBER, generation, offset as u64, &bytes[offset..offset + len]);
            bytes[offset..offset + 8].copy_from_slice(&checksum.to_le_bytes());
        }
        if chain {
            superblock.map.chain = 0;
        }
        // The chain over all checksums has the last word.
        prop_assert_eq!(read(&superblock, &bytes).is_ok(), bytes == whole && !chain);
    }

    #[test]
    fn any_bytes_and_any_superblock_end_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..9000),
                                                      numbers in prop::array::uniform6(any::<u64>()), small in any::<bool>()) {
        let [number, base_pages, bytes_of_base, journal_bytes, chain, pages] = numbers;
        let pages = if small { pages % 100 } else { pages };
        let base_pages = if small { base_pages % (pages + 1) } else { base_pages };
        let bytes_of_base = if small { base_bytes(base_pages) } else { bytes_of_base };
        let journal_bytes = if small { journal_bytes % 64 * 4096 } else { journal_bytes };
        let map = MapFile { number, base_pages, base_bytes: bytes_of_base, journal_bytes, chain };
        prop_assert!(read(&superblock(1, pages, 50, map), &bytes).is_err());
    }
}
