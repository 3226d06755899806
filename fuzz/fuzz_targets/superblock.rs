//! The pair of superblocks, their checksums sealed anew.
#![no_main]

use terrace_pages::map::{Superblock, Superblocks};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    let (first, second) = rest.split_at(rest.len() / 2);
    let mut blocks = [first, second].map(|fields| {
        let mut block = vec![0; 4096];
        let len = fields.len().min(4096);
        block[..len].copy_from_slice(&fields[..len]);
        block
    });
    for (index, block) in blocks.iter_mut().enumerate() {
        if how >> index & 1 == 0 {
            terrace_fuzz::superblock(block, index as u64);
        }
    }
    let Ok(read) = Superblocks::read([&blocks[0], &blocks[1]], None) else {
        return;
    };
    // What was read is what would be written: nothing was made up, nothing dropped.
    let newest: &Superblock = &read.newest;
    let mut again = vec![0; 4096];
    assert!(newest.encode(&mut again));
    let index = (newest.generation % 2) as usize;
    assert_eq!(again[..181], blocks[index][..181]);
});
