//! A page of a hash table: any bytes can be checked.
#![no_main]

use terrace_methods::hash::verify_page;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    if how % 2 == 1 {
        let _ = verify_page(rest);
        return;
    }
    // A page of a size that there is, with the tag of a bucket or of a root; the end of the input is
    // its end, where the heap is.
    let mut page = vec![0; 4096 << (how >> 1) % 5];
    let front = rest.len().min(page.len()) / 2;
    page[..front].copy_from_slice(&rest[..front]);
    let back = (rest.len() - front).min(page.len() - front);
    let start = page.len() - back;
    page[start..].copy_from_slice(&rest[rest.len() - back..]);
    page[16] = if how >= 0xF0 { 0xB4 } else { 0xB3 };
    let _ = verify_page(&page);
});
