//! Leases, in front of the values of records that expire: what is decoded is encoded so that it comes back, and
//! what it says in coarse units is never early.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    terrace_base::lease::try_decoding(bytes);
});
