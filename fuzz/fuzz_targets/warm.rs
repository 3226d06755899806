//! Records of what was hot: what is decoded is encoded so that it comes back.
#![no_main]

use terrace::decoders;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = decoders::warm_records(bytes);
});
