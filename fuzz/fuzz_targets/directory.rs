//! A page of the directory of a hash table or of a heap, where a heap knows of free space: any bytes can
//! be checked.
#![no_main]

use terrace_methods::{hash, heap};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    // Any length, or a page of a size that there is.
    let mut page = match how % 2 {
        1 => rest.to_vec(),
        _ => vec![0; 4096 << (how >> 1) % 5],
    };
    let len = rest.len().min(page.len());
    page[..len].copy_from_slice(&rest[..len]);
    for tag in [0xB4, 0xB5, 0xB7, 0xB8] {
        if let Some(byte) = page.get_mut(16) {
            *byte = tag;
        }
        let _ = if tag < 0xB7 {
            hash::verify_page(&page)
        } else {
            heap::verify_page(&page)
        };
    }
});
