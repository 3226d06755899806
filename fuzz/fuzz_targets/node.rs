//! A node of the tree: any bytes can be checked.
#![no_main]

use terrace_methods::btree::verify_node;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    if how % 2 == 1 {
        let _ = verify_node(rest);
        return;
    }
    // A page of a size that there is, with the tag of a node; the end of the input is its end,
    // where the heap is.
    let mut page = vec![0; 4096 << (how >> 1) % 5];
    let front = rest.len().min(page.len()) / 2;
    page[..front].copy_from_slice(&rest[..front]);
    let back = (rest.len() - front).min(page.len() - front);
    let start = page.len() - back;
    page[start..].copy_from_slice(&rest[rest.len() - back..]);
    page[16] = 0xB1;
    let _ = verify_node(&page);
});
