//! An entry of the catalog: what is decoded is encoded so that it comes back.
#![no_main]

use terrace::decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&how, rest)) = bytes.split_first() else {
        return;
    };
    // A key is four bytes; one of another length is no key.
    let key = [0, 0, 0, 9, 9];
    let key = if how == 0xFF { &key[..] } else { &key[..4] };
    if how % 2 == 1 {
        decoders::catalog_entry(key, rest);
        return;
    }
    // The version that there is, and a state.
    let mut value = vec![1, how >> 1 & 7];
    value.extend_from_slice(rest);
    decoders::catalog_entry(key, &value);
});
