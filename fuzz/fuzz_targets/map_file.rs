//! A map file and the superblock that names it, checksums sealed anew, up to the places of pages.
#![no_main]

use terrace_base::PageId;
use terrace_fuzz::Map;
use terrace_pages::map::{MapFile, MapReader, Place, PlaceTable, Rebuild, Superblock, Words};

/// Numbers that a file of this size can have; more would only take memory.
const MOST: u64 = 1 << 16;

struct Table(Vec<Place>);

impl Words for Table {
    fn place(&self, pid: PageId) -> Place {
        self.0.get(pid.0 as usize).copied().unwrap_or(Place::FREE)
    }

    fn retag(&self, _: PageId, _: Place, _: Place) -> bool {
        false
    }
}

impl PlaceTable for Table {
    fn set(&mut self, pid: PageId, place: Place) {
        self.0[pid.0 as usize] = place;
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(bytes);
    u64::from_le_bytes(number)
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((fields, rest)) = bytes.split_at_checked(41) else {
        return;
    };
    let field = |i: usize| number(&fields[1 + i * 8..9 + i * 8]);
    let (pages, slots, base_pages) = (field(0) % MOST, field(1) % MOST, field(2) % MOST);
    let base_pages = base_pages.min(pages);
    // Full base chunks have 9357 pages in 64 KiB; the last one is as long as it needs.
    let left = base_pages % 9357;
    let last = if left == 0 {
        0
    } else {
        (32 + left * 7).next_multiple_of(4096)
    };
    let base_bytes = 4096 + base_pages / 9357 * 65536 + last;
    let mut file = vec![0; 4096];
    file[32..40].copy_from_slice(&1u64.to_le_bytes());
    file[40..48].copy_from_slice(&base_pages.to_le_bytes());
    file.extend_from_slice(rest);
    file.resize(
        file.len().next_multiple_of(4096).max(base_bytes as usize),
        0,
    );
    let journal_bytes = file.len() as u64 - base_bytes;
    let (database, map_number) = (field(3), 1);
    let mut chain = field(4);
    if fields[0] % 2 == 0 {
        let map = Map {
            database,
            number: map_number,
            base_bytes,
            journal_bytes,
        };
        chain = terrace_fuzz::map_file(&mut file, map);
    }
    let superblock = Superblock {
        version: 2,
        page_bytes: 4096,
        database,
        generation: u64::MAX - 1,
        epoch: 1,
        pages,
        slots,
        map: MapFile {
            number: map_number,
            base_pages,
            base_bytes,
            journal_bytes,
            chain,
        },
        log_position: [0; 24],
        learnt: [0; 40],
        next_structure: 0,
        next_sequence: 0,
        unlogged_from: 0,
        catalog_root: PageId(0),
        clean: false,
    };
    let Ok(mut reader) = MapReader::new(&superblock) else {
        return;
    };
    let mut table = Table(vec![Place::FREE; pages as usize]);
    let mut rebuild = Rebuild::new(&mut table, "map-1", pages, slots);
    while let Some((at, len)) = reader.next_read() {
        let bytes = file.get(at as usize..at as usize + len).unwrap_or_default();
        if reader
            .decode(bytes, |pid, place| rebuild.apply(pid, place))
            .is_err()
        {
            return;
        }
    }
    let mut free = 0;
    if let Ok(map) = rebuild.finish(|_, _| free += 1) {
        let used = pages - free;
        assert_eq!(map.counts().total, slots);
        assert!(used <= slots);
    }
});
