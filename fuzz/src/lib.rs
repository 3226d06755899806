//! Checksums computed anew, so that a fuzzer gets behind them.
//!
//! Written from the documents of the formats, not with the code under test: so it also shows that
//! a reader or writer could be made from them.

#![forbid(unsafe_code)]

pub mod damaged;

use terrace_base::checksum::{mix, seeded};

const SUPERBLOCK: usize = 4096;
const CHUNK: usize = 65536;

fn get(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    if let Some(found) = bytes.get(at..at + 8) {
        number.copy_from_slice(found);
    }
    u64::from_le_bytes(number)
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    if let Some(place) = bytes.get_mut(at..at + 8) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Makes `block` a whole superblock for place `index`, whatever its fields say.
pub fn superblock(block: &mut [u8], index: u64) {
    if block.len() < SUPERBLOCK {
        return;
    }
    block[..8].copy_from_slice(b"TERRACE\0");
    block[8..12].copy_from_slice(&1u32.to_le_bytes());
    let sum = seeded(mix(get(block, 0), index), &block[..SUPERBLOCK - 8]);
    put(block, SUPERBLOCK - 8, sum);
}

/// Which map file a superblock names.
#[derive(Clone, Copy, Debug)]
pub struct Map {
    /// The database's number.
    pub database: u64,
    /// The map file's number.
    pub number: u64,
    /// Bytes of header and base table.
    pub base_bytes: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
}

/// Seals header and chunks of a map file where they are, and returns the chain that the superblock
/// has to have.
pub fn map_file(file: &mut [u8], map: Map) -> u64 {
    if file.len() < SUPERBLOCK {
        return 0;
    }
    file[..8].copy_from_slice(b"TERRMAP\0");
    file[8..12].copy_from_slice(&1u32.to_le_bytes());
    put(file, 16, map.database);
    put(file, 24, map.number);
    let sum = seeded(mix(map.database, map.number), &file[..SUPERBLOCK - 8]);
    put(file, SUPERBLOCK - 8, sum);
    let mut chain = sum;
    let (base, end) = (
        map.base_bytes,
        map.base_bytes.saturating_add(map.journal_bytes),
    );
    let mut at = SUPERBLOCK;
    while (at as u64) < end && at + 32 <= file.len() {
        let entry = if (at as u64) < base { 7 } else { 12 };
        let count = (get(file, at + 8) >> 32) as usize;
        let len = (32 + count.min(CHUNK) * entry)
            .next_multiple_of(4096)
            .min(CHUNK);
        let len = len.min(file.len() - at);
        let generation = get(file, at + 16);
        let seed = mix(mix(map.database, map.number), mix(generation, at as u64));
        let sum = seeded(seed, &file[at + 8..at + len]);
        put(file, at, sum);
        chain = mix(chain, sum);
        at += len;
    }
    chain
}

/// Seals header, notes and blocks of a log segment where they are.
pub fn log_segment(file: &mut [u8]) {
    if file.len() < 4096 {
        return;
    }
    let header: Vec<u8> = file[..56].to_vec();
    for place in [0, 2048] {
        file[place..place + 56].copy_from_slice(&header);
        file[place..place + 8].copy_from_slice(b"TRRCLOG\x01");
        put(file, place + 8, 1);
        let number = get(file, place + 16) & 0xFFFF_FFFF;
        put(file, place + 16, number);
        let sum = seeded(place as u64, &file[place..place + 48]);
        put(file, place + 48, sum);
    }
    let incarnation = get(file, 24);
    for place in [512, 2560] {
        file[place..place + 8].copy_from_slice(b"TRRCGEN\x01");
        let sum = seeded(mix(incarnation, place as u64), &file[place..place + 16]);
        put(file, place + 16, sum);
    }
    let mut at = 4096;
    while at + 16 <= file.len() {
        // What the fuzzer wrote is taken for the plain fields; on disk they are masked.
        let p = mix(incarnation, at as u64);
        let fields = get(file, at + 8);
        let most = (file.len() - at - 16).min(131_072) as u64;
        let len = (fields & 0x7FF_FFFF) % (most + 1);
        let fields = fields & !0x7FF_FFFF | len;
        put(file, at + 8, fields ^ p);
        let end = at + 16 + len as usize;
        let sum = seeded(p, &file[at + 8..end]);
        put(file, at, sum);
        // Blocks that claim to be the last of their segment end the chain for the reader too.
        let sector_end = fields >> 31 & 1 == 1;
        at = if sector_end {
            end.next_multiple_of(512)
        } else {
            end
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::PageId;
    use terrace_pages::map::{MapFile, MapReader, Superblock, Superblocks};

    fn sample() -> Superblock {
        Superblock {
            version: 2,
            page_bytes: 16384,
            database: 77,
            generation: 4,
            epoch: 9,
            pages: 3,
            slots: 12,
            map: MapFile {
                number: 5,
                base_pages: 3,
                base_bytes: 8192,
                journal_bytes: 4096,
                chain: 0,
            },
            log_position: [1; 24],
            learnt: [0; 40],
            next_structure: 2,
            next_sequence: 3,
            unlogged_from: 3,
            catalog_root: PageId(1),
            clean: true,
        }
    }

    #[test]
    fn a_sealed_superblock_is_the_engines_own() {
        let mut own = vec![0; SUPERBLOCK];
        assert!(sample().encode(&mut own));
        let mut sealed = own.clone();
        put(&mut sealed, SUPERBLOCK - 8, 0);
        superblock(&mut sealed, 0);
        assert_eq!(own, sealed);
        assert_eq!(
            Superblocks::read([&sealed, &[]], None).unwrap().newest,
            sample()
        );
    }

    #[test]
    fn a_sealed_map_file_is_read() {
        let mut block = sample();
        let mut file = vec![0; 12288];
        put(&mut file, 32, 1);
        put(&mut file, 40, 3);
        put(&mut file, 4096 + 8, 1 | 3 << 32);
        put(&mut file, 4096 + 16, 1);
        put(&mut file, 8192 + 8, 2 | 1 << 32);
        put(&mut file, 8192 + 16, 4);
        let (base_bytes, journal_bytes) = (8192, 4096);
        let map = Map {
            database: 77,
            number: 5,
            base_bytes,
            journal_bytes,
        };
        block.map.chain = map_file(&mut file, map);
        let mut reader = MapReader::new(&block).unwrap();
        let mut records = 0;
        while let Some((at, len)) = reader.next_read() {
            let bytes = &file[at as usize..at as usize + len];
            reader
                .decode(bytes, |_, _| {
                    records += 1;
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(records, 4);
    }

    #[test]
    fn sealed_blocks_of_the_log_are_read() {
        let mut file = vec![0; 8192];
        put(&mut file, 16, 1);
        put(&mut file, 24, 12345);
        put(&mut file, 40, 8192);
        // A stamp that claims nothing, and a payload with one record of two bytes.
        put(&mut file, 4096 + 8, 3 | 0xFFFF_FFFF << 32);
        file[4096 + 16..4096 + 19].copy_from_slice(&[2, 7, 8]);
        log_segment(&mut file);
        let read = terrace_wal::decode_segment(&file).unwrap();
        assert_eq!(read.number, 1);
        assert_eq!(read.blocks[0].pieces, [vec![7, 8]]);
    }
}
