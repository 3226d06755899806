//! Pages and entries of an LSM-tree: any bytes can be checked.
#![no_main]

use terrace_methods::lsm::{verify_entry, verify_page, verify_root};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    match how % 4 {
        0 => drop(verify_entry(rest)),
        1 => drop(verify_root(rest)),
        2 => drop(verify_page(rest)),
        _ => {
            // A page of a size that there is, with the tag of a data page, compressed or not; the end of the input is its end,
            // where the records are.
            let mut page = vec![0; 4096 << (how >> 2) % 5];
            let front = rest.len().min(page.len()) / 2;
            page[..front].copy_from_slice(&rest[..front]);
            let back = (rest.len() - front).min(page.len() - front);
            let start = page.len() - back;
            page[start..].copy_from_slice(&rest[rest.len() - back..]);
            page[16] = if rest.len() % 2 == 0 { 0xB9 } else { 0xBB };
            let _ = verify_page(&page);
        }
    }
});
