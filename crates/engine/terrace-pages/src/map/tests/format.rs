//! The bytes on disk are those of `docs/format-data.md`, and stay so: a change here is a new
//! format version.

use super::codecs::superblock;
use crate::map::superblock::SUPERBLOCK_BYTES;
use crate::map::{MapFile, MapWriter, Place, Superblock, Tag};
use terrace_base::PageId;
use terrace_base::checksum::{mix, seeded};

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[test]
fn the_fields_of_the_superblock_lie_where_the_document_says() {
    let map = MapFile {
        number: 11,
        base_pages: 12,
        base_bytes: 13,
        journal_bytes: 14,
        chain: 15,
    };
    let written = Superblock {
        epoch: 16,
        next_sequence: 17,
        catalog_root: PageId(18),
        ..superblock(19, 20, 21, map)
    };
    let mut block = vec![0; SUPERBLOCK_BYTES];
    assert!(written.encode(&mut block));
    assert_eq!(&block[..12], b"TERRACE\0\x01\0\0\0");
    assert_eq!(block[12..16], 16384u32.to_le_bytes());
    let numbers = [77, 19, 16, 20, 21, 11, 12, 13, 14, 15];
    assert!((16..96).step_by(8).map(|at| u64_at(&block, at)).eq(numbers));
    assert_eq!(
        (&block[96..120], &block[120..160]),
        (&[3; 24][..], &[4; 40][..])
    );
    assert_eq!((u64_at(&block, 160), u64_at(&block, 168)), (17, 18));
    assert_eq!(block[176..182], [9, 0, 0, 0, 1, 0]);
    assert!(block[182..4088].iter().all(|byte| *byte == 0));
    assert_eq!(
        u64_at(&block, 4088),
        seeded(mix(u64_at(&block, 0), 1), &block[..4088])
    );
    // Version 3 says from where on the log has what has no log.
    let newest = Superblock {
        version: 3,
        unlogged_from: 12,
        ..written
    };
    assert!(newest.encode(&mut block));
    assert_eq!((block[8], u64_at(&block, 181)), (3, 12));
    assert!(block[189..4088].iter().all(|byte| *byte == 0));
}

#[test]
fn the_map_file_is_as_the_document_says() {
    let mut bytes = Vec::new();
    let mut sink = |offset: u64, chunk: &[u8]| {
        assert_eq!(offset, bytes.len() as u64);
        bytes.extend_from_slice(chunk);
        Ok(())
    };
    let place = |slot, check| Place::used(slot, check, Tag::B);
    let mut writer = MapWriter::create(5, 6, 7, 2, &mut sink).expect("a writer");
    writer
        .push_base(place(0x01_0203_0405, 0x0607), &mut sink)
        .expect("written");
    writer
        .push_base(Place::free(Tag::A).with_link(PageId(9)), &mut sink)
        .expect("written");
    writer
        .push(PageId(1), place(3, 4), &mut sink)
        .expect("written");
    let file = writer.finish(&mut sink).expect("written");
    assert_eq!(
        (bytes.len(), file.base_bytes, file.journal_bytes),
        (3 * 4096, 8192, 4096)
    );

    let (header, rest) = bytes.split_at(4096);
    let (base, journal) = rest.split_at(4096);
    assert_eq!(&header[..16], b"TERRMAP\0\x01\0\0\0\0\0\0\0");
    assert!([16, 24, 32, 40].map(|at| u64_at(header, at)) == [5, 6, 7, 2]);
    assert_eq!(u64_at(header, 4088), seeded(mix(5, 6), &header[..4088]));

    assert_eq!(&base[8..16], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!((u64_at(base, 16), u64_at(base, 24)), (7, 0));
    assert_eq!(
        base[32..46],
        [5, 4, 3, 2, 1, 7, 6, 255, 255, 255, 255, 255, 0, 0]
    );
    assert_eq!(
        u64_at(base, 0),
        seeded(mix(mix(5, 6), mix(7, 4096)), &base[8..])
    );

    assert_eq!(&journal[8..16], [2, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(journal[32..44], [1, 0, 0, 0, 0, 3, 0, 0, 0, 0, 4, 0]);
    assert!(journal[44..].iter().all(|byte| *byte == 0));
    assert_eq!(
        u64_at(journal, 0),
        seeded(mix(mix(5, 6), mix(7, 8192)), &journal[8..])
    );

    let chain = mix(
        mix(u64_at(header, 4088), u64_at(base, 0)),
        u64_at(journal, 0),
    );
    assert_eq!(file.chain, chain);
    // Pins the checksum function itself.
    assert_eq!(seeded(mix(1, 2), b"terrace"), PINNED);
}

/// XXH3 of "terrace" under `mix(1, 2)`.
const PINNED: u64 = 699_220_131_115_620_521;
