//! A page of a large value: any bytes can be checked.
#![no_main]

use terrace_access::overflow::verify_page;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    if how % 2 == 1 {
        let _ = verify_page(rest);
        return;
    }
    // A page of a size that there is, with its tag.
    let mut page = vec![0; 4096 << (how >> 1) % 5];
    let len = rest.len().min(page.len());
    page[..len].copy_from_slice(&rest[..len]);
    page[16] = 0xB2;
    let _ = verify_page(&page);
});
