//! Values and files in Redis' own form: any bytes are commands that make them anew, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;
use terrace_serve::rdb::{file, read, source::Source};

/// Longest string here.
const LONGEST: u64 = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some((&kind, rest)) = data.split_first() else {
        return;
    };
    let mut told = |words: &[Vec<u8>]| match words.len() >= 2 {
        true => Ok(()),
        false => panic!("a command without a key"),
    };
    if kind == 255 {
        // Behind a head that is one.
        let bytes = [b"REDIS0011".as_slice(), rest].concat();
        let _ = file::file(&mut bytes.as_slice(), 0, &mut told);
    } else {
        let mut rest = rest;
        let _ = read::value(kind % 32, b"key", &mut Source::new(&mut rest, LONGEST), &mut told);
    }
});
