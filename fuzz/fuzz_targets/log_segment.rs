//! A segment of the log, its checksums sealed anew.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    let mut file = rest.to_vec();
    if how % 2 == 0 {
        // A header, room for the notes, and the rest of the input as blocks.
        let blocks = rest.get(48..).unwrap_or_default();
        file.truncate(48);
        file.resize(4096, 0);
        file.extend_from_slice(blocks);
        terrace_fuzz::log_segment(&mut file);
    }
    let Some(segment) = terrace_wal::decode_segment(&file) else {
        return;
    };
    let mut last = 0;
    for block in &segment.blocks {
        assert!(block.offset > last && block.offset < file.len() as u64);
        last = block.offset;
    }
});
